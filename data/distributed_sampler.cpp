#include "data/distributed_sampler.h"

#include <algorithm>

#include "autograd/ops/shape.h"

namespace taper::inline v0::data {

DistributedSampler::DistributedSampler(std::shared_ptr<const Sampler> all, int64_t batch_size,
                                       int rank, int ranks)
    : all_(std::move(all)), batch_size_(batch_size), rank_(rank), ranks_(ranks) {
  if (ranks < 1 || rank < 0 || rank >= ranks || batch_size < 1 || batch_size % ranks != 0) {
    throw ValueError(cat("DistributedSampler: a batch of ", batch_size,
                         " samples is not cut into equal parts for ", ranks, " ranks (rank ", rank,
                         ")"));
  }
  batches_ = all_->size() / batch_size;
  rest_ = all_->size() % batch_size;
}

int64_t DistributedSampler::size() const { return batches_ * (batch_size_ / ranks_) + rest_size(); }

Tensor DistributedSampler::order(int64_t epoch, Device device) const {
  const Tensor order = all_->order(epoch, device);
  const int64_t whole = batches_ * batch_size_;
  const Tensor parts =
      order.narrow(0, 0, whole).view({batches_, ranks_, batch_size_ / ranks_}).select(1, rank_);
  const Tensor rest = order.narrow(0, whole + rest_begin(), rest_size());
  return cat(std::vector<Tensor>{parts.flatten(), rest});
}

DistributedBatchSampler::DistributedBatchSampler(std::shared_ptr<const Sampler> all,
                                                 int64_t batch_size, int rank, int ranks)
    : all_(std::move(all)), batch_size_(batch_size), rank_(rank), ranks_(ranks) {
  if (ranks < 1 || rank < 0 || rank >= ranks || batch_size < 1) {
    throw ValueError(cat("DistributedBatchSampler: no batches of ", batch_size, " for rank ", rank,
                         " of ", ranks));
  }
}

// Of whole rounds, in which each rank has a batch, and of the last.
int64_t DistributedBatchSampler::size() const {
  const int64_t round = ranks_ * batch_size_, rest = all_->size() % round;
  return all_->size() / round * batch_size_ +
         std::clamp<int64_t>(rest - rank_ * batch_size_, 0, batch_size_);
}

Tensor DistributedBatchSampler::order(int64_t epoch, Device device) const {
  const Tensor order = all_->order(epoch, device);
  const int64_t rounds = order.numel() / (ranks_ * batch_size_);
  const int64_t whole = rounds * ranks_ * batch_size_, rest = size() - rounds * batch_size_;
  const Tensor parts =
      order.narrow(0, 0, whole).view({rounds, ranks_, batch_size_}).select(1, rank_);
  const int64_t first = rest > 0 ? whole + rank_ * batch_size_ : 0;
  return cat(std::vector<Tensor>{parts.flatten(), order.narrow(0, first, rest)});
}

}  // namespace taper::inline v0::data
