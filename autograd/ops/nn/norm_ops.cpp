#include "autograd/ops/nn/norm_ops.h"

#include <algorithm>
#include <atomic>
#include <limits>

#include "autograd/ops/op_helpers.h"
#include "framework/kernels/norm/norm.h"

namespace taper::v0 {
namespace {

using kernels::Norm;
using kernels::NormSizes;
using kernels::RunningStatistics;

void check_dtypes(const char* op, const Tensor& x, std::initializer_list<TensorRef> parameters) {
  kernels::check_floating(op, x);
  for (const Tensor& p : parameters) {
    if (!p.defined() || p.dtype() == x.dtype()) continue;
    require(is_half(x.dtype()) && p.dtype() == kFloat32, "expected scalar type ",
            scalar_type_name(accumulate_type(x.dtype())), " but found ",
            scalar_type_name(p.dtype()), " (parameter of ", op, " with shape ", p.shape(),
            "; its input is ", scalar_type_name(x.dtype()), ")");
  }
}

// Computes the backward pass with public functions, so that its gradients can be differentiated
// again.
void composite_backward(Gradients& g, const Norm& norm, const Tensor& given_dy, const Tensor& x,
                        const Tensor& w, DType bias_dtype) {
  const NormSizes& s = norm.sizes;
  const DType wide = accumulate_type(x.dtype());
  // The layout is [outer, groups, channels of a group, inner]. Batch norm has one channel per
  // group.
  const int64_t groups = s.groups > 0 ? s.groups : s.channels;
  const Shape parts{s.outer, groups, s.per_group(), s.inner};
  const Shape dims = s.groups > 0 ? Shape{2, 3} : Shape{0, 2, 3};
  const Shape of_group = {groups, 1, 1}, of_channel = {groups, s.per_group(), 1};
  const Tensor z = x.to(wide).reshape(parts), dy = given_dy.to(wide).reshape(parts);
  const auto mean_of = [&](const Tensor& t) { return mean(t, dims, true); };
  const Tensor centred = norm.given ? z - norm.mean.view(of_group) : norm.rms ? z : z - mean_of(z);
  const Tensor rstd =
      norm.given ? norm.rstd.view(of_group) : rsqrt(mean_of(square(centred)) + norm.eps);
  const Tensor xhat = centred * rstd;
  if (g.needs(0)) {
    const Tensor u = w.defined() ? dy * w.to(wide).reshape(of_channel) : dy;
    Tensor dx = norm.given || norm.rms ? u : u - mean_of(u);
    if (!norm.given) dx = dx - xhat * mean_of(u * xhat);
    g.dx(0) = (dx * rstd).reshape(x.shape()).to(x.dtype());
  }
  if (g.needs(1)) g.dx(1) = sum_to(dy * xhat, of_channel).reshape(w.shape()).to(w.dtype());
  if (g.needs(2)) g.dx(2) = sum_to(dy, of_channel).to(bias_dtype);
}

// Sets the gradients of x, weight and bias from dy, the gradient of norm's result. `norm` has no
// bias, unless its ReLU needs one. Returns the gradient of the residual, if the pass computes it.
Tensor put_gradients(Gradients& g, const Norm& norm, const Tensor& dy, const Tensor& x,
                     const TensorMeta& bias) {
  const Tensor& w = norm.weight;
  Tensor of_residual;
  if (is_grad_enabled()) {
    composite_backward(g, norm, dy, x, w, bias.dtype);
  } else {
    // A residual connection has sent its gradient already.
    const Tensor added = kernels::can_add(norm, x) ? g.take_sum(0) : Tensor();
    const auto [dx, of_channels, dz] =
        kernels::norm_backward(norm, dy, x, added, g.needs(0), g.needs(1) || g.needs(2));
    of_residual = dz;
    g.dx(0) = dx;
    if (g.needs(1)) g.dx(1) = of_channels.dots.reshape(w.shape()).to(w.dtype());
    if (g.needs(2)) g.dx(2) = of_channels.sums.to(bias.dtype);
  }
  if (g.needs(2)) g.dx(2) = g.dx(2).reshape(bias.shape);
  return of_residual;
}

Tensor normalised(const char* name, Norm norm, const Tensor& x, const Tensor& weight,
                  const Tensor& bias, DType result, const RunningStatistics& running = {}) {
  norm.weight = weight;
  norm.bias = bias;
  Tensor y = kernels::norm(norm, x, result, running);
  if (!needs_grad({x, weight, bias})) return y;
  norm.weight = norm.bias = {};
  return record(
      name, std::move(y), {x, weight, bias},
      [norm, x = SavedTensor(x), weight = SavedTensor(weight), b = TensorMeta(bias)](Gradients& g) {
        Norm full = norm;
        full.weight = weight.get(g);
        put_gradients(g, full, g.dy(), x.get(g), b);
      });
}

// --- layer norm and RMS norm ---

NormSizes row_sizes(const Tensor& x, const Shape& shape, const char* star) {
  require(!shape.empty(),
          "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
          "element, but got normalized_shape = []");
  const int first = x.dim() - shape.size();
  if (first < 0 || Shape(x.shape().begin() + first, x.shape().end()) != shape) {
    const std::string sizes = to_string(shape).substr(1);
    throw Error("Given normalized_shape=", shape, ", expected input with shape [", star, sizes,
                ", but got input of size", x.shape());
  }
  const int64_t outer = Shape(x.shape().begin(), x.shape().begin() + first).numel();
  return {outer, shape.numel(), 1, 1};
}

void check_row_parameter(const char* name, const Tensor& p, const Shape& shape) {
  if (!p.defined()) return;
  require(p.shape() == shape, "Expected ", name,
          " to be of same shape as normalized_shape, but got ", name, " of shape ", p.shape(),
          " and normalized_shape = ", shape);
}

// Checks the parameters and running statistics [C] of batch and instance norm.
void check_channels(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                    const Tensor& weight, const Tensor& bias) {
  require<ValueError>(
      running_mean.defined() == running_var.defined(),
      "running_mean and running_var must either both be defined or both be undefined");
  const int64_t channels = x.size(1);
  const auto check = [&](const char* name, const Tensor& p) {
    if (!p.defined()) return;
    require(p.dim() == 1 && p.numel() == channels, name, " should contain ", channels,
            " elements not ", p.numel(), ", in shape [", channels, "], got ", p.shape());
  };
  check("running_mean", running_mean);
  check("running_var", running_var);
  check("weight", weight);
  check("bias", bias);
  check_dtypes("batch_norm", x, {running_mean, running_var, weight, bias});
}

void check_count(const Tensor& x, const Tensor& batches) {
  if (!batches.defined()) return;
  kernels::same_device("batch_norm", {&x, &batches}, {"input", "num_batches_tracked"});
  require(batches.dtype() == kInt64 && batches.dim() == 0,
          "num_batches_tracked should be int64 without dimensions, got ", batches.dtype(),
          " of shape ", batches.shape());
}

// --- batch norm ---

// Completes an update by x, which the kernels have computed unless x is empty. An empty batch
// counts, too.
void note_update(const Tensor& x, const RunningStatistics& running) {
  if (x.numel() == 0 && running.batches.defined()) running.batches.add_(1);
  if (x.numel() == 0) return;
  for (const Tensor& t : {running.mean, running.var, running.batches}) {
    if (t.defined()) t.storage()->version.fetch_add(1, std::memory_order_relaxed);
  }
}

// Returns relu(y + residual), where y is the normalized x, in one pass each way. The residual may
// be undefined.
Tensor normalised_relu(Norm norm, const Tensor& x, const BatchNormFunctionOptions& o,
                       const RunningStatistics& running) {
  norm.weight = o.weight;
  norm.bias = o.bias;
  norm.residual = o.residual;
  norm.relu = true;
  Tensor y = kernels::norm(norm, x, x.dtype(), running);
  if (!needs_grad({x, o.weight, o.bias, o.residual})) return y;
  norm.weight = norm.bias = norm.residual = {};
  return record("BatchNormReluBackward", y, {x, o.weight, o.bias, o.residual},
                [norm, x = SavedTensor(x), weight = SavedTensor(o.weight),
                 bias = SavedTensor(o.bias), b = TensorMeta(o.bias), y = SavedTensor::output(y),
                 is_alone = !o.residual.defined()](Gradients& g) {
                  Norm full = norm;
                  full.weight = weight.get(g);
                  if (is_grad_enabled()) {
                    full.relu = false;
                    const Tensor dz = activation_gradient(Activation::kRelu, g.dy(), y.get(g));
                    put_gradients(g, full, dz, x.get(g), b);
                    if (g.needs(3)) g.dx(3) = dz;
                    return;
                  }
                  if (is_alone) full.bias = bias.get(g);
                  if (!is_alone) full.result = y.get(g);
                  const Tensor dz = put_gradients(g, full, g.dy(), x.get(g), b);
                  if (g.needs(3)) g.dx(3) = dz;
                });
}

// Returns whether normalised_relu() computes batch_norm() with these options. A trace must contain
// the separate ops.
bool fuses(const Tensor& x, const BatchNormFunctionOptions& o) {
  const Tensor& r = o.residual;
  const bool fits = !r.defined() || (r.shape() == x.shape() && r.dtype() == x.dtype());
  return x.is_cuda() && o.training && o.activation == Activation::kRelu && fits && !is_tracing();
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight,
                  const Tensor& bias, RealArg eps, std::optional<DType> result) {
  const bool rounds_half = is_half(x.dtype()) && result == x.dtype();
  if (autocasts(x) && !rounds_half) {
    return in_float32(layer_norm, x, normalized_shape, weight, bias, eps, result);
  }
  const DType type = result.value_or(x.dtype());
  if (type != x.dtype() && !(x.dtype() == kFloat32 && is_half(type))) {
    return layer_norm(x, normalized_shape, weight, bias, eps).to(type);
  }
  kernels::same_device("layer_norm", {&x, &weight, &bias}, {"input", "weight", "bias"});
  const Norm norm{row_sizes(x, normalized_shape, "*, "), eps};
  check_row_parameter("weight", weight, normalized_shape);
  check_row_parameter("bias", bias, normalized_shape);
  check_dtypes("LayerNormKernelImpl", x, {weight, bias});
  return traced("layer_norm", normalised("NativeLayerNormBackward0", norm, x, weight, bias, type),
                {x, weight, bias}, NormTrace{eps, normalized_shape.size()});
}

Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight,
                std::optional<double> eps) {
  kernels::same_device("rms_norm", {&x, &weight}, {"input", "weight"});
  Norm norm{row_sizes(x, normalized_shape, "*"), 0, true};
  check_row_parameter("weight", weight, normalized_shape);
  check_dtypes("rms_norm", x, {weight});
  norm.eps = eps.value_or(x.dtype() == kFloat64 ? std::numeric_limits<double>::epsilon()
                                                : std::numeric_limits<float>::epsilon());
  return traced("rms_norm", normalised("FusedRmsNormBackward0", norm, x, weight, {}, x.dtype()),
                {x, weight}, NormTrace{norm.eps, normalized_shape.size()});
}

Tensor group_norm(const Tensor& x, IntArg num_groups, const Tensor& weight, const Tensor& bias,
                  RealArg eps) {
  if (autocasts(x)) return in_float32(group_norm, x, num_groups, weight, bias, eps);
  kernels::same_device("group_norm", {&x, &weight, &bias}, {"input", "weight", "bias"});
  require(x.dim() >= 2, "Expected at least 2 dimensions for input tensor but received ", x.dim());
  require(num_groups >= 1, "Expected num groups to be greater than 0, got ", num_groups);
  const int64_t batch = x.shape()[0], channels = x.shape()[1];
  require(
      channels % num_groups == 0,
      "Expected number of channels in input to be divisible by num_groups, but got input of shape ",
      x.shape(), " and num_groups=", num_groups);
  const auto check = [&](const char* name, const Tensor& p) {
    if (!p.defined()) return;
    require(p.dim() == 1 && p.numel() == channels, "Expected ", name,
            " to be a vector of size equal to the number of channels in input, but got ", name,
            " of shape ", p.shape(), " and input of shape ", x.shape());
  };
  check("weight", weight);
  check("bias", bias);
  require<ValueError>(x.numel() != num_groups,
                      "Expected more than 1 value per channel when training, got input size ",
                      x.shape(), " (group_norm with ", num_groups, " groups)");
  check_dtypes("GroupNormKernelImpl", x, {weight, bias});
  const int64_t inner = x.numel() / std::max<int64_t>(1, batch * channels);
  // 0 channels can be divided into any number of groups, so use one.
  const int64_t groups = channels > 0 ? int64_t(num_groups) : int64_t(1);
  const Norm norm{{batch, channels, inner, groups}, eps};
  return traced("group_norm",
                normalised("NativeGroupNormBackward0", norm, x, weight, bias, x.dtype()),
                {x, weight, bias}, NormTrace{eps, num_groups});
}

Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormFunctionOptions& options) {
  const Tensor &weight = options.weight, &bias = options.bias;
  const bool training = options.training;
  const double eps = options.eps;
  kernels::same_device("batch_norm",
                       {&x, &running_mean, &running_var, &weight, &bias, &options.residual},
                       {"input", "running_mean", "running_var", "weight", "bias", "residual"});
  require(x.dim() >= 2, "batch_norm expects an input [N, C, ...], got shape ", x.shape());
  require<ValueError>(!(eps <= 0), "batch_norm eps must be positive, but got ", eps);
  const int64_t channels = x.shape()[1];
  require<ValueError>(!training || x.numel() != channels || channels == 0,
                      "Expected more than 1 value per channel when training, got input size ",
                      x.shape());
  for (const bool mean : {true, false}) {
    require(training || (mean ? running_mean : running_var).defined(),
            mean ? "running_mean" : "running_var", " must be defined in evaluation mode");
  }
  check_channels(x, running_mean, running_var, weight, bias);
  check_count(x, options.num_batches_tracked);
  const int64_t inner = x.numel() / std::max<int64_t>(1, x.shape()[0] * channels);
  const Norm norm{{x.shape()[0], channels, inner, 0}, eps, false, !training};
  const bool is_fused = fuses(x, options);
  const RunningStatistics running{running_mean, running_var, options.num_batches_tracked,
                                  options.momentum};
  Tensor y =
      is_fused ? normalised_relu(norm, x, options, running)
               : normalised("NativeBatchNormBackward0", norm, x, weight, bias, x.dtype(), running);
  if (!training) {
    trace("batch_norm", y, {x, weight, bias, running_mean, running_var}, NormTrace{eps});
  }
  if (training) note_update(x, running);
  if (is_fused) return y;
  return activated(options.residual.defined() ? y + options.residual : y, options.activation);
}

