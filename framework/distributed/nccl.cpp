// Collectives of CUDA tensors through NCCL (https://docs.nvidia.com/deeplearning/nccl/user-guide/),
// which is loaded on first use.
#include <chrono>
#include <cstdlib>
#include <exception>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include <nccl.h>

#include "framework/cuda/cuda.h"
#include "framework/cuda/runtime.h"
#include "framework/distributed/backend.h"
#include "framework/distributed/links.h"
#include "framework/distributed/watchdog.h"
#include "framework/factory/factories.h"
#include "framework/host/shared_library.h"
#include "framework/kernels/elementwise/copy.h"

namespace taper::v0::distributed {
namespace {

using Clock = std::chrono::steady_clock;

// --- the library ---

const SharedLibrary& library() {
  static const SharedLibrary loaded("NCCL, for CUDA tensors", {"libnccl.so.2", TAPER_NCCL},
                                    "install NVIDIA's libnccl2, or name its folder in "
                                    "LD_LIBRARY_PATH");
  return loaded;
}

// NCCL's functions, without the prefix "nccl".
struct Nccl {
  decltype(&ncclGetVersion) GetVersion = library()("ncclGetVersion");
  decltype(&ncclGetUniqueId) GetUniqueId = library()("ncclGetUniqueId");
  decltype(&ncclCommInitRank) CommInitRank = library()("ncclCommInitRank");
  decltype(&ncclCommSplit) CommSplit = library()("ncclCommSplit");
  decltype(&ncclCommCount) CommCount = library()("ncclCommCount");
  decltype(&ncclCommUserRank) CommUserRank = library()("ncclCommUserRank");
  decltype(&ncclCommDestroy) CommDestroy = library()("ncclCommDestroy");
  decltype(&ncclCommAbort) CommAbort = library()("ncclCommAbort");
  decltype(&ncclCommGetAsyncError) CommGetAsyncError = library()("ncclCommGetAsyncError");
  decltype(&ncclGetErrorString) GetErrorString = library()("ncclGetErrorString");
  decltype(&ncclGetLastError) GetLastError = library()("ncclGetLastError");
  decltype(&ncclGroupStart) GroupStart = library()("ncclGroupStart");
  decltype(&ncclGroupEnd) GroupEnd = library()("ncclGroupEnd");
  decltype(&ncclAllReduce) AllReduce = library()("ncclAllReduce");
  decltype(&ncclReduceScatter) ReduceScatter = library()("ncclReduceScatter");
  decltype(&ncclAllGather) AllGather = library()("ncclAllGather");
  decltype(&ncclBroadcast) Broadcast = library()("ncclBroadcast");
  decltype(&ncclSend) Send = library()("ncclSend");
  decltype(&ncclRecv) Recv = library()("ncclRecv");
};
const Nccl& nccl() {
  static const Nccl functions;
  return functions;
}

void demand(ncclResult_t status, const std::string& text) {
  if (status == ncclSuccess) return;
  throw RankError(concat_to_string(text, ": NCCL says: ", nccl().GetErrorString(status), " (",
                                   nccl().GetLastError(nullptr), ")"));
}

// Returns the asynchronous error of a communicator; empty if there is none.
std::string nccl_error(ncclComm_t comm) {
  ncclResult_t status = ncclSuccess;
  nccl().CommGetAsyncError(comm, &status);
  if (status == ncclSuccess || status == ncclInProgress) return "";
  return concat_to_string("NCCL says: ", nccl().GetErrorString(status));
}

// Returns NCCL's type. NCCL has no int16, so int16 is moved as bytes and reduced as int32.
ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return ncclFloat32;
    case DType::kFloat64: return ncclFloat64;
    case DType::kFloat16: return ncclFloat16;
    case DType::kBFloat16: return ncclBfloat16;
    case DType::kInt64: return ncclInt64;
    case DType::kInt32: return ncclInt32;
    case DType::kInt8: return ncclInt8;
    default: return ncclUint8;
  }
}

ncclRedOp_t op_of(DType dtype, ReduceOp op) {
  if (op == ReduceOp::kSum) return dtype == kBool ? ncclMax : ncclSum;
  if (op == ReduceOp::kAvg) return ncclAvg;
  return op == ReduceOp::kMax ? ncclMax : ncclMin;
}

