#include "framework/cuda/driver.h"

#include <array>
#include <cstdlib>
#include <exception>
#include <memory>

#include <nvtx3/nvToolsExt.h>
#ifdef TAPER_WITH_CUDNN
#include "framework/cuda/cudnn_handle.h"
#endif

#include "framework/cuda/cublaslt.h"
#include "framework/cuda/idle_handles.h"
#include "framework/cuda/runtime.h"

namespace taper::v0::cuda {
namespace {

constexpr size_t kMaxDevices = Device::kMaxIndex + 1;

// The stream of each device. Null is the legacy default stream of the device.
thread_local std::array<cudaStream_t, kMaxDevices> thread_streams{};

using IdleStreams = IdleHandles<cudaStream_t>;

cudaStream_t take_stream(int device) {
  cudaStream_t stream = IdleStreams::instance().take(device);
  if (stream) return stream;
  const DeviceGuard guard(device);
  TAPER_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

// Returns whether the work is done. "Not ready" is not a failure, but the runtime keeps it as an
// error, which the next launch check would report.
bool is_done(cudaError_t status, const char* call) {
  if (status == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  throw_on_error(status, call, __FILE__, __LINE__);
  return true;
}

cudaStream_t stream_of(void* handle) { return static_cast<cudaStream_t>(handle); }
cudaEvent_t event_of(void* handle) { return static_cast<cudaEvent_t>(handle); }

}  // namespace

cudaStream_t current_stream(int device) { return thread_streams[size_t(device)]; }

namespace driver {

// --- devices ---

size_t cudnn_version() noexcept {
#ifdef TAPER_WITH_CUDNN
  return cudnn_library().problem().empty() ? cudnn().GetVersion() : 0;
#else
  return 0;
#endif
}

size_t cublas_version() noexcept {
  return cublaslt_library().problem().empty() ? cublaslt().GetVersion() : 0;
}

State probe() noexcept {
  State state;
  state.visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const cudaError_t status = cudaGetDeviceCount(&state.devices);
  cudaDriverGetVersion(&state.driver_version);
  cudaRuntimeGetVersion(&state.runtime_version);
  cudaGetLastError();
  if (status == cudaSuccess) return state;
  state.devices = 0;
  if (status == cudaErrorInsufficientDriver)
    state.too_old = true;
  else if (status != cudaErrorNoDevice)
    state.error = cudaGetErrorString(status);
  return state;
}

int current_device() {
  int device = 0;
  TAPER_CUDA_CHECK(cudaGetDevice(&device));
  return device;
}

void set_device(int index) { TAPER_CUDA_CHECK(cudaSetDevice(index)); }

void restore_device(int index) noexcept {
  // Querying the device is cheaper than setting it, and most kernel launches find their device
  // current.
  int now = -1;
  if (cudaGetDevice(&now) == cudaSuccess && now == index) return;
  if (cudaSetDevice(index) != cudaSuccess) cudaGetLastError();
}

void initialize(int index) noexcept try {
  cublasLtHandle_t handle = nullptr;
  const bool has_context = cudaSetDevice(index) == cudaSuccess && cudaFree(nullptr) == cudaSuccess;
  if (!has_context) cudaGetLastError();
  if (!has_context || !cublaslt_library().problem().empty()) return;
  if (cublaslt().Create(&handle) == CUBLAS_STATUS_SUCCESS) cublaslt().Destroy(handle);
} catch (const std::exception&) {
  return;  // for example an old cuBLASLt, which lacks a function
}

std::string name(int index) {
  cudaDeviceProp found;
  TAPER_CUDA_CHECK(cudaGetDeviceProperties(&found, index));
  return found.name;
}

DeviceProperties properties(int index) {
  const DeviceGuard guard(index);
  cudaDeviceProp found;
  TAPER_CUDA_CHECK(cudaGetDeviceProperties(&found, index));
  size_t free = 0, total = 0;
  TAPER_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return {.name = found.name,
          .major = found.major,
          .minor = found.minor,
          .multi_processor_count = found.multiProcessorCount,
          .total_memory = total,
          .free_memory = free};
}

void synchronize(int device) {
  const DeviceGuard guard(device);
  TAPER_CUDA_CHECK(cudaDeviceSynchronize());
  throw_bad_index(device);
}

// If no tool records the ranges, a call costs one test of a pointer.
void push_range(const char* name) { nvtxRangePushA(name); }
void pop_range() { nvtxRangePop(); }

// --- streams, graphs, events ---

std::shared_ptr<void> create_stream(int device, int priority) {
  if (priority != 0) {  // streams with a priority are few and never reused
    const DeviceGuard guard(device);
    cudaStream_t stream = nullptr;
    TAPER_CUDA_CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority));
    return {stream, [](void*) {}};
  }
  return {take_stream(device),
          [device](void* handle) { IdleStreams::instance().give(device, stream_of(handle)); }};
}

void* thread_stream(int device) noexcept { return thread_streams[size_t(device)]; }

void set_thread_stream(int device, void* stream) noexcept {
  thread_streams[size_t(device)] = stream_of(stream);
}

// Makes the device current, because the handle of the default stream refers to the current device.
void synchronize_stream(int device, void* stream) {
  const DeviceGuard guard(device);
  TAPER_CUDA_CHECK(cudaStreamSynchronize(stream_of(stream)));
  throw_bad_index(device);
}

bool query_stream(int device, void* stream) {
  const DeviceGuard guard(device);
  return is_done(cudaStreamQuery(stream_of(stream)), "cudaStreamQuery");
}

void begin_capture(int device, void* stream) {
  const DeviceGuard guard(device);
  TAPER_CUDA_CHECK(cudaStreamBeginCapture(stream_of(stream), cudaStreamCaptureModeThreadLocal));
}

std::shared_ptr<void> end_capture(int device, void* stream) {
  const DeviceGuard guard(device);
  cudaGraph_t graph = nullptr;
  // If a call could not be captured, the capture has ended, and that call's own error is the one to
  // report.
  if (cudaStreamEndCapture(stream_of(stream), &graph) != cudaSuccess || !graph) {
    cudaGetLastError();
    return nullptr;
  }
  cudaGraphExec_t executable = nullptr;
  const cudaError_t status = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  throw_on_error(status, "cudaGraphInstantiate", __FILE__, __LINE__);
  return {executable, [](void* g) { cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(g)); }};
}

void launch_graph(void* graph, int device, void* stream) {
  const DeviceGuard guard(device);
  TAPER_CUDA_CHECK(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), stream_of(stream)));
}

