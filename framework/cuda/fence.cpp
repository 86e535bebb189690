#include "framework/cuda/fence.h"

#include <algorithm>

#include "framework/cuda/idle_handles.h"
#include "framework/cuda/runtime.h"

namespace taper::v0::cuda {
namespace {

using IdleEvents = IdleHandles<cudaEvent_t>;

// Returns null if the driver cannot create an event.
cudaEvent_t take_event(int device) noexcept {
  cudaEvent_t event = IdleEvents::instance().take(device);
  if (event) return event;
  if (cudaEventCreateWithFlags(&event, cudaEventDisableTiming) != cudaSuccess) return nullptr;
  return event;
}

void give_event(int device, cudaEvent_t event) noexcept {
  if (!IdleEvents::instance().give(device, event)) cudaEventDestroy(event);
}

}  // namespace

void Fence::add(int device, cudaStream_t stream) {
  const auto same = [&](const Mark& m) { return m.device == device && m.stream == stream; };
  if (std::any_of(marks_.begin(), marks_.end(), same)) return;
  marks_.push_back({device, stream, nullptr});
}

void Fence::record() noexcept {
  const RelaxedCaptureGuard relaxed;
  for (Mark& mark : marks_) {
    int previous = 0;
    if (cudaGetDevice(&previous) != cudaSuccess) break;
    if (previous != mark.device) cudaSetDevice(mark.device);
    if (!mark.event) mark.event = take_event(mark.device);
    if (mark.event && cudaEventRecord(mark.event, mark.stream) != cudaSuccess) {
      give_event(mark.device, mark.event);
      mark.event = nullptr;
    }
    if (previous != mark.device) cudaSetDevice(previous);
  }
  cudaGetLastError();
}

bool Fence::passed() noexcept {
  if (marks_.empty()) return true;
  const RelaxedCaptureGuard relaxed;
  for (const Mark& mark : marks_) {
    if (mark.event && cudaEventQuery(mark.event) == cudaSuccess) continue;
    cudaGetLastError();  // "not ready" would count as an error in the next launch check
    return false;
  }
  clear();
  return true;
}

void Fence::wait() noexcept {
  for (const Mark& mark : marks_) {
    if (mark.event) cudaEventSynchronize(mark.event);
  }
  cudaGetLastError();
}

void Fence::clear() noexcept {
  for (const Mark& mark : marks_) give_event(mark.device, mark.event);
  marks_.clear();
}

}  // namespace taper::v0::cuda