// --- the backend ---

// Returns the communicator that `call` creates. `call` runs on a separate thread, because NCCL
// waits forever for missing ranks. After a failure, that thread stays blocked.
template <class F>
ncclComm_t made(Device device, double timeout, const std::string& text, const std::string& hint,
                const Peers* peers, F call) {
  struct Start {
    std::promise<ncclResult_t> status;
    ncclComm_t comm = nullptr;
  };
  const auto start = std::make_shared<Start>();
  std::future<ncclResult_t> status = start->status.get_future();
  std::thread([=] {
    try {
      const cuda::DeviceGuard guard(device);
      start->status.set_value(call(&start->comm));
    } catch (...) {
      start->status.set_exception(std::current_exception());
    }
  }).detach();
  const auto since = Clock::now();
  bool one_is_lost = false;
  while (status.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready) {
    const Peers::Late lost = peers ? peers->lost(0) : Peers::Late();
    if (std::exchange(one_is_lost, !lost.text.empty()) && one_is_lost) {
      throw RankError(concat_to_string(text, ": ", lost.text), lost.rank);
    }
    const std::chrono::duration<double> age = Clock::now() - since;
    if (timeout > 0 && age.count() > timeout) {
      throw RankError(concat_to_string(text, ": not at its end within ", timeout, " s; ", hint));
    }
  }
  demand(status.get(), text);
  return start->comm;
}

class NcclPending : public Work::Pending {
 public:
  NcclPending(std::shared_ptr<WatchedCall> watched, Collective call, std::vector<Part> widened)
      : watched_(std::move(watched)), call_(std::move(call)), widened_(std::move(widened)) {}
  bool done() override { return watched_->end.query(); }
  void wait() override {
    const cuda::Stream current = cuda::Stream::current(watched_->stream.device());
    if (!(current == watched_->stream)) watched_->end.wait(current);
    for (size_t i = 0; i < widened_.size(); ++i) {
      kernels::copy_into(call_.parts[i].out, widened_[i].out);
    }
  }

 private:
  std::shared_ptr<WatchedCall> watched_;
  Collective call_;
  std::vector<Part> widened_;  // int16 converted to int32
};

class NcclBackend : public Backend {
 public:
  NcclBackend(ncclComm_t comm, Device own_device, const CommunicatorOptions& given)
      : comm_(comm),
        // The stream has high priority, because the optimizer waits for the collective, and the
        // collective waits for the backward pass.
        stream_(cuda::Stream::create(own_device.index(), -1)),
        watchdog_(
            given.timeout, *peers, [comm] { return nccl_error(comm); },
            [comm] { nccl().CommAbort(comm); }) {
    demand(nccl().CommUserRank(comm, &rank), "the rank");
    demand(nccl().CommCount(comm, &size), "the number of ranks");
    device = own_device;
    options = given;
    const char* asked = std::getenv("TAPER_CHECK_COLLECTIVES");
    checked = given.checked.value_or(asked && std::string_view(asked) == "1");
    meet();
  }
  ~NcclBackend() override {
    watchdog_.stop();
    if (!has_failed()) nccl().CommDestroy(comm_);
  }

