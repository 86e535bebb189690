// taper_mpi.so: wraps MPI's C functions (https://www.mpi-forum.org/docs/) as MpiRanks.
#include "framework/distributed/mpi_plugin.h"

#include <climits>
#include <memory>
#include <mutex>

#include <mpi.h>

#include "framework/base/half.h"

namespace taper::v0::distributed {
namespace {

// --- element types ---

MPI_Datatype datatype_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return MPI_FLOAT;
    case DType::kFloat64: return MPI_DOUBLE;
    case DType::kInt64: return MPI_INT64_T;
    case DType::kInt32: return MPI_INT32_T;
    case DType::kInt16: return MPI_INT16_T;
    case DType::kInt8: return MPI_INT8_T;
    case DType::kFloat16:
    case DType::kBFloat16: return MPI_UINT16_T;
    default: return MPI_UINT8_T;
  }
}

// Returns the larger number, or nan if either is nan.
float larger(float a, float b) { return a > b || a != a ? a : b; }
float smaller(float a, float b) { return a < b || a != a ? a : b; }
float total(float a, float b) { return a + b; }

template <class T, float (*f)(float, float)>
void reduce(void* in, void* inout, int* count, MPI_Datatype*) {
  const T* from = static_cast<const T*>(in);
  T* to = static_cast<T*>(inout);
  for (int i = 0; i < *count; ++i) to[i] = T(f(float(from[i]), float(to[i])));
}

template <class T, float (*f)(float, float)> MPI_Op own_op() {
  static const MPI_Op op = [] {
    MPI_Op made;
    MPI_Op_create(reduce<T, f>, /*commute=*/1, &made);
    return made;
  }();
  return op;
}

template <class T> MPI_Op half_op(ReduceOp op) {
  if (op == ReduceOp::kMax) return own_op<T, larger>();
  return op == ReduceOp::kMin ? own_op<T, smaller>() : own_op<T, total>();
}

// Returns MPI's operation. An average is computed as a sum, which the caller divides.
MPI_Op op_of(DType dtype, ReduceOp op) {
  if (dtype == kFloat16) return half_op<Half>(op);
  if (dtype == kBFloat16) return half_op<BFloat16>(op);
  if (op == ReduceOp::kMin) return MPI_MIN;
  return op == ReduceOp::kMax || dtype == kBool ? MPI_MAX : MPI_SUM;
}

// --- communicators ---

void check(int status, const char* function) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw Error(function, ": ", text);
}

// Only one thread at a time calls MPI. No call under this mutex blocks.
std::mutex mpi_mutex;

}  // namespace

struct MpiRanks::Request {
  MPI_Request handle = MPI_REQUEST_NULL;
};

namespace {

class Ranks : public MpiRanks {
 public:
  explicit Ranks(MPI_Comm comm) : comm_(comm) {}
  ~Ranks() override {
    int ended = 0;
    MPI_Finalized(&ended);
    if (!ended && comm_ != MPI_COMM_WORLD) MPI_Comm_free(&comm_);
  }
  int rank() override { return number(MPI_Comm_rank); }
  int size() override { return number(MPI_Comm_size); }
  std::unique_ptr<MpiRanks> split(int color, int key) override {
    const std::lock_guard lock(mpi_mutex);
    MPI_Comm part = MPI_COMM_NULL;
    check(MPI_Comm_split(comm_, color, key, &part), "MPI_Comm_split");
    return std::make_unique<Ranks>(part);
  }

  Request* start(CollectiveKind kind, ReduceOp reduction, DType dtype, const void* in, void* out,
                 size_t count, int root) override {
    if (count > size_t(INT_MAX))
      throw Error("MPI takes 2^31 - 1 elements, got " + std::to_string(count));
    const int n = int(count);
    const MPI_Datatype type = datatype_of(dtype);
    const MPI_Op op = op_of(dtype, reduction);
    const void* from = in == out ? MPI_IN_PLACE : in;
    return begun(kNames[size_t(kind)], [&](MPI_Request* r) {
      switch (kind) {
        case CollectiveKind::kAllReduce: return MPI_Iallreduce(from, out, n, type, op, comm_, r);
        case CollectiveKind::kReduceScatter:
          return MPI_Ireduce_scatter_block(from, out, n, type, op, comm_, r);
        case CollectiveKind::kAllGather:
          return MPI_Iallgather(from, n, type, out, n, type, comm_, r);
        case CollectiveKind::kAllToAll: return MPI_Ialltoall(from, n, type, out, n, type, comm_, r);
        default: return MPI_Ibcast(out, n, type, root, comm_, r);
      }
    });
  }
  Request* send(const std::string& bytes, int to) override {
    return begun("MPI_Isend", [&](MPI_Request* r) {
      return MPI_Isend(bytes.data(), int(bytes.size()), MPI_BYTE, to, kTag, comm_, r);
    });
  }
  Request* receive(std::string& bytes, int from) override {
    return begun("MPI_Irecv", [&](MPI_Request* r) {
      return MPI_Irecv(bytes.data(), int(bytes.size()), MPI_BYTE, from, kTag, comm_, r);
    });
  }
  bool test(Request* request) override {
    const std::lock_guard lock(mpi_mutex);
    int done = 0;
    const int status = MPI_Test(&request->handle, &done, MPI_STATUS_IGNORE);
    if (done || status != MPI_SUCCESS) const std::unique_ptr<Request> gone(request);
    check(status, "MPI_Test");
    return done != 0;
  }

 private:
  static constexpr int kTag = 1;
  static constexpr const char* kNames[] = {"MPI_Iallreduce", "MPI_Ireduce_scatter_block",
                                           "MPI_Iallgather", "MPI_Ialltoall", "MPI_Ibcast"};

  int number(int (*ask)(MPI_Comm, int*)) const {
    int answer = 0;
    ask(comm_, &answer);
    return answer;
  }
  template <class F> static Request* begun(const char* function, const F& call) {
    const std::lock_guard lock(mpi_mutex);
    auto request = std::make_unique<Request>();
    check(call(&request->handle), function);
    return request.release();
  }

  MPI_Comm comm_;
};

bool ends_mpi = false;

MpiRanks* begin() {
  int begun = 0, level = MPI_THREAD_SINGLE;
  MPI_Initialized(&begun);
  if (begun) MPI_Query_thread(&level);
  if (!begun) {
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread");
    ends_mpi = true;
  }
  if (level < MPI_THREAD_SERIALIZED) throw Error("this MPI has no MPI_THREAD_SERIALIZED");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  static Ranks world(MPI_COMM_WORLD);
  return &world;
}

void end() {
  int ended = 0;
  MPI_Finalized(&ended);
  if (ends_mpi && !ended) MPI_Finalize();
}

void abort(int exit_code) { MPI_Abort(MPI_COMM_WORLD, exit_code); }

constexpr MpiPlugin kPlugin = {MpiPlugin::kVersion, begin, end, abort};

}  // namespace
}  // namespace taper::v0::distributed

extern "C" const taper::distributed::MpiPlugin* taper_mpi_plugin() {
  return &taper::distributed::kPlugin;
}
