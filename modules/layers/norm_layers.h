// Normalization layers (https://pytorch.org/docs/stable/nn.html#normalization-layers).
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "framework/base/describe.h"
#include "framework/kernels/elementwise/activation.h"
#include "modules/members.h"

namespace taper::v0::distributed {
class Communicator;  // framework/distributed/communicator.h
}

namespace taper::v0 {

struct BatchNormOptions {
  double eps = 1e-5;
  // if std::nullopt, running statistics are averages over all batches
  std::optional<double> momentum = 0.1;
  bool affine = true;
  bool track_running_stats = true;
  Device device = DeviceType::kCpu;
};

// Base class of normalization per channel with running statistics (PyTorch: _NormBase).
template <class LayerOptions> class RunningNorm : public Module {
 public:
  using Options = LayerOptions;

  std::string extra_repr() const override;
  // Resets means to 0, variances to 1 and the number of batches to 0.
  void reset_running_stats();

  int64_t num_features;
  Options options;
  std::optional<double> momentum;                         // options.momentum, unless it was changed
  Parameter weight, bias;                                 // undefined if affine is false
  Buffer running_mean, running_var, num_batches_tracked;  // undefined unless statistics are tracked
  // A frozen layer uses its running statistics also in training mode, and does not change them, as
  // torchvision's FrozenBatchNorm2d does. Has no effect if none are tracked.
  bool is_frozen = false;

 protected:
  RunningNorm(IntArg num_features, const Options& options);
  bool by_batch() const { return (is_training() && !is_frozen) || !options.track_running_stats; }
  bool tracks() const { return by_batch() && options.track_running_stats; }
};

class BatchNormBase : public RunningNorm<BatchNormOptions> {
 public:
  Tensor forward(const Tensor& x) override { return applied(x, Activation::kNone, {}); }
  using Module::operator();
  // Returns activation(y + residual), in one pass if batch_norm() can. The residual may be
  // undefined.
  Tensor operator()(const Tensor& x, Activation activation, const Tensor& residual = {});
  // In training mode, the statistics are computed over the batches of all of these ranks together.
  // If `ranks` is null, they are computed over this process's batch only.
  void set_ranks(const distributed::Communicator* ranks);

 protected:
  BatchNormBase(int dims, IntArg num_features, const BatchNormOptions& options);

 private:
  // What follows the normalization.
  struct Then {
    Activation activation;
    const Tensor& residual;
  };
  // The statistics that a batch updates, by this weight. `batches` is undefined if they are not
  // counted.
  struct Running {
    Tensor mean, var, batches;
    double weight;
  };
  Tensor applied(const Tensor& x, Activation activation, const Tensor& residual);
  Tensor with_cumulative_average(const Tensor& x, const Then& then);
  Tensor normalised(const Tensor& x, const Running& running, const Then& then) const;

  int dims_;
  std::shared_ptr<distributed::Communicator> ranks_;
};

// Normalizes each channel over all other dimensions. x is [N, num_features, D, H, W] (kDims 3), [N,
// num_features, H, W] (kDims 2), [N, num_features, L] or [N, num_features] (kDims 1). In training
// mode it uses the mean and variance of the batch, and updates the running statistics with them. In
// evaluation mode it uses the running statistics, or those of the batch if none are tracked.
template <int kDims> class BatchNorm : public Cloneable<BatchNorm<kDims>, BatchNormBase> {
 public:
  explicit BatchNorm(IntArg features, const BatchNormOptions& o = {})
      : BatchNorm::Cloneable(kDims, features, o) {}
  std::string type_name() const override { return concat_to_string("BatchNorm", kDims, "d"); }
};
using BatchNorm1d = BatchNorm<1>;
using BatchNorm2d = BatchNorm<2>;
using BatchNorm3d = BatchNorm<3>;

// Synchronizes every BatchNorm in the module over all ranks (PyTorch:
// SyncBatchNorm.convert_sync_batchnorm).
void sync_batch_norms(Module& module, const distributed::Communicator& ranks);

// Recomputes the running statistics of every BatchNorm in the module by one pass over the batches.
// A batch is a tensor, or a tuple whose first element is the input. Nothing else in the module
// changes (https://pytorch.org/docs/stable/generated/torch.optim.swa_utils.update_bn.html).
void with_new_statistics(Module& module, const std::function<void()>& pass);
template <class Batches> void update_bn(Batches&& batches, Module& module) {
  const auto run = [&] {
    for (const auto& batch : batches) {
      if constexpr (requires { std::get<0>(batch); }) {
        (void)module(std::get<0>(batch));
      } else {
        (void)module(batch);
      }
    }
  };
  with_new_statistics(module, run);
}

struct GroupNormOptions {
  double eps = 1e-5;
  bool affine = true;
  Device device = DeviceType::kCpu;
};

// Normalizes x [N, num_channels, ...] per sample over groups of channels.
class GroupNorm : public Cloneable<GroupNorm> {
 public:
  using Options = GroupNormOptions;

