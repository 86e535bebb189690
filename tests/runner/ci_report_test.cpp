// The reports of `taper check` for CI systems, and the templates of packaging/, whose shell steps
// are run here.
#include "apps/runner/gate/ci_report.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apps/runner/config/yaml.h"
#include "tests/runner/run_process.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig =
    "device: cpu\nseed: 3\n"
    "data: {type: digits, train_size: 256, test_size: 64}\n"
    "model: {type: mlp, hidden: [16]}\n"
    "optimizer: {type: sgd, lr: 0.1}\n"
    "train: {epochs: 1, batch_size: 64}\n";

Verdict failed() {
  Verdict v{false, "step 2:\n  loss is 1 <2> & \"3\", 50% more\n"};
  v.step = "2";
  return v;
}

Verdict compared() {
  Verdict v{false, "inconclusive: ...\n", true};
  MetricComparison m;
  m.metric = "loss";
  m.got = {3, 0.5, 0.1};
  m.want = {8, 0.4, 0.1};
  m.detectable = 2.5;
  v.metrics = {m};
  return v;
}

class CiReports : public ::testing::Test {
 protected:
  CiReports() {
    write_bytes(at_ / "c.yaml", kConfig);
    write_bytes(at_ / "golden.json", "{\n\"rows\": [\n{\"step\":\"1\"},\n{\"step\":\"2\"}]}\n");
  }
  CheckReport report(const Verdict& verdict) const {
    return {verdict, "runs/a", at_ / "golden.json", 1.5};
  }
  RunDirectory at_;
};

TEST_F(CiReports, TheJsonHasVerdictStepAndMetrics) {
  const auto json = nlohmann::json::parse(json_report(report(failed())));
  EXPECT_EQ(json.at("verdict"), "fail");
  EXPECT_EQ(json.at("first_different_step"), 2);
  EXPECT_EQ(json.at("seconds"), 1.5);
  const auto curves = nlohmann::json::parse(json_report(report(compared())));
  EXPECT_EQ(curves.at("verdict"), "inconclusive");
  EXPECT_EQ(curves.at("metrics").at(0).at("recorded_seeds"), 8);
}

TEST_F(CiReports, TheJUnitFileCountsFailuresAndErrors) {
  const std::string text = junit_report(report(failed()));
  EXPECT_NE(text.find("tests=\"1\" failures=\"1\" errors=\"0\" time=\"1.500\""), std::string::npos)
      << text;
  EXPECT_NE(
      text.find("<failure message=\"fail\">step 2:\n  loss is 1 &lt;2&gt; &amp; &quot;3&quot;"),
      std::string::npos)
      << text;
  EXPECT_NE(junit_report(report(compared())).find("failures=\"0\" errors=\"1\""),
            std::string::npos);
  const std::string good = junit_report(report({true, "the same\n"}));
  EXPECT_EQ(good.find("<failure"), std::string::npos);
  EXPECT_NE(good.find("<system-out>the same"), std::string::npos) << good;
}

TEST_F(CiReports, TheAnnotationPointsAtTheLineOfTheStep) {
  const std::string text = github_annotation(report(failed()));
  EXPECT_TRUE(text.starts_with("::error file=")) << text;
  EXPECT_NE(text.find("golden.json,line=4::fail: step 2:%0A  loss is 1"), std::string::npos)
      << text;
  EXPECT_NE(text.find("50%25 more"), std::string::npos) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << "an annotation is one line";
  EXPECT_TRUE(github_annotation(report(compared())).starts_with("::warning file="));
  EXPECT_EQ(github_annotation(report({true, "the same\n"})), "");
  const std::string summary = github_summary(report(compared()));
  EXPECT_TRUE(summary.starts_with("### taper check: inconclusive\n")) << summary;
  EXPECT_NE(summary.find("| loss | 0.5 ± 0.1 (3) | 0.4 ± 0.1 (8) |"), std::string::npos) << summary;
}

