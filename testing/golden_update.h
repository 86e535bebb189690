// Reads golden files for the helpers of this folder, and writes them if the environment requests
// it.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "framework/gate/gate_verdict.h"
#include "framework/gate/golden.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::test {

// Returns the index of an element from its position in row-major order, as "[1, 0]".
std::string place(const Shape& shape, size_t flat);

// What TAPER_UPDATE_GOLDEN and TAPER_BLESS request.
struct GoldenRequest {
  bool adds = false;     // writes what is missing
  std::string reason{};  // replaces numbers for this reason; empty: replaces none
};
// Throws ValueError if TAPER_BLESS is set, but is not a reason.
GoldenRequest golden_request();

// What a test compares with a golden, or records in it.
struct Observed {
  std::string config{};             // what the numbers depend on, one "name: value" on each line
  golden::GoldenSection section{};  // metadata and rows, without curves
  // Returns the section with all that is recorded. Called only if the section is written.
  std::function<golden::GoldenSection()> record{};
  int64_t seeds = 0;  // the number of curves of `record`
};
// Returns the values of this program and machine.
golden::RunMetadata test_metadata(Device device, const std::string& compiler);

// A golden file of a test, and the section that the observed numbers are compared with.
class TestGolden {
 public:
  // Reads the file. kind: what it must hold, "tensors" or "training". Throws InputError if it is
  // missing and must not be written, or cannot be used.
  TestGolden(std::filesystem::path file, std::string kind);

  // Takes the observed numbers. Writes the file if that is requested and necessary, and returns the
  // verdict on that; returns std::nullopt if the numbers are to be compared.
  std::optional<golden::Verdict> updated(Observed observed);

  const golden::Golden& golden() const { return golden_; }
  golden::ChosenSection chosen() const;
  // Returns the name of the file and the chosen section.
  std::string head() const;
  // Returns the lines of the configs that differ, as "  lr: 0.2 | 0.1".
  std::string config_differences() const;
  // Returns the cause of different numbers in one line, and the lines of the configs that differ.
  std::string cause() const;

 private:
  golden::Verdict add(const std::string& how);
  golden::Verdict bless();
  // Writes the file, unless another process has changed it since it was read.
  golden::Verdict save(const std::string& how) const;
  golden::GoldenSection recorded() const;

  std::string config_text() const;

  const std::filesystem::path file_;
  const std::string kind_;
  const GoldenRequest request_;
  const std::string text_;  // of the file when it was read; empty: there was none
  const bool exists_;
  Observed observed_;
  golden::Golden golden_;
};

}  // namespace taper::v0::test
