// Times the rows of the op table. Prints the microseconds of a forward call and of forward and
// backward, and the bytes or floating-point operations per second. No test depends on timings.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <functional>

#include "autograd/engine.h"
#include "framework/cuda/cuda.h"
#include "framework/factory/factories.h"
#include "tests/op_table/op_table.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

constexpr int kRepeats = 9;

double seconds_a_repeat(Device device) { return device.is_cuda() ? 0.003 : 0.02; }

// Returns the seconds of a clock.
using Clock = double (*)();
double wall_clock() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
double processor_clock() { return double(std::clock()) / CLOCKS_PER_SEC; }

void wait_for(Device device) {
  if (device.is_cuda()) cuda::synchronize(device.index());
}

// Returns the median time of a call in microseconds, over repeats of at least seconds_a_repeat.
double microseconds(Device device, Clock now, const std::function<void()>& f) {
  f();
  wait_for(device);
  int calls = 1;
  std::vector<double> times;
  while (times.size() < kRepeats) {
    const double start = now();
    for (int i = 0; i < calls; ++i) f();
    wait_for(device);
    const double seconds = now() - start;
    if (seconds < seconds_a_repeat(device) && calls < 1 << 20) {
      calls *= 2;
      continue;
    }
    times.push_back(seconds / calls * 1e6);
  }
  std::nth_element(times.begin(), times.begin() + kRepeats / 2, times.end());
  return times[kRepeats / 2];
}

// Returns whether a row accepts arguments of these shapes. The functions of some rows fix sizes.
bool takes(const Row& row, const std::vector<Shape>& shapes, Device device) try {
  Row one = row;
  one.samples = {shapes};
  const NoGradGuard no_grad;
  (void)row.f(arguments(one, 0, kFloat32, device));
  wait_for(device);
  return true;
} catch (const Error&) {
  return false;
}

// The shape on which element-wise rows are timed. On a GPU it is repeated 4 x 4 to exceed the
// cache.
const Shape kMany = {1024, 1024};

Tensor enlarged(const Tensor& x) {
  return x.device().is_cuda() && x.shape() == kMany ? x.repeat({4, 4}) : x;
}

// Returns the bytes per nanosecond that a copy reads and writes.
double copy_rate(DType dtype, Device device, Clock now) {
  const NoGradGuard no_grad;
  const Tensor x = enlarged(filled(kMany, {-1, 1}, 1, dtype, device));
  return 2 * double(x.nbytes()) / microseconds(device, now, [&] { (void)x.clone(); }) * 1e-3;
}

// Returns the row with the shapes to be timed as its only sample.
Row timed(const Row& row, Device device) {
  const auto numel = [](const std::vector<Shape>& shapes) {
    int64_t n = 0;
    for (const Shape& s : shapes) n += s.numel();
    return n;
  };
  const auto alike = [](const std::vector<Shape>& shapes) {
    return std::all_of(shapes.begin(), shapes.end(),
                       [&](const Shape& s) { return s == shapes[0]; });
  };
  Row out = row;
  out.samples = {row.bench};
  if (!row.bench.empty()) return out;
  const auto sample = std::find_if(row.samples.begin(), row.samples.end(), alike);
  if (sample != row.samples.end()) {
    out.samples[0].assign(sample->size(), kMany);
    if (takes(row, out.samples[0], device)) return out;
  }
  out.samples[0] =
      *std::max_element(row.samples.begin(), row.samples.end(),
                        [&](const auto& a, const auto& b) { return numel(a) < numel(b); });
  return out;
}

void bench_row(const Row& row, DType dtype, Device device, Clock now, double copy) {
  Tensors x = arguments(row, 0, dtype, device);
  if (row.bench.empty() && !row.flops) std::ranges::transform(x, x.begin(), enlarged);
  double bytes = 0;
  for (const Tensor& t : x) bytes += double(t.nbytes());
  Tensor y;
  double forward;
  {
    const NoGradGuard no_grad;
    y = row.f(x);
    forward = microseconds(device, now, [&] { (void)row.f(x); });
  }
  bytes += double(y.nbytes());
  double both = 0;
  if (row.derivative != Derivative::kNone) {
    Tensors leaves;
    for (size_t i = 0; i < x.size(); ++i) {
      if (!row.domain(i).dtype) leaves.push_back(x[i].requires_grad_());
    }
    const Tensor dy = ones_like(y);
    both = microseconds(device, now,
                        [&] { (void)grad({row.f(x)}, leaves, {dy}, false, false, true); });
  }
  std::string shapes;
  for (const Tensor& t : x) shapes += concat_to_string(shapes.empty() ? "" : " ", t.shape());
  const double rate = (row.flops ? row.flops(row.samples[0]) : bytes) / forward * 1e-3;
  std::printf("%-44s %-8s %-9s %-36s %10.2f %10.2f %9.1f %-7s", row.title().c_str(),
              to_string(device).c_str(), name_of(dtype), shapes.c_str(), forward, both, rate,
              row.flops ? "GFLOP/s" : "GB/s");
  std::printf(row.flops ? "\n" : " %5.2f\n", rate / copy);
  std::fflush(stdout);
}

}  // namespace

void bench_rows(const std::string& part, const std::string& on, bool of_processor) {
  const Clock now = of_processor ? processor_clock : wall_clock;
  std::printf("%-44s %-8s %-9s %-36s %10s %10s %9s %-7s %5s\n", "operator", "device", "dtype",
              "arguments", "forward us", "both us", "rate", "", "copy's");
  const std::vector<Row>& rows = all_rows();
  const bool is_title = std::ranges::any_of(rows, [&](auto& row) { return row.title() == part; });
  for (const Device device : all_devices()) {
    if (!on.empty() && device.type() != Device(on).type()) continue;
    for (const DType dtype : {kFloat32, kBFloat16}) {
      // The CPU converts half types and computes in float, so one dtype suffices.
      if (dtype != kFloat32 && !device.is_cuda()) continue;
      const double copy = copy_rate(dtype, device, now);
      for (const Row& row : rows) {
        const bool meant =
            is_title ? row.title() == part : row.title().find(part) != std::string::npos;
        const bool held =
            std::find(row.dtypes.begin(), row.dtypes.end(), dtype) != row.dtypes.end();
        if (!meant || !held || row.samples.empty()) continue;
        try {
          bench_row(timed(row, device), dtype, device, now, copy);
        } catch (const OutOfMemoryError&) {
          std::printf("%-44s %-8s %-9s out of memory\n", row.title().c_str(),
                      to_string(device).c_str(), name_of(dtype));
        }
      }
    }
  }
}

}  // namespace taper::v0::test
