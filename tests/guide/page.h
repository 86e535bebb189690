// A page of the guide while its test runs. program.awk generates the tests from the pages.
#pragma once

#include <filesystem>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "framework/base/namespace.h"

namespace taper::v0::guide {

// How decimal numbers are compared. kExact: digit by digit. kClose: within a quarter; amounts of
// time or memory are not compared, nor the widths of gaps of two or more blanks.
enum class Numbers { kExact, kClose };

// Returns whether a block printed what a page shows. In `expected`, "..." matches any part of a
// line; a line "..." matches any number of lines.
bool matches(const std::string& printed, const std::string& expected,
             Numbers numbers = Numbers::kExact);

class Page {
 public:
  // Creates a folder in which the blocks run. Relative paths refer to it.
  explicit Page(const char* path);
  ~Page();
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;

  // Runs a section. Returns false after a failure, which is reported at the block's file and line,
  // or if the section needs something that is missing.
  bool run(void (*section)(Page&));

  // --- blocks; `line` is the line of the fence ---
  void begin(int line);  // begins a C++ block; captures std::cout until end()
  void end();
  void file(const std::string& name, const std::string& text);
  void shell(int line, const std::string& commands, int status);
  void config(int line, const std::string& yaml);
  // Compares the output of the previous block with what the page shows.
  void printed(int line, const std::string& expected, Numbers numbers = Numbers::kExact);

  // Returns whether `what` is available, and prints a note if it is not. "package": Taper can be
  // installed from this build and used by programs. "gpu" and "images": support for them. Anything
  // else: a program on PATH.
  bool has(int line, const std::string& what);

 private:
  void fail(const std::string& what);

  std::string path_, printed_;
  int line_ = 0;
  std::filesystem::path folder_, before_;
  std::ostringstream out_;
  std::streambuf* cout_ = nullptr;  // set while a block's output is captured
  // over_: skip the rest, which needs something that is missing
  bool failed_ = false, over_ = false;
};

}  // namespace taper::v0::guide
