// Rows of the GPU runtime: the current device, events, memory, random numbers, bad indices.
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/nn/loss_ops.h"
#include "autograd/print.h"
#include "framework/cuda/cuda.h"
#include "framework/factory/factories.h"
#include "framework/memory/cuda_memory.h"
#include "tests/conformance/families.h"
#include "tests/conformance/python.h"

namespace taper::v0::conformance {
namespace {

std::string guard_default() {
  const Tensor x = tensor({1.});
  return py_list(x.cuda().device(), x.to("cuda").device());
}

int current_within(int device) {
  const cuda::DeviceGuard guard(device);
  return cuda::current_device();
}

// Returns the message with which a guard of device -1 is refused. In PyTorch it does nothing.
std::string refusal_of_minus_one() try {
  return concat_to_string(current_within(-1));
} catch (const Error& e) {
  return e.what();
}

std::string guard_inside() {
  std::string inside;
  {
    const cuda::DeviceGuard guard(1);
    const Tensor x = tensor({1.}), first = x.cuda("cuda:0");
    const int current = cuda::current_device(), nested = current_within(0);
    const int after_nested = cuda::current_device();
    inside = concat_to_string(
        py(current), ", ", py(x.cuda().device()), ", ", py(x.to("cuda").device()), ", ",
        py(randn({1}, {.device = "cuda"}).device()), ", ", py(first.device()), ", ",
        py(to_string(first)), ", ", py(to_string(x.cuda())), ", ", py((first + first).device()),
        ", ", py(nested), ", ", py(after_nested), ", ", py(refusal_of_minus_one()));
  }
  return concat_to_string("[", inside, ", ", py(cuda::current_device()), "]");
}

std::string events_elapse() {
  cuda::Event start(true), end(true);
  start.record();
  const Tensor x = ones({1000}, {.device = "cuda"}) * 2;
  end.record();
  end.synchronize();
  return py(start.elapsed_time(end) >= 0 && x.is_cuda());
}

std::string memory_counters() {
  const size_t before = cuda::memory_allocated();
  size_t held = 0;
  bool peak_holds = false;
  {
    const Tensor x = zeros({1024, 1024}, {.device = "cuda"});
    held = cuda::memory_allocated() - before;
    peak_holds = cuda::max_memory_allocated() >= before + x.nbytes();
  }
  return py_list(held, peak_holds, cuda::memory_allocated() - before);
}

std::string drawn_on_both() {
  const auto draw = [](Device device) {
    Generator generator(0);
    return rand({3}, {.device = device}, &generator).cpu().to_vector<double>();
  };
  const std::vector<double> here = draw("cpu"), there = draw("cuda");
  return here == there ? "equal bits" : py_list(here, there, false);
}

// The GPU must still compute after the error.
std::string bad_label() {
  const Tensor loss =
      cross_entropy(ones({2, 3}, {.device = "cuda:0"}), tensor({0, 7}, {.device = "cuda:0"}));
  try {
    cuda::synchronize();
  } catch (const IndexError&) {
    if ((ones({2}, {.device = "cuda:0"}) + 1).sum().item<int>() == 4) throw;
    return "the GPU no longer computes";
  }
  return to_string(loss);
}

}  // namespace

void runtime_rows(Rows& rows) {
  rows("guard.default", 1, guard_default);
  rows("guard.inside", 2, guard_inside)
      .differs_in(
          "a guard of -1 is refused, with what to write for the CPU",
          "[1, 'cuda:1', 'cuda:1', 'cuda:1', 'cuda:0', 'tensor([1.], device='cuda:0')', "
          "'tensor([1.], device='cuda:1')', 'cuda:0', 0, 1, "
          "'DeviceGuard: a negative device index does not mean the CPU (got -1); for the CPU "
          "write Device(\"cpu\"), as in x.to(\"cpu\"), and leave out DeviceGuard', 0]");
  rows("guard.bad", 1, [] { return py(current_within(cuda::device_count())); });
  rows("event.elapsed", 1, events_elapse);
  rows("event.unrecorded", 0, [] { return py(cuda::Event(true).elapsed_time(cuda::Event(true))); });
  rows("memory.counters", 1, memory_counters);
  rows("oom", 1, [] { return to_string(empty({int64_t(1) << 40}, {.device = "cuda:0"})); })
      .differs_in("the figures and the advice are those of Taper's allocator",
                  "OutOfMemoryError: CUDA out of memory. Tried to allocate 4096.00 GiB. GPU 0 has "
                  "a total capacity of ");
  rows("rng.cpu_vs_cuda_same_seed", 1, drawn_on_both)
      .differs_in("the same seed gives equal bits on every device", "equal bits");
  rows("assert.device_label", 1, bad_label)
      .differs_in("an exception names op, index and bound, and the process goes on",
                  "IndexError: index 7 is out of bounds for a dimension with size 3 (reported by "
                  "cross_entropy on cuda:0)");
}

}  // namespace taper::v0::conformance
