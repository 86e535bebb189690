// The report about written runs is a single well-formed page that contains everything. What a
// browser makes of it is tested in report_browser_test.cpp.
#include "apps/runner/report/report.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "apps/runner/base/errors.h"
#include "apps/runner/commands/commands.h"
#include "apps/runner/report/curves.h"
#include "framework/base/log.h"
#include "tests/testing.h"
#include "tests/text.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;

// Returns what is wrong with a text as XML (and therefore as HTML), such as tags that are not
// nested, bare '&' or '<'.
std::string damage_of(const std::string& xml) {
  std::vector<std::string> open;
  for (size_t at = 0; at < xml.size(); ++at) {
    if (xml[at] == '&' && xml.find(';', at) > at + 7) return "bare & at " + xml.substr(at, 40);
    if (xml[at] != '<') continue;
    const size_t end = xml.find('>', at);
    if (end == std::string::npos) return "no end of " + xml.substr(at, 40);
    std::string tag = xml.substr(at + 1, end - at - 1);
    if (tag.find('<') != std::string::npos) return "bare < at " + xml.substr(at, 40);
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0) return "quotes in " + tag;
    at = end;
    if (tag.starts_with("!DOCTYPE") || tag.ends_with('/')) continue;
    const bool closes = tag.starts_with('/');
    tag = tag.substr(closes, tag.find(' ') - closes);
    if (!closes) {
      open.push_back(tag);
    } else {
      if (open.empty() || open.back() != tag) return "unexpected </" + tag + ">";
      open.pop_back();
    }
  }
  return open.empty() ? "" : "open: " + open.back();
}

class Report : public ::testing::Test {
 protected:
  Report() : dir_(fs::temp_directory_path() / concat_to_string("taper_report_", getpid())) {}
  ~Report() override { fs::remove_all(dir_); }

  void write(const fs::path& name, const std::string& text) const {
    fs::create_directories((dir_ / name).parent_path());
    std::ofstream(dir_ / name, std::ios::binary) << text;
  }
  std::string report(const std::vector<std::string>& runs) const {
    std::vector<fs::path> paths;
    for (const std::string& run : runs) paths.push_back(dir_ / run);
    write_report(paths, dir_ / "report.html");
    std::ostringstream text;
    text << std::ifstream(dir_ / "report.html").rdbuf();
    return text.str();
  }

  // Returns the data of the runs in a page.
  static nlohmann::json runs_in(const std::string& page) {
    const std::string head = "id=\"data\">";
    const size_t begin = page.find(head) + head.size();
    return nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin))["runs"];
  }

  fs::path dir_;
};

constexpr const char* kMetrics =
    R"({"kind":"train","step":1,"epoch":1,"loss":100.5,"grad_norm":3,"lr":0.1}
{"kind":"train","step":2,"epoch":1,"loss":0.5,"grad_norm":2,"lr":0.05}
{"kind":"eval","step":2,"epoch":1,"split":"test","loss":0.75,"accuracy":0.875,"confusion":[[7,1],[0,8]]}
)";

// Returns the page without the text of its scripts, whose characters are not markup.
std::string markup_of(std::string page) {
  for (size_t at = 0; (at = page.find("<script", at)) != std::string::npos;) {
    const size_t begin = page.find('>', at) + 1;
    at = page.find("</script>", begin);
    page.erase(begin, at - begin);
    at = begin;
  }
  return page;
}

