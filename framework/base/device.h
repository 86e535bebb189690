// The device that holds a tensor: "cpu", "cuda" (the GPU that is current at the time of use) or
// "cuda:1". Syntax and messages:
// https://pytorch.org/docs/stable/tensor_attributes.html#torch.device
//
// "cpu:0" is "cpu". "cpu:1", "cpu:2" and so on use the same memory and threads, but are different
// devices: an operator refuses tensors of different devices, as it does for GPUs.
// Programs for several GPUs can thus be tested on a machine without a GPU.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

#include "framework/base/arguments.h"
#include "framework/base/namespace.h"

namespace taper::v0 {

enum class DeviceType : int8_t { kCpu, kCuda };

class Device {
 public:
  static constexpr int kNoIndex = -1;
  // The largest index that the constructor accepts. No process sees that many GPUs.
  static constexpr int kMaxIndex = 63;

  // Throws Error for a negative index ("Device index must not be negative") or one out of range.
  Device(DeviceType type = DeviceType::kCpu) : type_(type) {}
  Device(DeviceType type, IntArg index);
  // Accepts "cpu", "cuda" or "cuda:N". Throws Error for any other text.
  Device(std::string_view text);
  Device(const char* text) : Device(std::string_view(text)) {}
  Device(const std::string& text) : Device(std::string_view(text)) {}
  // Device("cuda", 0), for example.
  Device(std::string_view type, IntArg index);
  // Creates a CUDA device from its index, as in PyTorch.
  template <std::convertible_to<IntArg> T> Device(T index) : Device(DeviceType::kCuda, index) {}

  DeviceType type() const { return type_; }
  // Returns kNoIndex if no index was given.
  int index() const { return index_; }
  bool has_index() const { return index_ != kNoIndex; }
  bool is_cuda() const { return type_ == DeviceType::kCuda; }
  bool is_cpu() const { return type_ == DeviceType::kCpu; }

  // Compares type and index: Device("cuda") != Device("cuda:0").
  bool operator==(const Device&) const = default;

 private:
  DeviceType type_;
  int8_t index_ = kNoIndex;
};

// Returns "cpu", "cuda" or "cuda:1".
std::string to_string(Device device);
// Returns PyTorch's form, as "device(type='cuda', index=1)".
std::string repr(Device device);

}  // namespace taper::v0

template <> struct std::hash<taper::Device> {
  size_t operator()(taper::Device d) const noexcept {
    return size_t(d.type()) * 1000003u + size_t(d.index() + 1);
  }
};
