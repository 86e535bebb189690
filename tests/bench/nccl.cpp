#include "tests/bench/nccl.h"

#ifdef TAPER_WITH_NCCL

#include <cstdlib>
#include <memory>

#include <dlfcn.h>
#include <nccl.h>

#include "framework/cuda/cuda.h"

namespace taper::v0::bench {
namespace {

// Returns a function of the library that the communicator has loaded.
template <class F> F* function(const char* name) {
  void* const library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
  if (!library) throw Error("libnccl.so.2 is not loaded");
  return reinterpret_cast<F*>(dlsym(library, name));
}

void check(ncclResult_t status) {
  if (status != ncclSuccess)
    throw Error(concat_to_string("NCCL called directly: status ", int(status)));
}

class Direct : public Nccl {
 public:
  explicit Direct(const distributed::Communicator& world) {
    // If NCCL_COMM_ID is set, its address is in use by the communicator.
    unsetenv("NCCL_COMM_ID");
    ncclUniqueId id{};
    if (world.rank() == 0) check(function<decltype(ncclGetUniqueId)>("ncclGetUniqueId")(&id));
    const std::string ids = world.all_gather_text({id.internal, sizeof id.internal})[0];
    ids.copy(id.internal, sizeof id.internal);
    check(function<decltype(ncclCommInitRank)>("ncclCommInitRank")(&comm_, world.size(), id,
                                                                   world.rank()));
  }
  ~Direct() override { (void)function<decltype(ncclCommDestroy)>("ncclCommDestroy")(comm_); }

  void all_reduce(const Tensor& x) override {
    check(all_reduce_(x.data_ptr(), x.data_ptr(), size_t(x.numel()), ncclFloat32, ncclSum, comm_,
                      stream()));
  }
  void reduce_scatter(const Tensor& out, const Tensor& in) override {
    check(reduce_scatter_(in.data_ptr(), out.data_ptr(), size_t(out.numel()), ncclFloat32, ncclSum,
                          comm_, stream()));
  }
  void all_gather(const Tensor& out, const Tensor& in) override {
    check(all_gather_(in.data_ptr(), out.data_ptr(), size_t(in.numel()), ncclFloat32, comm_,
                      stream()));
  }

 private:
  static cudaStream_t stream() {
    return static_cast<cudaStream_t>(cuda::Stream::current().handle());
  }

  ncclComm_t comm_ = nullptr;
  decltype(ncclAllReduce)* all_reduce_ = function<decltype(ncclAllReduce)>("ncclAllReduce");
  decltype(ncclReduceScatter)* reduce_scatter_ =
      function<decltype(ncclReduceScatter)>("ncclReduceScatter");
  decltype(ncclAllGather)* all_gather_ = function<decltype(ncclAllGather)>("ncclAllGather");
};

}  // namespace

std::unique_ptr<Nccl> direct_nccl(const distributed::Communicator& world) {
  return std::make_unique<Direct>(world);
}

}  // namespace taper::v0::bench

#else

namespace taper::v0::bench {

std::unique_ptr<Nccl> direct_nccl(const distributed::Communicator&) {
  throw Error("this build was made without NCCL");
}

}  // namespace taper::v0::bench

#endif
