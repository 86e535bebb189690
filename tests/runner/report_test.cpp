// The report about written runs is a single well-formed page that contains everything.
#include "apps/runner/report/report.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "apps/runner/base/errors.h"
#include "apps/runner/commands/commands.h"
#include "apps/runner/report/svg.h"
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

  fs::path dir_;
};

constexpr const char* kMetrics =
    R"({"kind":"train","step":1,"epoch":1,"loss":100.5,"grad_norm":3,"lr":0.1}
{"kind":"train","step":2,"epoch":1,"loss":0.5,"grad_norm":2,"lr":0.05}
{"kind":"eval","step":2,"epoch":1,"split":"test","loss":0.75,"accuracy":0.875,"confusion":[[7,1],[0,8]]}
)";

TEST_F(Report, OnePageHasEverythingOfSeveralRuns) {
  write("a/metrics.jsonl", kMetrics);
  write("a/timing.jsonl",
        R"({"kind":"epoch","epoch":1,"step":2,"seconds":0.5,"samples_per_second":1234}
{"kind":"memory","step":2,"peak_bytes":2097152,"foretold_bytes":2000000,"ratio":1.05})"
        "\n");
  write("a/env.json", R"({"taper":"0.1.0","cpu":"A <fast> one","threads":2})");
  write("a/data.json", R"({"class_names":["cat","dog & co"]})");
  write("a/exit.json", R"({"code":0,"reason":"finished","step":2})");
  write("a/config.yaml", "name: a # \"<&>\"\n");
  write("a/samples.txt", "To be,\n or <not>\x01\n");
  // the last line is being written
  write("b & c/metrics.jsonl", std::string(kMetrics) + R"({"kind":"train","st)");
  const std::string page = report({"a", "b & c"});
  EXPECT_EQ(damage_of(page), "");
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>"));
  for (const char* none : {"<script", "http", "<link", "url(", "nan", "inf\""}) {
    EXPECT_EQ(count(page, none), 0) << none;
  }
  // Charts of loss, gradient norm, learning rate, accuracy, samples per second.
  EXPECT_EQ(count(page, "<svg "), 5);
  EXPECT_EQ(count(page, "<polyline "),
            11);  // two runs: loss, test loss, norm, rate, accuracy each; a's sample rate
  for (const char* part :
       {"<figcaption>Loss (log)<", "<figcaption>Grad norm<", "<figcaption>Learning rate<",
        "<figcaption>Accuracy<", "<figcaption>Samples per second<", "A &lt;fast&gt; one",
        "<th>dog &amp; co</th>", "rgba(0,158,115,0.61)\">7</td>", "rgba(213,94,0,0.25)\">1</td>",
        "<tr><th>peak memory</th><td>2.0 MiB</td>",
        "<tr><th>peak memory / estimate</th><td>1.05</td>",
        // A rate of a single epoch is drawn as a point. Each line has an entry in the legend.
        "<circle cx=\"337.0\" ", "<i class=\"key c0\"></i>", "<i class=\"key c1 sparse\"></i>",
        "b &amp; c (test)</span>", "or &lt;not&gt; \n", "name: a # &quot;&lt;&amp;&gt;&quot;",
        "finished", "not yet", "<tr><th>test accuracy</th><td>0.875</td><td>0.875</td></tr>",
        "<tr><th>threads</th><td>2</td><td></td></tr>"}) {
    EXPECT_GE(count(page, part), 1) << part;
  }
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
  EXPECT_EQ(damage_of(report({"a"})), "") << "a run without a step";
  write("a/exit.json", R"({"reason": [1]})");
  write("a/data.json", R"({"class_names": {"0": "<script>"}})");
  write("a/metrics.jsonl", concat_to_string(R"({"step":1,"confusion":[[1]]})", "\n"));
  write("a/timing.jsonl",
        concat_to_string(R"({"step":1,"ratio":1})", "\n", R"({"step":1,"peak_bytes":1})", "\n"));
  EXPECT_EQ(damage_of(report({"a"})), "");
}

TEST(Svg, AxesFitWhatIsDrawn) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  struct Row {
    const char* name;
    std::vector<double> y;
    bool is_log;
  };
  const Row rows[] = {
      {"one point", {3}, false},
      {"zeros", {0, 0}, false},
      {"decades", {1e-8, 1, 1e8}, true},
      {"below zero", {-1e-3, 1e3}, false},
      {"a gap", {1, nan, 2}, false},
      {"tiny", {1e-300, 2e-300}, false},
      {"huge", {1e300, -1e300}, false},
      {"beyond a span", {1, -1.7e308, 1.7e308}, false},
      {"units in the last place", {1, 1 + 0x1p-52, 1 + 0x3p-52}, false},
      {"a denormal", {5e-324, 1}, false},
      {"denormals", {0, 5e-324}, false},
      {"the largest", {1, 1e306}, true},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    Series series{.label = "r"};
    for (size_t i = 0; i < row.y.size(); ++i) series.x.push_back(double(i));
    series.y = row.y;
    const std::string out = svg({.title = "t", .series = {series}});
    EXPECT_EQ(damage_of(out), "");
    EXPECT_EQ(count(out, "(log)"), row.is_log);
    EXPECT_GE(count(out, "class=\"grid\""), 3);
    EXPECT_LE(count(out, "class=\"grid\""), 40);
    EXPECT_EQ(count(out, "nan"), 0);
  }
  EXPECT_EQ(svg({.title = "t", .series = {{.label = "r", .x = {1}, .y = {nan}}}}), "");
}

TEST(Svg, ALongSeriesKeepsItsSpikes) {
  Series series{.label = "r"};
  for (int i = 0; i < 100'000; ++i) {
    series.x.push_back(i);
    series.y.push_back(i == 54'321 ? 9 : 1);
  }
  const std::string out = svg({.title = "t", .series = {series}});
  EXPECT_LT(out.size(), 40'000u);
  EXPECT_EQ(count(out, ",10.0 "), 1) << "the top of the chart";
}

}  // namespace
}  // namespace taper::v0::runner
