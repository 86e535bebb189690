#include "data/distributed_sampler.h"

#include "autograd/ops/shape.h"

namespace taper::data {

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

}  // namespace taper::data