  std::unique_ptr<Work::Pending> start(Collective call) override {
    refuse_failed(call);
    const cuda::DeviceGuard guard(device.index());
    std::vector<Part> widened;
    const bool widens = call.kind <= CollectiveKind::kReduceScatter && call.dtype == kInt16;
    for (size_t i = 0; widens && i < call.parts.size(); ++i) {
      const Part& part = call.parts[i];
      const Tensor wide = kernels::packed(part.in, kInt32);
      const bool in_place = call.kind == CollectiveKind::kAllReduce;
      widened.push_back({in_place ? wide : Tensor::make(part.out.shape(), kInt32, device), wide});
    }
    // NCCL executes a communicator's calls on different streams in the order of the calls, so a
    // call with async_op = false may run on the current stream. During graph capture an additional
    // stream costs nothing, so all calls use it.
    const cuda::Stream current = cuda::Stream::current(device.index());
    const bool is_captured = is_capturing(), is_beside = call.async_op || is_captured;
    if (is_beside) before_.record(current);
    if (is_beside) before_.wait(stream_);
    const std::shared_ptr<WatchedCall> watched = watchdog_.watch(call, is_captured);
    const cuda::Stream& stream = watched->stream = is_beside ? stream_ : current;
    const std::vector<Part>& parts = widened.empty() ? call.parts : widened;
    const bool is_group = parts.size() > 1 || call.kind == CollectiveKind::kAllToAll;
    ncclResult_t status = is_group ? nccl().GroupStart() : ncclSuccess;
    for (const Part& part : parts) {
      if (status == ncclSuccess && part.in.numel() > 0) status = enqueue(call, part, stream);
    }
    const ncclResult_t ended = is_group ? nccl().GroupEnd() : ncclSuccess;
    if (status == ncclSuccess) status = ended;
    if (status == ncclSuccess) watched->end.record(stream);
    watched->recorded = true;
    check_call(status, call);
    return std::make_unique<NcclPending>(watched, std::move(call), std::move(widened));
  }

  // Calls in a graph were compared when they ran before capture.
  bool compares() const override { return checked && !is_capturing(); }

  std::vector<std::string> exchange(const std::string& mine, const std::string& text) override {
    require(!is_capturing(), text, ": waits for the GPU, which a CUDA graph cannot hold");
    const int64_t n = int64_t(mine.size());
    const Tensor here = tensor_of(reinterpret_cast<const uint8_t*>(mine.data()), {n});
    const Tensor all = Tensor::make({size * n}, kUInt8, device);
    const Tensor own = Tensor::make({n}, kUInt8, device);
    kernels::copy_into(own, here);
    Collective call{{.kind = CollectiveKind::kAllGather, .what = text}, {}};
    call.parts = {{all, own}};
    start(std::move(call))->wait();
    const Tensor back = Tensor::make({size * n}, kUInt8, Device());
    kernels::copy_into(back, all);
    refuse_failed({.what = text});
    const char* bytes = static_cast<const char*>(back.data_ptr());
    std::vector<std::string> texts;
    for (int r = 0; r < size; ++r) texts.emplace_back(bytes + r * n, size_t(n));
    return texts;
  }

  std::shared_ptr<Backend> split(int color, int key) override { return split(color, key, options); }
  std::shared_ptr<Backend> split(int color, int key, const CommunicatorOptions& given) {
    refuse_failed({.what = "split"});
    const auto split_comm = [comm = comm_, color, key](ncclComm_t* part) {
      return nccl().CommSplit(comm, color, key, part, nullptr);
    };
    const ncclComm_t part =
        made(device, given.timeout, concat_to_string("split on ", name_of(rank)),
             "all ranks have called it", peers.get(), split_comm);
    return std::make_shared<NcclBackend>(part, device, given);
  }
  void check() override { refuse_failed({.what = "the last collective"}); }
  bool has_failed() { return !watchdog_.failure().text.empty(); }

