#include "tests/conformance/conformance.h"

#include <algorithm>

#include "autograd/ops/linalg/linalg_ops.h"
#include "framework/base/error.h"
#include "framework/cuda/cuda.h"
#include "tests/conformance/expected.h"
#include "tests/conformance/families.h"

namespace taper::v0::conformance {
namespace {

struct Answer {
  std::string text;
  bool raised;
};

Answer raised(const char* kind, const std::exception& error) {
  return {concat_to_string(kind, ": ", error.what()), true};
}

// Returns the answer of a row. An error's text begins with PyTorch's name of the exception.
Answer answer_of(const Row& row) try { return {row.run(), false}; } catch (const ValueError& e) {
  return raised("ValueError", e);
} catch (const TypeError& e) {
  return raised("TypeError", e);
} catch (const linalg::LinAlgError& e) {
  return raised("_LinAlgError", e);
} catch (const IndexError& e) {
  return raised("IndexError", e);
} catch (const NotImplementedError& e) {
  return raised("NotImplementedError", e);
} catch (const AcceleratorError& e) {
  return raised("AcceleratorError", e);
} catch (const OutOfMemoryError& e) {
  return raised("OutOfMemoryError", e);
} catch (const Error& e) {
  return raised("RuntimeError", e);
} catch (const std::exception& e) {
  return raised("an exception that is not Taper's", e);
}

std::string without_torch(std::string text) {
  constexpr std::string_view kPrefix = "torch.";
  for (size_t at; (at = text.find(kPrefix)) != std::string::npos;) text.erase(at, kPrefix.size());
  return text;
}

// Returns the text with which our error must begin. What follows are PyTorch's hints, or names of
// its wrapper functions.
std::string beginning(const std::string& error) {
  return error.substr(0, std::min(error.find('\n'), error.find(" (when checking")));
}

std::string wanted(const Row& row) {
  if (!row.ours.empty()) return row.ours;
  const std::string& theirs = expected_row(row.name).text;
  return row.differs.empty() ? theirs : without_torch(theirs);
}

const char* word_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::kHeld: return "held";
    case Outcome::kDiffers: return "differs";
    case Outcome::kSkipped: return "skipped";
    case Outcome::kFailed: return "FAILED";
  }
  return "";
}

std::string padded(std::string text, size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

}  // namespace

const std::vector<Row>& all_rows() {
  static const Rows rows = [] {
    Rows all;
    for (const auto add : {device_rows, print_rows, move_rows, compute_rows, module_rows,
                           runtime_rows, operator_rows, linalg_rows}) {
      add(all);
    }
    return all;
  }();
  return rows;
}

Result check(const Row& row) {
  if (const int seen = cuda::device_count(); seen < row.gpus) {
    return {
        Outcome::kSkipped,
        concat_to_string("needs ", row.gpus == 1 ? "a GPU" : concat_to_string(row.gpus, " GPUs"),
                         "; visible: ", seen)};
  }
  const Answer got = answer_of(row);
  const std::string want = wanted(row);
  const bool same = got.raised ? got.text.starts_with(beginning(want)) : got.text == want;
  if (!same)
    return {Outcome::kFailed, concat_to_string("expected: ", want, "\n  got:      ", got.text)};
  if (!row.differs.empty()) return {Outcome::kDiffers, row.differs};
  return {Outcome::kHeld, ""};
}

Report run_all() {
  Report report{"", 0};
  int counts[size_t(Outcome::kFailed) + 1] = {};
  size_t width = 0;
  for (const Row& row : all_rows()) width = std::max(width, row.name.size());
  for (const Row& row : all_rows()) {
    const Result result = check(row);
    ++counts[size_t(result.outcome)];
    const char* word = word_of(result.outcome);
    report.text +=
        concat_to_string(padded(row.name, width), "  ",
                         result.text.empty() ? word : padded(word, 7) + "  " + result.text, "\n");
  }
  const auto count = [&](Outcome outcome) { return counts[size_t(outcome)]; };
  report.failed = count(Outcome::kFailed);
  report.text +=
      concat_to_string("\n", all_rows().size(), " rows: ", count(Outcome::kHeld), " held, ",
                       count(Outcome::kDiffers), " differ on purpose, ", count(Outcome::kSkipped),
                       " skipped for want of GPUs, ", report.failed, " failed\n");
  return report;
}

}  // namespace taper::v0::conformance