std::shared_ptr<void> create_event(int device, bool timing) {
  const DeviceGuard guard(device);
  cudaEvent_t event = nullptr;
  TAPER_CUDA_CHECK(
      cudaEventCreateWithFlags(&event, timing ? cudaEventDefault : cudaEventDisableTiming));
  return {event, [](void* handle) { cudaEventDestroy(event_of(handle)); }};
}

void record_event(void* event, int device, void* stream) {
  const DeviceGuard guard(device);
  TAPER_CUDA_CHECK(cudaEventRecord(event_of(event), stream_of(stream)));
}

void wait_event(void* event, int device, void* stream) {
  const DeviceGuard guard(device);
  TAPER_CUDA_CHECK(cudaStreamWaitEvent(stream_of(stream), event_of(event), 0));
}

void synchronize_event(void* event, int device) {
  TAPER_CUDA_CHECK(cudaEventSynchronize(event_of(event)));
  throw_bad_index(device);
}

bool query_event(void* event) { return is_done(cudaEventQuery(event_of(event)), "cudaEventQuery"); }

double elapsed_milliseconds(void* start, void* end) {
  float milliseconds = 0;
  TAPER_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, event_of(start), event_of(end)));
  return double(milliseconds);
}

}  // namespace driver
}  // namespace taper::v0::cuda
