#include <algorithm>
#include <cmath>
#include <functional>

#include "autograd/engine.h"
#include "framework/kernels/elementwise/copy.h"
#include "testing/golden_update.h"
#include "testing/verdict.h"

namespace taper::v0::test {
namespace {

// Returns by how much the difference exceeds the tolerance; at most 0 if it does not.
double excess(double got, double want, double rtol, double atol) {
  if (got == want || (std::isnan(want) && std::isnan(got))) return 0;
  const double beyond = std::abs(got - want) - (atol + rtol * std::abs(want));
  return std::isfinite(beyond) ? beyond : HUGE_VAL;
}

Tensor on_host(const Tensor& x) {
  const Tensor host = Tensor::make(x.shape(), x.dtype(), Device());
  kernels::copy_into(host, x);
  return host;
}

}  // namespace

std::string place(const Shape& shape, size_t flat) {
  Shape at = shape;
  for (int d = shape.size() - 1; d >= 0; --d) {
    at[d] = int64_t(flat) % shape[d];
    flat /= size_t(shape[d]);
  }
  return to_string(at);
}

std::vector<double> values_of(const Tensor& x) { return on_host(x).to_vector<double>(); }

Verdict tensor_close(const Tensor& got, const Tensor& want, double rtol, double atol) {
  if (!got.defined()) return {"the tensor is undefined"};
  if (!want.defined()) return {"the expected tensor is undefined"};
  if (got.shape() != want.shape()) {
    return {concat_to_string("shape ", got.shape(), ", expected ", want.shape())};
  }
  const std::vector<double> a = values_of(got), b = values_of(want);
  size_t bad = 0, first = 0, worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double beyond = excess(a[i], b[i], rtol, atol);
    if (beyond <= 0) continue;
    if (bad++ == 0) first = worst = i;
    if (beyond > excess(a[worst], b[worst], rtol, atol)) worst = i;
  }
  if (bad == 0) return {};
  const auto show = [&](size_t i) {
    return concat_to_string(place(got.shape(), i), ": ", a[i], ", expected ", b[i]);
  };
  const std::string far = worst == first ? "" : "; furthest off at " + show(worst);
  return {concat_to_string(bad, " of ", a.size(), " elements differ; at ", show(first), far,
                           " (rtol ", rtol, ", atol ", atol, ", ", name_of(got.dtype()), " on ",
                           got.device(), ")")};
}

Verdict same_bits(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) {
    return {concat_to_string(name_of(a.dtype()), " ", a.shape(), " against ", name_of(b.dtype()),
                             " ", b.shape())};
  }
  const Tensor left = on_host(a), right = on_host(b);
  const char* x = static_cast<const char*>(left.data_ptr());
  const char* y = static_cast<const char*>(right.data_ptr());
  for (size_t i = 0; i < left.nbytes(); ++i) {
    if (x[i] == y[i]) continue;
    const size_t element = i / a.element_size();
    return {concat_to_string("other bits at ", place(a.shape(), element), ": ",
                             values_of(a)[element], " against ", values_of(b)[element])};
  }
  return {};
}

Verdict passes_gradcheck(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                         const std::vector<Tensor>& inputs) {
  try {
    gradcheck(f, inputs);
    return {};
  } catch (const Error& error) {
    return {error.what()};
  }
}

Verdict passes_gradgradcheck(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                             const std::vector<Tensor>& inputs) {
  try {
    gradgradcheck(f, inputs);
    return {};
  } catch (const Error& error) {
    return {error.what()};
  }
}

}  // namespace taper::v0::test
