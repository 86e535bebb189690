// Rows of tensors that are moved, and of access to them from the host.
#include "autograd/ops/binary_ops.h"
#include "autograd/print.h"
#include "framework/cuda/cuda.h"
#include "framework/factory/factories.h"
#include "framework/io/npy.h"
#include "tests/conformance/families.h"
#include "tests/conformance/python.h"

namespace taper::v0::conformance {
namespace {

Tensor leaf() { return tensor({1., 2.}, {.requires_grad = true}); }

std::string returns_new() {
  const Tensor x = tensor({1., 2.}), y = x.to("cuda");
  return py_list(x.device(), y.device(), y.is_same(x));
}

std::string same_is_self() {
  const Tensor x = tensor({1., 2.}), g = x.to("cuda");
  return py_list(x.to("cpu").is_same(x), g.to("cuda").is_same(g), g.to("cuda:0").is_same(g),
                 g.cuda().is_same(g), x.cpu().is_same(x));
}

std::string copies() {
  const Tensor x = tensor({1., 2.}), g = x.to("cuda");
  return py_list(x.to("cpu", {.copy = true}).is_same(x), g.to("cuda", {.copy = true}).is_same(g));
}

std::string by_index() {
  const Tensor x = tensor({1., 2.});
  return py_list(x.cuda().device(), x.cuda(1).device(), x.cuda("cuda:1").device());
}

// The tensor is refused before the file is opened, so no file is created.
std::string refused_by_numpy(const Tensor& x) {
  save_npy("/nonexistent/refused.npy", x);
  return "written";
}

// Formats an array as NumPy does.
std::string numpy_text(const std::vector<int64_t>& values) {
  std::string text;
  for (const int64_t v : values) text += concat_to_string(text.empty() ? "" : " ", v);
  return concat_to_string("[", text, "]");
}

std::string grad_fn_of_a_move() {
  const Tensor y = tensor({1., 2.}).to("cuda");
  return y.grad_fn() ? y.grad_fn() : "None";
}

std::string leaves() {
  const Tensor x = leaf();
  return py_list(x.is_leaf(), x.to("cuda").is_leaf());
}

std::string gradient_at_source() {
  const Tensor x = leaf();
  (x.to("cuda") * 3).sum().backward();
  return py_list(to_string(x.grad()), x.grad().device());
}

std::string gradient_of_nonleaf() {
  const Tensor x = leaf(), y = x * 2;
  y.sum().backward();
  return y.grad().defined() ? to_string(y.grad()) : "None";
}

std::string copy_across() {
  const Tensor first = zeros({2}, {.device = "cuda:0"}), second = zeros({2}, {.device = "cuda:1"});
  first.copy_(tensor({1., 2.}));
  second.copy_(first);
  return py_list(to_string(first), to_string(second));
}

std::string like() {
  const Tensor x = tensor({1, 2}, {.device = "cuda"});
  return py_list(zeros_like(x).device(), ones_like(x).device(), full_like(x, 3).dtype());
}

void to_rows(Rows& rows) {
  rows("to.returns_new", 1, returns_new);
  rows("to.same_is_self", 1, same_is_self);
  rows("to.copy", 1, copies);
  rows("to.dtype", 0, [] { return to_string(tensor({1.5, 2.5}).to(kInt64)); });
  rows("to.device_dtype", 1, [] {
    return to_string(tensor({1., 2.}).to("cuda:0", kFloat64));
  }).differs_in(kNoTorchPrefix);
  rows("to.other", 2, [] {
    return to_string(tensor({1., 2.}).to(tensor({0}, {.device = "cuda:1"})));
  });
  rows("to.int_drops_grad", 0, [] { return py(leaf().to(kInt64).requires_grad()); });
  rows("to.grad_fn", 1, [] { return to_string(leaf().to("cuda:0")); });
  rows("to.grad_fn_none", 1, grad_fn_of_a_move);
  rows("to.leaf", 1, leaves);
  rows("to.backward_returns_to_source", 1, gradient_at_source);
  rows("grad_of_nonleaf", 0, gradient_of_nonleaf)
      .differs_in("the undefined gradient alone says it: a library prints no warnings", "None");
  rows("cuda.index", 2, by_index);
  rows("cuda.out_of_range", 1, [] { return to_string(tensor({1.}).cuda(cuda::device_count())); });
  rows("cuda.on_cpu_device", 0, [] { return to_string(tensor({1.}).cuda("cpu")); });
  rows("copy_.across", 2, copy_across);
  rows("like", 1, like).differs_in(kNoTorchPrefix);
}

void host_rows(Rows& rows) {
  rows("numpy.on_cuda", 1, [] { return refused_by_numpy(tensor({1.}, {.device = "cuda:0"})); });
  rows("numpy.on_grad", 0, [] { return refused_by_numpy(leaf()); })
      .differs_in("the advice names save_npy, which stands for numpy()",
                  "RuntimeError: Can't call numpy() on Tensor that requires grad. "
                  "Use save_npy(path, tensor.detach()) instead.");
  rows("numpy.on_bf16", 0, [] { return refused_by_numpy(tensor({1.}, {.dtype = kBFloat16})); });
  rows("numpy.back", 1, [] {
    return numpy_text(tensor({1, 2, 3}, {.device = "cuda"}).cpu().to_vector<int64_t>());
  });
  rows("tolist.on_cuda", 1, [] {
    return py(tensor({1., 2.}, {.device = "cuda"}).cpu().to_vector<double>());
  });
  rows("item.on_cuda", 1, [] { return py(tensor(5., {.device = "cuda"}).item<double>()); });
}

}  // namespace

void move_rows(Rows& rows) {
  to_rows(rows);
  host_rows(rows);
}

}  // namespace taper::v0::conformance
