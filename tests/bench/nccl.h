// Calls of NCCL without Taper in between, with which Communicator is compared.
#pragma once

#include <memory>

#include "framework/distributed/communicator.h"

namespace taper::v0::bench {

// Collectives of float32 tensors on the current stream. Reductions are sums.
class Nccl {
 public:
  virtual ~Nccl() = default;
  virtual void all_reduce(const Tensor& x) = 0;
  virtual void reduce_scatter(const Tensor& out, const Tensor& in) = 0;
  virtual void all_gather(const Tensor& out, const Tensor& in) = 0;
};

// Creates a separate communicator over the same ranks. Throws Error in a build without NCCL.
std::unique_ptr<Nccl> direct_nccl(const distributed::Communicator& world);

}  // namespace taper::v0::bench
