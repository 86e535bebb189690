// A file is the old one or the complete new one, whoever writes it at the same time.
#include "framework/host/atomic_file.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "framework/factory/factories.h"
#include "framework/io/npy.h"
#include "framework/io/safetensors.h"
#include "tests/testing.h"

namespace taper::v0 {
namespace {

namespace fs = std::filesystem;

class AtomicFiles : public ::testing::Test {
 protected:
  AtomicFiles() : dir_(fs::temp_directory_path() / concat_to_string("taper_atomic_", getpid())) {
    fs::create_directories(dir_);
  }
  ~AtomicFiles() override { fs::remove_all(dir_); }

  static void save(const fs::path& path, const std::string& text) { write_atomically(path, text); }
  static std::string read(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  size_t entries() const { return size_t(std::distance(fs::directory_iterator(dir_), {})); }

  fs::path dir_;
};

TEST_F(AtomicFiles, TheOldContentStaysUntilTheEnd) {
  save(dir_ / "f", "old");
  {
    AtomicFile file(dir_ / "f", 3);
    file.write("new", 3);
    EXPECT_EQ(read(dir_ / "f"), "old");
    EXPECT_EQ(entries(), 2u);
  }
  EXPECT_EQ(read(dir_ / "f"), "old");
  EXPECT_EQ(entries(), 1u);
  save(dir_ / "f", "new");
  EXPECT_EQ(read(dir_ / "f"), "new");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(AtomicFiles, ALinkIsReplacedAndNotFollowed) {
  save(dir_ / "target", "precious");
  for (const char* name : {"text", "a.npy", "a.safetensors"}) {
    fs::create_symlink("target", dir_ / name);
  }
  save(dir_ / "text", "mine");
  save_npy(dir_ / "a.npy", zeros({2}));
  save_safetensors(dir_ / "a.safetensors", {});
  EXPECT_EQ(read(dir_ / "target"), "precious");
  EXPECT_EQ(read(dir_ / "text"), "mine");
  EXPECT_EQ(load_npy(dir_ / "a.npy").numel(), 2);
}

TEST_F(AtomicFiles, ALinkToAFolderStays) {
  fs::create_directory(dir_ / "folder");
  fs::create_directory_symlink("folder", dir_ / "link");
  for (const char* name : {"link", "folder"}) {
    EXPECT_TRUE(test::refuses<OutputError>([&] { return save(dir_ / name, "text"), 0; },
                                           concat_to_string((dir_ / name).string(),
                                                            ": cannot create the file: Is a "
                                                            "directory")));
  }
  EXPECT_TRUE(fs::is_symlink(dir_ / "link"));
  EXPECT_EQ(entries(), 2u);
}

TEST_F(AtomicFiles, ThreadsThatSaveToOnePathDoNotTearEachOthersFiles) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 25; ++i) save(dir_ / "f", std::string(100'000, char('a' + t)));
    });
  }
  for (int i = 0; i < 200; ++i) {
    const std::string seen = read(dir_ / "f");
    ASSERT_TRUE(seen.empty() || seen == std::string(100'000, seen[0]));
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(read(dir_ / "f").size(), 100'000u);
  EXPECT_EQ(entries(), 1u);
}

TEST_F(AtomicFiles, WhatAKilledProcessLeftGoesWithTheNextSave) {
  const pid_t child = ::fork();
  if (child == 0) {
    AtomicFile file(dir_ / "f", 3);
    file.write("hal", 3);
    ::_exit(0);  // like a kill: no cleanup runs
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(entries(), 1u);
  std::ofstream(dir_ / "f.tmp-mine") << "of the user";
  std::ofstream(dir_ / "g.tmp-0123456789abcdef") << "of another file";
  const AtomicFile living(dir_ / "f", 3);
  EXPECT_EQ(entries(), 3u);
  save(dir_ / "f", "new");
  EXPECT_EQ(entries(), 4u) << "the living one, f, and two that are none of it";
}

TEST_F(AtomicFiles, APipeIsWrittenAsItIs) {
  const fs::path pipe = dir_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  save(pipe, "text");
  char got[5] = {};
  EXPECT_EQ(::read(reader, got, 4), 4);
  ::close(reader);
  EXPECT_STREQ(got, "text");
  EXPECT_TRUE(fs::is_fifo(pipe));
  save("/dev/null", "text");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(AtomicFiles, WhatCannotBeMadeIsNamed) {
  fs::create_directories(dir_ / "d/inner");
  for (const fs::path& path : {dir_ / "none/f", dir_ / "d"}) {
    try {
      save(path, "text");
      ADD_FAILURE() << path;
    } catch (const Error& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with(path.string())) << error.what();
    }
  }
  EXPECT_EQ(entries(), 1u);
}

}  // namespace
}  // namespace taper::v0
