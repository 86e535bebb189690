# Headers that 0.1 installed at other paths. A program that includes one of them gets the header, or
# headers, at the new path: each row is OLD=NEW[,NEW], below <taper/...>.
set(old_headers
  autograd/checkpoint.h=autograd/activation_checkpoint.h
  autograd/functional.h=autograd/functional/functional.h
  autograd/hooks.h=autograd/tensor_hooks.h
  autograd/module_scope.h=autograd/module_guard.h
  autograd/ops/binary.h=autograd/ops/binary_ops.h
  autograd/ops/index/index.h=autograd/ops/index/index_ops.h
  autograd/ops/inplace.h=autograd/ops/index/inplace.h
  autograd/ops/matmul.h=autograd/ops/matmul_ops.h
  autograd/ops/nn/attention.h=autograd/ops/nn/attention_ops.h
  autograd/ops/nn/conv.h=autograd/ops/nn/conv_ops.h
  autograd/ops/nn/loss.h=autograd/ops/nn/loss_ops.h
  autograd/ops/nn/norm.h=autograd/ops/nn/norm_ops.h
  autograd/ops/nn/pool.h=autograd/ops/nn/pool_ops.h
  autograd/ops/nn/rnn.h=autograd/ops/nn/rnn_ops.h
  autograd/ops/random.h=autograd/ops/random_ops.h
  autograd/ops/reduce.h=autograd/ops/reduce_ops.h
  autograd/ops/shape.h=autograd/ops/shape_ops.h
  autograd/ops/sparse.h=autograd/ops/index/sparse_ops.h
  autograd/ops/unary.h=autograd/ops/unary_ops.h
  data/images/files.h=data/images/image_files.h
  data/tables/npy.h=data/tables/npy_dataset.h
  data/text/text.h=data/text/text_dataset.h
  data/text/tokenizer.h=data/tokenizer.h
  distributions/distributions.h=modules/distributions/distributions.h
  export/onnx.h=modules/onnx/onnx.h
  framework/arguments.h=framework/base/arguments.h
  framework/describe.h=framework/base/describe.h
  framework/device.h=framework/base/device.h
  framework/dtype.h=framework/base/dtype.h
  framework/error.h=framework/base/error.h
  framework/factories.h=framework/factory/factories.h
  framework/half.h=framework/base/half.h
  framework/host/hooks.h=framework/base/cancel.h,framework/base/log.h,framework/memory/cpu_allocator.h
  framework/host/threads.h=framework/host/parallel.h,framework/host/thread_pool.h
  framework/kernels/dispatch.h=framework/kernels/common/dispatch.h
  framework/kernels/host_device.h=framework/base/host_device.h
  framework/namespace.h=framework/base/namespace.h
  framework/philox.h=framework/base/philox.h
  framework/random.h=framework/factory/generator.h
  framework/scalar.h=framework/base/scalar.h
  framework/shape.h=framework/base/shape.h
  framework/storage.h=framework/memory/storage.h
  framework/tensor.h=framework/tensor/tensor.h
  framework/tensor_types.h=framework/factory/tensor_types.h
  modules/containers.h=modules/layers/containers.h
  modules/hooks.h=modules/module_hooks.h
  modules/layers/attention.h=modules/layers/multihead_attention.h
  modules/layers/conv.h=modules/layers/conv_layers.h
  modules/layers/loss.h=modules/layers/loss_layers.h
  modules/layers/norm.h=modules/layers/norm_layers.h
  modules/layers/rnn.h=modules/layers/rnn_layers.h
  optim/optimizers.h=optim/algorithms/optimizers.h
  optim/rule.h=optim/group_options.h
  runner/config/config.h=runner/settings/run_config.h
  runner/config/tables.h=runner/components/tables.h
  runner/run/errors.h=runner/base/errors.h
  runner/verbs/saved_run.h=runner/commands/saved_run.h)

# taper_install_old_headers(INCLUDE OUT): writes the headers of those rows whose new headers are below
# INCLUDE to OUT, and installs them.
function(taper_install_old_headers include out)
  file(REMOVE_RECURSE ${out})
  foreach(row IN LISTS old_headers)
    string(REGEX MATCH "^(.*)=(.*)$" row "${row}")
    set(old ${CMAKE_MATCH_1})
    string(REPLACE "," ";" now "${CMAKE_MATCH_2}")
    set(lines "#pragma once\n")
    foreach(header IN LISTS now)
      if(EXISTS ${include}/taper/${header})
        string(APPEND lines "#include <taper/${header}>\n")
      endif()
    endforeach()
    if(lines MATCHES "include")
      file(WRITE ${out}/taper/${old} "${lines}")
    endif()
  endforeach()
  install(DIRECTORY ${out}/taper DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endfunction()