TEST_F(CiReports, TheAnnotationPointsIntoTheSectionThatWasCompared) {
  write_bytes(at_ / "golden.json",
              "{\n \"sections\": [\n{\"program\": {},\n \"rows\": [\n{\"step\":\"2\"}]},\n"
              "{\"program\": {},\n \"rows\": [\n{\"step\":\"1\"},\n{\"step\":\"2\"}]}\n]}\n");
  Verdict v = failed();
  EXPECT_NE(github_annotation(report(v)).find("golden.json,line=5::"), std::string::npos);
  v.section = 2;
  EXPECT_NE(github_annotation(report(v)).find("golden.json,line=9::"), std::string::npos)
      << github_annotation(report(v));
}

// The times of two programs are compared without a recording.
TEST_F(CiReports, WithoutARecordingTheConfigIsNamed) {
  const Verdict v{false, "inconclusive: times of the new program\n", true};
  const CheckReport report{v, "c.yaml", "", 1};
  EXPECT_EQ(github_annotation(report),
            "::warning file=c.yaml,line=1::inconclusive: times of the new program%0A\n");
  EXPECT_NE(junit_report(report).find("classname=\"c.yaml\" name=\"c.yaml\""), std::string::npos);
  EXPECT_TRUE(
      github_summary(report).starts_with("### taper check: inconclusive\n\n`c.yaml`, 1.0 s\n\n"))
      << github_summary(report);
}

TEST_F(CiReports, BytesThatAreNotUtf8AreReplaced) {
  const Verdict v{false, "name: \xff | caf\xc3\xa9\n"};
  const std::string text = junit_report({v, "runs/\xe9", at_ / "golden.json", 1});
  EXPECT_NE(text.find("name: \xef\xbf\xbd | caf\xc3\xa9\n"), std::string::npos) << text;
  EXPECT_NE(text.find("name=\"runs/\xef\xbf\xbd\""), std::string::npos) << text;
}

// Otherwise a CI system would show the report of an earlier check.
TEST_F(CiReports, ACheckThatEndsWithAnErrorIsReported) {
  write_bytes(at_ / "junit.xml", "<testsuite failures=\"0\" errors=\"0\"/>");
  const RunDirectory::Outcome end =
      at_.taper({"check", "c.yaml", "--against", "golden.json", "--junit", "junit.xml", "--json",
                 "check.json", "--github"},
                "GITHUB_STEP_SUMMARY=summary.md; export GITHUB_STEP_SUMMARY;");
  EXPECT_EQ(end.code, 66) << end.out << end.err;
  const std::string message = "golden.json:1: is not a recording";
  EXPECT_NE(end.err.find(message), std::string::npos) << end.err;
  const std::string junit = read_bytes(at_ / "junit.xml");
  EXPECT_NE(junit.find("failures=\"0\" errors=\"1\""), std::string::npos) << junit;
  EXPECT_NE(junit.find("<error message=\"error\">" + message), std::string::npos) << junit;
  const auto json = nlohmann::json::parse(read_bytes(at_ / "check.json"));
  EXPECT_EQ(json.at("verdict"), "error");
  EXPECT_TRUE(end.out.starts_with("::error file=golden.json,line=1::error: golden.json:1: "))
      << end.out;
  EXPECT_NE(read_bytes(at_ / "summary.md").find("### taper check: error\n"), std::string::npos);
}

TEST_F(CiReports, AReportThatCannotBeWrittenIsRefusedBeforeTheTraining) {
  fs::remove(at_ / "golden.json");
  ASSERT_EQ(at_.taper({"record", "c.yaml", "--to", "golden.json", "--seeds", "0"}).code, 0);
  const RunDirectory::Outcome end = at_.taper({"check", "c.yaml", "--against", "golden.json",
                                               "--seeds", "3", "--json", "missing/check.json"});
  EXPECT_EQ(end.code, 74) << end.out << end.err;
  EXPECT_NE(end.err.find("missing/check.json: cannot create the file"), std::string::npos)
      << end.err;
  EXPECT_EQ(end.err.find("seed 4"), std::string::npos) << "it has trained: " << end.err;
}

