#include "framework/base/device.h"

#include <charconv>

#include "framework/base/error.h"

namespace taper::v0 {
namespace {

bool is_type_char(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

DeviceType parse_type(std::string_view type, std::string_view text) {
  if (type == "cpu") return DeviceType::kCpu;
  if (type == "cuda") return DeviceType::kCuda;
  throw Error("Unknown device type '", type, "' in device string '", text,
              "': expected cpu, cuda or cuda:N");
}

int parse_index(std::string_view digits, std::string_view text) {
  int index = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  const bool leading_zero = digits.size() > 1 && digits[0] == '0';
  const bool is_digit = !digits.empty() && digits[0] >= '0' && digits[0] <= '9';
  require(is_digit && end == digits.data() + digits.size() && !leading_zero,
          "Invalid device string: '", text, "'");
  require(error == std::errc() && index <= Device::kMaxIndex,
          "Device index out of range in device string '", text, "': at most ", Device::kMaxIndex);
  return index;
}

}  // namespace

Device::Device(DeviceType type, IntArg index) : type_(type) {
  require(index >= 0, "Device index must not be negative (got ", index,
          "); for the CPU write \"cpu\"");
  require(index <= kMaxIndex, "Device index ", index, " is out of range: at most ", kMaxIndex);
  index_ = int8_t(index);
}

Device::Device(std::string_view text) : type_(DeviceType::kCpu) {
  if (text.empty()) throw Error("Device string must not be empty");
  size_t n = 0;
  while (n < text.size() && is_type_char(text[n])) ++n;
  const std::string_view type = text.substr(0, n), rest = text.substr(n);
  require(rest.empty() || (rest[0] == ':' && n != 0), "Invalid device string: '", text, "'");
  if (rest.empty()) {
    type_ = parse_type(type, text);
    return;
  }
  const int index = parse_index(rest.substr(1), text);
  type_ = parse_type(type, text);
  index_ = int8_t(index);
}

Device::Device(std::string_view type, IntArg index) : type_(DeviceType::kCpu) {
  require(type.find(':') == std::string_view::npos,
          "type (string) must not include an index because index was passed explicitly: ", type);
  *this = Device(Device(type).type(), index);
}

std::string to_string(Device device) {
  const char* type = device.is_cuda() ? "cuda" : "cpu";
  return device.has_index() ? concat_to_string(type, ":", device.index()) : std::string(type);
}

std::string repr(Device device) {
  const char* type = device.is_cuda() ? "cuda" : "cpu";
  if (!device.has_index()) return concat_to_string("device(type='", type, "')");
  return concat_to_string("device(type='", type, "', index=", device.index(), ")");
}

}  // namespace taper::v0
