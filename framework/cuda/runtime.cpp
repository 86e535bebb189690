#include "framework/cuda/runtime.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <new>
#include <string>

#include "framework/base/error.h"
#include "framework/cuda/cuda.h"

namespace taper::v0::cuda {
namespace {

constexpr size_t kMaxDevices = Device::kMaxIndex + 1;

// Returns whether an earlier kernel caused the error. The driver reports such errors at the next
// call.
bool is_late(cudaError_t status) {
  constexpr cudaError_t kLate[] = {
      cudaErrorIllegalAddress,    cudaErrorLaunchFailure,       cudaErrorAssert,
      cudaErrorLaunchTimeout,     cudaErrorHardwareStackError,  cudaErrorIllegalInstruction,
      cudaErrorMisalignedAddress, cudaErrorInvalidAddressSpace, cudaErrorInvalidPc};
  return std::ranges::count(kLate, status) > 0;
}

std::string advice_for(cudaError_t status) {
  if (status == cudaErrorInvalidDevice) {
    return concat_to_string(
        "\nGPU device may be out of range, do you have enough GPUs? Visible GPUs: ",
        device_count());
  }
  if (status == cudaErrorNoKernelImageForDevice) {
    return "\nTaper was built without code for this GPU; build it with CMAKE_CUDA_ARCHITECTURES "
           "set to its compute capability";
  }
  if (is_late(status)) {
    return "\nCUDA kernel errors might be asynchronously reported at some other API call, so the "
           "call named here may be innocent.\nFor debugging consider passing "
           "CUDA_LAUNCH_BLOCKING=1";
  }
  return "";
}

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  TAPER_CUDA_CHECK(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

// A positive number for each device, 0 until it has been asked for.
using Known = std::array<std::atomic<int>, kMaxDevices>;
template <class F> int known_of(Known& known, int device, const F& find) {
  std::atomic<int>& one = known[size_t(device)];
  int value = one.load(std::memory_order_relaxed);
  if (value > 0) return value;
  value = find();
  one.store(value, std::memory_order_relaxed);
  return value;
}

struct BadIndexSlot {
  BadIndex* on_device;
  BadIndexReport* report;
};
std::array<std::atomic<const BadIndexSlot*>, kMaxDevices> bad_index_slots{};
std::mutex bad_index_mutex;

// Allocates the slot of a device. It is never freed, because kernels may report until the process
// ends.
const BadIndexSlot& make_bad_index_slot(int device) {
  std::lock_guard lock(bad_index_mutex);
  if (const BadIndexSlot* slot = bad_index_slots[size_t(device)].load()) return *slot;
  static std::array<BadIndexSlot, kMaxDevices> slots{};
  BadIndexSlot& slot = slots[size_t(device)];
  const DeviceGuard guard(device);
  const RelaxedCaptureGuard relaxed;
  void* memory = nullptr;
  // With unified addressing, the device accesses page-locked memory at the host's address.
  TAPER_CUDA_CHECK(
      cudaHostAlloc(&memory, sizeof(BadIndexReport), cudaHostAllocPortable | cudaHostAllocMapped));
  slot.report = new (memory) BadIndexReport{};
  TAPER_CUDA_CHECK(cudaMalloc(&memory, sizeof(BadIndex)));
  slot.on_device = static_cast<BadIndex*>(memory);
  const BadIndex fresh{0, slot.report};
  TAPER_CUDA_CHECK(cudaMemcpy(memory, &fresh, sizeof fresh, cudaMemcpyHostToDevice));
  bad_index_slots[size_t(device)].store(&slot);
  return slot;
}

const BadIndexSlot& slot_of(int device) {
  const BadIndexSlot* slot = bad_index_slots[size_t(device)].load(std::memory_order_acquire);
  return slot ? *slot : make_bad_index_slot(device);
}

}  // namespace

void throw_error(cudaError_t status, const std::string& where) {
  cudaGetLastError();  // otherwise the next launch check would report it again
  require<OutOfMemoryError>(status != cudaErrorMemoryAllocation, "CUDA out of memory (", where,
                            ")");
  throw AcceleratorError("CUDA error: ", cudaGetErrorString(status), advice_for(status), "\n(",
                         where, ")");
}

void throw_on_error(cudaError_t status, const char* call, const char* file, int line) {
  if (status == cudaSuccess) return;
  throw_error(status, concat_to_string(call, " at ", file, ":", line));
}

bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  TAPER_CUDA_CHECK(cudaStreamIsCapturing(stream, &status));
  return status != cudaStreamCaptureStatusNone;
}

int multi_processor_count(int device) {
  static Known known{};
  return known_of(known, device,
                  [device] { return attribute(cudaDevAttrMultiProcessorCount, device); });
}

int compute_capability(int device) {
  static Known known{};
  return known_of(known, device, [device] {
    return 100 * attribute(cudaDevAttrComputeCapabilityMajor, device) +
           10 * attribute(cudaDevAttrComputeCapabilityMinor, device);
  });
}

BadIndex* bad_index_slot(int device) { return slot_of(device).on_device; }
BadIndexReport* bad_index_report(int device) { return slot_of(device).report; }

void throw_bad_index(int device) {
  const BadIndexSlot* slot = bad_index_slots[size_t(device)].load(std::memory_order_acquire);
  if (!slot) return;
  // The op is written last. If it is missing, a kernel on another stream is still reporting.
  const std::atomic_ref<const char*> op_word(slot->report->op);
  if (!op_word.load(std::memory_order_acquire)) return;
  std::lock_guard lock(bad_index_mutex);
  const char* op = op_word.load(std::memory_order_acquire);
  if (!op) return;
  const int64_t index = slot->report->index, bound = slot->report->bound;
  op_word.store(nullptr);
  const DeviceGuard guard(device);
  TAPER_CUDA_CHECK(cudaMemset(&slot->on_device->taken, 0, sizeof slot->on_device->taken));
  require(bound != kBrokenRule, op, " (reported by cuda:", device, ")");
  throw IndexError("index ", index, " is out of bounds for a dimension with size ", bound,
                   " (reported by ", op, " on cuda:", device, ")");
}

}  // namespace taper::v0::cuda
