// The calls of Taper that correspond to the operators of PyTorch's operator database, one row for
// each operator.
#include <algorithm>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/index/inplace.h"
#include "autograd/ops/index/order.h"
#include "autograd/ops/index/scatter.h"
#include "autograd/ops/index/search.h"
#include "autograd/ops/linalg/linalg_ops.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/nn/attention_ops.h"
#include "autograd/ops/nn/conv_ops.h"
#include "autograd/ops/nn/embedding_bag.h"
#include "autograd/ops/nn/image.h"
#include "autograd/ops/nn/loss_ops.h"
#include "autograd/ops/nn/norm_ops.h"
#include "autograd/ops/nn/pool_ops.h"
#include "autograd/ops/random_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "tests/interop/opinfo.h"

namespace taper::v0::test {
namespace {

// Returns an argument that is a word. Words that Taper does not have are inexpressible.
template <class Enum> Enum named(const Args& a, const char* name) {
  try {
    return a.text(name);
  } catch (const ValueError&) {
    throw Inexpressible{concat_to_string(name, "=", a.text(name))};
  }
}

using Table = std::map<std::string, OpInfoFunction>;
using A = Args;

// Calls f(input).
template <class F> OpInfoFunction one(F f) {
  return [f](const A& a) { return Tensors{f(a.t("input"))}; };
}
// Calls f(input, other) for a tensor or a number.
template <class F> OpInfoFunction two(F f) {
  return [f](const A& a) {
    const Tensor x = a.t("input");
    return a.is_number("other") ? Tensors{f(x, a.number("other"))} : Tensors{f(x, a.t("other"))};
  };
}
template <class F> OpInfoFunction one_result(F f) {
  return [f](const A& a) { return Tensors{f(a)}; };
}

void add_unary(Table& table) {
  using Function = Tensor (*)(const Tensor&);
  const std::pair<const char*, Function> functions[] = {
      {"abs", abs},
      {"acos", acos},
      {"asin", asin},
      {"atan", atan},
      {"bitwise_not", bitwise_not},
      {"ceil", ceil},
      {"cos", cos},
      {"cosh", cosh},
      {"digamma", digamma},
      {"erf", erf},
      {"erfinv", erfinv},
      {"exp", exp},
      {"exp2", exp2},
      {"expm1", expm1},
      {"floor", floor},
      {"frac", frac},
      {"hardsigmoid", hardsigmoid},
      {"hardswish", hardswish},
      {"isfinite", isfinite},
      {"isinf", isinf},
      {"isnan", isnan},
      {"lgamma", lgamma},
      {"log", log},
      {"log10", log10},
      {"log1p", log1p},
      {"log2", log2},
      {"neg", neg},
      {"logical_not", logical_not},
      {"logsigmoid", logsigmoid},
      {"mish", mish},
      {"round", round},
      {"reciprocal", reciprocal},
      {"rsqrt", rsqrt},
      {"selu", selu},
      {"sigmoid", sigmoid},
      {"sign", sign},
      {"sin", sin},
      {"sinh", sinh},
      {"softsign", softsign},
      {"sqrt", sqrt},
      {"square", square},
      {"tan", tan},
      {"tanh", tanh},
      {"tanhshrink", tanhshrink},
      {"trunc", trunc},
      {"relu", relu},
      {"relu6", relu6},
      {"silu", silu},
      {"clone", clone},
      {"contiguous", contiguous},
      {"t", [](const Tensor& x) { return x.t(); }},
      {"Tensor.neg", [](const Tensor& x) { return -x; }},
      {"Tensor.bitwise_not", [](const Tensor& x) { return ~x; }},
      {"Tensor.clone", [](const Tensor& x) { return x.clone(); }},
      {"Tensor.contiguous", [](const Tensor& x) { return x.contiguous(); }},
      {"abs_", [](const Tensor& x) -> Tensor { return x.abs_(); }},
      {"exp_", [](const Tensor& x) -> Tensor { return x.exp_(); }},
      {"log_", [](const Tensor& x) -> Tensor { return x.log_(); }},
      {"neg_", [](const Tensor& x) -> Tensor { return x.neg_(); }},
      {"sigmoid_", [](const Tensor& x) -> Tensor { return x.sigmoid_(); }},
      {"sqrt_", [](const Tensor& x) -> Tensor { return x.sqrt_(); }},
      {"tanh_", [](const Tensor& x) -> Tensor { return x.tanh_(); }},
      {"zero_", [](const Tensor& x) -> Tensor { return x.zero_(); }},
      {"empty_like", empty_like},
      {"ones_like", ones_like},
      {"zeros_like", zeros_like},
      {"rand_like", [](const Tensor& x) { return rand_like(x); }},
      {"randn_like", [](const Tensor& x) { return randn_like(x); }},
      {"bernoulli", [](const Tensor& x) { return bernoulli(x); }},
  };
  for (const auto& [name, f] : functions) table[name] = one(f);

  table["elu"] = one_result([](const A& a) { return elu(a.t("input"), a.f("alpha")); });
  table["celu"] = one_result([](const A& a) { return celu(a.t("input"), a.f("alpha")); });
  table["glu"] = one_result([](const A& a) { return glu(a.t("input"), a.i("dim")); });
  table["hardshrink"] =
      one_result([](const A& a) { return hardshrink(a.t("input"), a.f("lambd")); });
  table["softshrink"] =
      one_result([](const A& a) { return softshrink(a.t("input"), a.f("lambd")); });
  table["prelu"] = one_result([](const A& a) { return prelu(a.t("input"), a.t("weight")); });
  table["nan_to_num"] = one_result([](const A& a) {
    return nan_to_num(a.t("input"), a.maybe_f("nan").value_or(0), a.maybe_f("posinf"),
                      a.maybe_f("neginf"));
  });
  table["gelu"] = one_result(
      [](const A& a) { return gelu(a.t("input"), named<GeluApproximate>(a, "approximate")); });
  table["clamp_min"] = two([](const Tensor& x, const auto& y) { return clamp_min(x, y); });
  table["clamp_max"] = two([](const Tensor& x, const auto& y) { return clamp_max(x, y); });
  table["gumbel_softmax"] = one_result(
      [](const A& a) { return gumbel_softmax(a.t("input"), a.f("tau"), a.b("hard"), a.i("dim")); });
  table["hardtanh"] =
      one_result([](const A& a) { return hardtanh(a.t("input"), a.f("min_val"), a.f("max_val")); });
  table["leaky_relu"] =
      one_result([](const A& a) { return leaky_relu(a.t("input"), a.f("negative_slope")); });
  table["softplus"] =
      one_result([](const A& a) { return softplus(a.t("input"), a.f("beta"), a.f("threshold")); });
  table["clamp"] = one_result([](const A& a) {
    const bool numbers = a.is_number("min") || a.is_number("max");
    if (!numbers) return clamp(a.t("input"), a.t("min"), a.t("max"));
    return clamp(a.t("input"), a.maybe_number("min"), a.maybe_number("max"));
  });
  table["clamp_"] =
      one_result([](const A& a) -> Tensor { return a.t("input").clamp_(a.f("min"), a.f("max")); });
  table["fill_"] = one_result([](const A& a) { return fill_(a.t("input"), a.number("value")); });
  table["Tensor.fill_"] =
      one_result([](const A& a) -> Tensor { return a.t("input").fill_(a.number("value")); });
  table["normal_"] =
      one_result([](const A& a) { return normal_(a.t("input"), a.f("mean"), a.f("std")); });
  table["uniform_"] =
      one_result([](const A& a) { return uniform_(a.t("input"), a.f("from"), a.f("to")); });
  table["dropout"] =
      one_result([](const A& a) { return dropout(a.t("input"), a.f("p"), a.b("training")); });
  table["dropout2d"] =
      one_result([](const A& a) { return dropout2d(a.t("input"), a.f("p"), a.b("training")); });
  table["dropout3d"] =
      one_result([](const A& a) { return dropout3d(a.t("input"), a.f("p"), a.b("training")); });
  table["multinomial"] = one_result(
      [](const A& a) { return multinomial(a.t("input"), a.i("num_samples"), a.b("replacement")); });
}

void add_binary(Table& table) {
  using Function = Tensor (*)(const Tensor&, const Tensor&);
  const std::pair<const char*, Function> tensors[] = {
      {"logical_and", logical_and},
      {"logical_or", logical_or},
      {"logical_xor", logical_xor},
      {"matmul", matmul},
      {"expand_as", expand_as},
      {"view_as", view_as},
      {"rmatmul", [](const Tensor& x, const Tensor& other) { return matmul(other, x); }},
  };
  for (const auto& [name, f] : tensors) {
    table[name] = [call = f](const A& a) { return Tensors{call(a.t("input"), a.t("other"))}; };
  }
  for (const auto& [name, f] :
       std::initializer_list<std::pair<const char*, Function>>{{"bmm", bmm}, {"mm", mm}}) {
    table[name] = [call = f](const A& a) { return Tensors{call(a.t("input"), a.t("mat2"))}; };
  }
  table["dot"] = one_result([](const A& a) { return dot(a.t("input"), a.t("other")); });
  table["cross"] =
      one_result([](const A& a) { return cross(a.t("input"), a.t("other"), a.maybe_i("dim")); });
  table["outer"] = one_result([](const A& a) { return outer(a.t("input"), a.t("vec2")); });

  table["eq"] = two([](const Tensor& x, const auto& y) { return eq(x, y); });
  table["ne"] = two([](const Tensor& x, const auto& y) { return ne(x, y); });
  table["lt"] = two([](const Tensor& x, const auto& y) { return lt(x, y); });
  table["le"] = two([](const Tensor& x, const auto& y) { return le(x, y); });
  table["gt"] = two([](const Tensor& x, const auto& y) { return gt(x, y); });
  table["ge"] = two([](const Tensor& x, const auto& y) { return ge(x, y); });
  table["Tensor.lt"] = two([](const Tensor& x, const auto& y) { return x < y; });
  table["Tensor.le"] = two([](const Tensor& x, const auto& y) { return x <= y; });
  table["Tensor.gt"] = two([](const Tensor& x, const auto& y) { return x > y; });
  table["Tensor.ge"] = two([](const Tensor& x, const auto& y) { return x >= y; });
  table["maximum"] = two([](const Tensor& x, const auto& y) { return maximum(x, y); });
  table["minimum"] = two([](const Tensor& x, const auto& y) { return minimum(x, y); });
  table["mul"] = two([](const Tensor& x, const auto& y) { return mul(x, y); });
  table["Tensor.mul"] = two([](const Tensor& x, const auto& y) { return x * y; });
  table["rmul"] = two([](const Tensor& x, const auto& y) { return y * x; });
  table["radd"] = two([](const Tensor& x, const auto& y) { return y + x; });
  table["rdiv"] = two([](const Tensor& x, const auto& y) { return y / x; });
  table["rpow"] = two([](const Tensor& x, const auto& y) { return pow(y, x); });
  table["pow"] = two([](const Tensor& x, const auto& y) { return pow(x, y); });
  table["fmod"] = two([](const Tensor& x, const auto& y) { return fmod(x, y); });
  table["atan2"] = two([](const Tensor& x, const auto& y) { return atan2(x, y); });
  table["logaddexp"] = two([](const Tensor& x, const auto& y) { return logaddexp(x, y); });
  table["xlogy"] = two([](const Tensor& x, const auto& y) { return xlogy(x, y); });
  table["bitwise_and"] = two([](const Tensor& x, const auto& y) { return bitwise_and(x, y); });
  table["bitwise_or"] = two([](const Tensor& x, const auto& y) { return bitwise_or(x, y); });
  table["bitwise_xor"] = two([](const Tensor& x, const auto& y) { return bitwise_xor(x, y); });
  table["Tensor.bitwise_and"] = two([](const Tensor& x, const auto& y) { return x & y; });
  table["Tensor.bitwise_or"] = two([](const Tensor& x, const auto& y) { return x | y; });
  table["Tensor.bitwise_xor"] = two([](const Tensor& x, const auto& y) { return x ^ y; });
  table["lerp"] = one_result([](const A& a) {
    if (!a.is_number("weight")) return lerp(a.t("input"), a.t("end"), a.t("weight"));
    return lerp(a.t("input"), a.t("end"), a.number("weight"));
  });
  table["addcmul"] = one_result([](const A& a) {
    return addcmul(a.t("input"), a.t("tensor1"), a.t("tensor2"), a.number("value"));
  });
  table["addcdiv"] = one_result([](const A& a) {
    return addcdiv(a.t("input"), a.t("tensor1"), a.t("tensor2"), a.number("value"));
  });
  table["isclose"] = one_result([](const A& a) {
    return isclose(a.t("input"), a.t("other"), a.f("rtol"), a.f("atol"), a.b("equal_nan"));
  });
  const auto verdict = [](bool y) { return full({}, y, {.dtype = kBool}); };
  table["allclose"] = one_result([=](const A& a) {
    return verdict(
        allclose(a.t("input"), a.t("other"), a.f("rtol"), a.f("atol"), a.b("equal_nan")));
  });
  table["equal"] =
      one_result([=](const A& a) { return verdict(equal(a.t("input"), a.t("other"))); });
  table["floor_divide"] = two([](const Tensor& x, const auto& y) { return floor_divide(x, y); });
  table["remainder"] = two([](const Tensor& x, const auto& y) { return remainder(x, y); });

  // Functions with a factor alpha. Their overloads for numbers have no alpha.
  const auto scaled = [](auto f, auto plain) {
    return [=](const A& a) {
      const Tensor x = a.t("input");
      const Scalar alpha = a.none("alpha") ? Scalar(1) : a.number("alpha");
      if (!a.is_number("other")) return Tensors{f(x, a.t("other"), alpha)};
      if (alpha.to_double() != 1) throw Inexpressible{"alpha of a number"};
      return Tensors{plain(x, a.number("other"))};
    };
  };
  table["add"] = scaled([](auto& x, auto y, Scalar alpha) { return add(x, y, alpha); },
                        [](auto& x, Scalar y) { return add(x, y); });
  table["sub"] = scaled([](auto& x, auto y, Scalar alpha) { return sub(x, y, alpha); },
                        [](auto& x, Scalar y) { return sub(x, y); });
  table["rsub"] = scaled([](auto& x, auto y, Scalar alpha) { return sub(y, x, alpha); },
                         [](auto& x, Scalar y) { return y - x; });
  table["add_"] = scaled([](auto& x, auto y, Scalar alpha) -> Tensor { return x.add_(y, alpha); },
                         [](auto& x, Scalar y) -> Tensor { return x.add_(y); });
  table["sub_"] = scaled([](auto& x, auto y, Scalar alpha) -> Tensor { return x.sub_(y, alpha); },
                         [](auto& x, Scalar y) -> Tensor { return x.sub_(y); });
  const auto rounded = [](auto divide, auto plain) {
    return [=](const A& a) {
      if (a.none("rounding_mode")) return two(plain)(a);
      const std::string mode = a.text("rounding_mode");
      return two([&](const Tensor& x, const auto& y) { return divide(x, y, mode); })(a);
    };
  };
  table["div"] = rounded([](auto& x, auto& y, auto& mode) { return div(x, y, mode); },
                         [](const Tensor& x, const auto& y) { return div(x, y); });
  table["div_"] = rounded(
      [](auto&, auto&, auto&) -> Tensor { throw Inexpressible{"div_ with rounding_mode="}; },
      [](const Tensor& x, const auto& y) -> Tensor { return x.div_(y); });
  table["mul_"] = two([](const Tensor& x, const auto& y) -> Tensor { return x.mul_(y); });
  table["pow_"] = two([](const Tensor& x, const auto& y) -> Tensor { return x.pow_(y); });
  table["where"] = [](const A& a) {
    const Tensor condition = a.t("condition");
    if (a.is_number("input") && a.is_number("other")) {
      return Tensors{where(condition, a.number("input"), a.number("other"))};
    }
    if (a.is_number("input")) {
      return Tensors{where(condition, a.number("input"), a.t("other"))};
    }
    return two([&](const Tensor& x, const auto& y) { return where(condition, x, y); })(a);
  };
  table["masked_fill"] = one_result(
      [](const A& a) { return masked_fill(a.t("input"), a.t("mask"), a.number("value")); });
  table["masked_fill_"] = one_result([](const A& a) -> Tensor {
    return a.t("input").masked_fill_(a.t("mask"), a.number("value"));
  });
}

bool is_word(const A& a, const char* name) { return !a.is_number(name) && !a.is_list(name); }
ConvPadding conv_padding(const A& a, bool rows) {
  if (is_word(a, "padding")) return a.text("padding");
  return rows ? Pair(a.one("padding")) : a.pair("padding");
}
ConvPadding3d conv_padding_3d(const A& a) {
  if (is_word(a, "padding")) return a.text("padding");
  return a.triple("padding");
}

void add_products(Table& table) {
  table["addmm"] = one_result([](const A& a) {
    return addmm(a.t("input"), a.t("mat1"), a.t("mat2"), a.number("beta"), a.number("alpha"));
  });
  table["baddbmm"] = one_result([](const A& a) {
    return baddbmm(a.t("input"), a.t("batch1"), a.t("batch2"), a.number("beta"), a.number("alpha"));
  });
  table["einsum"] =
      one_result([](const A& a) { return einsum(a.text("equation"), a.list("tensors")); });
  table["tensordot"] = one_result([](const A& a) {
    if (a.none("dims_a")) return tensordot(a.t("input"), a.t("other"), a.i("dims"));
    return tensordot(a.t("input"), a.t("other"), a.dims("dims_a"), a.dims("dims_b"));
  });
  table["linear"] =
      one_result([](const A& a) { return linear(a.t("input"), a.t("weight"), a.t("bias")); });
  table["conv1d"] = one_result([](const A& a) {
    return conv1d(a.t("input"), a.t("weight"), a.t("bias"),
                  {.stride = a.one("stride"),
                   .padding = conv_padding(a, true),
                   .dilation = a.one("dilation"),
                   .groups = a.i("groups")});
  });
  table["conv2d"] = one_result([](const A& a) {
    return conv2d(a.t("input"), a.t("weight"), a.t("bias"),
                  {.stride = a.pair("stride"),
                   .padding = conv_padding(a, false),
                   .dilation = a.pair("dilation"),
                   .groups = a.i("groups")});
  });
  table["conv3d"] = one_result([](const A& a) {
    return conv3d(a.t("input"), a.t("weight"), a.t("bias"),
                  {.stride = a.triple("stride"),
                   .padding = conv_padding_3d(a),
                   .dilation = a.triple("dilation"),
                   .groups = a.i("groups")});
  });
  table["scaled_dot_product_attention"] = one_result([](const A& a) {
    return scaled_dot_product_attention(a.t("query"), a.t("key"), a.t("value"),
                                        {.attn_mask = a.t("attn_mask"),
                                         .dropout_p = a.f("dropout_p"),
                                         .is_causal = a.b("is_causal"),
                                         .scale = a.maybe_f("scale"),
                                         .enable_gqa = a.b("enable_gqa")});
  });
  table["conv_transpose1d"] = one_result([](const A& a) {
    return conv_transpose1d(a.t("input"), a.t("weight"), a.t("bias"),
                            {.stride = a.one("stride"),
                             .padding = a.one("padding"),
                             .output_padding = a.one("output_padding"),
                             .groups = a.i("groups"),
                             .dilation = a.one("dilation")});
  });
  table["conv_transpose2d"] = one_result([](const A& a) {
    return conv_transpose2d(a.t("input"), a.t("weight"), a.t("bias"),
                            {.stride = a.pair("stride"),
                             .padding = a.pair("padding"),
                             .output_padding = a.pair("output_padding"),
                             .groups = a.i("groups"),
                             .dilation = a.pair("dilation")});
  });
  table["conv_transpose3d"] = one_result([](const A& a) {
    return conv_transpose3d(a.t("input"), a.t("weight"), a.t("bias"),
                            {.stride = a.triple("stride"),
                             .padding = a.triple("padding"),
                             .output_padding = a.triple("output_padding"),
                             .groups = a.i("groups"),
                             .dilation = a.triple("dilation")});
  });
}

// Returns the factors; for full matrices that are not square, the parts that are unique.
Tensors svd_of(const Tensor& x, bool full) {
  const auto [u, s, vh] = linalg::svd(x, {.full_matrices = full});
  if (u.size(-1) == vh.size(-2)) return {u, s, vh};
  const int64_t k = s.size(-1);
  const Tensor left = u.detach(), right = vh.detach();
  return {contiguous(narrow(left, -1, 0, k)), s, contiguous(narrow(right, -2, 0, k)),
          matmul(left, transpose(left, -2, -1)), matmul(transpose(right, -2, -1), right)};
}

linalg::MatrixNormOrder order_of(const A& a) {
  if (a.is_number("ord")) return a.f("ord");
  return a.text("ord");
}

linalg::Lstsq lstsq_of(const A& a) {
  linalg::LstsqOptions options{.rcond = a.maybe_f("rcond")};
  if (!a.none("driver")) options.driver = named<linalg::LstsqDriver>(a, "driver");
  return linalg::lstsq(a.t("input"), a.t("other"), options);
}

void add_linalg(Table& table) {
  table["linalg_inv"] = one(linalg::inv);
  table["linalg_det"] = one(linalg::det);
  table["linalg_slogdet"] = [](const A& a) {
    const auto [sign, logabsdet] = linalg::slogdet(a.t("input"));
    return Tensors{sign, logabsdet};
  };
  table["linalg_cholesky"] = one_result(
      [](const A& a) { return linalg::cholesky(a.t("input"), {.upper = a.b("upper")}); });
  table["linalg_solve"] = one_result(
      [](const A& a) { return linalg::solve(a.t("input"), a.t("other"), {.left = a.b("left")}); });
  table["linalg_solve_triangular"] = one_result([](const A& a) {
    return linalg::solve_triangular(
        a.t("input"), a.t("other"),
        {.upper = a.b("upper"), .left = a.b("left"), .unitriangular = a.b("unitriangular")});
  });
  table["linalg_qr"] = [](const A& a) {
    const Tensor x = a.t("input");
    const auto mode = named<linalg::QrMode>(a, "mode");
    const auto [q, r] = linalg::qr(x, {.mode = mode});
    const bool is_complete = mode == linalg::QrMode::kComplete && x.size(-2) > x.size(-1);
    if (is_complete || mode == linalg::QrMode::kR) return Tensors{q.detach(), r.detach()};
    return Tensors{q, r};
  };
  table["linalg_eigh"] = [](const A& a) {
    const auto [w, v] = linalg::eigh(a.t("input"), {.uplo = named<linalg::Uplo>(a, "UPLO")});
    return Tensors{w, v};
  };
  table["linalg_svd"] = [](const A& a) { return svd_of(a.t("input"), a.b("full_matrices")); };
  table["linalg_pinv"] = one_result([](const A& a) {
    return linalg::pinv(
        a.t("input"),
        {.atol = a.maybe_f("atol"), .rtol = a.maybe_f("rtol"), .hermitian = a.b("hermitian")});
  });
  table["linalg_pinv_of_product"] = one_result([](const A& a) {
    return linalg::pinv(matmul(a.t("input"), transpose(a.t("other"), -2, -1)));
  });
  table["linalg_lstsq"] = [](const A& a) {
    const linalg::Lstsq f = lstsq_of(a);
    return Tensors{f.solution, f.residuals, f.rank, f.singular_values};
  };
  table["linalg_lstsq_solution"] = [](const A& a) {
    const linalg::Lstsq f = lstsq_of(a);
    return Tensors{f.solution, f.residuals};
  };
  table["linalg_matrix_norm"] = one_result([](const A& a) {
    return linalg::matrix_norm(
        a.t("input"), order_of(a),
        {.dim = a.dims("dim"), .keepdim = a.b("keepdim"), .dtype = a.dtype("dtype")});
  });
}

void add_images(Table& table) {
  table["unfold"] = one_result([](const A& a) {
    return unfold(a.t("input"), a.pair("kernel_size"),
                  {a.pair("dilation"), a.pair("padding"), a.pair("stride")});
  });
  table["pixel_shuffle"] =
      one_result([](const A& a) { return pixel_shuffle(a.t("input"), a.i("upscale_factor")); });
  table["pixel_unshuffle"] =
      one_result([](const A& a) { return pixel_unshuffle(a.t("input"), a.i("downscale_factor")); });
  table["grid_sample"] = one_result([](const A& a) {
    return grid_sample(a.t("input"), a.t("grid"),
                       {.mode = named<Interpolation>(a, "mode"),
                        .padding_mode = named<GridPadding>(a, "padding_mode"),
                        .align_corners = !a.none("align_corners") && a.b("align_corners")});
  });
}

void add_indices(Table& table) {
  table["argsort"] =
      one_result([](const A& a) { return argsort(a.t("input"), a.i("dim"), a.b("descending")); });
  table["sort"] = [](const A& a) {
    const Sorted y = sort(a.t("input"), a.i("dim"), a.b("descending"));
    return Tensors{y.values, y.indices};
  };
  table["topk"] = [](const A& a) {
    const Sorted y = topk(a.t("input"), a.i("k"), a.i("dim"), a.b("largest"));
    return Tensors{y.values, y.indices};
  };
  table["cumsum"] =
      one_result([](const A& a) { return cumsum(a.t("input"), a.i("dim"), a.dtype("dtype")); });
  table["cumprod"] =
      one_result([](const A& a) { return cumprod(a.t("input"), a.i("dim"), a.dtype("dtype")); });
  table["logcumsumexp"] =
      one_result([](const A& a) { return logcumsumexp(a.t("input"), a.i("dim")); });
  table["diff"] = one_result([](const A& a) {
    return diff(a.t("input"), a.i("n"), a.i("dim"), a.t("prepend"), a.t("append"));
  });
  table["embedding"] = one_result(
      [](const A& a) { return embedding(a.t("input"), a.t("indices"), a.maybe_i("padding_idx")); });
  table["embedding_bag"] = one_result([](const A& a) {
    return embedding_bag(a.t("input"), a.t("weight"), a.t("offsets"),
                         {named<BagMode>(a, "mode"), a.t("per_sample_weights"),
                          a.b("include_last_offset"), a.maybe_i("padding_idx")});
  });
  table["flip"] = one_result([](const A& a) { return flip(a.t("input"), a.dims("dims")); });
  table["gather"] =
      one_result([](const A& a) { return gather(a.t("input"), a.i("dim"), a.t("index")); });
  table["index_select"] =
      one_result([](const A& a) { return index_select(a.t("input"), a.i("dim"), a.t("index")); });
  table["index"] = one_result([](const A& a) {
    if (a.is_number("index")) return a.t("input")[a.i("index")];
    return a.is_tensor("index") ? index(a.t("input"), a.t("index"))
                                : index(a.t("input"), a.indices("index"));
  });
  table["one_hot"] =
      one_result([](const A& a) { return one_hot(a.t("input"), a.i("num_classes")); });
  table["pad"] = one_result([](const A& a) {
    return pad(a.t("input"), a.ints("pad"), named<PadMode>(a, "mode"),
               a.none("value") ? Scalar(0) : a.number("value"));
  });
  table["tril"] = one_result([](const A& a) { return tril(a.t("input"), a.i("diagonal")); });
  table["triu"] = one_result([](const A& a) { return triu(a.t("input"), a.i("diagonal")); });
}

void add_places(Table& table) {
  // Adds a function, and its in-place form under the name with "_" appended.
  const auto both = [&](const std::string& name, auto f, auto in_place) {
    table[name] = one_result([f](const A& a) { return f(a, a.t("input")); });
    table[name + "_"] = one_result([in_place](const A& a) { return in_place(a, a.t("input")); });
  };
  const auto placing = [&](const std::string& name, auto f, auto in_place) {
    const auto of = [](auto op, const char* src) {
      return [op, src](const A& a, const Tensor& x) {
        return op(x, a.i("dim"), a.t("index"), a.t(src));
      };
    };
    const char* src = name.starts_with("index") ? "source" : "src";
    both(name, of(f, src), of(in_place, src));
  };
  using Place = Tensor (*)(const Tensor&, IntArg, const Tensor&, const Tensor&);
  placing("scatter_add", scatter_add, scatter_add_);
  placing("index_copy", index_copy, index_copy_);
  const auto scattered = [](Place with, auto number) {
    return [=](const A& a, const Tensor& x) {
      if (a.is_number("src")) return number(x, a.i("dim"), a.t("index"), a.number("src"));
      return with(x, a.i("dim"), a.t("index"), a.t("src"));
    };
  };
  using PlaceNumber = Tensor (*)(const Tensor&, IntArg, const Tensor&, Scalar);
  both("scatter", scattered(scatter, static_cast<PlaceNumber>(scatter)),
       scattered(scatter_, static_cast<PlaceNumber>(scatter_)));
  const auto added = [](auto op) {
    return [op](const A& a, const Tensor& x) {
      return op(x, a.i("dim"), a.t("index"), a.t("source"), a.number("alpha"));
    };
  };
  both("index_add", added(index_add), added(index_add_));
  const auto filled = [](PlaceNumber op) {
    return [op](const A& a, const Tensor& x) {
      return op(x, a.i("dim"), a.t("index"), a.number("value"));
    };
  };
  both("index_fill", filled(index_fill), filled(index_fill_));
  using Put = Tensor (*)(const Tensor&, const std::vector<TensorIndex>&, const Tensor&, BoolArg);
  const auto put = [](Put op) {
    return [op](const A& a, const Tensor& x) {
      return op(x, a.indices("indices"), a.t("values"), a.b("accumulate"));
    };
  };
  both("index_put", put(index_put), put(index_put_));
  table["scatter_reduce"] = one_result([](const A& a) {
    return scatter_reduce(a.t("input"), a.i("dim"), a.t("index"), a.t("src"), a.text("reduce"),
                          a.b("include_self"));
  });
  table["masked_select"] =
      one_result([](const A& a) { return masked_select(a.t("input"), a.t("mask")); });
  table["masked_scatter"] = one_result(
      [](const A& a) { return masked_scatter(a.t("input"), a.t("mask"), a.t("source")); });
  table["nonzero"] = one(nonzero);
  table["count_nonzero"] =
      one_result([](const A& a) { return count_nonzero(a.t("input"), a.dims("dim")); });
  table["bincount"] = one_result(
      [](const A& a) { return bincount(a.t("input"), a.t("weights"), a.i("minlength")); });
  table["repeat_interleave"] = one_result([](const A& a) {
    if (a.is_number("repeats")) {
      return repeat_interleave(a.t("input"), a.i("repeats"), a.maybe_i("dim"));
    }
    return repeat_interleave(a.t("input"), a.t("repeats"), a.maybe_i("dim"),
                             a.maybe_i("output_size"));
  });
  table["take_along_dim"] = one_result(
      [](const A& a) { return take_along_dim(a.t("input"), a.t("indices"), a.maybe_i("dim")); });
  table["searchsorted"] = one_result([](const A& a) {
    if (a.is_number("input")) {
      return searchsorted(a.t("sorted_sequence"), a.number("input"), a.b("right"));
    }
    return searchsorted(a.t("sorted_sequence"), a.t("input"), a.b("right"));
  });
  table["bucketize"] = one_result(
      [](const A& a) { return bucketize(a.t("input"), a.t("boundaries"), a.b("right")); });
  table["unique"] = [](const A& a) {
    const Uniques y =
        unique(a.t("input"), a.b("sorted"), a.b("return_inverse"), a.b("return_counts"));
    Tensors out = {y.output};
    if (y.inverse_indices.defined()) out.push_back(y.inverse_indices);
    if (y.counts.defined()) out.push_back(y.counts);
    return out;
  };
}

void add_losses(Table& table) {
  table["binary_cross_entropy_with_logits"] = one_result([](const A& a) {
    return binary_cross_entropy_with_logits(
        a.t("input"), a.t("target"),
        {.weight = a.t("weight"), .pos_weight = a.t("pos_weight"), .reduction = a.reduction()});
  });
  table["cross_entropy"] = one_result([](const A& a) {
    return cross_entropy(a.t("input"), a.t("target"),
                         {.weight = a.t("weight"),
                          .ignore_index = a.i("ignore_index"),
                          .reduction = a.reduction(),
                          .label_smoothing = a.f("label_smoothing")});
  });
  table["nll_loss"] = one_result([](const A& a) {
    return nll_loss(
        a.t("input"), a.t("target"),
        {.weight = a.t("weight"), .ignore_index = a.i("ignore_index"), .reduction = a.reduction()});
  });
  table["huber_loss"] = one_result([](const A& a) {
    return huber_loss(a.t("input"), a.t("target"), a.reduction(), a.f("delta"));
  });
  table["smooth_l1_loss"] = one_result([](const A& a) {
    return smooth_l1_loss(a.t("input"), a.t("target"), a.reduction(), a.f("beta"));
  });
  table["kl_div"] = one_result([](const A& a) {
    return kl_div(a.t("input"), a.t("target"), a.reduction(), a.b("log_target"));
  });
  table["binary_cross_entropy"] = one_result([](const A& a) {
    return binary_cross_entropy(a.t("input"), a.t("target"), {a.t("weight"), a.reduction()});
  });
  table["gaussian_nll_loss"] = one_result([](const A& a) {
    return gaussian_nll_loss(a.t("input"), a.t("target"), a.t("var"),
                             {.full = a.b("full"), .eps = a.f("eps"), .reduction = a.reduction()});
  });
  table["cosine_similarity"] = one_result(
      [](const A& a) { return cosine_similarity(a.t("x1"), a.t("x2"), a.i("dim"), a.f("eps")); });
  table["cosine_embedding_loss"] = one_result([](const A& a) {
    return cosine_embedding_loss(a.t("input1"), a.t("input2"), a.t("target"), a.f("margin"),
                                 a.reduction());
  });
  table["margin_ranking_loss"] = one_result([](const A& a) {
    return margin_ranking_loss(a.t("input1"), a.t("input2"), a.t("target"), a.f("margin"),
                               a.reduction());
  });
  table["triplet_margin_loss"] = one_result([](const A& a) {
    return triplet_margin_loss(a.t("anchor"), a.t("positive"), a.t("negative"),
                               {.margin = a.f("margin"),
                                .p = a.f("p"),
                                .eps = a.f("eps"),
                                .swap = a.b("swap"),
                                .reduction = a.reduction()});
  });
  table["ctc_loss"] = one_result([](const A& a) {
    const auto lengths = [&](const char* name) {
      return a.is_list(name) ? tensor(a.ints(name), {.dtype = kInt64}) : a.t(name);
    };
    return ctc_loss(
        a.t("log_probs"), a.t("targets"), lengths("input_lengths"), lengths("target_lengths"),
        {.blank = a.i("blank"), .reduction = a.reduction(), .zero_infinity = a.b("zero_infinity")});
  });
  table["l1_loss"] =
      one_result([](const A& a) { return l1_loss(a.t("input"), a.t("target"), a.reduction()); });
  table["mse_loss"] =
      one_result([](const A& a) { return mse_loss(a.t("input"), a.t("target"), a.reduction()); });
}

void add_margin_losses(Table& table) {
  table["multi_margin_loss"] = one_result([](const A& a) {
    return multi_margin_loss(a.t("input"), a.t("target"),
                             {.p = a.i("p"),
                              .margin = a.f("margin"),
                              .weight = a.t("weight"),
                              .reduction = a.reduction()});
  });
  table["multilabel_margin_loss"] = one_result([](const A& a) {
    return multilabel_margin_loss(a.t("input"), a.t("target"), a.reduction());
  });
  table["soft_margin_loss"] = one_result(
      [](const A& a) { return soft_margin_loss(a.t("input"), a.t("target"), a.reduction()); });
  table["multilabel_soft_margin_loss"] = one_result([](const A& a) {
    return multilabel_soft_margin_loss(a.t("input"), a.t("target"),
                                       {.weight = a.t("weight"), .reduction = a.reduction()});
  });
  table["poisson_nll_loss"] = one_result([](const A& a) {
    return poisson_nll_loss(a.t("input"), a.t("target"),
                            {.log_input = a.b("log_input"),
                             .full = a.b("full"),
                             .eps = a.f("eps"),
                             .reduction = a.reduction()});
  });
  table["hinge_embedding_loss"] = one_result([](const A& a) {
    return hinge_embedding_loss(a.t("input"), a.t("target"), a.f("margin"), a.reduction());
  });
  table["pairwise_distance"] = one_result([](const A& a) {
    return pairwise_distance(a.t("x1"), a.t("x2"), a.f("p"), a.f("eps"), a.b("keepdim"));
  });
}

void add_norms(Table& table) {
  table["batch_norm"] = one_result([](const A& a) {
    return batch_norm(a.t("input"), a.t("running_mean"), a.t("running_var"),
                      {.weight = a.t("weight"),
                       .bias = a.t("bias"),
                       .training = a.b("training"),
                       .momentum = a.f("momentum"),
                       .eps = a.f("eps")});
  });
  table["group_norm"] = one_result([](const A& a) {
    return group_norm(a.t("input"), a.i("num_groups"), a.t("weight"), a.t("bias"), a.f("eps"));
  });
  table["layer_norm"] = one_result([](const A& a) {
    return layer_norm(a.t("input"), a.dims("normalized_shape"), a.t("weight"), a.t("bias"),
                      a.f("eps"));
  });
  table["rms_norm"] = one_result([](const A& a) {
    return rms_norm(a.t("input"), a.dims("normalized_shape"), a.t("weight"), a.maybe_f("eps"));
  });
  table["instance_norm"] = one_result([](const A& a) {
    return instance_norm(a.t("input"), a.t("running_mean"), a.t("running_var"),
                         {.weight = a.t("weight"),
                          .bias = a.t("bias"),
                          .use_input_stats = a.b("use_input_stats"),
                          .momentum = a.f("momentum"),
                          .eps = a.f("eps")});
  });
  table["normalize"] = one_result(
      [](const A& a) { return normalize(a.t("input"), a.f("p"), a.i("dim"), a.f("eps")); });
  table["softmax"] =
      one_result([](const A& a) { return softmax(a.t("input"), a.i("dim"), a.dtype("dtype")); });
  table["log_softmax"] = one_result(
      [](const A& a) { return log_softmax(a.t("input"), a.i("dim"), a.dtype("dtype")); });
}

OutputSize output_size(const A& a) {
  if (!a.is_list("output_size")) return a.i("output_size");
  const auto sizes = a.maybe_ints("output_size");
  if (sizes.size() == 1) return {sizes[0], sizes[0]};
  if (sizes.size() != 2) throw Inexpressible{"output_size="};
  return {sizes[0], sizes[1]};
}

OutputSize3d output_size_3d(const A& a) {
  if (!a.is_list("output_size")) return a.i("output_size");
  const auto sizes = a.maybe_ints("output_size");
  if (sizes.size() == 1) return {sizes[0], sizes[0], sizes[0]};
  if (sizes.size() != 3) throw Inexpressible{"output_size="};
  return {sizes[0], sizes[1], sizes[2]};
}

// Returns the values and, if requested, the indices.
template <class F> OpInfoFunction with_indices(F f) {
  return [f](const A& a) {
    const Pooled y = f(a);
    return a.b("return_indices") ? Tensors{y.values, y.indices} : Tensors{y.values};
  };
}

// Returns the stride as read(a, "stride"). An empty list is the default, the kernel size.
template <class Sizes>
std::optional<Sizes> stride_of(const A& a, Sizes (A::*read)(const char*) const) {
  if (a.none("stride") || (a.is_list("stride") && a.ints("stride").empty())) return {};
  return (a.*read)("stride");
}

// Returns the last sizes of output_size, which may include the batch and the channels.
template <class Sizes> std::optional<Sizes> unpooled_size(const A& a) {
  if (a.none("output_size")) return {};
  const std::vector<int64_t> s = a.ints("output_size");
  const size_t n = s.size();
  if constexpr (std::same_as<Sizes, Pair>) {
    if (n >= 2) return Pair(s[n - 2], s[n - 1]);
  } else {
    if (n >= 3) return Triple(s[n - 3], s[n - 2], s[n - 1]);
  }
  throw Inexpressible{"output_size="};
}

// Adds both sliding pools of `dims` dimensions. `read` returns an option as sizes. In one
// dimension, that is the width of a pair.
template <class Sizes, class Max, class Avg>
void add_sliding_pools(Table& table, const std::string& dims, Sizes (A::*read)(const char*) const,
                       Max max, Avg avg) {
  table["avg_pool" + dims] = one_result([=](const A& a) {
    return avg(a, AvgPoolOptionsOf<Sizes>{.stride = stride_of(a, read),
                                          .padding = (a.*read)("padding"),
                                          .ceil_mode = a.b("ceil_mode"),
                                          .count_include_pad = a.b("count_include_pad")});
  });
  table["max_pool" + dims] = with_indices([=](const A& a) {
    return max(a, MaxPoolOptionsOf<Sizes>{.stride = stride_of(a, read),
                                          .padding = (a.*read)("padding"),
                                          .dilation = (a.*read)("dilation"),
                                          .ceil_mode = a.b("ceil_mode")});
  });
}

void add_all_sliding_pools(Table& table) {
  add_sliding_pools(
      table, "1d", &A::width,
      [](const A& a, const MaxPoolOptions& o) {
        return max_pool1d_with_indices(a.t("input"), a.one("kernel_size"), o);
      },
      [](const A& a, const AvgPoolOptions& o) {
        return avg_pool1d(a.t("input"), a.one("kernel_size"), o);
      });
  add_sliding_pools(
      table, "2d", &A::pair,
      [](const A& a, const MaxPoolOptions& o) {
        return max_pool2d_with_indices(a.t("input"), a.pair("kernel_size"), o);
      },
      [](const A& a, const AvgPoolOptions& o) {
        return avg_pool2d(a.t("input"), a.pair("kernel_size"), o);
      });
  add_sliding_pools(
      table, "3d", &A::triple,
      [](const A& a, const MaxPool3dOptions& o) {
        return max_pool3d_with_indices(a.t("input"), a.triple("kernel_size"), o);
      },
      [](const A& a, const AvgPool3dOptions& o) {
        return avg_pool3d(a.t("input"), a.triple("kernel_size"), o);
      });
}

void add_pools(Table& table) {
  add_all_sliding_pools(table);
  table["adaptive_avg_pool1d"] = one_result(
      [](const A& a) { return adaptive_avg_pool1d(a.t("input"), a.one("output_size")); });
  table["adaptive_avg_pool2d"] =
      one_result([](const A& a) { return adaptive_avg_pool2d(a.t("input"), output_size(a)); });
  table["adaptive_max_pool1d"] = with_indices([](const A& a) {
    return adaptive_max_pool1d_with_indices(a.t("input"), a.one("output_size"));
  });
  table["adaptive_max_pool2d"] = with_indices(
      [](const A& a) { return adaptive_max_pool2d_with_indices(a.t("input"), output_size(a)); });
  table["adaptive_avg_pool3d"] =
      one_result([](const A& a) { return adaptive_avg_pool3d(a.t("input"), output_size_3d(a)); });
  table["adaptive_max_pool3d"] = with_indices(
      [](const A& a) { return adaptive_max_pool3d_with_indices(a.t("input"), output_size_3d(a)); });
  table["max_unpool2d"] = one_result([](const A& a) {
    return max_unpool2d(a.t("input"), a.t("indices"), a.pair("kernel_size"),
                        {stride_of(a, &A::pair), a.pair("padding"), unpooled_size<Pair>(a)});
  });
  table["max_unpool3d"] = one_result([](const A& a) {
    return max_unpool3d(a.t("input"), a.t("indices"), a.triple("kernel_size"),
                        {stride_of(a, &A::triple), a.triple("padding"), unpooled_size<Triple>(a)});
  });
  const auto resized = [](const A& a, InterpolateOptions options) {
    const int dims = a.t("input").dim() - 2;
    if (!a.none("size")) {
      options.size = dims == 1   ? InterpolateSize(a.one("size"))
                     : dims == 3 ? InterpolateSize(a.triple("size"))
                                 : InterpolateSize(a.pair("size"));
    }
    options.scale_factor = a.maybe_f("scale_factor");
    return interpolate(a.t("input"), options);
  };
  table["interpolate"] = one_result([=](const A& a) {
    InterpolateOptions options;
    options.mode = named<Interpolation>(a, "mode");
    if (!a.none("align_corners")) options.align_corners = a.b("align_corners");
    return resized(a, options);
  });
  table["upsample_nearest"] = one_result([=](const A& a) { return resized(a, {}); });
}

void add_reductions(Table& table) {
  const auto reduction = [&](const std::string& name, auto f) {
    table[name] = one_result(
        [f](const A& a) { return f(a.t("input"), a.dims("dim"), a.b("keepdim"), a.none("dim")); });
  };
  for (const std::string name : {"sum", "mean"}) {
    const bool sums = name == "sum";
    table[name] = one_result([sums](const A& a) {
      const Tensor x = a.t("input");
      const bool keep = a.b("keepdim");
      if (a.none("dim") && !keep)
        return sums ? sum(x, a.dtype("dtype")) : mean(x, a.dtype("dtype"));
      return sums ? sum(x, a.dims("dim"), keep, a.dtype("dtype"))
                  : mean(x, a.dims("dim"), keep, a.dtype("dtype"));
    });
    table["Tensor." + name] = one_result([sums](const A& a) {
      const Tensor x = a.t("input");
      const bool keep = a.b("keepdim");
      if (!a.none("dtype")) throw Inexpressible{"dtype="};
      if (a.none("dim") && !keep) return sums ? x.sum() : x.mean();
      return sums ? x.sum(a.dims("dim"), keep) : x.mean(a.dims("dim"), keep);
    });
  }
  reduction("amax", [](auto x, auto dims, bool keep, bool) { return amax(x, dims, keep); });
  reduction("amin", [](auto x, auto dims, bool keep, bool) { return amin(x, dims, keep); });
  reduction("all", [](auto x, auto dims, bool keep, bool) { return all(x, dims, keep); });
  reduction("any", [](auto x, auto dims, bool keep, bool) { return any(x, dims, keep); });
  reduction("logsumexp",
            [](auto x, auto dims, bool keep, bool) { return logsumexp(x, dims, keep); });

  const auto along = [&](const std::string& name, auto f) {
    table[name] = one_result([f](const A& a) {
      if (a.none("dim") && a.b("keepdim")) throw Inexpressible{"keepdim= without dim="};
      return f(a.t("input"), a.maybe_i("dim"), a.b("keepdim"));
    });
  };
  table["prod"] = one_result([](const A& a) {
    if (!a.none("dim")) {
      return prod(a.t("input"), a.i("dim"), a.b("keepdim"), a.dtype("dtype"));
    }
    if (a.b("keepdim")) throw Inexpressible{"keepdim= without dim="};
    return prod(a.t("input"), a.dtype("dtype"));
  });
  along("argmax",
        [](auto x, auto dim, bool keep) { return dim ? argmax(x, *dim, keep) : argmax(x); });
  along("argmin",
        [](auto x, auto dim, bool keep) { return dim ? argmin(x, *dim, keep) : argmin(x); });

  const auto placed = [&](const std::string& name, auto of_all, auto of_one) {
    table[name] = [=](const A& a) {
      if (a.none("dim")) return Tensors{of_all(a.t("input"))};
      const Sorted y = of_one(a.t("input"), a.i("dim"), a.b("keepdim"));
      return Tensors{y.values, y.indices};
    };
  };
  using OfAll = Tensor (*)(const Tensor&);
  using AlongOne = Sorted (*)(const Tensor&, IntArg, BoolArg);
  placed("max", OfAll(max), AlongOne(max));
  placed("min", OfAll(min), AlongOne(min));
  placed("median", OfAll(median), AlongOne(median));
  for (const std::string name : {"max", "min"}) {
    table[name] = [one = table[name], largest = name == "max"](const A& a) {
      if (a.none("other")) return one(a);
      const Tensor x = a.t("input"), y = a.t("other");
      return Tensors{largest ? max(x, y) : min(x, y)};
    };
  }
  table["quantile"] = one_result([](const A& a) {
    const std::pair<const char*, QuantileMode> modes[] = {{"linear", QuantileMode::kLinear},
                                                          {"lower", QuantileMode::kLower},
                                                          {"higher", QuantileMode::kHigher},
                                                          {"midpoint", QuantileMode::kMidpoint},
                                                          {"nearest", QuantileMode::kNearest}};
    for (const auto& [name, mode] : modes) {
      if (a.text("interpolation") != name) continue;
      const Tensor x = a.t("input");
      if (!a.is_number("q")) {
        return quantile(x, a.t("q"), a.maybe_i("dim"), a.b("keepdim"), mode);
      }
      return quantile(x, a.f("q"), a.maybe_i("dim"), a.b("keepdim"), mode);
    }
    throw Inexpressible{"interpolation=" + a.text("interpolation")};
  });
  table["cdist"] = one_result([](const A& a) { return cdist(a.t("x1"), a.t("x2"), a.f("p")); });
  table["norm"] = one_result([](const A& a) {
    return norm(a.t("input"), a.f("p"), a.dims("dim"), a.b("keepdim"), a.dtype("dtype"));
  });
  table["std_mean"] = [](const A& a) {
    const auto [s, m] = std_mean(a.t("input"), a.dims("dim"), a.f("correction"), a.b("keepdim"));
    return Tensors{s, m};
  };
  table["var_mean"] = [](const A& a) {
    const auto [v, m] = var_mean(a.t("input"), a.dims("dim"), a.f("correction"), a.b("keepdim"));
    return Tensors{v, m};
  };
  table["std"] = one_result([](const A& a) {
    return std(a.t("input"), a.dims("dim"), a.f("correction"), a.b("keepdim"));
  });
  table["var"] = one_result([](const A& a) {
    return var(a.t("input"), a.dims("dim"), a.f("correction"), a.b("keepdim"));
  });
}

void add_shapes(Table& table) {
  table["cat"] = one_result([](const A& a) { return cat(a.list("tensors"), a.i("dim")); });
  table["stack"] = one_result([](const A& a) { return stack(a.list("tensors"), a.i("dim")); });
  table["chunk"] = [](const A& a) { return chunk(a.t("input"), a.i("chunks"), a.i("dim")); };
  table["split"] = [](const A& a) {
    if (a.is_list("split_size")) return split(a.t("input"), a.ints("split_size"), a.i("dim"));
    return split(a.t("input"), a.i("split_size"), a.i("dim"));
  };
  table["unbind"] = [](const A& a) { return unbind(a.t("input"), a.i("dim")); };
  table["tensor_split"] = [](const A& a) {
    const char* how = "indices_or_sections";
    if (a.is_list(how)) return tensor_split(a.t("input"), a.ints(how), a.i("dim"));
    return tensor_split(a.t("input"), a.i(how), a.i("dim"));
  };
  table["meshgrid"] = [](const A& a) {
    const bool xy = a.text("indexing") == "xy";
    return meshgrid(a.list("tensors"), xy ? MeshIndexing::kXy : MeshIndexing::kIj);
  };
  table["broadcast_tensors"] = [](const A& a) { return broadcast_tensors(a.list("tensors")); };
  table["hstack"] = one_result([](const A& a) { return hstack(a.list("tensors")); });
  table["vstack"] = one_result([](const A& a) { return vstack(a.list("tensors")); });
  table["roll"] =
      one_result([](const A& a) { return roll(a.t("input"), a.dims("shifts"), a.dims("dims")); });
  table["diag"] = one_result([](const A& a) { return diag(a.t("input"), a.i("diagonal")); });
  table["diagonal"] = one_result(
      [](const A& a) { return diagonal(a.t("input"), a.i("offset"), a.i("dim1"), a.i("dim2")); });
  table["diag_embed"] = one_result(
      [](const A& a) { return diag_embed(a.t("input"), a.i("offset"), a.i("dim1"), a.i("dim2")); });
  table["expand"] = one_result([](const A& a) { return expand(a.t("input"), a.dims("size")); });
  table["flatten"] = one_result(
      [](const A& a) { return flatten(a.t("input"), a.i("start_dim"), a.i("end_dim")); });
  table["movedim"] = one_result(
      [](const A& a) { return movedim(a.t("input"), a.i("source"), a.i("destination")); });
  table["narrow"] = one_result(
      [](const A& a) { return narrow(a.t("input"), a.i("dim"), a.i("start"), a.i("length")); });
  table["permute"] = one_result([](const A& a) { return permute(a.t("input"), a.dims("dims")); });
  table["repeat"] = one_result([](const A& a) { return repeat(a.t("input"), a.dims("repeats")); });
  table["reshape"] = one_result([](const A& a) { return reshape(a.t("input"), a.dims("shape")); });
  table["view"] = one_result([](const A& a) { return view(a.t("input"), a.dims("size")); });
  table["select"] =
      one_result([](const A& a) { return select(a.t("input"), a.i("dim"), a.i("index")); });
  table["slice"] = one_result([](const A& a) {
    return slice(a.t("input"), a.i("dim"), a.maybe_i("start"), a.maybe_i("end"), a.i("step"));
  });
  table["squeeze"] = one_result([](const A& a) {
    if (a.none("dim")) return squeeze(a.t("input"));
    return a.is_list("dim") ? squeeze(a.t("input"), a.dims("dim"))
                            : squeeze(a.t("input"), a.i("dim"));
  });
  table["to_copy"] = one_result([](const A& a) {
    const Tensor x = a.t("input");
    return to_copy(x, x.device(), a.dtype("dtype").value_or(x.dtype()), {.copy = a.b("copy")});
  });
  table["transpose"] =
      one_result([](const A& a) { return transpose(a.t("input"), a.i("dim0"), a.i("dim1")); });
  table["unflatten"] =
      one_result([](const A& a) { return unflatten(a.t("input"), a.i("dim"), a.dims("sizes")); });
  table["unsqueeze"] = one_result([](const A& a) { return unsqueeze(a.t("input"), a.i("dim")); });
}

void add_factories(Table& table) {
  table["arange"] = one_result([](const A& a) {
    return arange(a.number("start"), a.number("end"), a.number("step"), a.options());
  });
  table["linspace"] = one_result(
      [](const A& a) { return linspace(a.f("start"), a.f("end"), a.i("steps"), a.options()); });
  table["eye"] = one_result([](const A& a) {
    return a.none("m") ? eye(a.i("n"), a.options()) : eye(a.i("n"), a.i("m"), a.options());
  });
  table["tril_indices"] = one_result(
      [](const A& a) { return tril_indices(a.i("row"), a.i("col"), a.i("offset"), a.options()); });
  table["triu_indices"] = one_result(
      [](const A& a) { return triu_indices(a.i("row"), a.i("col"), a.i("offset"), a.options()); });
  table["empty"] = one_result([](const A& a) { return empty(a.dims("size"), a.options()); });
  table["ones"] = one_result([](const A& a) { return ones(a.dims("size"), a.options()); });
  table["zeros"] = one_result([](const A& a) { return zeros(a.dims("size"), a.options()); });
  table["randn"] = one_result([](const A& a) { return randn(a.dims("size"), a.options()); });
  table["randint"] = one_result(
      [](const A& a) { return randint(a.i("low"), a.i("high"), a.dims("size"), a.options()); });
  table["full"] = one_result(
      [](const A& a) { return full(a.dims("size"), a.number("fill_value"), a.options()); });
  table["full_like"] =
      one_result([](const A& a) { return full_like(a.t("input"), a.number("fill_value")); });
}

}  // namespace

const Table& opinfo_functions() {
  static const Table table = [] {
    Table out;
    for (const auto add : {add_unary, add_binary, add_products, add_linalg, add_images, add_indices,
                           add_places, add_losses, add_margin_losses, add_norms, add_pools,
                           add_reductions, add_shapes, add_factories}) {
      add(out);
    }
    return out;
  }();
  return table;
}

}  // namespace taper::v0::test
