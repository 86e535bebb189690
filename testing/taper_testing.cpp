#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <set>

#include "autograd/engine.h"
#include "framework/io/safetensors.h"
#include "framework/kernels/elementwise/copy.h"
#include "testing/verdict.h"

namespace taper::v0::test {
namespace {

namespace fs = std::filesystem;

// Returns by how much the difference exceeds the tolerance; at most 0 if it does not.
double excess(double got, double want, double rtol, double atol) {
  if (got == want || (std::isnan(want) && std::isnan(got))) return 0;
  const double beyond = std::abs(got - want) - (atol + rtol * std::abs(want));
  return std::isfinite(beyond) ? beyond : HUGE_VAL;
}

std::string place(const Shape& shape, size_t flat) {
  Shape at = shape;
  for (int d = shape.size() - 1; d >= 0; --d) {
    at[d] = int64_t(flat) % shape[d];
    flat /= size_t(shape[d]);
  }
  return to_string(at);
}

Tensor on_host(const Tensor& x) {
  const Tensor host = Tensor::make(x.shape(), x.dtype(), Device());
  kernels::copy_into(host, x);
  return host;
}

bool updates_golden() {
  const char* on = std::getenv("TAPER_UPDATE_GOLDEN");
  return on != nullptr && std::string(on) == "1";
}

Verdict compare(const Tensor& got, const Tensor& want, double rtol, double atol) {
  if (rtol == 0 && atol == 0) return same_bits(got, want);
  if (got.dtype() == want.dtype()) return tensor_close(got, want, rtol, atol);
  return {concat_to_string(name_of(got.dtype()), ", expected ", name_of(want.dtype()))};
}

}  // namespace

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

Verdict matches_golden(const std::vector<NamedTensor>& got, const fs::path& file, double rtol,
                       double atol) {
  if (updates_golden()) save_safetensors(file.string(), got);
  if (!fs::exists(file)) {
    return {concat_to_string("there is no ", file.string(),
                             ": run with TAPER_UPDATE_GOLDEN=1 to write it, and look at it")};
  }
  const std::vector<NamedTensor> golden = load_safetensors(file.string()).tensors;
  const auto names = [](const std::vector<NamedTensor>& tensors) {
    std::set<std::string> sorted;
    for (const NamedTensor& x : tensors) sorted.insert(x.name);
    std::string out;
    for (const std::string& name : sorted)
      out += concat_to_string(out.empty() ? "" : ", ", "\"", name, "\"");
    return concat_to_string("{ ", out, " }");
  };
  if (names(got) != names(golden)) {
    return {concat_to_string(names(got), ", ", file.string(), " has ", names(golden))};
  }
  for (const NamedTensor& mine : got) {
    const auto same = [&](const NamedTensor& x) { return x.name == mine.name; };
    const Verdict result =
        compare(mine.tensor, std::ranges::find_if(golden, same)->tensor, rtol, atol);
    if (!result) return {concat_to_string(file.string(), ", ", mine.name, ": ", result.failure)};
  }
  return {};
}

Verdict matches_golden(const Tensor& got, const fs::path& file, double rtol, double atol) {
  return matches_golden(std::vector<NamedTensor>{{"tensor", got}}, file, rtol, atol);
}

Verdict matches_golden(const fs::path& run, const fs::path& file, double rtol, double atol) {
  const SafeTensors model = load_safetensors((run / "model.safetensors").string());
  return matches_golden(model.tensors, file, rtol, atol);
}

}  // namespace taper::v0::test