// The scripts of a template's steps, in order.
std::vector<std::string> steps_of(const fs::path& file, const std::vector<std::string>& path,
                                  const char* key) {
  const Document doc = parse_yaml(read_bytes(file), {file.string()});
  EXPECT_TRUE(doc.root && doc.problems.empty()) << file << ": " << runner::report(doc.problems);
  const Node* node = doc.root ? &*doc.root : nullptr;
  for (const std::string& name : path) node = node ? node->find(name) : nullptr;
  std::vector<std::string> out;
  if (!node) return out;
  for (const Node& step : node->children) {
    const Node* script = *key ? step.find(key) : &step;
    if (script) out.push_back(script->text);
  }
  return out;
}

// Runs the steps like a CI system, with the variables in their environment, until one fails.
RunDirectory::Outcome run_steps(const RunDirectory& at, const std::vector<std::string>& steps,
                                const std::string& environment) {
  std::string script = "set -e\nexport PATH=\"" + (at / "bin").string() + ":$PATH\" " + environment;
  for (const std::string& step : steps) script += "\n(\n" + step + "\n)";
  write_bytes(at / "steps.sh", script + "\n");
  RunDirectory shell;
  const std::string command = "cd '" + (at / "").string() + "' && bash steps.sh; exit $?; ";
  return shell.taper({}, command);
}

TEST_F(CiReports, TheStepsOfTheTemplatesTrainCheckAndReport) {
  fs::create_directories(at_ / "bin");
  fs::create_symlink(TAPER_PROGRAM, at_ / "bin/taper");
  fs::remove(at_ / "golden.json");  // `record` would refuse the file of the other tests
  ASSERT_EQ(at_.taper({"record", "c.yaml", "--to", "golden.json", "--seeds", "0"}).code, 0);
  const fs::path root = fs::path(TAPER_SOURCE_DIR) / "packaging";
  std::vector<std::string> github =
      steps_of(root / "github-action/action.yml", {"runs", "steps"}, "run");
  ASSERT_EQ(github.size(), 3u);
  EXPECT_NE(github[0].find("apt-get install"), std::string::npos);
  github.erase(github.begin());  // has the condition inputs.package != ''
  std::vector<std::string> gitlab =
      steps_of(root / "gitlab/taper-check.yml", {".taper-check", "before_script"}, "");
  for (const std::string& step :
       steps_of(root / "gitlab/taper-check.yml", {".taper-check", "script"}, "")) {
    gitlab.push_back(step);
  }
  ASSERT_EQ(gitlab.size(), 4u);
  const std::map<std::string, std::vector<std::string>> templates = {{"github", github},
                                                                     {"gitlab", gitlab}};
  for (const auto& [name, steps] : templates) {
    SCOPED_TRACE(name);
    const std::string common = "GOLDEN=golden.json SEEDS= TAPER_PACKAGE= OUT=" + name +
                               " GITHUB_STEP_SUMMARY=" + name + ".md CONFIG=";
    const RunDirectory::Outcome good = run_steps(at_, steps, common + "c.yaml");
    EXPECT_EQ(good.code, 0) << good.out << good.err;
    const auto json = nlohmann::json::parse(read_bytes(at_ / (name + "-report/check.json")));
    EXPECT_EQ(json.at("verdict"), "pass");
    fs::remove_all(at_ / name);
    std::string other = kConfig;
    other.replace(other.find("lr: 0.1"), 7, "lr: 0.2");
    write_bytes(at_ / "other.yaml", other);
    const RunDirectory::Outcome bad = run_steps(at_, steps, common + "other.yaml");
    EXPECT_EQ(bad.code, 1) << bad.out << bad.err;
    EXPECT_NE(read_bytes(at_ / (name + "-report/junit.xml")).find("failures=\"1\""),
              std::string::npos);
    if (name == "github") {
      EXPECT_NE(bad.out.find("::error file=golden.json,line="), std::string::npos) << bad.out;
      EXPECT_NE(read_bytes(at_ / "github.md").find("### taper check: fail"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace taper::v0::runner
