#include "apps/runner/report/tensorboard.h"

#include <bit>
#include <chrono>

namespace taper::v0::runner {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Returns the CRC-32C (Castagnoli, reflected), which has another polynomial than zlib's CRC-32.
uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char c : bytes) {
    crc ^= uint8_t(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0x82F63B78u : 0);
  }
  return ~crc;
}

// Returns the checksum as TFRecord stores it: rotated and with an offset, so that checksums of data
// with embedded checksums remain useful.
uint32_t masked_crc(uint32_t crc) { return std::rotr(crc, 15) + 0xA282EAD8u; }

// Returns the low `size` bytes in little-endian order, as in TFRecord and protobuf.
std::string little_endian(uint64_t value, int size) {
  std::string out;
  for (int i = 0; i < size; ++i) out += char(value >> 8 * i & 255);
  return out;
}

// --- protobuf: a field is a varint of (number << 3 | wire type), followed by the value ---
enum WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

std::string varint(uint64_t value) {
  std::string out;
  for (; value > 127; value >>= 7) out += char((value & 127) | 128);
  return out += char(value);
}
std::string key(int field, WireType type) { return varint(uint64_t(field << 3 | type)); }
std::string bytes(int field, std::string_view value) {
  return key(field, kBytes) + varint(value.size()) += value;
}

// Writes two fields of an Event: wall_time, which has the number 1, and step, which has the number
// 2.
std::string event_at(int64_t step) {
  return key(1, kFixed64) + little_endian(std::bit_cast<uint64_t>(now()), 8) + key(2, kVarint) +
         varint(uint64_t(step));
}

}  // namespace

EventWriter::EventWriter(const fs::path& dir) {
  // Two starts within a second must not use the same file.
  for (auto second = int64_t(now()); file_.empty() || fs::exists(file_); ++second) {
    file_ = dir / concat_to_string("events.out.tfevents.", second, ".taper");
  }
  out_.open(file_, std::ios::binary);
  write(event_at(0) + bytes(3, "brain.Event:2"));  // Event.file_version = 3
}

void EventWriter::scalar(const std::string& tag, int64_t step, double value) {
  // The numbers of the fields: Summary.Value.tag = 1, simple_value = 2; Summary.value = 1;
  // Event.summary = 5.
  const std::string number = little_endian(std::bit_cast<uint32_t>(float(value)), 4);
  write(event_at(step) + bytes(5, bytes(1, bytes(1, tag) + key(2, kFixed32) + number)));
}

// Writes a TFRecord: the length, the length's checksum, the event, and the event's checksum.
void EventWriter::write(std::string_view event) {
  const std::string length = little_endian(event.size(), 8);
  out_ << length << little_endian(masked_crc(crc32c(length)), 4) << event
       << little_endian(masked_crc(crc32c(event)), 4);
  if (!out_)
    throw DiskError(concat_to_string("cannot write '", file_.string(), "': is the disk full?"));
}

}  // namespace taper::v0::runner
