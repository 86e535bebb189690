// `taper record --time` and `taper check --time`. Times are injected, or differ by several times,
// so that no result depends on how busy the machine is.
#include "apps/runner/programs/speed.h"

#include <cmath>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/runner/programs/bootstrap.h"
#include "tests/runner/run_process.h"
#include "tests/text.h"

namespace taper::v0::runner {
namespace {

using Words = std::vector<std::string>;

// --- the bootstrap ---

const std::vector<double> kFifteen = {1.02, 0.97, 1.05, 1.11, 0.99, 1.01, 1.04, 0.95,
                                      1.08, 1.00, 1.03, 0.98, 1.06, 1.20, 0.96};
const std::vector<double> kSix = {1.0, 1.2, 0.9, 1.4, 1.1, 1.3};

struct IntervalRow {
  const std::vector<double>& values;
  double alpha, low, high, tolerance;
};

// scipy 1.17: scipy.stats.bootstrap((x,), np.median, confidence_level=1 - alpha,
//             n_resamples=99999, method="percentile", rng=1).confidence_interval
TEST(Bootstrap, TheIntervalOfTheMedianIsThatOfSciPy) {
  const IntervalRow rows[] = {
      {kFifteen, 0.1, 0.99, 1.05, 1e-12},   {kFifteen, 0.02, 0.98, 1.06, 1e-12},
      {kFifteen, 0.005, 0.97, 1.08, 1e-12}, {kSix, 0.05, 0.95, 1.35, 1e-12},
      {kSix, 0.32, 1.05, 1.25, 1e-12},
  };
  for (const IntervalRow& row : rows) {
    SCOPED_TRACE(row.alpha);
    const Interval got = bootstrap_median(row.values, {.alpha = row.alpha});
    EXPECT_NEAR(got.low, row.low, row.tolerance);
    EXPECT_NEAR(got.high, row.high, row.tolerance);
  }
}

TEST(Bootstrap, IsDeterministicAndHasExtremes) {
  const Interval first = bootstrap_median(kSix), again = bootstrap_median(kSix);
  EXPECT_EQ(first.low, again.low);
  EXPECT_EQ(first.high, again.high);
  const Interval one = bootstrap_median({2.5});
  EXPECT_EQ(one.low, 2.5);
  EXPECT_EQ(one.high, 2.5);
  EXPECT_EQ(median_of({3, 1, 2}), 2);
  EXPECT_EQ(median_of({4, 1, 2, 3}), 2.5);
  EXPECT_THROW(bootstrap_median({}), ValueError);
  EXPECT_THROW(bootstrap_median({1, NAN}), ValueError);
}

// Returns how often the interval of 15 ratios of equal programs misses the true ratio, 1.
double miss_rate(double alpha) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> noise(0, 0.05);
  constexpr int kSimulations = 1000;
  int misses = 0;
  for (int i = 0; i < kSimulations; ++i) {
    std::vector<double> ratios;
    for (int j = 0; j < 15; ++j) ratios.push_back(std::exp(noise(random) - noise(random)));
    const Interval interval = bootstrap_median(ratios, {.alpha = alpha, .resamples = 999});
    misses += interval.low > 1 || interval.high < 1 ? 1 : 0;
  }
  return double(misses) / kSimulations;
}

// The interval reaches from the k-th smallest to the k-th largest ratio (the rows above), so it
// misses the median with the probability 2 P(B < k) for B ~ Binomial(15, 1/2), whatever the
// distribution: 2 * scipy.stats.binom.cdf(k - 1, 15, 0.5) is 0.118 for k = 5, 0.035 for k = 4, and
// 0.0074 for k = 3, the default.
TEST(Bootstrap, TheIntervalMissesTheTrueRatioAsOftenAsThePageSays) {
  EXPECT_NEAR(miss_rate(0.1), 0.118, 0.035);
  EXPECT_NEAR(miss_rate(0.02), 0.035, 0.02);
}

// --- pairs and verdicts ---

TEST(SpeedPairs, BeginAlternatelyAfterAWarmUp) {
  std::string order;
  double clock = 0;
  const SpeedSamples samples = measure_pairs(
      [&](const std::string& program) {
        order += program;
        return SpeedSample{.process_seconds = ++clock};
      },
      "a", "b", 5);
  EXPECT_EQ(order,
            "ab"
            "ab"
            "ba"
            "ab"
            "ba"
            "ab");
  ASSERT_EQ(samples.old.size(), 5u);
  ASSERT_EQ(samples.now.size(), 5u);
  EXPECT_EQ(samples.old[0].process_seconds, 3);  // the warm-up is not counted
  EXPECT_EQ(samples.now[0].process_seconds, 4);
  EXPECT_EQ(samples.now[1].process_seconds, 5);
  EXPECT_EQ(samples.old[1].process_seconds, 6);
  EXPECT_THROW(measure_pairs({}, "a", "b", 4), ConfigError);
}

// Returns pairs in which the new program takes `ratio` times as long, with noise that repeats.
SpeedSamples with_ratio(double ratio, double noise = 0.01) {
  SpeedSamples out;
  for (int i = 0; i < 15; ++i) {
    const double drift = 1 + 0.1 * i, off = 1 + noise * ((i * 7) % 15 - 7) / 7;
    out.old.push_back({2 * drift, drift, 1000});
    out.now.push_back({2 * drift * ratio * off, drift * ratio * off, 1000});
  }
  return out;
}

struct VerdictRow {
  double ratio, noise, slower;
  const char* verdict;
};

TEST(SpeedVerdict, DependsOnWhereTheIntervalIs) {
  const VerdictRow rows[] = {
      {1.0, 0.01, 0.05, "pass"},        {1.03, 0.01, 0.05, "pass"},
      {0.5, 0.01, 0.0, "pass"},         {1.2, 0.01, 0.05, "fail"},
      {3.0, 0.01, 0.05, "fail"},        {3.0, 0.01, 4, "pass"},
      {1.0, 0.01, 0.0, "inconclusive"}, {1.05, 0.01, 0.05, "inconclusive"},
      {1.0, 0.5, 0.05, "inconclusive"}, {1.02, 0.01, 0.0, "fail"},
  };
  for (const VerdictRow& row : rows) {
    SCOPED_TRACE(concat_to_string(row.ratio, " ", row.noise, " ", row.slower));
    const Verdict verdict = compare_speed(with_ratio(row.ratio, row.noise), {.slower = row.slower});
    EXPECT_EQ(verdict.name(), row.verdict) << verdict.text;
    ASSERT_EQ(verdict.ratios.size(), 2u);
    EXPECT_NEAR(verdict.ratios[0].ratio, row.ratio, 1e-9);  // the drift cancels out
  }
}

TEST(SpeedVerdict, TimesThatOneProgramLacksAreNotCompared) {
  SpeedSamples samples = with_ratio(1);
  samples.old[3].training_seconds.reset();
  const Verdict verdict = compare_speed(samples, {});
  ASSERT_EQ(verdict.ratios.size(), 1u);
  EXPECT_EQ(verdict.ratios[0].name, "whole process");
}

struct MemoryRow {
  int64_t old, now;
  bool is_on_gpu;
  const char* verdict;
};

TEST(SpeedVerdict, MemoryIsComparedExactlyOnAGpu) {
  const MemoryRow rows[] = {
      {1000, 1000, true, "pass"},  {1000, 1001, true, "fail"},  {1000, 999, true, "pass"},
      {1000, 1050, false, "pass"}, {1000, 1051, false, "fail"}, {1000, 10, false, "pass"},
  };
  for (const MemoryRow& row : rows) {
    SCOPED_TRACE(row.now);
    SpeedSamples samples = with_ratio(1);
    for (SpeedSample& s : samples.old)
      s = {s.process_seconds, s.training_seconds, row.old, row.is_on_gpu};
    for (SpeedSample& s : samples.now)
      s = {s.process_seconds, s.training_seconds, row.now, row.is_on_gpu};
    const Verdict verdict = compare_speed(samples, {});
    EXPECT_EQ(verdict.name(), row.verdict) << verdict.text;
  }
  SpeedSamples old = with_ratio(1);
  old.old[0].peak_bytes.reset();
  EXPECT_TRUE(contains(compare_speed(old, {}).text, "peak memory: not compared"));
}

// --- the commands ---

constexpr const char* kTimed =
    "device: cpu\nseed: 3\n"
    "data: {type: digits, train_size: 256, test_size: 64}\n"
    "model: {type: mlp, hidden: [16]}\n"
    "optimizer: {type: sgd, lr: 0.1}\n"
    "train: {epochs: 1, batch_size: 64}\n";

class Speed : public ::testing::Test {
 protected:
  Speed() { write_bytes(at_ / "c.yaml", kTimed); }

