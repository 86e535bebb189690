// The progress bar shows the most important values that fit into the width.
#include "apps/runner/report/progress.h"

#include <gtest/gtest.h>

namespace taper::v0::runner {
namespace {

TEST(Bar, SaysWhatHasRoom) {
  const ProgressSnapshot at{.step = 1234,
                            .total = 5000,
                            .epoch = 12,
                            .samples_per_second = 20480.4,
                            .seconds_left = 3723,
                            .loss = 1.23456,
                            .lr = 0.001};
  struct Row {
    size_t columns;
    const char* line;
  };
  const Row rows[] = {
      {200,
       "epoch 12  [#####...................]  1234/5000  20480 samples/s  loss 1.2346  lr 0.001  "
       "1:02:03 left"},
      {80, "epoch 12  [##..........]  1234/5000  20480 samples/s  loss 1.2346  1:02:03 left"},
      {60, "epoch 12  [##.......]  1234/5000  loss 1.2346  1:02:03 left"},
      {40, "1234/5000  loss 1.2346  1:02:03 left"},
      {30, "1234/5000  1:02:03 left"},
      {12, "1234/5000"},
      {5, "1234"},
      {1, ""},
      {0, ""},
  };
  for (const Row& row : rows) EXPECT_EQ(bar_of(at, row.columns, false), row.line) << row.columns;
  for (size_t columns = 1; columns < 300; ++columns) {
    EXPECT_LT(bar_of(at, columns, false).size(), columns);
  }
}

TEST(Bar, OfATableSaysHowMuchHasBeenRead) {
  const ReadingSnapshot at{
      .bytes = 45'200'000, .total_bytes = 113'000'000, .rows = 1'234'567, .seconds = 2};
  struct Row {
    size_t columns;
    const char* line;
  };
  const Row rows[] = {
      {200,
       "reading  [#########...............]  40 %  45 of 113 MB  1,234,567 rows  0:00:03 left"},
      {80, "reading  [#######...........]  40 %  45 of 113 MB  1,234,567 rows  0:00:03 left"},
      {58, "reading  [####......]  40 %  1,234,567 rows  0:00:03 left"},
      {30, "reading  40 %  0:00:03 left"},
      {20, "40 %  0:00:03 left"},
      {8, "40 %"},
      {0, ""},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(reading_bar_of(at, row.columns, false), row.line) << row.columns;
  }
  for (size_t columns = 1; columns < 300; ++columns) {
    EXPECT_LT(reading_bar_of(at, columns, false).size(), columns);
  }
  EXPECT_TRUE(reading_bar_of({}, 80, false).find("0 %") != std::string::npos);
}

TEST(Bar, OfOtherWorkSaysHowMuchIsDone) {
  const WorkSnapshot at{
      .what = "evaluating", .unit = "batches", .done = 1200, .total = 3000, .seconds = 4};
  struct Row {
    size_t columns;
    const char* line;
  };
  const Row rows[] = {
      {200, "evaluating  [#########...............]  1,200/3,000 batches  0:00:06 left"},
      {60, "evaluating  [####......]  1,200/3,000 batches  0:00:06 left"},
      {48, "evaluating  1,200/3,000 batches  0:00:06 left"},
      {40, "1,200/3,000 batches  0:00:06 left"},
      {22, "1,200/3,000 batches"},
      {0, ""},
  };
  for (const Row& row : rows)
    EXPECT_EQ(work_bar_of(at, row.columns, false), row.line) << row.columns;
  for (size_t columns = 1; columns < 300; ++columns) {
    EXPECT_LT(work_bar_of(at, columns, false).size(), columns);
  }
  EXPECT_NE(work_bar_of({.what = "reading"}, 80, false).find("0/0"), std::string::npos);
}

TEST(Bar, OfWorkIsForTerminalsOnly) {
  ::testing::internal::CaptureStderr();
  {
    WorkProgress bar("evaluating", "batches", 10);
    for (int64_t i = 0; i < 10; ++i) bar.show(i);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(Wrapped, NoLineHasEightyColumns) {
  EXPECT_EQ(wrapped({}), "");
  EXPECT_EQ(wrapped({"epoch=1", "step=2"}), "epoch=1 step=2");
  const std::string part(38, 'x');
  EXPECT_EQ(wrapped({part, part + "yy", part}), part + " " + part + "yy\n  " + part);
  EXPECT_EQ(wrapped({part, part + "yyy"}), part + "\n  " + part + "yyy");
}

TEST(Bar, BeforeTheFirstLossThereIsNone) {
  const ProgressSnapshot at{.step = 1, .total = 5000};
  EXPECT_EQ(bar_of(at, 200, false).find("loss"), std::string::npos);
}

TEST(Bar, ColoursTakeNoRoom) {
  const ProgressSnapshot at{.step = 5, .total = 5, .loss = 1};
  std::string line = bar_of(at, 50, true);
  for (const std::string code : {"\033[32m", "\033[0m"}) {
    ASSERT_NE(line.find(code), std::string::npos);
    line.erase(line.find(code), code.size());
  }
  EXPECT_EQ(line, bar_of(at, 50, false));
}

}  // namespace
}  // namespace taper::v0::runner