TEST_F(Report, OnePageHasEverythingOfSeveralRuns) {
  write("a/metrics.jsonl", kMetrics);
  write("a/timing.jsonl",
        R"({"kind":"epoch","epoch":1,"step":2,"seconds":0.5,"samples_per_second":1234}
{"kind":"epoch","epoch":2,"step":3,"seconds":0.5,"samples_per_second":766}
{"kind":"memory","step":2,"peak_bytes":2097152,"foretold_bytes":2000000,"ratio":1.05})"
        "\n");
  write("a/env.json", R"({"taper":"0.1.0","cpu":"A <fast> one","threads":2})");
  write("a/data.json", R"({"class_names":["cat","dog & co"]})");
  write("a/exit.json", R"({"code":0,"reason":"finished","step":2,"model_step":2})");
  write("a/config.yaml", "name: a # \"<&>\"\ntrain: {epochs: 2, best: {metric: accuracy}}\n");
  write("a/samples.txt", "To be,\n or <not>\x01\n");
  // the last line is being written
  write("b & c/metrics.jsonl", std::string(kMetrics) + R"({"kind":"train","st)");
  const std::string page = report({"a", "b & c"});
  EXPECT_EQ(damage_of(markup_of(page)), "");
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>"));
  EXPECT_EQ(count(page, "<script"), 2) << "the data and the script of the page";
  for (const char* none : {"https:", "<link", "url(", " src=", "innerHTML", "@import"}) {
    EXPECT_EQ(count(page, none), 0) << none;
  }
  const nlohmann::json runs = runs_in(page);
  ASSERT_EQ(runs.size(), 2u);
  const nlohmann::json &a = runs[0], &b = runs[1];
  EXPECT_EQ(a["state"], "finished");
  EXPECT_EQ(b["state"], "unfinished");
  EXPECT_EQ(a["step"], 2);
  EXPECT_EQ(a["seconds"], 1.0);
  EXPECT_EQ(a["samples_per_second"], 1000.0) << "of both epochs together";
  EXPECT_FALSE(b.contains("seconds")) << "unknown, and not 0";
  EXPECT_EQ(a["peak_bytes"], 2097152);
  EXPECT_EQ(a["peak_ratio"], 1.05);
  EXPECT_EQ(a["goal"], "accuracy");
  EXPECT_EQ(a["rising"], nlohmann::json({"accuracy"}));
  EXPECT_EQ(a["settings"]["train.epochs"], "2");
  EXPECT_EQ(a["system"]["cpu"], "A <fast> one");
  EXPECT_EQ(a["class_names"][1], "dog & co");
  EXPECT_EQ(a["confusion"]["rows"], nlohmann::json({{7, 1}, {0, 8}}));
  EXPECT_EQ(a["confusion"]["classes"], nlohmann::json({{8, 7, 7}, {8, 9, 8}}));
  std::vector<std::string> curves;
  for (const auto& curve : a["curves"]) {
    curves.push_back(curve["split"].get<std::string>() + " " + curve["key"].get<std::string>());
  }
  EXPECT_EQ(curves, (std::vector<std::string>{" loss", " grad_norm", " lr", "test loss",
                                              "test accuracy", " samples_per_second"}));
  EXPECT_EQ(a["curves"][0]["y"], nlohmann::json({100.5, 0.5}));
  EXPECT_EQ(a["curves"][0]["x"], nlohmann::json({1.0, 2.0}));
}

TEST_F(Report, AFolderStandsForItsRuns) {
  for (const char* run : {"sweep/b", "sweep/a", "sweep/deeper/c", "other"}) {
    write(fs::path(run) / "metrics.jsonl", kMetrics);
  }
  write("sweep/notes/text.txt", "no run");
  std::vector<std::string> names;
  for (const auto& run : runs_in(report({"other", "sweep"}))) {
    names.push_back(fs::path(run["name"].get<std::string>()).lexically_relative(dir_).string());
  }
  EXPECT_EQ(names, (std::vector<std::string>{"other", "sweep/a", "sweep/b", "sweep/deeper/c"}));
}

// A run that was killed before its first line, or the folder of another program.
TEST_F(Report, ARunThatCannotBeReadDoesNotHideTheOthersOfItsFolder) {
  write("runs/a/metrics.jsonl", kMetrics);
  write("runs/b/config.yaml", "mine: 1\n");
  std::vector<std::string> warnings;
  const LogGuard log([&](LogLevel, const std::string& text) {
    warnings.push_back(text);
    return false;
  });
  const nlohmann::json runs = runs_in(report({"runs"}));
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0]["step"], 2);
  EXPECT_EQ(runs[1]["state"], "unreadable");
  const std::string message = runs[1]["message"];
  EXPECT_TRUE(contains(message, (dir_ / "runs/b/").string())) << message;
  ASSERT_FALSE(warnings.empty());
  EXPECT_EQ(warnings.back(), "the report cannot show a run: " + message);
  EXPECT_THROW(report({"runs/a", "runs/b"}), InputError) << "it was asked for by name";
}