  GroupNorm(IntArg num_groups, IntArg num_channels, GroupNormOptions options = {});

  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

  int64_t num_groups, num_channels;
  GroupNormOptions options;
  Parameter weight, bias;  // undefined if affine is false
};

struct InstanceNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;  // weight of a new batch in the running statistics
  bool affine = false;
  bool track_running_stats = false;
  Device device = DeviceType::kCpu;

  template <class V> void describe(V& v) {
    v("eps", eps, kPositive, "added to the denominator for numerical stability");
    v("momentum", momentum, kUnit, "weight of the new batch in the running statistics");
    v("affine", affine, "learn a weight and a bias");
    v("track_running_stats", track_running_stats, "use running statistics in evaluations");
  }
};

// Normalizes x [N, num_features, D, H, W] (kDims 3), [N, num_features, H, W] (kDims 2) or [N,
// num_features, L] (kDims 1), with or without N, per sample and channel. It uses the mean and
// variance of the sample's channel. In evaluation mode it uses the running statistics if they are
// tracked.
template <int kDims>
class InstanceNorm : public Cloneable<InstanceNorm<kDims>, RunningNorm<InstanceNormOptions>> {
 public:
  explicit InstanceNorm(IntArg features, const InstanceNormOptions& o = {})
      : InstanceNorm::Cloneable(features, o) {}
  Tensor forward(const Tensor& x) override;
  std::string type_name() const override { return concat_to_string("InstanceNorm", kDims, "d"); }
};
using InstanceNorm1d = InstanceNorm<1>;
using InstanceNorm2d = InstanceNorm<2>;
using InstanceNorm3d = InstanceNorm<3>;

struct LayerNormOptions {
  double eps = 1e-5;
  bool elementwise_affine = true;
  bool bias = true;
  Device device = DeviceType::kCpu;
};

// Normalizes over the last dimensions, which must be normalized_shape.
class LayerNorm : public Cloneable<LayerNorm> {
 public:
  using Options = LayerNormOptions;

  explicit LayerNorm(const Shape& normalized_shape, LayerNormOptions options = {});
  explicit LayerNorm(std::initializer_list<int64_t> shape, LayerNormOptions o = {})
      : LayerNorm(Shape(shape), o) {}

  Tensor forward(const Tensor& x) override;
  using Module::operator();
  // Returns y.to(result) without a separate pass.
  Tensor operator()(const Tensor& x, std::optional<DType> result);
  std::string extra_repr() const override;

  Shape normalized_shape;
  LayerNormOptions options;
  Parameter weight, bias;
};

struct RMSNormOptions {
  std::optional<double> eps = std::nullopt;  // std::nullopt: the epsilon of x's dtype
  bool elementwise_affine = true;
  Device device = DeviceType::kCpu;

  template <class V> void describe(V& v) {
    v("eps", eps, kPositive,
      "added to the variance; default: 1e-5, for rms_norm the dtype's epsilon");
    v("elementwise_affine", elementwise_affine, "learn a weight");
  }
};

// Divides x by the root of the mean of its squares over the last dimensions.
class RMSNorm : public Cloneable<RMSNorm> {
 public:
  using Options = RMSNormOptions;

  explicit RMSNorm(const Shape& normalized_shape, RMSNormOptions options = {});
  explicit RMSNorm(std::initializer_list<int64_t> shape, RMSNormOptions o = {})
      : RMSNorm(Shape(shape), o) {}

  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

  Shape normalized_shape;
  RMSNormOptions options;
  Parameter weight;
};

}  // namespace taper::v0
