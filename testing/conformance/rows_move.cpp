// Rows of tensors that move, and of the host's access to them.
#include "autograd/ops/binary.h"
#include "autograd/print.h"
#include "framework/cuda.h"
#include "framework/factories.h"
#include "framework/io/npy.h"
#include "testing/conformance/families.h"
#include "testing/conformance/python.h"

namespace taper::conformance {
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

// Writing is refused before the file is opened, so none is made.
std::string refused_by_numpy(const Tensor& x) {
  save_npy("/nonexistent/refused.npy", x);
  return "written";
}

// As NumPy prints an array.
std::string numpy_text(const std::vector<int64_t>& values) {
  std::string text;
  for (const int64_t v : values) text += cat(text.empty() ? "" : " ", v);
  return cat("[", text, "]");
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

std::vector<Row> to_rows() {
  return {
      {.name = "to.returns_new", .gpus = 1, .run = returns_new},
      {.name = "to.same_is_self", .gpus = 1, .run = same_is_self},
      {.name = "to.copy", .gpus = 1, .run = copies},
      {.name = "to.dtype",
       .run =
           [] {
             return to_string(tensor({1.5, 2.5}).to(kInt64));
           }},
      {.name = "to.device_dtype",
       .gpus = 1,
       .run =
           [] {
             return to_string(tensor({1., 2.}).to("cuda:0", kFloat64));
           },
       .differs = kNoTorchPrefix},
      {.name = "to.other",
       .gpus = 2,
       .run =
           [] {
             return to_string(tensor({1., 2.}).to(tensor({0}, {.device = "cuda:1"})));
           }},
      {.name = "to.int_drops_grad", .run = [] { return py(leaf().to(kInt64).requires_grad()); }},
      {.name = "to.grad_fn", .gpus = 1, .run = [] { return to_string(leaf().to("cuda:0")); }},
      {.name = "to.grad_fn_none",
       .gpus = 1,
       .run =
           [] {
             const Tensor y = tensor({1., 2.}).to("cuda");
             return std::string(y.grad_fn() ? y.grad_fn() : "None");
           }},
      {.name = "to.leaf", .gpus = 1, .run = leaves},
      {.name = "to.backward_returns_to_source", .gpus = 1, .run = gradient_at_source},
      {.name = "grad_of_nonleaf",
       .run = gradient_of_nonleaf,
       .differs = "the undefined gradient alone says it: a library prints no warnings",
       .ours = "None"},
      {.name = "cuda.index", .gpus = 2, .run = by_index},
      {.name = "cuda.out_of_range",
       .gpus = 1,
       .run = [] { return to_string(tensor({1.}).cuda(cuda::device_count())); }},
      {.name = "cuda.on_cpu_device", .run = [] { return to_string(tensor({1.}).cuda("cpu")); }},
      {.name = "copy_.across", .gpus = 2, .run = copy_across},
      {.name = "like", .gpus = 1, .run = like, .differs = kNoTorchPrefix},
  };
}

std::vector<Row> host_rows() {
  return {
      {.name = "numpy.on_cuda",
       .gpus = 1,
       .run = [] { return refused_by_numpy(tensor({1.}, {.device = "cuda:0"})); }},
      {.name = "numpy.on_grad",
       .run = [] { return refused_by_numpy(leaf()); },
       .differs = "the advice names save_npy, which stands for numpy()",
       .ours = "RuntimeError: Can't call numpy() on Tensor that requires grad. "
               "Use save_npy(path, tensor.detach()) instead."},
      {.name = "numpy.on_bf16",
       .run = [] { return refused_by_numpy(tensor({1.}, {.dtype = kBFloat16})); }},
      {.name = "numpy.back",
       .gpus = 1,
       .run =
           [] {
             return numpy_text(tensor({1, 2, 3}, {.device = "cuda"}).cpu().to_vector<int64_t>());
           }},
      {.name = "tolist.on_cuda",
       .gpus = 1,
       .run =
           [] {
             return py(tensor({1., 2.}, {.device = "cuda"}).cpu().to_vector<double>());
           }},
      {.name = "item.on_cuda",
       .gpus = 1,
       .run = [] { return py(tensor(5., {.device = "cuda"}).item<double>()); }},
  };
}

}  // namespace

std::vector<Row> move_rows() {
  std::vector<Row> rows = to_rows();
  for (Row& row : host_rows()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace taper::conformance
