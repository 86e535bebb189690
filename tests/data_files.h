// Files for tests of data: small files that tests write, and real datasets that they look for.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "framework/base/error.h"

namespace taper::v0 {

// A fixture with a directory for each test.
class DataFiles : public ::testing::Test {
 protected:
  DataFiles()
      : directory_(
            std::filesystem::temp_directory_path() /
            concat_to_string("taper_data_", getpid(), "_",
                             ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::create_directories(directory_);
  }
  ~DataFiles() override { std::filesystem::remove_all(directory_); }

  std::string write(const std::string& name, const std::string& bytes) const {
    const std::filesystem::path file = directory_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
    return file.string();
  }

  std::filesystem::path directory_;
};

// Returns the path of a file or directory below $TAPER_DATA (real datasets), or "" if it does not
// exist.
inline std::string real_data(const std::string& name) {
  const char* root = std::getenv("TAPER_DATA");
  const std::filesystem::path path = std::filesystem::path(root ? root : "") / name;
  return root && std::filesystem::exists(path) ? path.string() : "";
}

template <class E, class Call> std::string refusal_of(const Call& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace taper::v0

#define TAPER_REAL_DATA(variable, name)         \
  const std::string variable = real_data(name); \
  if (variable.empty()) GTEST_SKIP() << "needs " << name << " in the directory TAPER_DATA"