  RunDirectory::Outcome check(const Words& more) const {
    Words words = {"check", "c.yaml", "--time", "--pairs", "5"};
    words.insert(words.end(), more.begin(), more.end());
    return at_.taper(words);
  }

  RunDirectory at_;
};

void expect_end(const RunDirectory::Outcome& end, int code, const Words& parts) {
  EXPECT_EQ(end.code, code) << end.out << end.err;
  for (const std::string& part : parts) {
    EXPECT_TRUE(contains(end.out + end.err, part)) << part << " in\n" << end.out << end.err;
  }
}

TEST_F(Speed, APlantedSleepAndMoreMemoryFail) {
  const std::string slow = at_.write_program("slow", "sleep 2");
  expect_end(check({"--program", TAPER_PROGRAM, "--program", slow, "--slower", "1"}), 1,
             {"fail: times of the new program", "  training steps: ", "  whole process: ", "(fail)",
              "peak memory of tensors: "});
  const std::string large =
      at_.write_program("large", "sed 's/\\[16\\]/[2048]/' $config > $0.yaml; config=$0.yaml");
  expect_end(check({"--program", TAPER_PROGRAM, "--program", large, "--slower", "1000"}), 1,
             {"  peak memory of tensors: ", " bytes, 5 % more are allowed (fail)\n"});
}

TEST_F(Speed, AStoredProgramIsComparedWithTheCurrentOne) {
  expect_end(
      at_.taper(
          {"record", "c.yaml", "--time", "--to", "speed.json", "--pairs", "5", "--steps", "2"}),
      0, {"recorded speed.program; equal programs measured in 5 pairs:\n", "  training steps: "});
  const std::string recorded = read_bytes(at_ / "speed.json");
  EXPECT_TRUE(contains(recorded, "\"steps\": 2")) << recorded;
  // The program itself, with any slowdown that a busy machine may cause.
  expect_end(check({"--against", "speed.json", "--slower", "1000", "--json", "v.json"}), 0,
             {"pass: times of the new program, relative to the old one, at most 1001"});
  EXPECT_TRUE(contains(read_bytes(at_ / "v.json"), "\"name\": \"training steps\""));
  expect_end(check({"--against", "speed.json", "--program", at_.write_program("slow", "sleep 2"),
                    "--slower", "1"}),
             1, {"whole process: "});
  // Nothing is overwritten.
  expect_end(at_.taper({"record", "c.yaml", "--time", "--to", "speed.json"}), 2,
             {"'speed.json' exists; remove it"});
  write_bytes(at_ / "other.yaml", std::string(kTimed) + "name: other\n");
  write_bytes(at_ / "wider.yaml", "include: c.yaml\nmodel: {hidden: [17]}\n");
  expect_end(at_.taper({"check", "wider.yaml", "--time", "--against", "speed.json"}), 2,
             {"records another config", "both programs must train the same"});
  write_bytes(at_ / "speed.program", "#!/bin/sh\n");
  expect_end(check({"--against", "speed.json"}), 66, {"has changed: the CRC-32 of "});
  std::filesystem::remove(at_ / "speed.program");
  expect_end(check({"--against", "speed.json"}), 66, {"is missing: speed.program"});
}

TEST_F(Speed, MistakesHaveOneMessageEach) {
  const std::string failing = at_.write_program("failing", "echo broken; exit 70");
  write_bytes(at_ / "golden.json", "{\"recording\": 2}");
  struct Row {
    Words words;
    int code;
    Words says;
  };
  const Row rows[] = {
      {{"check", "c.yaml", "--time"},
       2,
       {"check --time compares two programs: give --program OLD"}},
      {{"check", "c.yaml"}, 2, {"--against is required"}},
      {{"check", "c.yaml", "--against", "g.json", "--program", "x"}, 2, {"--program needs --time"}},
      {{"record", "c.yaml", "--to", "g.json", "--program", "x"}, 2, {"--program needs --time"}},
      {{"check", "c.yaml", "--time", "--program", "a", "--program", "b", "--against", "g.json"},
       2,
       {"check --time compares two programs"}},
      {{"check", "c.yaml", "--time", "--program", "a", "--program", "b", "--seeds", "5"},
       2,
       {"takes neither --seeds nor --tolerance"}},
      {{"check", "c.yaml", "--time", "--program", "a", "--program", "b", "--program", "c"},
       2,
       {"compares two programs, not 3"}},
      {{"check", "none.yaml", "--time", "--program", "a", "--program", "b"}, 66, {"none.yaml"}},
      {{"check", "c.yaml", "--time", "--program", "./a", "--program", "b"},
       66,
       {"cannot run the program './a'"}},
      {{"check", "c.yaml", "--time", "--program", failing, "--program", failing},
       70,
       {"failed with exit code 70:\nbroken"}},
      {{"check", "c.yaml", "--time", "--against", "none.json"}, 66, {"none.json"}},
      {{"check", "c.yaml", "--time", "--against", "golden.json"},
       66,
       {"golden.json:1: is not a recording of `taper record --time`"}},
      {{"record", "c.yaml", "--time", "--to", "s.program"}, 2, {"expected a .json file"}},
      {{"record", "c.yaml", "--time", "--to", "missing/s.json", "--program", failing},
       74,
       {"missing/s.json: cannot create the file"}},
      {{"record", "c.yaml", "--time", "--to", "s.json", "--program", "./a"},
       66,
       {"cannot run the program './a'"}},
      {{"record", "c.yaml", "--time", "--to", "s.json", "--pairs", "4"}, 2, {"--pairs"}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(::testing::PrintToString(row.words));
    expect_end(at_.taper(row.words), row.code, row.says);
  }
}

}  // namespace
}  // namespace taper::v0::runner
