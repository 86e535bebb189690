// Golden files: sections, damage, curves, derived tolerances and bless.
#include "framework/gate/golden.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/runner/base/files.h"
#include "apps/runner/gate/cause.h"
#include "apps/runner/gate/seeds.h"
#include "framework/gate/curves.h"
#include "framework/host/thread_pool.h"
#include "testing/training_golden.h"
#include "tests/runner/run_process.h"
#include "tests/testing.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSmall =
    "name: small\ndevice: cpu\nseed: 3\n"
    "data: {type: digits, train_size: 256, test_size: 64}\n"
    "model: {type: mlp, hidden: [16], dropout: 0.1}\n"
    "optimizer: {type: sgd, lr: 0.1}\n"
    "train: {epochs: 1, batch_size: 64}\n";

std::string with(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " in\n" << text;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

GoldenSection section_for(const std::string& isa) {
  GoldenSection out;
  out.metadata.program = {{"device", "cpu"}, {"isa", isa}, {"commit", "abc"}};
  out.rows = {{{"step", "1"}, {"loss", "0x1p+1"}}, {{"step", "2"}, {"loss", "0x1p+0"}}};
  out.curves.seeds = {3, 4, 5};
  out.curves.rows = {{{"step", "1"}, {"loss", "0x1p+1 0x1p+1 0x1.8p+1"}},
                     {{"step", "2"}, {"loss", "0x1p+0 0x1p+0 -"}}};
  return out;
}

class Goldens : public ::testing::Test {
 protected:
  Goldens() { write_bytes(at_ / "small.yaml", kSmall); }

  template <class E, class F> void refuses(F f, const std::vector<std::string>& parts) {
    try {
      (void)f();
      ADD_FAILURE() << "accepted; expected: " << parts[0];
    } catch (const E& error) {
      for (const std::string& part : parts) {
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << part << " in\n"
                                                                           << error.what();
      }
    }
  }

  RunDirectory at_;
};

TEST_F(Goldens, AFileIsReadAsItWasWritten) {
  const fs::path file = at_ / "g.json";
  Golden golden;
  golden.config = kSmall;
  golden.steps = 2;
  golden.sections = {section_for("avx2"), section_for("avx512_core")};
  golden.sections[1].tolerances = {{"loss", 0.5}};
  golden.sections[1].spread = {{"loss", 0.25}};
  golden.sections[1].cover = {"threads"};
  golden.history = {{{"author", "A"}, {"reason", "because \"it\" is right"}}};
  save_golden(golden, file);
  const std::string text = read_bytes(file);
  save_golden(load_golden(file), file);
  EXPECT_EQ(read_bytes(file), text);
  const Golden again = load_golden(file);
  EXPECT_EQ(again.sections.size(), 2u);
  EXPECT_EQ(again.sections[1].curves.rows, golden.sections[1].curves.rows);
  EXPECT_EQ(again.history, golden.history);
  EXPECT_EQ(choose_section(again, golden.sections[1].metadata).number, 2);
  // One line for each step, so that a diff shows the steps that changed.
  EXPECT_NE(text.find("\n{\"loss\":\"0x1p+1\",\"step\":\"1\"},\n{\"loss\""), std::string::npos)
      << text;
}

TEST_F(Goldens, APlatformHasWhatBitsDependOn) {
  const MetadataMap cpu = {{"device", "cpu"}, {"cpu", "Epyc"}, {"isa", "avx2"}, {"commit", "abc"}};
  EXPECT_EQ(platform_text(cpu), "cpu, isa avx2");
  const MetadataMap gpu = {{"device", "cuda:1"}, {"gpu", "H100"},      {"cpu", "Epyc"},
                           {"isa", "avx2"},      {"cublas", "13.1.0"}, {"cudnn", "9.14.0"},
                           {"nccl", "2.28.9"},   {"driver", "13.0"},   {"onednn", "3.1"}};
  EXPECT_EQ(platform_text(gpu), "cuda, gpu H100, onednn 3.1, cublas 13.1.0, cudnn 9.14.0");
  // Recordings of older versions have no instruction set.
  EXPECT_EQ(platform_text({{"device", "cpu"}, {"cpu", "Epyc"}}), "cpu, cpu Epyc");
  EXPECT_EQ(platform_text({}), "an unknown platform");
  // On a GPU, no section of a CPU fits, and a new cuBLAS needs a new section.
  Golden golden;
  golden.sections = {section_for("avx2"), section_for("avx512_core")};
  golden.sections[1].metadata.program = gpu;
  EXPECT_EQ(choose_section(golden, {gpu}).number, 2);
  EXPECT_TRUE(choose_section(golden, {gpu}).matches);
  MetadataMap newer = gpu;
  newer["cublas"] = "13.2.0";
  newer["isa"] = "sse41";
  EXPECT_EQ(choose_section(golden, {newer}).number, 2);
  EXPECT_FALSE(choose_section(golden, {newer}).matches);
}

TEST_F(Goldens, ATestsGoldenIsNoRecordingOfARun) {
  const fs::path file = at_ / "g.json", run = at_ / "small.yaml";
  Golden golden;
  golden.config = "golden: training\nfirst seed: 0\n";
  golden.sections = {section_for("avx2")};
  save_golden(golden, file);
  const std::string before = read_bytes(file);
  const std::vector<std::string> says = {file.string(), "is a golden of taper::testing"};
  refuses<InputError>([&] { return check(run, file); }, says);
  refuses<InputError>([&] { return record(run, file); }, says);
  refuses<InputError>([&] { return bless(run, file, {.reason = "r", .author = "A"}); }, says);
  EXPECT_EQ(read_bytes(file), before);
}

TEST_F(Goldens, EachKindOfDamageHasAMessageOfItsOwn) {
  const fs::path file = at_ / "g.json";
  Golden golden;
  golden.sections = {section_for("avx2"), section_for("avx512_core")};
  save_golden(golden, file);
  const std::string whole = read_bytes(file);
  const auto expect = [&](const std::string& text, const std::vector<std::string>& parts) {
    write_bytes(file, text);
    refuses<InputError>([&] { return load_golden(file); }, parts);
    EXPECT_EQ(read_bytes(file), text) << "the file must remain as it is";
  };
  const std::string name = file.string();
  expect("{\"epochs\": 3}", {name + ":1: is not a recording of `taper record`"});
  expect(with(whole, "\"recording\": 2", "\"recording\": 7"),
         {name, "has format 7 of a newer version of Taper; this program reads formats up to 2"});
  expect(whole.substr(0, whole.size() / 2), {name + ":"});
  expect(with(whole, "0x1.8p+1", "0x1.9p+1"),
         {name + ": section 1 was edited or is damaged: its CRC-32 is "});
  expect(with(whole, "\"steps\": 0", "\"steps\": 1"), {"section 1 was edited or is damaged"});
  golden.sections[1] = golden.sections[0];
  save_golden(golden, file);
  expect(read_bytes(file), {"sections 1 and 2 contradict each other: both are for cpu, isa avx2"});
  golden.sections[1] = section_for("sse41");
  golden.sections[1].rows.pop_back();
  save_golden(golden, file);
  expect(read_bytes(file), {"sections 1 and 2 contradict each other: they record different steps"});
  golden.sections.clear();
  save_golden(golden, file);
  expect(read_bytes(file), {"has no section"});
}

TEST_F(Goldens, RecordingAgainAddsASectionAndOverwritesNone) {
  const fs::path file = at_ / "g.json", run = at_ / "small.yaml";
  record(run, file);
  const std::string first = read_bytes(file);
  const Verdict again = record(run, file);
  EXPECT_TRUE(again.passed);
  EXPECT_NE(again.text.find("already has these numbers; nothing was written"), std::string::npos);
  EXPECT_EQ(read_bytes(file), first);
  write_bytes(at_ / "other.yaml", with(kSmall, "lr: 0.1", "lr: 0.2"));
  refuses<ConfigError>([&] { return record(at_ / "other.yaml", file); },
                       {"records another config", "optimizer.lr: 0.2 | 0.1"});
  refuses<ConfigError>([&] { return record(run, file, {.steps = 2}); }, {"must have the same"});
  Golden golden = load_golden(file);
  golden.sections[0].rows[0]["loss"] = "0x1p+3";
  save_golden(golden, file);
  refuses<ConfigError>([&] { return record(run, file); },
                       {"section 1 of ", "has other numbers; `taper bless` replaces it"});
  golden.sections[0].metadata.program["isa"] = "abacus";
  save_golden(golden, file);
  EXPECT_TRUE(record(run, file).passed);
  EXPECT_EQ(load_golden(file).sections.size(), 2u);
  write_bytes(at_ / "notes.json", "{}");
  refuses<InputError>([&] { return record(run, at_ / "notes.json"); }, {"is not a recording"});
  EXPECT_EQ(read_bytes(at_ / "notes.json"), "{}");
}

TEST_F(Goldens, PlatformsWithTheSameNumbersShareASectionUntilOneIsBlessed) {
  const fs::path file = at_ / "g.json", run = at_ / "small.yaml";
  record(run, file, {.seeds = 3});
  Golden golden = load_golden(file);
  golden.sections[0].metadata.program["isa"] = "abacus";
  save_golden(golden, file);
  EXPECT_NE(record(run, file, {.seeds = 3}).text.find("section 1 of "), std::string::npos);
  golden = load_golden(file);
  ASSERT_EQ(golden.sections.size(), 1u);
  ASSERT_EQ(golden.sections[0].also.size(), 1u);
  const Verdict same = check(run, file);
  EXPECT_TRUE(same.passed);
  EXPECT_NE(same.text.find("section 1 of 1: cpu, "), std::string::npos) << same.text;
  EXPECT_NE(same.text.find("(and 1 other with the same numbers)"), std::string::npos) << same.text;
  EXPECT_EQ(same.text.find("abacus"), std::string::npos) << "this machine's platform is named";
  // The numbers move: this machine gets a new section, and the other section keeps its numbers.
  golden.sections[0].rows[0]["loss"] = "0x1p+3";
  save_golden(golden, file);
  EXPECT_FALSE(check(run, file).passed);
  EXPECT_TRUE(bless(run, file, {.reason = "moved", .author = "A"}).passed);
  golden = load_golden(file);
  ASSERT_EQ(golden.sections.size(), 2u);
  EXPECT_EQ(golden.sections[0].metadata.program.at("isa"), "abacus");
  EXPECT_TRUE(golden.sections[0].also.empty());
  EXPECT_EQ(golden.sections[0].rows[0].at("loss"), "0x1p+3");
  EXPECT_TRUE(check(run, file).passed);
  // A section that stopped at another step would contradict the first section.
  golden.sections[0].rows.pop_back();
  EXPECT_THROW(add_section(golden, golden.sections[1]), ValueError);
  golden = load_golden(file);
  // A platform that is listed twice is a contradiction.
  golden.sections[0].also = {golden.sections[1].metadata.program};
  save_golden(golden, file);
  refuses<InputError>([&] { return load_golden(file); }, {"sections 1 and 2 contradict"});
}

TEST_F(Goldens, SeedsGiveTheSameCurvesOneByOneAndSideBySide) {
  const std::vector<Phase> phases = phases_of_run(at_ / "small.yaml");
  std::vector<Repetition> seeds;
  for (const int64_t seed : seeds_from(3, 4)) seeds.push_back(with_seed(phases, seed));
  const auto one_by_one = train_all(seeds, {}, {});
  EXPECT_EQ(train_all(seeds, {}, {3}), one_by_one);
  // As on GPUs: each seed has a new process of the program. These see no GPU.
  const Jobs processes{2, {"", ""}, TAPER_PROGRAM};
  EXPECT_EQ(train_all(seeds, {}, processes), one_by_one);
  const RecordOptions first_two{.steps = 2, .state_every = 2};
  EXPECT_EQ(train_all(seeds, first_two, processes), train_all(seeds, first_two, {}));
  EXPECT_NE(one_by_one[0], one_by_one[1]);
  EXPECT_EQ(one_by_one[0].size(), 5u);
}

TEST_F(Goldens, TheErrorOfASeedNamesIt) {
  write_bytes(at_ / "nan.yaml", with(kSmall, "lr: 0.1", "lr: 1e30"));
  const std::vector<Phase> phases = phases_of_run(at_ / "nan.yaml");
  for (const Jobs& jobs : {Jobs(), Jobs{2}, Jobs{2, {""}, TAPER_PROGRAM}}) {
    refuses<Diverged>(
        [&] {
          return train_all({with_seed(phases, 7), with_seed(phases, 8)}, {}, jobs);
        },
        {"seed ", ": the loss became nan"});
  }
  refuses<RunError>([&] { return record(at_ / "nan.yaml", at_ / "g.json", {.seeds = 3}); },
                    {"the loss became nan"});
  EXPECT_FALSE(fs::exists(at_ / "g.json"));
}

TEST_F(Goldens, CurvesOfSeedsThatAreNotFiniteAreRefused) {
  refuses<Diverged>(
      [] {
        return curves_of_seeds(
            {3, 4}, {{{{"step", "1"}, {"loss", "0x1p+0"}}}, {{{"step", "1"}, {"loss", "nan"}}}});
      },
      {"seed 4: loss is nan at step 1"});
}

std::string hex(double x) {
  char text[40];
  std::snprintf(text, sizeof text, "%a", x);
  return text;
}

Curves curves_of(const std::vector<double>& losses, const std::string& metric) {
  std::vector<std::vector<Recording::Row>> rows;
  for (const double x : losses) {
    rows.push_back({{{"step", "1"}, {metric, hex(x)}}, {{"step", "2"}, {metric, hex(x / 2)}}});
  }
  return combine_curves(seeds_from(1, std::ssize(losses)), rows);
}

struct CurveRow {
  const char* name;
  std::vector<double> got;
  std::string metric;
  bool passes, is_inconclusive;
  std::string says;
};

TEST_F(Goldens, CurvesAreComparedInTheDirectionOfTheMetric) {
  const std::vector<double> want = {1, 1.1, 0.9, 1.05, 0.95, 1.02, 0.98, 1};
  const std::vector<double> larger = {2, 2.1, 1.9, 2.05, 1.95, 2.02, 1.98, 2};
  const CurveRow rows[] = {
      {"equal", want, "loss", true, false, "pass: "},
      {"a larger loss", larger, "loss", false, false, "worse by 0.75"},
      {"a smaller loss",
       {0.1, 0.2, 0.15, 0.1, 0.2, 0.1, 0.2, 0.1},
       "loss",
       true,
       false,
       "better by"},
      {"a larger accuracy", larger, "test.accuracy", true, false, "better by 0.75"},
      {"a larger test loss", larger, "test.loss", false, false, "(fail)"},
      {"few seeds", {1, 1.1, 0.9}, "loss", false, true, "the smallest shift that is found, "},
  };
  for (const CurveRow& row : rows) {
    SCOPED_TRACE(row.name);
    const Verdict verdict =
        compare_seeds(curves_of(row.got, row.metric), curves_of(want, row.metric),
                      {.detect = row.is_inconclusive ? 1.5 : 2.0});
    EXPECT_EQ(verdict.passed, row.passes) << verdict.text;
    EXPECT_EQ(verdict.is_inconclusive, row.is_inconclusive) << verdict.text;
    EXPECT_NE(verdict.text.find(row.says), std::string::npos) << verdict.text;
  }
  const Verdict missing = compare_seeds(curves_of(want, "loss"), curves_of(want, "test.f1"), {});
  EXPECT_FALSE(missing.passed || missing.is_inconclusive);
  EXPECT_NE(missing.text.find("the run has no test.f1, which the recording has"),
            std::string::npos);
  EXPECT_NE(missing.text.find("the recording has no loss, which the run has"), std::string::npos);
  refuses<ConfigError>(
      [&] {
        return compare_seeds(curves_of({1, 2}, "loss"), curves_of(want, "loss"), {});
      },
      {"the run has 2 seeds; statistics need at least 3"});
}

TEST_F(Goldens, TolerancesAreDerivedFromWhatTheRecordingCovers) {
  const fs::path file = at_ / "g.json", run = at_ / "small.yaml";
  record(run, file, {.cover = {Cover::kThreads}});
  EXPECT_EQ(load_golden(file).sections[0].tolerances, Tolerances())
      << "the number of threads changes no bit";
  fs::remove(file);
  record(run, file, {.cover = {Cover::kPrecision}});
  const GoldenSection section = load_golden(file).sections[0];
  EXPECT_GT(section.spread.at("loss"), 0);
  EXPECT_EQ(section.tolerances.at("loss"), 2 * section.spread.at("loss"));
  write_bytes(at_ / "bf16.yaml", with(kSmall, "train: {", "train: {precision: bf16, "));
  EXPECT_TRUE(check(at_ / "bf16.yaml", file).passed);
  EXPECT_FALSE(check(at_ / "bf16.yaml", file, {{"", 0}}).passed);
  fs::remove(file);
  refuses<ConfigError>(
      [&] {
        return record(run, file, {.tolerances = {{"", 1e-9}}, .cover = {Cover::kPrecision}});
      },
      {"is tighter than the spread that was measured, "});
  EXPECT_FALSE(fs::exists(file));
  refuses<ConfigError>([] { return parse_covers({"thread"}); }, {"did you mean 'threads'?"});
  EXPECT_EQ(parse_covers({"threads,seeds", "seeds"}),
            (std::vector<Cover>{Cover::kThreads, Cover::kSeeds}));
}

TEST_F(Goldens, BlessReplacesASectionAndKeepsItsHistory) {
  const fs::path file = at_ / "g.json", run = at_ / "small.yaml";
  record(run, file, {.seeds = 3});
  const std::string before = read_bytes(file);
  for (const char* reason : {"", " \n"}) {
    refuses<ConfigError>([&] { return bless(run, file, {.reason = reason, .author = "A"}); },
                         {"needs a reason"});
  }
  EXPECT_NE(bless(run, file, {.reason = "same", .author = "A"}).text.find("nothing was written"),
            std::string::npos);
  EXPECT_EQ(read_bytes(file), before);
  write_bytes(at_ / "new.yaml", with(kSmall, "lr: 0.1", "lr: 0.2"));
  EXPECT_TRUE(bless(at_ / "new.yaml", file, {.reason = "a better rate", .author = "Ada"}).passed);
  const Golden golden = load_golden(file);
  ASSERT_EQ(golden.sections.size(), 1u);
  EXPECT_EQ(golden.sections[0].curves.seeds.size(), 3u) << "recorded as the old section was";
  ASSERT_EQ(golden.history.size(), 1u);
  const HistoryEntry& entry = golden.history[0];
  EXPECT_EQ(entry.at("author"), "Ada");
  EXPECT_EQ(entry.at("reason"), "a better rate");
  EXPECT_EQ(entry.at("date").size(), 10u);
  EXPECT_EQ(entry.at("first different step"), "1");
  EXPECT_NE(entry.at("loss before"), entry.at("loss after"));
  EXPECT_TRUE(check(at_ / "new.yaml", file).passed);
  EXPECT_FALSE(check(run, file).passed);
  Golden elsewhere = golden;
  elsewhere.sections[0].metadata.program["isa"] = "abacus";
  save_golden(elsewhere, file);
  refuses<ConfigError>([&] { return bless(run, file, {.reason = "r", .author = "A"}); },
                       {"has no section for this machine", "`taper record` adds one"});
}

TEST_F(Goldens, BlessKeepsATolerance) {
  const fs::path file = at_ / "g.json", run = at_ / "small.yaml";
  record(run, file, {.tolerances = {{"loss", 0.5}}, .cover = {Cover::kThreads}});
  write_bytes(at_ / "new.yaml", with(kSmall, "lr: 0.1", "lr: 0.2"));
  EXPECT_TRUE(bless(at_ / "new.yaml", file, {.reason = "r", .author = "A"}).passed);
  const Golden golden = load_golden(file);
  EXPECT_EQ(golden.sections[0].tolerances, (Tolerances{{"loss", 0.5}}));
  EXPECT_EQ(golden.sections[0].cover, std::vector<std::string>{"threads"});
}

TEST_F(Goldens, ALinkToAFileStaysOne) {
  const fs::path run = at_ / "small.yaml";
  fs::create_directories(at_ / "shared");
  record(run, at_ / "shared/g.json", {});
  fs::create_symlink("shared/g.json", at_ / "g.json");
  write_bytes(at_ / "new.yaml", with(kSmall, "lr: 0.1", "lr: 0.2"));
  EXPECT_TRUE(bless(at_ / "new.yaml", at_ / "g.json", {.reason = "r", .author = "A"}).passed);
  EXPECT_TRUE(fs::is_symlink(at_ / "g.json"));
  EXPECT_EQ(load_golden(at_ / "shared/g.json").history.size(), 1u);
}

// The helpers for users' tests know the direction of every metric that ships.
TEST_F(Goldens, TestHelpersAndProgramAgreeOnTheDirectionOfMetrics) {
  for (const std::string& goal : goals()) {
    SCOPED_TRACE(goal);
    const auto training = [&](double shift) {
      return [&goal, shift](uint64_t seed) {
        return test::Metrics{{"test." + goal, shift + 0.1 * double(seed)}};
      };
    };
    const fs::path file = at_ / (goal + ".json");
    ::setenv("TAPER_UPDATE_GOLDEN", "1", 1);
    const Verdict recorded = test::check_bits(training(0), file);
    ::unsetenv("TAPER_UPDATE_GOLDEN");
    ASSERT_TRUE(recorded.passed) << recorded.text;
    const Verdict larger = test::check_statistics(training(10), file);
    EXPECT_EQ(larger.passed, is_better_when_greater(goal)) << larger.text;
  }
}

TEST_F(Goldens, TheCauseSeparatesLibrariesFromCode) {
  Recording want, got;
  want.config = got.config = kSmall;
  want.rows = {{{"step", "1"}, {"loss", "0x1p+0"}}, {{"step", "2"}, {"loss", "0x1p-1"}}};
  got.rows = want.rows;
  got.rows[1]["loss"] = "0x1.8p-1";
  want.metadata.program =
      got.metadata.program = {{"commit", "aaa"}, {"onednn", "2.6"}, {"cudnn", "9.1"}};
  const auto cause = [&] { return cause_of(got, want, {}); };
  EXPECT_TRUE(
      cause().starts_with("cause: config, data files, versions and machine are as recorded: "
                          "the program's code has changed: loss moved by up to 0.5 "
                          "(relative) from step 2\n"))
      << cause();
  got.metadata.program["onednn"] = "3.1";
  EXPECT_TRUE(cause().starts_with("cause: same code, onednn 2.6 -> 3.1: loss moved")) << cause();
  got.metadata.program["commit"] = "bbb";
  EXPECT_TRUE(
      cause().starts_with("cause: different code (commit aaa -> bbb) and onednn 2.6 -> "
                          "3.1; run the old code here"))
      << cause();
  got.metadata.program["onednn"] = "2.6";
  EXPECT_TRUE(cause().starts_with("cause: same libraries, different code (commit aaa -> bbb): "))
      << cause();
  got.config = with(kSmall, "lr: 0.1", "lr: 0.2");
  EXPECT_TRUE(cause().starts_with("cause: the config differs: loss moved")) << cause();
}

}  // namespace
}  // namespace taper::v0::runner
