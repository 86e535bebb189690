// Rows of operators: what they compute, which dtype they give, and what they refuse. operators.py
// stores PyTorch's answers.
#include <limits>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/nn/loss_ops.h"
#include "autograd/ops/random_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "autograd/print.h"
#include "framework/factory/factories.h"
#include "tests/conformance/families.h"
#include "tests/conformance/python.h"

namespace taper::v0::conformance {
namespace {

constexpr const char* kListsWords = "the error lists the words";
constexpr const char* kOtherReduction =
    "ValueError: 'total' is not a valid value for reduction, which is 'none', 'mean', 'sum' or "
    "'batchmean'";
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

Tensor scores() { return tensor({{0.1, 0.2, 0.4, 0.8}}); }
Tensor signs() { return tensor({{1., -1., 1., -1.}}); }
Tensor labels() { return (signs() + 1) / 2; }
Tensor counts() { return tensor({{0., 1., 2., 3.}}); }
Tensor mask() { return tensor({true, false}); }
Tensor no_integers() { return empty({0}, {.dtype = kInt64}); }

std::string sizes(const Tensor& x) {
  const Shape& shape = x.shape();
  return py(std::vector<int64_t>(shape.begin(), shape.end()));
}

// Adds a row that prints a tensor.
template <class F> Row& prints(Rows& rows, const char* name, F make) {
  Row& row =
      rows(concat_to_string("op.", name), 0, [make]() -> std::string { return to_string(make()); });
  return row;
}

void choosing_rows(Rows& rows) {
  prints(rows, "where.numbers", [] { return where(mask(), 1.0, 2.0); });
  prints(rows, "where.integers", [] { return where(mask(), 1, 2); });
  prints(rows, "where.integer_and_real", [] { return where(mask(), 1, 2.5); });
  prints(rows, "where.number_keeps_half", [] {
    return where(mask(), ones({2}, {.dtype = kFloat16}), 2.5);
  }).differs_in(kNoTorchPrefix);
  prints(rows, "where.number_promotes_integers", [] { return where(mask(), tensor({1, 2}), 2.5); });
  prints(rows, "where.condition_of_integers", [] { return where(tensor({1, 0}), 1.0, 2.0); });
  prints(rows, "where.shapes", [] { return where(mask(), ones({3}), 2.0); });
  prints(rows, "clamp_min.integers", [] { return clamp_min(tensor({1, 5}), 3); });
  prints(rows, "clamp_min.real_promotes_integers", [] { return clamp_min(tensor({1, 5}), 1.5); });
  prints(rows, "clamp_min.nan", [] { return clamp_min(tensor({kNan, 1.0}), 2); });
  prints(rows, "clamp_min.tensor", [] { return clamp_min(scores(), tensor(0.3)); });
  prints(rows, "clamp_max.integers", [] { return clamp_max(tensor({1, 5}), 3); });
  prints(rows, "clamp_max.keeps_half", [] {
    return clamp_max(ones({2}, {.dtype = kFloat16}), 0.5);
  }).differs_in(kNoTorchPrefix);
  prints(rows, "clamp_max.of_bools", [] {
    return clamp_max(mask(), true);
  }).differs_in("bools are numbers in clamp, as in minimum", "tensor([ True, False])");
  rows("op.broadcast_tensors.shapes", 0, [] {
    const std::vector<Tensor> y = broadcast_tensors({scores(), ones({3, 1})});
    return concat_to_string("[", sizes(y[0]), ", ", sizes(y[1]), "]");
  });
  prints(rows, "broadcast_tensors.mismatch", [] {
    return broadcast_tensors({ones({2}), ones({3})})[0];
  });
}

void making_rows(Rows& rows) {
  prints(rows, "eye.wide", [] { return eye(2, 3); });
  prints(rows, "eye.tall", [] { return eye(3, 2, {.dtype = kInt64}); });
  rows("op.eye.empty", 0, [] { return sizes(eye(0, 3)); });
  prints(rows, "eye.negative", [] { return eye(-1, 2); });
  prints(rows, "eye.negative_columns", [] { return eye(2, -1); });
  prints(rows, "one_hot.infers_classes", [] { return one_hot(tensor({2, 0})); });
  prints(rows, "one_hot.classes", [] { return one_hot(tensor({{1}, {0}}), 3); });
  constexpr const char* kNamesElement = "the error names the element and its bounds";
  constexpr const char* kOutOfRange =
      "IndexError: Class values must be non-negative and smaller than num_classes. (one_hot: "
      "element 1 of index is ";
  prints(rows, "one_hot.negative", [] {
    return one_hot(tensor({0, -1}));
  }).differs_in(kNamesElement, concat_to_string(kOutOfRange, "-1, it must be in [0, 1))"));
  prints(rows, "one_hot.too_few_classes", [] {
    return one_hot(tensor({0, 3}), 3);
  }).differs_in(kNamesElement, concat_to_string(kOutOfRange, "3, it must be in [0, 3))"));
  prints(rows, "one_hot.of_reals",
         [] {
           return one_hot(tensor({0., 1.}));
         })
      .differs_in(
          "the error names the dtype",
          "RuntimeError: one_hot is only applicable to index tensor of type LongTensor, got "
          "float32");
  prints(rows, "one_hot.of_nothing", [] { return one_hot(no_integers()); });
  rows("op.one_hot.of_nothing_with_classes", 0, [] { return sizes(one_hot(no_integers(), 3)); });
  prints(rows, "triu_indices.wide", [] { return triu_indices(2, 3); });
  prints(rows, "triu_indices.offset", [] { return triu_indices(3, 3, 1); });
  rows("op.triu_indices.empty", 0, [] { return sizes(triu_indices(2, 2, 5)); });
  prints(rows, "triu_indices.negative", [] {
    return triu_indices(-1, 2);
  }).differs_in("PyTorch's text lacks a space", "RuntimeError: row must be non-negative, got -1");
  prints(rows, "tril_indices.offset", [] { return tril_indices(3, 2, -1); });
}

void product_rows(Rows& rows) {
  prints(rows, "dot.reals", [] { return dot(tensor({1., 2.}), tensor({3., 4.})); });
  prints(rows, "dot.integers", [] { return dot(tensor({1, 2}), tensor({3, 4})); });
  prints(rows, "dot.empty", [] { return dot(ones({0}), ones({0})); });
  prints(rows, "dot.matrices", [] { return dot(ones({2, 2}), ones({2, 2})); });
  prints(rows, "dot.sizes", [] { return dot(ones({2}), ones({3})); });
  prints(rows, "dot.dtypes", [] { return dot(ones({2}), ones({2}, {.dtype = kFloat64})); });
  prints(rows, "cross.vectors", [] { return cross(tensor({1, 0, 0}), tensor({0, 1, 0}), 0); });
  prints(rows, "cross.broadcasts", [] { return cross(ones({2, 3}), tensor({0., 1., 2.}), -1); });
  prints(rows, "cross.not_three", [] { return cross(ones({2, 4}), ones({2, 4}), -1); });
  prints(rows, "cross.no_dim_of_three", [] { return cross(ones({2, 4}), ones({2, 4})); });
  prints(rows, "cross.shapes", [] { return cross(ones({2, 3}), ones({4, 3}), -1); });
  prints(rows, "pairwise_distance.rows", [] { return pairwise_distance(scores(), scores() * 3); });
  prints(rows, "pairwise_distance.keepdim",
         [] { return pairwise_distance(scores(), scores() * 3, 1, 1e-6, true); });
  prints(rows, "pairwise_distance.broadcasts", [] {
    return pairwise_distance(zeros({3, 4}), scores());
  });
  prints(rows, "pairwise_distance.shapes", [] {
    return pairwise_distance(zeros({3, 4}), zeros({2, 4}));
  });
}

std::string gradient_of_gumbel() {
  const Tensor logits = scores().to(kFloat64).requires_grad_();
  gumbel_softmax(logits, 1, true).sum().backward();
  return py(abs(logits.grad()).max().item<double>() < 1e-12);
}

void element_rows(Rows& rows) {
  prints(rows, "erfinv.reals", [] { return erfinv(tensor({0., 0.5, 1., -1., 2.})); });
  prints(rows, "erfinv.integers", [] { return erfinv(tensor({0, 1})); });
  prints(rows, "erfinv.half", [] {
    return erfinv(tensor({0.5}, {.dtype = kFloat16}));
  }).differs_in(kNoTorchPrefix);
  prints(rows, "gumbel_softmax.hard_is_one_hot", [] {
    return gumbel_softmax(scores().to(kFloat64), 1, true).sum({-1});
  }).differs_in(kNoTorchPrefix);
  rows("op.gumbel_softmax.gradient_of_hard", 0, gradient_of_gumbel);
  prints(rows, "gumbel_softmax.dim", [] { return gumbel_softmax(scores(), 1, false, 2); });
  prints(rows, "diff.once", [] { return diff(tensor({1, 4, 9, 16})); });
  prints(rows, "diff.twice", [] { return diff(tensor({1, 4, 9, 16}), 2); });
  prints(rows, "diff.more_often_than_elements", [] {
    return diff(tensor({1, 4}), 5);
  }).differs_in(kNoTorchPrefix);
  prints(rows, "diff.prepend", [] {
    return diff(tensor({1, 4}), 1, -1, tensor({0}), tensor({9}));
  });
  prints(rows, "diff.of_bools", [] { return diff(tensor({true, false, false})); });
  prints(rows, "diff.of_a_number", [] { return diff(tensor(1.)); });
  prints(rows, "diff.negative", [] { return diff(tensor({1, 4}), -1); });
  prints(rows, "logcumsumexp.reals", [] { return logcumsumexp(tensor({0., 0., 1000.}), 0); });
  prints(rows, "logcumsumexp.infinities", [] {
    return logcumsumexp(tensor({-kInf, -kInf, 1.}), 0);
  });
  prints(rows, "logcumsumexp.integers", [] { return logcumsumexp(tensor({1, 2}), 0); });
  prints(rows, "logcumsumexp.dim", [] { return logcumsumexp(scores(), 2); });
}

void margin_rows(Rows& rows) {
  prints(rows, "multi_margin_loss.mean", [] { return multi_margin_loss(scores(), tensor({3})); });
  prints(rows, "multi_margin_loss.squares", [] {
    return multi_margin_loss(scores(), tensor({0}),
                             {.p = 2, .margin = 0.5, .weight = arange(4.0) + 1});
  });
  prints(rows, "multi_margin_loss.p",
         [] { return multi_margin_loss(scores(), tensor({3}), {.p = 3}); });
  prints(rows, "multi_margin_loss.class_out_of_range",
         [] { return multi_margin_loss(scores(), tensor({4})); });
  prints(rows, "multi_margin_loss.shapes", [] {
    return multi_margin_loss(scores(), tensor({3, 0}));
  });
  prints(rows, "multilabel_margin_loss.mean", [] {
    return multilabel_margin_loss(scores(), tensor({{3, 0, -1, 1}}));
  });
  prints(rows, "multilabel_margin_loss.class_out_of_range", [] {
    return multilabel_margin_loss(scores(), tensor({{4, -1, -1, -1}}));
  });
  prints(rows, "multilabel_margin_loss.shapes", [] {
    return multilabel_margin_loss(scores(), tensor({{3, 0}}));
  });
}

void loss_rows(Rows& rows) {
  margin_rows(rows);
  prints(rows, "soft_margin_loss.sum", [] { return soft_margin_loss(scores(), signs(), "sum"); });
  prints(rows, "soft_margin_loss.reduction", [] {
    return soft_margin_loss(scores(), signs(), "total");
  }).differs_in(kListsWords, kOtherReduction);
  prints(rows, "multilabel_soft_margin_loss.none",
         [] { return multilabel_soft_margin_loss(scores(), labels(), {.reduction = "none"}); });
  prints(rows, "multilabel_soft_margin_loss.weight",
         [] { return multilabel_soft_margin_loss(scores(), labels(), {.weight = arange(4.0)}); });
  prints(rows, "poisson_nll_loss.logarithms", [] { return poisson_nll_loss(scores(), counts()); });
  prints(rows, "poisson_nll_loss.full", [] {
    return poisson_nll_loss(scores(), counts(),
                            {.log_input = false, .full = true, .reduction = "none"});
  });
  prints(rows, "poisson_nll_loss.reduction", [] {
    return poisson_nll_loss(scores(), scores(), {.reduction = "total"});
  }).differs_in(kListsWords, kOtherReduction);
  prints(rows, "hinge_embedding_loss.none",
         [] { return hinge_embedding_loss(scores(), signs(), 0.5, "none"); });
  prints(rows, "hinge_embedding_loss.shapes",
         [] { return hinge_embedding_loss(scores(), ones({3})); });
}

// Prints with other options, and restores them.
std::string printed_with(const PrintOptions& options) {
  const PrintOptions before = get_printoptions();
  set_printoptions(options);
  const std::string text = to_string(tensor({1., 2.5, 1e-3}));
  set_printoptions(before);
  return text;
}

void printing_rows(Rows& rows) {
  rows("op.set_printoptions.precision", 0, [] { return printed_with({.precision = 2}); });
  rows("op.set_printoptions.scientific", 0, [] { return printed_with({.sci_mode = true}); });
  rows("op.set_printoptions.fixed", 0, [] { return printed_with({.sci_mode = false}); });
  rows("op.set_printoptions.profile", 0, [] { return printed_with({.profile = "short"}); });
}

}  // namespace

void operator_rows(Rows& rows) {
  choosing_rows(rows);
  making_rows(rows);
  product_rows(rows);
  element_rows(rows);
  loss_rows(rows);
  printing_rows(rows);
}

}  // namespace taper::v0::conformance
