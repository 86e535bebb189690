// One test for each row of pytorch-2.11.json.
#include "tests/conformance/conformance.h"

#include <cctype>
#include <functional>
#include <regex>
#include <set>

#include <gtest/gtest.h>

#include "framework/kernels/linalg/factorizations.h"
#include "tests/conformance/expected.h"

namespace taper::v0::conformance {
namespace {

class Conformance : public testing::TestWithParam<size_t> {};

TEST_P(Conformance, HoldsOrDiffersOnPurpose) {
  const Result result = check(all_rows()[GetParam()]);
  if (result.outcome == Outcome::kSkipped) GTEST_SKIP() << result.text;
  EXPECT_NE(result.outcome, Outcome::kFailed) << result.text;
}

// Returns a valid name of a test, with letters, digits and _: device_parse_cuda_minus1_ for
// "device.parse[cuda:-1]".
std::string test_name(const testing::TestParamInfo<size_t>& info) {
  std::string name;
  for (const char c : all_rows()[info.param].name) {
    if (c == '-') {
      name += "minus";
    } else if (c == ' ') {
      name += "space";
    } else {
      name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    }
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Rows, Conformance, testing::Range<size_t>(0, all_rows().size()),
                         test_name);

TEST(ConformanceTable, HasEachRowOfThePyTorchFileOnce) {
  std::multiset<std::string> ours, theirs;
  for (const Row& row : all_rows()) ours.insert(row.name);
  for (const Expected& row : expected_rows()) theirs.insert(row.name);
  EXPECT_EQ(ours, theirs);
}

TEST(ConformanceTable, SaysWhyWhereOurTextIsAnother) {
  for (const Row& row : all_rows()) {
    EXPECT_TRUE(row.ours.empty() || !row.differs.empty()) << row.name;
  }
}

TEST(ConformanceCheck, FindsWhatDoesNotHold) {
  const auto outcome = [](const char* name, std::function<std::string()> run) {
    return check({.name = name, .run = std::move(run)}).outcome;
  };
  const std::string wrong = "tensor([1, 2, 4])";
  EXPECT_EQ(outcome("print.cpu.int1d", [&] { return wrong; }), Outcome::kFailed);
  EXPECT_EQ(outcome("print.cpu.int1d", [] { return "tensor([1, 2, 3])"; }), Outcome::kHeld);
  EXPECT_EQ(outcome("shape.add", [&] { return wrong; }), Outcome::kFailed);
  EXPECT_EQ(outcome("shape.add", []() -> std::string { throw std::runtime_error("other"); }),
            Outcome::kFailed);
  EXPECT_EQ(check({.name = "mix.add", .gpus = 1000, .run = [&] { return wrong; }}).outcome,
            Outcome::kSkipped);
}

TEST(ConformanceReport, CountsEachRowAndFindsNoFailure) {
  const Report report = run_all();
  EXPECT_EQ(report.failed, 0) << report.text;
  EXPECT_NE(report.text.find("\nprint.cpu.int1d "), std::string::npos) << report.text;
  const int rows = *kernels::missing_lapack() ? 232 : 272;
  const std::string end = concat_to_string(
      "\n", rows,
      " rows: [0-9]+ held, [0-9]+ differ on purpose, [0-9]+ skipped for want of GPUs, 0 failed\n$");
  EXPECT_TRUE(std::regex_search(report.text, std::regex(end))) << report.text;
}

}  // namespace
}  // namespace taper::v0::conformance
