// Checkpoints as files: saved state can be loaded, damage is detected and named, and a full disk
// leaves the older checkpoints complete.
#include "apps/runner/run/checkpoint.h"

#include <algorithm>
#include <csignal>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "apps/runner/base/errors.h"
#include "framework/factory/factories.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;

Checkpoint checkpoint_of(int64_t step) {
  Checkpoint out;
  out.tensors["model.safetensors"] = {{"w", full({3, 5}, step)}, {"b", arange(5)}};
  out.tensors["optimizer.safetensors"] = {{"state.0.exp_avg", full({15}, step + 0.5)}};
  out.texts["state.json"] = concat_to_string("{\"step\":", step, "}");
  return out;
}

class CheckpointFiles : public ::testing::Test {
 protected:
  CheckpointFiles()
      : run_(fs::temp_directory_path() / concat_to_string("taper_checkpoint_", getpid())) {
    fs::create_directories(run_);
  }
  ~CheckpointFiles() override { fs::remove_all(run_); }

  fs::path save(int64_t step, int64_t keep = 3, bool is_best = false) const {
    return save_checkpoint(run_, step, checkpoint_of(step), keep, is_best);
  }
  // Returns the entries of the directory, including hidden files.
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(run_ / "checkpoints")) {
      out.push_back(entry.path().filename());
    }
    std::ranges::sort(out);
    return out;
  }

  fs::path run_;
};

void expect_step(const fs::path& directory, int64_t step) {
  const Checkpoint c = load_checkpoint(directory), expected = checkpoint_of(step);
  EXPECT_EQ(c.texts, expected.texts);
  ASSERT_EQ(c.tensors.size(), expected.tensors.size());
  const NamedTensor& w = c.tensors.at("model.safetensors").back();
  EXPECT_EQ(w.name, "w");
  EXPECT_EQ(w.tensor.to_floats(), std::vector<float>(15, float(step)));
}