 private:
  bool is_capturing() const { return cuda::is_capturing(cuda::current_stream(device.index())); }
  ncclResult_t enqueue(const CollectiveCall& call, const Part& part, const cuda::Stream& on) const {
    const auto& [out, in, root] = part;
    const void* from = in.data_ptr();
    void* to = out.data_ptr();
    // int16 is moved as bytes, two per element.
    const size_t count = size_t(std::min(in.numel(), out.numel())) * (in.dtype() == kInt16 ? 2 : 1);
    const ncclDataType_t type = type_of(in.dtype());
    const ncclRedOp_t op = op_of(in.dtype(), call.op);
    const auto stream = static_cast<cudaStream_t>(on.handle());
    switch (call.kind) {
      case CollectiveKind::kAllReduce:
        return nccl().AllReduce(from, to, count, type, op, comm_, stream);
      case CollectiveKind::kReduceScatter:
        return nccl().ReduceScatter(from, to, count, type, op, comm_, stream);
      case CollectiveKind::kAllGather:
        return nccl().AllGather(from, to, count, type, comm_, stream);
      case CollectiveKind::kBroadcast:
        return nccl().Broadcast(from, to, count, type, root, comm_, stream);
      default: break;
    }
    const size_t each = count / size_t(size), bytes = in.nbytes() / size_t(size);
    ncclResult_t status = ncclSuccess;
    for (int r = 0; r < size && status == ncclSuccess; ++r) {
      const size_t at = size_t(r) * bytes;
      status = nccl().Send(static_cast<const char*>(from) + at, each, type, r, comm_, stream);
      if (status != ncclSuccess) break;
      status = nccl().Recv(static_cast<char*>(to) + at, each, type, r, comm_, stream);
    }
    return status;
  }
  // Throws if a call failed. If the watchdog has aborted the call, the error contains the
  // watchdog's reason.
  void check_call(ncclResult_t status, const CollectiveCall& call) {
    if (status == ncclSuccess) return;
    refuse_failed(call);
    demand(status, to_string(call));
  }
  // Throws if the watchdog has found a failure, or if another rank of this host has. That rank
  // aborts its kernels, which then send arbitrary values and let this rank's calls complete before
  // its own watchdog finds the failure.
  void refuse_failed(const CollectiveCall& call) {
    const auto [text, rank_lost] = watchdog_.failure();
    if (!text.empty()) throw RankError(text, rank_lost);
    const Peers::Late lost = peers->abandoned();
    if (!lost.text.empty())
      throw RankError(concat_to_string(to_string(call), ": ", lost.text), lost.rank);
  }

  ncclComm_t comm_;
  cuda::Stream stream_;
  cuda::Event before_{};  // recorded on the current stream; other streams wait for it
  Watchdog watchdog_;
};

}  // namespace

std::string nccl_unavailable_reason() { return library().problem(); }

std::string nccl_version() {
  int code = 0;  // 22809 means 2.28.9
  demand(nccl().GetVersion(&code), "the version of NCCL");
  return concat_to_string(code / 10000, ".", code / 100 % 100, ".", code % 100);
}

std::shared_ptr<Backend> nccl_world(Device device, const CommunicatorOptions& options,
                                    const std::shared_ptr<Backend>& mpi) {
  // NVLink multicast can put the GPUs of a host out of service.
  setenv("NCCL_NVLS_ENABLE", "0", /*overwrite=*/0);
  // An address can be used for only one communicator at a time, so a living one is reused.
  static std::weak_ptr<NcclBackend> known;
  if (const auto world = mpi ? nullptr : known.lock(); world && !world->has_failed()) {
    require(!device.has_index() || device == world->device, "rank ", world->rank, " is on ",
            world->device, ", not on ", device);
    return world->split(0, world->rank, options);
  }
  const auto [rank, size, local, address] =
      mpi ? Launched{mpi->rank, mpi->size, mpi->local_rank(), ""} : launched_rank();
  const int gpus = cuda::device_count();
  if (!device.has_index()) device = Device(DeviceType::kCuda, gpus == 1 ? 0 : local);
  require(device.index() < gpus, "rank ", rank, " is number ", local, " on its host, which has ",
          gpus, " GPUs: start no more ranks than there are GPUs");
  if (!mpi) setenv("NCCL_COMM_ID", address.c_str(), 1);
  ncclUniqueId id{};
  const std::string text = concat_to_string("the start of NCCL on rank ", rank);
  if (!mpi || rank == 0) demand(nccl().GetUniqueId(&id), text);
  if (mpi) {
    const std::string ids = mpi->exchange({id.internal, sizeof id.internal}, text)[0];
    ids.copy(id.internal, sizeof id.internal);
  }
  const std::string hint =
      mpi ? "all ranks have come to MPI; NCCL_DEBUG=INFO says more"
          : concat_to_string("NCCL does not say which ranks have come to ", address);
  const auto join = [n = size, id, r = rank](ncclComm_t* comm) {
    return nccl().CommInitRank(comm, n, id, r);
  };
  const ncclComm_t comm =
      made(device, options.timeout, text, hint, mpi ? mpi->peers.get() : nullptr, join);
  const auto world = std::make_shared<NcclBackend>(comm, device, options);
  if (!mpi) known = world;
  return world;
}

}  // namespace taper::v0::distributed