Tensor instance_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                     const InstanceNormFunctionOptions& options) {
  const Tensor &weight = options.weight, &bias = options.bias;
  const double momentum = options.momentum, eps = options.eps;
  if (!options.use_input_stats) {
    require(running_mean.defined() && running_var.defined(),
            "Expected running_mean and running_var to be defined when use_input_stats is false");
    return batch_norm(x, running_mean, running_var,
                      {.weight = weight, .bias = bias, .momentum = momentum, .eps = eps});
  }
  Shape inner;
  for (int d = 2; d < x.dim(); ++d) inner.push_back(d);
  require<ValueError>(x.dim() >= 3 && Shape(x.shape().begin() + 2, x.shape().end()).numel() != 1,
                      "Expected more than 1 spatial element when training, got input size ",
                      x.shape());
  check_channels(x, running_mean, running_var, weight, bias);
  const Tensor y = group_norm(x, x.size(1), weight, bias, eps);
  if (running_mean.defined() && x.numel() > 0) {
    const NoGradGuard no_grad;
    const auto [variance, average] = var_mean(x.to(accumulate_type(x.dtype())), inner);
    running_mean.mul_(1 - momentum).add_(mean(average, {0}), momentum);
    running_var.mul_(1 - momentum).add_(mean(variance, {0}), momentum);
  }
  return y;
}

Tensor normalize(const Tensor& x, RealArg p, IntArg dim, RealArg eps) {
  return x / clamp(norm(x, p, {dim}, true), eps);
}

Tensor normalize(const Tensor& x, const NormalizeOptions& options) {
  return normalize(x, options.p, options.dim, options.eps);
}

}  // namespace taper::v0
