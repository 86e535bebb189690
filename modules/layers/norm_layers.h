// Normalisation layers (https://pytorch.org/docs/stable/nn.html#normalization-layers).
#pragma once

#include <optional>

#include "framework/base/describe.h"
#include "framework/callable.h"
#include "framework/distributed/communicator.h"
#include "framework/memory/pointers.h"
#include "modules/members.h"

namespace taper::v0 {

struct BatchNormOptions {
  double eps = 1e-5;
  std::optional<double> momentum = 0.1;  // none: the running statistics are means of all batches
  bool affine = true;
  bool track_running_stats = true;
  Device device = DeviceType::cpu;
};

// Channels with running statistics (PyTorch: _NormBase).
template <class LayerOptions> class RunningNorm : public Module {
 public:
  using Options = LayerOptions;

  std::string extra_repr() const override;
  // As new: means of 0, variances of 1, no batches.
  void reset_running_stats();

  int64_t num_features;
  Options options;
  std::optional<double> momentum;                         // options.momentum, unless changed
  Parameter weight, bias;                                 // undefined without affine
  Buffer running_mean, running_var, num_batches_tracked;  // undefined when not tracked

 protected:
  RunningNorm(IntArg num_features, const Options& options);
  bool by_batch() const { return is_training() || !options.track_running_stats; }
};

class BatchNormBase : public RunningNorm<BatchNormOptions> {
 public:
  Tensor forward(const Tensor& x) override;
  // From now on a batch, while training, is that of all ranks together; none: this process's own.
  void set_ranks(const distributed::Communicator* ranks);

 protected:
  BatchNormBase(int dims, IntArg num_features, const BatchNormOptions& options);

 private:
  Tensor with_cumulative_average(const Tensor& x);
  Tensor normalised(const Tensor& x, const Tensor& mean, const Tensor& var, double share) const;

  int dims_;
  Shared<distributed::Communicator> ranks_;
};

// x [N, num_features, H, W] (kDims 2), [N, num_features, L] or [N, num_features] (kDims 1),
// normalised over all but the channels: by the batch's own mean and variance while training (which
// then enter the running ones) and where none are tracked, else by the running ones.
template <int kDims> class BatchNorm : public Cloneable<BatchNorm<kDims>, BatchNormBase> {
 public:
  explicit BatchNorm(IntArg features, const BatchNormOptions& o = {})
      : BatchNorm::Cloneable(kDims, features, o) {}
  std::string type_name() const override { return cat("BatchNorm", kDims, "d"); }
};
using BatchNorm1d = BatchNorm<1>;
using BatchNorm2d = BatchNorm<2>;

// Every BatchNorm in the module over all ranks (PyTorch: SyncBatchNorm.convert_sync_batchnorm).
void sync_batch_norms(Module& module, const distributed::Communicator& ranks);

// The running statistics of every BatchNorm in the module become those of one pass over the
// batches: tensors, or tuples that begin with the input. Nothing else of the module changes
// (https://pytorch.org/docs/stable/generated/torch.optim.swa_utils.update_bn.html).
void with_new_statistics(Module& module, const Callable<void()>& pass);
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
  Device device = DeviceType::cpu;
};

// x [N, num_channels, ...]: each of N by groups of channels.
class GroupNorm : public Cloneable<GroupNorm> {
 public:
  using Options = GroupNormOptions;

  GroupNorm(IntArg num_groups, IntArg num_channels, GroupNormOptions options = {});

  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;

  int64_t num_groups, num_channels;
  GroupNormOptions options;
  Parameter weight, bias;  // undefined without affine
};

struct InstanceNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;  // share of a new batch in the running statistics
  bool affine = false;
  bool track_running_stats = false;
  Device device = DeviceType::cpu;

  template <class V> void describe(V& v) {
    v("eps", eps, kPositive, "keeps the division finite");
    v("momentum", momentum, kUnit, "share of the new batch in the running statistics");
    v("affine", affine, "whether a weight and a bias follow");
    v("track_running_stats", track_running_stats, "evaluate with running statistics");
  }
};

// x [N, num_features, H, W] (kDims 2) or [N, num_features, L] (kDims 1), or without N: each channel
// of each of N by its own mean and variance, or in evaluation by the running ones where those are
// tracked.
template <int kDims>
class InstanceNorm : public Cloneable<InstanceNorm<kDims>, RunningNorm<InstanceNormOptions>> {
 public:
  explicit InstanceNorm(IntArg features, const InstanceNormOptions& o = {})
      : InstanceNorm::Cloneable(features, o) {}
  Tensor forward(const Tensor& x) override;
  std::string type_name() const override { return cat("InstanceNorm", kDims, "d"); }
};
using InstanceNorm1d = InstanceNorm<1>;
using InstanceNorm2d = InstanceNorm<2>;

struct LayerNormOptions {
  double eps = 1e-5;
  bool elementwise_affine = true;
  bool bias = true;
  Device device = DeviceType::cpu;
};

// Normalised over the last dimensions, which must be normalized_shape.
class LayerNorm : public Cloneable<LayerNorm> {
 public:
  using Options = LayerNormOptions;

  explicit LayerNorm(const Shape& normalized_shape, LayerNormOptions options = {});
  explicit LayerNorm(std::initializer_list<int64_t> shape, LayerNormOptions o = {})
      : LayerNorm(Shape(shape), o) {}

  Tensor forward(const Tensor& x) override;
  using Module::operator();
  // y.to(result), without a pass of its own.
  Tensor operator()(const Tensor& x, std::optional<DType> result);
  std::string extra_repr() const override;

  Shape normalized_shape;
  LayerNormOptions options;
  Parameter weight, bias;
};

struct RMSNormOptions {
  std::optional<double> eps = std::nullopt;  // none: the epsilon of x's dtype
  bool elementwise_affine = true;
  Device device = DeviceType::cpu;

  template <class V> void describe(V& v) {
    v("eps", eps, kPositive,
      "keeps the division finite; without it 1e-5, or the dtype's for rms_norm");
    v("elementwise_affine", elementwise_affine, "whether a weight follows");
  }
};

// The same by the root of the mean of squares.
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
