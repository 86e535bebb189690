// The ONNX form of element-wise ops, and functions that other rows share.
#include <cmath>
#include <numbers>

#include "framework/kernels/elementwise/binary.h"
#include "framework/kernels/elementwise/unary.h"
#include "modules/onnx/onnx_graph.h"

namespace taper::v0::onnx_export {

using std::string;

string with(OpWriter& w, const char* onnx, const string& x, double number) {
  return w.add(onnx, {x, w.number(number, w.dtype())});
}
string x_of(OpWriter& w) { return w.in(0, w.dtype()); }

namespace {

string gelu(OpWriter& w, const string& x, bool tanh_form) {
  string inner;
  if (tanh_form) {
    const string cube = w.add("Mul", {w.add("Mul", {x, x}), x});
    const string sum = w.add("Add", {x, with(w, "Mul", cube, 0.044715)});
    inner = w.add("Tanh", {with(w, "Mul", sum, std::sqrt(2 / std::numbers::pi))});
  } else {
    inner = w.add("Erf", {with(w, "Mul", x, 1 / std::numbers::sqrt2)});
  }
  return with(w, "Mul", w.add("Mul", {x, with(w, "Add", inner, 1)}), 0.5);
}

}  // namespace

string activated(OpWriter& w, const string& x, Activation activation) {
  if (activation == Activation::kNone) return x;
  if (activation == Activation::kRelu) return w.add("Relu", {x});
  return gelu(w, x, activation == Activation::kGeluTanh);
}

namespace {

const kernels::UnaryArgs& unary_args(OpWriter& w) { return w.options<kernels::UnaryArgs>(); }
string square(OpWriter& w) { return w.add("Mul", {x_of(w), x_of(w)}); }
string rsqrt(OpWriter& w) { return w.add("Reciprocal", {w.add("Sqrt", {x_of(w)})}); }
string expm1(OpWriter& w) { return with(w, "Sub", w.add("Exp", {x_of(w)}), 1); }
string log1p(OpWriter& w) { return w.add("Log", {with(w, "Add", x_of(w), 1)}); }
string log2(OpWriter& w) { return with(w, "Div", w.add("Log", {x_of(w)}), std::numbers::ln2); }
string log10(OpWriter& w) { return with(w, "Div", w.add("Log", {x_of(w)}), std::numbers::ln10); }
string exp2(OpWriter& w) { return w.add("Pow", {w.number(2, w.dtype()), x_of(w)}); }
string cut(OpWriter& w, const string& x) {
  return w.add("Mul", {w.add("Sign", {x}), w.add("Floor", {w.add("Abs", {x})})});
}
string trunc(OpWriter& w) { return cut(w, x_of(w)); }
string frac(OpWriter& w) { return w.add("Sub", {x_of(w), trunc(w)}); }
string with_alpha(OpWriter& w) {
  return w.add(w.onnx, {x_of(w)}, {{"alpha", float(unary_args(w).a)}});
}
string hardsigmoid(OpWriter& w) {
  return w.add("HardSigmoid", {x_of(w)}, {{"alpha", 1.F / 6}, {"beta", 0.5F}});
}
string mish(OpWriter& w) {
  return w.add("Mul", {x_of(w), w.add("Tanh", {w.add("Softplus", {x_of(w)})})});
}
string logsigmoid(OpWriter& w) {
  return w.add("Neg", {w.add("Softplus", {w.add("Neg", {x_of(w)})})});
}
template <bool kSoft> string shrink(OpWriter& w) {
  const auto lambda = float(unary_args(w).a);
  return w.add("Shrink", {x_of(w)}, {{"lambd", lambda}, {"bias", kSoft ? lambda : 0.F}});
}
string silu(OpWriter& w) { return w.add("Mul", {x_of(w), w.add("Sigmoid", {x_of(w)})}); }
// Writes softplus. Above the threshold, PyTorch's formula and ONNX's differ by less than the
// precision of float32.
string softplus(OpWriter& w) {
  const double beta = unary_args(w).a;
  if (beta == 1) return w.add("Softplus", {x_of(w)});
  return with(w, "Div", w.add("Softplus", {with(w, "Mul", x_of(w), beta)}), beta);
}
string clamp(OpWriter& w) {
  const auto bound = [&](double b) { return std::isinf(b) ? "" : w.number(b, w.dtype()); };
  return w.add("Clip", {x_of(w), bound(unary_args(w).a), bound(unary_args(w).b)});
}
string tanhshrink(OpWriter& w) { return w.add("Sub", {x_of(w), w.add("Tanh", {x_of(w)})}); }
string gelu_erf(OpWriter& w) { return gelu(w, x_of(w), false); }
string gelu_tanh(OpWriter& w) { return gelu(w, x_of(w), true); }
string asked(OpWriter& w) { return w.add(w.onnx, {w.in()}); }
string isfinite(OpWriter& w) {
  return w.add("Not", {w.add("Or", {w.add("IsNaN", {w.in()}), w.add("IsInf", {w.in()})})});
}

// Returns b times alpha.
string scaled(OpWriter& w) {
  const double alpha = w.options<kernels::BinaryArgs>().a;
  const string b = w.in(1, w.dtype());
  return alpha == 1 ? b : with(w, "Mul", b, alpha);
}
string add(OpWriter& w) { return w.add(w.dtype() == kBool ? "Or" : "Add", {x_of(w), scaled(w)}); }
string mul(OpWriter& w) {
  return w.add(w.dtype() == kBool ? "And" : "Mul", {x_of(w), w.in(1, w.dtype())});
}
string sub(OpWriter& w) { return w.add("Sub", {x_of(w), scaled(w)}); }
string floor_divide(OpWriter& w) {
  if (!is_floating_point(w.dtype())) w.refuse("of integers has no ONNX form: Div cuts towards 0");
  return w.add("Floor", {w.add("Div", {x_of(w), w.in(1, w.dtype())})});
}
string div_trunc(OpWriter& w) {
  const string quotient = w.add("Div", {x_of(w), w.in(1, w.dtype())});
  return is_floating_point(w.dtype()) ? cut(w, quotient) : quotient;
}
string glu(OpWriter& w) { return w.add("Mul", {x_of(w), w.add("Sigmoid", {w.in(1, w.dtype())})}); }
string isclose(OpWriter& w) {
  const auto [rtol, atol] = w.options<kernels::BinaryArgs>();
  const DType type = is_floating_point(w.dtype()) ? w.dtype() : kFloat32;
  const string a = w.in(0, type), b = w.in(1, type), d = w.add("Abs", {w.add("Sub", {a, b})});
  const string share = w.add("Abs", {w.add("Mul", {b, w.number(rtol, type)})});
  const string near = w.add("LessOrEqual", {d, w.add("Add", {share, w.number(atol, type)})});
  const string finite = w.add("Not", {w.add("IsInf", {d})});
  return w.add("Or", {w.add("Equal", {a, b}), w.add("And", {near, finite})});
}
string difference(OpWriter& w) { return w.add("Sub", {x_of(w), w.in(1, w.dtype())}); }
string mse_loss(OpWriter& w) {
  const string d = difference(w);
  return w.add("Mul", {d, d});
}
string l1_loss(OpWriter& w) { return w.add("Abs", {difference(w)}); }
string huber_loss(OpWriter& w) {
  const string d = l1_loss(w), near = with(w, "Min", d, w.options<kernels::BinaryArgs>().a);
  return w.add("Mul", {near, w.add("Sub", {d, with(w, "Mul", near, 0.5)})});
}
string bce_with_logits(OpWriter& w) {
  const string x = x_of(w), other = w.add("Sub", {w.number(1, w.dtype()), w.in(1, w.dtype())});
  return w.add("Add", {w.add("Mul", {other, x}), w.add("Softplus", {w.add("Neg", {x})})});
}
string remainder(OpWriter& w) {
  const string a = x_of(w), b = w.in(1, w.dtype());
  if (!is_floating_point(w.dtype())) return w.add("Mod", {a, b});
  return w.add("Sub", {a, w.add("Mul", {b, w.add("Floor", {w.add("Div", {a, b})})})});
}
string fmod(OpWriter& w) {
  return w.add("Mod", {x_of(w), w.in(1, w.dtype())}, {{"fmod", int64_t(1)}});
}
string logaddexp(OpWriter& w) {
  const string a = x_of(w), b = w.in(1, w.dtype());
  const string distance = w.add("Neg", {w.add("Abs", {w.add("Sub", {a, b})})});
  const string rest = w.add("Log", {with(w, "Add", w.add("Exp", {distance}), 1)});
  return w.add("Add", {w.add("Max", {a, b}), rest});
}
string third(OpWriter& w) { return w.in(2, w.dtype()); }
string clamp_tensors(OpWriter& w) {
  return w.add("Min", {w.add("Max", {x_of(w), w.in(1, w.dtype())}), third(w)});
}
string lerp(OpWriter& w) {
  const string way = w.add("Sub", {w.in(1, w.dtype()), x_of(w)});
  return w.add("Add", {x_of(w), w.add("Mul", {third(w), way})});
}
string add_combined(OpWriter& w) {
  const string scaled = with(w, "Mul", w.in(1, w.dtype()), w.options<double>());
  return w.add("Add", {x_of(w), w.add(w.onnx, {scaled, third(w)})});
}
string compare(OpWriter& w) {
  const DType dtype = kernels::result_type({&w.x(0), &w.x(1)});
  return w.add(w.onnx, w.all_in(dtype));
}
string ne(OpWriter& w) { return w.add("Not", {compare(w)}); }
string logical(OpWriter& w) { return w.add(w.onnx, w.all_in(kBool)); }
string where(OpWriter& w) {
  return w.add("Where", {w.in(0, kBool), w.in(1, w.dtype()), w.in(2, w.dtype())});
}

constexpr OnnxRow kElementwiseRows[] = {
    {"neg", "Neg"},
    {"abs", "Abs"},
    {"sign", "Sign"},
    {"square", nullptr, square},
    {"sqrt", "Sqrt"},
    {"rsqrt", nullptr, rsqrt},
    {"reciprocal", "Reciprocal"},
    {"exp", "Exp"},
    {"expm1", nullptr, expm1},
    {"log", "Log"},
    {"log1p", nullptr, log1p},
    {"log2", nullptr, log2},
    {"log10", nullptr, log10},
    {"exp2", nullptr, exp2},
    {"sin", "Sin"},
    {"cos", "Cos"},
    {"tan", "Tan"},
    {"asin", "Asin"},
    {"acos", "Acos"},
    {"atan", "Atan"},
    {"sinh", "Sinh"},
    {"cosh", "Cosh"},
    {"tanh", "Tanh"},
    {"sigmoid", "Sigmoid"},
    {"erf", "Erf"},
    {"floor", "Floor"},
    {"ceil", "Ceil"},
    {"round", "Round"},
    {"trunc", nullptr, trunc},
    {"frac", nullptr, frac},
    {"relu", "Relu"},
    {"leaky_relu", "LeakyRelu", with_alpha},
    {"elu", "Elu", with_alpha},
    {"selu", "Selu"},
    {"celu", "Celu", with_alpha},
    {"hardsigmoid", nullptr, hardsigmoid},
    {"hardswish", "HardSwish"},
    {"mish", nullptr, mish},
    {"logsigmoid", nullptr, logsigmoid},
    {"hardshrink", nullptr, shrink<false>},
    {"softshrink", nullptr, shrink<true>},
    {"softsign", "Softsign"},
    {"tanhshrink", nullptr, tanhshrink},
    {"prelu", "PRelu"},
    {"gelu", nullptr, gelu_erf},
    {"gelu_tanh", nullptr, gelu_tanh},
    {"silu", nullptr, silu},
    {"softplus", nullptr, softplus},
    {"clamp", nullptr, clamp},
    {"logical_not", "Not", logical},
    {"isnan", "IsNaN", asked},
    {"isinf", "IsInf", asked},
    {"isfinite", nullptr, isfinite},
    {"add", nullptr, add},
    {"sub", nullptr, sub},
    {"mul", nullptr, mul},
    {"div", "Div"},
    {"pow", "Pow"},
    {"maximum", "Max"},
    {"minimum", "Min"},
    {"floor_divide", nullptr, floor_divide},
    {"glu", nullptr, glu},
    {"isclose", nullptr, isclose},
    {"mse_loss", nullptr, mse_loss},
    {"l1_loss", nullptr, l1_loss},
    {"huber_loss", nullptr, huber_loss},
    {"bce_with_logits", nullptr, bce_with_logits},
    {"remainder", nullptr, remainder},
    {"div_trunc", nullptr, div_trunc},
    {"fmod", nullptr, fmod},
    {"logaddexp", nullptr, logaddexp},
    {"clamp_tensors", nullptr, clamp_tensors},
    {"lerp", nullptr, lerp},
    {"addcmul", "Mul", add_combined},
    {"addcdiv", "Div", add_combined},
    {"eq", "Equal", compare},
    {"ne", "Equal", ne},
    {"lt", "Less", compare},
    {"le", "LessOrEqual", compare},
    {"gt", "Greater", compare},
    {"ge", "GreaterOrEqual", compare},
    {"logical_and", "And", logical},
    {"logical_or", "Or", logical},
    {"logical_xor", "Xor", logical},
    {"where", nullptr, where},
};

}  // namespace

std::span<const OnnxRow> elementwise_rows() { return kElementwiseRows; }

}  // namespace taper::v0::onnx_export
