// NCCL called directly, with nothing of Taper in between: what Communicator is compared with.
#pragma once

#include <memory>

#include "framework/distributed/communicator.h"

namespace taper::v0::bench {

// Sums, on the current stream, of float32.
class Nccl {
 public:
  virtual ~Nccl() = default;
  virtual void all_reduce(const Tensor& x) = 0;
  virtual void reduce_scatter(const Tensor& out, const Tensor& in) = 0;
  virtual void all_gather(const Tensor& out, const Tensor& in) = 0;
};

// A communicator of its own over the same ranks. Throws Error in a build without NCCL.
std::unique_ptr<Nccl> direct_nccl(const distributed::Communicator& world);

}  // namespace taper::v0::bench
