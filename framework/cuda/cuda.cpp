#include "framework/cuda/cuda.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <set>

#include "framework/base/error.h"
#include "framework/cuda/driver.h"

namespace taper::v0::cuda {
namespace {

constexpr const char* kDownload = "http://www.nvidia.com/Download/index.aspx";

// Set once the driver may have read CUDA_VISIBLE_DEVICES, which it does only once. Builds without
// CUDA set it too, so that a wrong order of calls fails there as well.
std::atomic<bool> used{false};

driver::State ask_driver() noexcept {
  used.store(true);
  if constexpr (kHasCuda) return driver::probe();
  return {};
}

constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";

// Returns whether the text is a number such as "0" or "12", without a sign or leading zeros.
bool is_gpu_number(const std::string& text) {
  const bool digits = text.find_first_not_of("0123456789") == std::string::npos;
  return digits && !text.empty() && text.size() < 4 && (text.size() == 1 || text[0] != '0');
}

// Returns whether the text is a name as nvidia-smi -L prints it, such as "GPU-8932f937" or
// "MIG-...". The older form of MIG names contains slashes.
bool is_gpu_name(const std::string& text) {
  if (!text.starts_with("GPU-") && !text.starts_with("MIG-")) return false;
  return text.size() > 4 &&
         text.find_first_not_of("0123456789abcdefABCDEF-/GPU", 4) == std::string::npos;
}

[[noreturn]] void throw_unavailable() { throw AcceleratorError(unavailable_reason()); }

// Converts 13000 to "13.0".
std::string version_text(int version) {
  if (version == 0) return "";
  return concat_to_string(version / 1000, ".", version % 1000 / 10);
}

[[noreturn]] void throw_negative_index(const char* what, int index) {
  throw ValueError(what, ": a negative device index does not mean the CPU (got ", index,
                   "); for the CPU write Device(\"cpu\"), as in x.to(\"cpu\"), and leave out ",
                   what);
}

// Returns a shared_ptr to a handle that Taper does not own. It never destroys the handle.
[[maybe_unused]] std::shared_ptr<void> unowned(void* handle) {
  return {std::shared_ptr<void>(), handle};
}

}  // namespace

std::string driver::unavailable_reason(const State& state) {
  if (!state.built) {
    return "Taper was built without CUDA (TAPER_CUDA=OFF or no nvcc found); to use a GPU, install "
           "the CUDA Toolkit and build again with cmake -DTAPER_CUDA=ON or "
           "TAPER_CUDA=ON scripts/train.sh";
  }
  if (state.devices > 0) return "";
  if (state.too_old && state.driver_version == 0) {
    return concat_to_string(
        "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU ",
        "and installed a driver from ", kDownload);
  }
  if (state.too_old) {
    return concat_to_string("The NVIDIA driver on your system is too old: it serves CUDA up to ",
                            version_text(state.driver_version), ", and Taper was built with CUDA ",
                            version_text(state.runtime_version), "; install a newer driver from ",
                            kDownload, ", or build Taper with an older CUDA Toolkit");
  }
  if (state.error) {
    return concat_to_string("The NVIDIA driver could not be started: ", state.error,
                            "; check that nvidia-smi runs, as this user and in this container");
  }
  if (state.visible) {
    return concat_to_string("No GPU is visible, since CUDA_VISIBLE_DEVICES is '", state.visible,
                            "'; unset it, or list the GPUs to use, such as CUDA_VISIBLE_DEVICES=0");
  }
  return "No GPU is visible, though there is an NVIDIA driver; check that nvidia-smi lists one, as "
         "this user and in this container";
}

std::string driver::unavailable_summary(const State& state) {
  if (!state.built) return "built without CUDA";
  if (state.devices > 0) return "";
  if (state.too_old && state.driver_version == 0) return "no NVIDIA driver was found";
  if (state.too_old) return "the NVIDIA driver is too old";
  if (state.error) return "the NVIDIA driver could not be started";
  return state.visible ? "CUDA_VISIBLE_DEVICES hides every GPU" : "no GPU is visible";
}

std::string driver::unavailable_summary() {
  return is_available() ? "" : unavailable_summary(ask_driver());
}

void driver::require_device(int index) {
  const int count = device_count();
  if (index >= 0 && index < count) return;
  if (count == 0) throw_unavailable();
  throw AcceleratorError("CUDA error: invalid device ordinal\nGPU device may be out of range, ",
                         "do you have enough GPUs? cuda:", index,
                         " was asked for; visible: ", count,
                         count == 1 ? " GPU (cuda:0)" : " GPUs (from cuda:0)",
                         index < 0 ? "; for the CPU write \"cpu\"" : "");
}

int driver::checked(int index) {
  if (index == -1) return cuda::current_device();
  require_device(index);
  return index;
}

bool is_available() noexcept { return device_count() > 0; }

int device_count() noexcept {
  static std::atomic<int> seen{0};
  const int known = seen.load(std::memory_order_relaxed);
  if (known > 0) return known;
  const int found = std::min(ask_driver().devices, Device::kMaxIndex + 1);
  seen.store(found, std::memory_order_relaxed);
  return found;
}

std::string unavailable_reason() {
  return is_available() ? "" : driver::unavailable_reason(ask_driver());
}

void set_visible_devices(const std::string& devices) {
  require<ValueError>(is_visible_devices(devices),
                      "visible devices are given as GPU numbers joined by commas, such as \"0\" ",
                      "or \"1,2\", each once and without spaces, or \"\" for none; got \"", devices,
                      "\"");
  const char* before = std::getenv(kVisible);
  if (before && devices == before) return;
  require(!used.load(),
          "CUDA has been used in this process already; visible devices can only be chosen ",
          "before the first call that asks for a GPU. Choose them earlier, or start the ",
          "program with CUDA_VISIBLE_DEVICES=", devices);
  if (setenv(kVisible, devices.c_str(), 1) != 0) throw Error("cannot set ", kVisible);
}

bool is_visible_devices(const std::string& devices) {
  if (devices.empty()) return true;
  std::set<std::string> seen;
  for (size_t from = 0; from <= devices.size();) {
    const size_t comma = std::min(devices.find(',', from), devices.size());
    const std::string entry = devices.substr(from, comma - from);
    if (!is_gpu_number(entry) && !is_gpu_name(entry)) return false;
    if (!seen.insert(entry).second) return false;
    from = comma + 1;
  }
  return true;
}

int current_device() {
  if (!is_available()) throw_unavailable();
  if constexpr (kHasCuda) return driver::current_device();
  throw_unavailable();
}

void set_device(int index) {
  if (index < 0) throw_negative_index("set_device", index);
  driver::require_device(index);
  if constexpr (kHasCuda) driver::set_device(index);
}

std::string get_device_name(int index) {
  const int device = driver::checked(index);
  if constexpr (kHasCuda) return driver::name(device);
  throw_unavailable();
}

DeviceProperties get_device_properties(int index) {
  const int device = driver::checked(index);
  if constexpr (kHasCuda) return driver::properties(device);
  throw_unavailable();
}

std::string driver_version() { return version_text(ask_driver().driver_version); }
std::string runtime_version() { return version_text(ask_driver().runtime_version); }

std::string cudnn_version() {
  if constexpr (kHasCuda) {
    const size_t v = driver::cudnn_version();
    if (v > 0) return concat_to_string(v / 10000, ".", v % 10000 / 100, ".", v % 100);
  }
  return "";
}

void synchronize(int index) {
  const int device = driver::checked(index);
  if constexpr (kHasCuda) driver::synchronize(device);
}

Device resolve(Device device) {
  if (device.is_cpu()) return device.index() > 0 ? device : Device();
  return Device(DeviceType::kCuda, driver::checked(device.index()));
}

DeviceGuard::DeviceGuard(Device device) {
  require<ValueError>(
      !device.is_cpu(),
      "DeviceGuard chooses among GPUs and got the CPU; work stays on the CPU when its tensors "
      "are there, so give them the device \"cpu\" and leave the guard out");
  previous_ = current_device();
  if (device.has_index()) set_device(device.index());
}

DeviceGuard::DeviceGuard(int index) {
  if (index < 0) throw_negative_index("DeviceGuard", index);
  previous_ = current_device();
  if (index != previous_) set_device(index);
}

DeviceGuard::~DeviceGuard() {
  if constexpr (kHasCuda) driver::restore_device(previous_);
}

Stream Stream::create(int device, int priority) {
  const int index = driver::checked(device);
  if constexpr (kHasCuda) return {index, driver::create_stream(index, priority)};
  throw_unavailable();
}

Stream Stream::default_stream(int device) { return {driver::checked(device), nullptr}; }

Stream Stream::external(void* handle, int device) {
  const int index = driver::checked(device);
  if constexpr (kHasCuda) return {index, unowned(handle)};
  throw_unavailable();
}

Stream Stream::current(int device) {
  const int index = driver::checked(device);
  if constexpr (kHasCuda) return {index, unowned(driver::thread_stream(index))};
  throw_unavailable();
}

void Stream::synchronize() const {
  driver::require_device(device_);
  if constexpr (kHasCuda) driver::synchronize_stream(device_, handle());
}

bool Stream::query() const {
  driver::require_device(device_);
  if constexpr (kHasCuda) return driver::query_stream(device_, handle());
  throw_unavailable();
}

StreamGuard::StreamGuard(Stream stream)
    : stream_(std::move(stream)),
      previous_(Stream::current(stream_.device())),
      previous_device_(current_device()) {
  set_device(stream_.device());
  if constexpr (kHasCuda) driver::set_thread_stream(stream_.device(), stream_.handle());
}

StreamGuard::~StreamGuard() {
  if constexpr (kHasCuda) {
    driver::set_thread_stream(previous_.device(), previous_.handle());
    driver::restore_device(previous_device_);
  }
}

void Event::record() { record(Stream::current()); }

void Event::record(const Stream& stream) {
  driver::require_device(stream.device());
  require<ValueError>(!handle_ || device_ == stream.device(), "Event device ", device_,
                      " does not match recording stream's device ", stream.device(), ".");
  if constexpr (kHasCuda) {
    std::shared_ptr<void> event =
        handle_ ? handle_ : driver::create_event(stream.device(), timing_);
    driver::record_event(event.get(), stream.device(), stream.handle());
    device_ = stream.device();
    handle_ = std::move(event);
  }
}

void Event::wait(const Stream& stream) const {
  if (!handle_) return;
  if constexpr (kHasCuda) driver::wait_event(handle_.get(), stream.device(), stream.handle());
}

void Event::synchronize() const {
  if (!handle_) return;
  if constexpr (kHasCuda) driver::synchronize_event(handle_.get(), device_);
}

bool Event::query() const {
  if constexpr (kHasCuda) return !handle_ || driver::query_event(handle_.get());
  return true;
}

double Event::elapsed_time(const Event& end) const {
  require<ValueError>(timing_ && end.timing_,
                      "Both events must be created with timing enabled: Event(true).");
  require<ValueError>(handle_ && end.handle_,
                      "Both events must be recorded before calculating elapsed time.");
  require<ValueError>(query() && end.query(),
                      "Both events must be completed before calculating elapsed time.");
  if constexpr (kHasCuda) return driver::elapsed_milliseconds(handle_.get(), end.handle_.get());
  return 0;
}

}  // namespace taper::v0::cuda
