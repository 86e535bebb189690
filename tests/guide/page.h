// A page of the guide while its test runs (program.awk makes the tests).
#pragma once

#include <filesystem>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "framework/base/namespace.h"

namespace taper::v0::guide {

// How decimal numbers are compared: digit by digit; or within a quarter, and not at all if they are
// amounts of time or memory.
enum class Numbers { kExact, kClose };

// Returns whether a block printed what a page shows. In `expected`, "..." matches any part of a
// line or, as a line, any lines.
bool matches(const std::string& printed, const std::string& expected,
             Numbers numbers = Numbers::kExact);

class Page {
 public:
  // Makes a folder, in which the blocks run; relative paths begin there.
  explicit Page(const char* path);
  ~Page();
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;

  // False after a failure, which is reported at the block's file and line, or without a package.
  bool run(void (*section)(Page&));

  // --- blocks; `line` is where the fence stands ---
  void begin(int line);  // of C++, whose std::cout is kept until end()
  void end();
  void file(const std::string& name, const std::string& text);
  void shell(int line, const std::string& commands, int status);
  void config(int line, const std::string& yaml);
  // Compares with what the block before has printed.
  void printed(int line, const std::string& expected, Numbers numbers = Numbers::kExact);

  // "package": Taper can be installed from this build, and built against. Else a program on PATH.
  // Says so where it is missing.
  bool has(int line, const std::string& what);

 private:
  void fail(const std::string& what);

  std::string path_, printed_;
  int line_ = 0;
  std::filesystem::path folder_, before_;
  std::ostringstream out_;
  std::streambuf* cout_ = nullptr;      // while a block's output is kept
  bool failed_ = false, over_ = false;  // over: what follows needs what is not there
};

}  // namespace taper::v0::guide