std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void write_bytes(const fs::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

TEST_F(CheckpointFiles, WhatIsSavedComesBack) {
  EXPECT_EQ(save(7), run_ / "checkpoints/step-00000007");
  EXPECT_EQ(damage_of(run_ / "checkpoints/step-00000007"), "");
  expect_step(*newest_checkpoint(run_), 7);
  EXPECT_EQ(step_of(save(123456789012)), 123456789012);
  expect_step(*newest_checkpoint(run_), 123456789012);
}

TEST_F(CheckpointFiles, ARunWithoutCheckpointsHasNone) {
  EXPECT_TRUE(list_checkpoints(run_).empty());
  EXPECT_FALSE(newest_checkpoint(run_));
  EXPECT_EQ(step_of(best_checkpoint(run_)), -1);
}

TEST_F(CheckpointFiles, TheNewestAndTheBestAreKept) {
  save(1);
  save(2, 2, true);
  save(3, 2);
  save(4, 2);
  save(10, 2);
  using Names = std::vector<std::string>;
  EXPECT_EQ(names(), (Names{"best", "step-00000002", "step-00000004", "step-00000010"}));
  expect_step(best_checkpoint(run_), 2);
  EXPECT_EQ(step_of(best_checkpoint(run_)), 2);
  save(11, 1, true);
  EXPECT_EQ(names(), (Names{"best", "step-00000011"}));
  expect_step(best_checkpoint(run_), 11);
  save(12, 3);
  drop_checkpoints_after(run_, 11);
  EXPECT_EQ(names(), (Names{"best", "step-00000011"}));
  drop_checkpoints_after(run_, 3);
  EXPECT_EQ(names(), Names());
}

TEST_F(CheckpointFiles, WhatAKilledProcessLeftIsNoCheckpoint) {
  const fs::path unfinished = run_ / "checkpoints/.writing";
  fs::create_directories(unfinished);
  write_bytes(unfinished / "model.safetensors", "half of it");
  EXPECT_FALSE(newest_checkpoint(run_));
  save(5);
  EXPECT_EQ(names(), std::vector<std::string>{"step-00000005"});
  expect_step(*newest_checkpoint(run_), 5);
}

TEST_F(CheckpointFiles, TheSameStepIsReplaced) {
  write_bytes(save(5) / "state.json", "damaged");
  EXPECT_FALSE(newest_checkpoint(run_));
  save(5);
  expect_step(*newest_checkpoint(run_), 5);
}

struct Damage {
  const char* name;
  std::string (*apply)(std::string bytes);
};

std::string flipped(std::string bytes, size_t i) {
  bytes[i] = char(bytes[i] ^ 1);
  return bytes;
}

TEST_F(CheckpointFiles, EveryDamageIsFoundAndTheOneBeforeIsUsed) {
  const Damage damages[] = {
      {"empty", [](std::string) { return std::string(); }},
      {"half", [](std::string b) { return b.substr(0, b.size() / 2); }},
      {"last byte lost", [](std::string b) { return b.substr(0, b.size() - 1); }},
      {"a byte more", [](std::string b) { return b + '\n'; }},
      {"first byte flipped", [](std::string b) { return flipped(b, 0); }},
      {"middle byte flipped", [](std::string b) { return flipped(b, b.size() / 2); }},
      {"last byte flipped", [](std::string b) { return flipped(b, b.size() - 1); }},
  };
  save(1);
  const fs::path newest = save(2);
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(newest)) files.push_back(entry.path());
  ASSERT_EQ(files.size(), 4u);
  for (const fs::path& file : files) {
    const std::string whole = bytes_of(file);
    const auto expect_found = [&](const std::string& name) {
      SCOPED_TRACE(concat_to_string(name, ": ", file.string()));
      const std::string damage = damage_of(newest);
      EXPECT_NE(damage.find(file.filename()), std::string::npos) << damage;
      EXPECT_THROW(load_checkpoint(newest), InputError);
      EXPECT_EQ(step_of(newest_checkpoint(run_).value_or("")), 1);
    };
    for (const Damage& d : damages) {
      write_bytes(file, d.apply(whole));
      expect_found(d.name);
    }
    fs::remove(file);
    expect_found("removed");
    write_bytes(file, whole);
    EXPECT_EQ(damage_of(newest), "");
  }
  write_bytes(newest / "more.json", "{}");
  EXPECT_NE(damage_of(newest).find("more.json"), std::string::npos);
}

// Limits the size of files until the end of the scope. Writing beyond it fails, as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : action_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{bytes, old_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, action_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit old_;
  sighandler_t action_;
};

TEST_F(CheckpointFiles, WithoutRoomTheOlderOnesStayWhole) {
  save(1, 3, true);
  // With the first limit not even the first file fits, with the second only the last ones do not.
  for (const rlim_t room : {10, 150}) {
    const FileSizeLimit limit(room);
    try {
      save(2, 1, true);
      ADD_FAILURE() << "saved in " << room << " bytes";
    } catch (const DiskError& error) {
      EXPECT_EQ(error.code, 74);
      const std::string message = error.what();
      for (const char* part :
           {"step-00000002", "it needs about", "bytes", "free", "TrainOptions.resume"}) {
        EXPECT_NE(message.find(part), std::string::npos) << message;
      }
    }
    EXPECT_EQ(names(), (std::vector<std::string>{"best", "step-00000001"}));
    expect_step(*newest_checkpoint(run_), 1);
  }
  expect_step(save(2), 2);
}

// The contiguous copy of an expanded tensor takes more memory than there is.
TEST_F(CheckpointFiles, MemoryThatRunsOutIsNoFaultOfTheDisk) {
  save(1);
  Checkpoint large = checkpoint_of(2);
  large.tensors["model.safetensors"].push_back({"large", full({1}, 1).expand({int64_t(1) << 48})});
  EXPECT_THROW(save_checkpoint(run_, 2, large, 3), OutOfMemoryError);
  EXPECT_EQ(names(), (std::vector<std::string>{"step-00000001"}));
  expect_step(*newest_checkpoint(run_), 1);
}

}  // namespace
}  // namespace taper::v0::runner
