// Event files, read by an independent reader that follows the descriptions of the formats.
#include "apps/runner/report/tensorboard.h"

#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "apps/runner/base/errors.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;

// Computes CRC-32C bit by bit, highest bit first, unlike the program's table-based version.
uint32_t crc32c(const std::string& bytes) {
  uint32_t crc = ~0u;
  for (const char c : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      const uint32_t top = crc >> 31, in = uint32_t(uint8_t(c)) >> bit & 1;
      crc = (crc << 1) ^ ((top ^ in) != 0 ? 0x1EDC6F41u : 0);
    }
  }
  uint32_t reflected = 0;
  for (int bit = 0; bit < 32; ++bit) reflected |= (crc >> bit & 1) << (31 - bit);
  return ~reflected;
}

uint32_t masked_crc(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

template <class T> T take(std::string& bytes) {
  T value{};
  if (bytes.size() < sizeof value) throw Error("cut off");
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.erase(0, sizeof value);
  return value;
}

std::string take(std::string& bytes, size_t n) {
  if (bytes.size() < n) throw Error("cut off");
  std::string out = bytes.substr(0, n);
  bytes.erase(0, n);
  return out;
}

uint64_t take_varint(std::string& bytes) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto part = take<uint8_t>(bytes);
    value |= uint64_t(part & 127) << shift;
    if (part < 128) return value;
  }
}

struct Event {
  double wall_time = 0;
  int64_t step = 0;
  std::string version, tag;
  float value = 0;
};

void read_message(std::string bytes, const std::string& path, Event& event) {
  while (!bytes.empty()) {
    const uint64_t key = take_varint(bytes);
    const std::string field = path + "." + std::to_string(key >> 3);
    if ((key & 7) == 2) {
      const std::string inner = take(bytes, take_varint(bytes));
      if (field == ".3")
        event.version = inner;
      else if (field == ".5.1.1")
        event.tag = inner;
      else
        read_message(inner, field, event);
    } else if (field == ".1")
      event.wall_time = take<double>(bytes);
    else if (field == ".2")
      event.step = int64_t(take_varint(bytes));
    else if (field == ".5.1.2")
      event.value = take<float>(bytes);
    else
      throw Error("unknown field " + field);
  }
}

std::vector<Event> read_events(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  std::string bytes = text.str();
  std::vector<Event> out;
  while (!bytes.empty()) {
    const std::string length = take(bytes, 8);
    EXPECT_EQ(take<uint32_t>(bytes), masked_crc(crc32c(length)));
    std::string copy = length;
    const std::string event = take(bytes, take<uint64_t>(copy));
    EXPECT_EQ(take<uint32_t>(bytes), masked_crc(crc32c(event)));
    out.emplace_back();
    read_message(event, "", out.back());
  }
  return out;
}

TEST(TensorBoard, TheReadersSumIsThatOfTheStandard) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);  // RFC 3720, B.4
}

TEST(TensorBoard, ScalarsAreReadBackByAnotherReader) {
  const fs::path dir = fs::temp_directory_path() / ("taper_tb_" + std::to_string(getpid()));
  fs::create_directories(dir);
  {
    EventWriter first(dir), second(dir);  // created within the same second
    first.scalar("train/loss", 1, 2.5);
    first.scalar("test/accuracy", 300, 0.75);
    first.scalar(std::string(200, 'x'), int64_t(1) << 40, -1e-30);
    second.scalar("lr", 0, 0.1);
  }
  std::vector<std::vector<Event>> files;
  for (const auto& entry : fs::directory_iterator(dir)) {
    EXPECT_TRUE(entry.path().filename().string().starts_with("events.out.tfevents.1")) << entry;
    files.push_back(read_events(entry.path()));
  }
  fs::remove_all(dir);
  ASSERT_EQ(files.size(), 2u);
  if (files[0].size() < files[1].size()) std::swap(files[0], files[1]);
  const std::vector<Event>& events = files[0];
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_GT(events[0].wall_time, 1.7e9);
  EXPECT_EQ(events[1].tag, "train/loss");
  EXPECT_EQ(events[1].step, 1);
  EXPECT_EQ(events[1].value, 2.5f);
  EXPECT_GE(events[1].wall_time, events[0].wall_time);
  EXPECT_EQ(events[2].tag, "test/accuracy");
  EXPECT_EQ(events[2].value, 0.75f);
  EXPECT_EQ(events[3].tag, std::string(200, 'x'));
  EXPECT_EQ(events[3].step, int64_t(1) << 40);
  EXPECT_EQ(events[3].value, -1e-30f);
  EXPECT_EQ(files[1].at(1).tag, "lr");
}

TEST(TensorBoard, AFileThatCannotBeWrittenIsNamed) {
  try {
    EventWriter writer("/nonexistent/dir");
    ADD_FAILURE() << "nothing was thrown";
  } catch (const DiskError& error) {
    EXPECT_NE(std::string(error.what()).find("/nonexistent/dir/events.out"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace taper::v0::runner
