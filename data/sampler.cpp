#include "data/sampler.h"

#include "autograd/ops/binary.h"
#include "framework/factories.h"

namespace taper::data {

Tensor SequentialSampler::order(int64_t, Device device) const {
  const Tensor numbers = arange(size_, {.dtype = kInt64, .device = device});
  return step_ == 1 ? numbers : numbers * step_;
}

Tensor RandomSampler::order(int64_t epoch, Device device) const {
  // Draws of their own, one for each epoch, far from the streams that init and dropout take in
  // turn.
  constexpr uint64_t kOrderStreams = uint64_t(1) << 62;
  Generator generator;
  generator.set_state({seed_, kOrderStreams + uint64_t(epoch)});
  const TensorOptions here = {.dtype = kInt64, .device = device};
  if (replaced_ > 0) return randint(0, rows_, {replaced_}, here, &generator);
  return randperm(rows_, here, &generator);
}

}  // namespace taper::data