TEST_F(Report, TextsOfARunStayTexts) {
  const std::string hostile =
      "</script><script>alert(1)</script> \"'&<!-- " + std::string(10'000, 'x');
  const std::string name = "<script>alert(2)<!--";
  write(fs::path(name) / "metrics.jsonl", kMetrics);
  write(fs::path(name) / "exit.json",
        nlohmann::json({{"code", 1}, {"reason", hostile}, {"warnings", {hostile}}}).dump());
  write(fs::path(name) / "data.json", nlohmann::json({{"class_names", {hostile}}}).dump());
  write(fs::path(name) / "samples.txt", hostile);
  write(fs::path(name) / "evaluation.json", nlohmann::json({{hostile, hostile}}).dump());
  const std::string page = report({name});
  EXPECT_EQ(damage_of(markup_of(page)), "");
  EXPECT_EQ(count(page, "<script"), 2);
  EXPECT_EQ(count(page, "alert(1)<"), 0);
  const nlohmann::json run = runs_in(page)[0];
  EXPECT_EQ(run["message"], hostile);
  EXPECT_EQ(run["state"], "failed");
  EXPECT_EQ(run["samples"], hostile);
  EXPECT_EQ(fs::path(run["name"].get<std::string>()).filename(), name);
}

TEST_F(Report, WhatIsMissingOrDamagedIsNamed) {
  const auto refuses = [&](const std::string& text) {
    return test::refuses<InputError>([&] { report({"a"}); }, (dir_ / "a").string() + text);
  };
  EXPECT_TRUE(refuses("/metrics.jsonl: "));
  write("a/metrics.jsonl", std::string(kMetrics) + "{\"step\":3\n{}\n");
  EXPECT_TRUE(refuses("/metrics.jsonl:4: not valid JSON: the text ends"));
  for (const char* row : {R"({"kind":"train"})", R"({"step":"<script>"})", R"({"step":1,"kind":3})",
                          R"({"step":1,"split":[]})", R"({"step":1,"confusion":[[1],["x"]]})"}) {
    write("a/metrics.jsonl", concat_to_string(row, "\n"));
    EXPECT_TRUE(refuses("/metrics.jsonl:1: the line is damaged")) << row;
  }
  write("a/metrics.jsonl", concat_to_string(R"({"step":1,"step":2})", "\n"));
  EXPECT_TRUE(refuses("/metrics.jsonl:1: not valid JSON: the key \"step\" comes twice"));
  write("a/metrics.jsonl", concat_to_string(R"({"step":)", std::string(1'000'000, '['), "\n"));
  EXPECT_TRUE(refuses("/metrics.jsonl:1: not valid JSON: nested deeper"));
  write("a/metrics.jsonl", "");
  write("a/env.json", "[1]");
  EXPECT_TRUE(refuses("/env.json:1: expected a JSON object"));
  write("a/env.json", "{}");
  EXPECT_EQ(damage_of(markup_of(report({"a"}))), "") << "a run without a step";
  write("a/exit.json", R"({"reason": [1]})");
  write("a/data.json", R"({"class_names": {"0": "<script>"}})");
  write("a/metrics.jsonl", concat_to_string(R"({"step":1,"confusion":[[1]]})", "\n"));
  write("a/timing.jsonl",
        concat_to_string(R"({"step":1,"ratio":1})", "\n", R"({"step":1,"peak_bytes":1})", "\n"));
  EXPECT_EQ(damage_of(markup_of(report({"a"}))), "");
}

TEST(Curves, ALongCurveKeepsItsMeanAndItsSpikes) {
  std::vector<double> x, y;
  for (int i = 1; i <= 100'000; ++i) {
    x.push_back(i);
    y.push_back(i == 54'321 ? 9 : i % 2);
  }
  const Curve curve = reduced_curve(x, y, 500);
  EXPECT_EQ(curve.x.size(), 500u);
  EXPECT_EQ(curve.x.back(), 100'000);
  EXPECT_EQ(std::ranges::max(curve.high), 9);
  EXPECT_EQ(std::ranges::min(curve.low), 0);
  EXPECT_NEAR(std::accumulate(curve.mean.begin(), curve.mean.end(), 0.0) / 500, 0.5, 1e-3);
}

TEST(Curves, AShortCurveKeepsItsPoints) {
  const double nan = std::numeric_limits<double>::quiet_NaN(),
               inf = std::numeric_limits<double>::infinity();
  struct Row {
    const char* name;
    std::vector<double> y, expected;
  };
  const Row rows[] = {{"none", {}, {}},
                      {"one", {3}, {3}},
                      {"a gap", {1, nan, 2}, {1, 2}},
                      {"infinite", {inf, 1, -inf}, {1}},
                      {"digits", {0.123456789, 1e-300, -1.7e308}, {0.123457, 1e-300, -1.7e308}}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    std::vector<double> x(row.y.size());
    std::iota(x.begin(), x.end(), 0);
    const Curve curve = reduced_curve(x, row.y, 10);
    EXPECT_EQ(curve.mean, row.expected);
    EXPECT_TRUE(curve.low.empty() && curve.high.empty());
  }
}

}  // namespace
}  // namespace taper::v0::runner
