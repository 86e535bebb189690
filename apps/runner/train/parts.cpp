#include "apps/runner/train/parts.h"

#include "autograd/node.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "framework/base/philox.h"
#include "framework/factory/factories.h"

namespace taper::v0::runner {

uint64_t seed_of_part(uint64_t seed, int64_t part) {
  const Philox4 r = philox({seed, uint64_t(part)}, UINT64_MAX);
  return uint64_t(r.word[0]) << 32 | r.word[1];
}

RunningStatistics::RunningStatistics(Module& model, int64_t parts, int64_t parts_here)
    : parts_here_(parts_here) {
  const NoGradGuard no_grad;
  int64_t numel = 0;
  for (const NamedTensor& b : model.named_buffers()) {
    const bool is_value = b.tensor.is_floating_point();
    (is_value ? values_ : counts_).push_back(b.tensor);
    (is_value ? before_ : counts_before_).push_back(b.tensor.clone());
    if (is_value) numel += b.tensor.numel();
  }
  if (values_.empty()) return;
  const Device device = values_[0].device();
  changes_ = zeros({parts_here, numel}, {.device = device});
  all_changes_ = zeros({parts, numel}, {.device = device});
}

void RunningStatistics::end_part(int64_t i, double share) {
  const NoGradGuard no_grad;
  std::vector<Tensor> moved;
  for (size_t b = 0; b < values_.size(); ++b) {
    moved.push_back((values_[b] - before_[b]).to(kFloat32).flatten());
    values_[b].copy_(before_[b]);
  }
  if (!moved.empty()) changes_.select(0, i).copy_(cat(moved) * share);
  for (size_t b = 0; i + 1 < parts_here_ && b < counts_.size(); ++b) {
    counts_[b].copy_(counts_before_[b]);
  }
}

void RunningStatistics::join(const distributed::Communicator& ranks) {
  const NoGradGuard no_grad;
  if (!values_.empty()) {
    ranks.all_gather(all_changes_, changes_).wait();
    const Tensor change = sum(all_changes_, {0});
    int64_t from = 0;
    for (const Tensor& value : values_) {
      value.add_(change.narrow(0, from, value.numel()).view(value.shape()).to(value.dtype()));
      from += value.numel();
    }
  }
  if (counts_.empty()) return;
  ranks.broadcast(counts_, std::vector<int>(counts_.size(), ranks.size() - 1)).wait();
}

}  // namespace taper::v0::runner
