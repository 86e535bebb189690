#include "apps/runner/gate/ci_report.h"

#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/runner/base/files.h"
#include "apps/runner/config/json_reader.h"

namespace taper::v0::runner {
namespace {

using Json = nlohmann::ordered_json;

// How the first line of a section begins in a recording.
constexpr std::string_view kSectionStart = "{\"program\":";

std::string replaced_all(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// Returns the text with replacement characters for bytes that are not UTF-8, as a path may have.
std::string valid_utf8(const std::string& text) {
  const std::string quoted = Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  return Json::parse(quoted).get<std::string>();
}

// Escapes the text for XML, which has no other control characters than line ends and tabs.
std::string in_xml(const std::string& text) {
  std::string out;
  for (const char c : valid_utf8(text)) {
    const bool is_control = static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t';
    out += is_control ? "?"
           : c == '&' ? "&amp;"
           : c == '<' ? "&lt;"
           : c == '>' ? "&gt;"
           : c == '"' ? "&quot;"
                      : std::string(1, c);
  }
  return out;
}

// Returns the line of the golden file at which the compared section records the step; 1 if there is
// none.
int64_t line_of_step(const std::string& golden, const Verdict& verdict) {
  if (verdict.step.empty()) return 1;
  const std::string mark = concat_to_string("\"step\":\"", verdict.step, "\"");
  int64_t number = 0, section = 0;
  for (const std::string& line : lines_of(read_file(golden, "recording", kMaxJsonBytes))) {
    ++number;
    if (line.starts_with(kSectionStart)) ++section;
    if (section >= verdict.section && line.find(mark) != std::string::npos) return number;
  }
  return 1;
}

// Returns the file that the check is about: without a recording, as for the times of two programs,
// the config or the run.
const std::string& subject_of(const CheckReport& report) {
  return report.golden.empty() ? report.run : report.golden;
}

// Returns the verdict with its text, whose first line may begin with it.
std::string headed_text(const Verdict& v) {
  const std::string head = v.name() + ": ";
  return v.text.starts_with(head) ? v.text : head + v.text;
}

}  // namespace

std::string json_report(const CheckReport& report) {
  const Verdict& v = report.verdict;
  Json metrics = Json::array();
  for (const MetricComparison& m : v.metrics) {
    metrics.push_back({{"metric", m.metric},
                       {"seeds", m.got.n},
                       {"mean", m.got.mean},
                       {"sd", m.got.sd},
                       {"recorded_seeds", m.want.n},
                       {"recorded_mean", m.want.mean},
                       {"recorded_sd", m.want.sd},
                       {"worse_by", m.test.shift},
                       {"effect", m.test.effect},
                       {"p", m.adjusted_p},
                       {"detectable_sd", m.detectable},
                       {"power", m.power}});
  }
  Json ratios = Json::array();
  for (const RatioComparison& r : v.ratios) {
    ratios.push_back({{"name", r.name},
                      {"ratio", r.ratio},
                      {"low", r.low},
                      {"high", r.high},
                      {"old_seconds", r.old},
                      {"new_seconds", r.now}});
  }
  Json out = {{"verdict", v.name()},       {"run", report.run}, {"golden", report.golden},
              {"seconds", report.seconds}, {"text", v.text},    {"metrics", metrics},
              {"ratios", ratios}};
  if (!v.step.empty()) out["first_different_step"] = std::stoll(v.step);
  return out.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string junit_report(const CheckReport& report) {
  const Verdict& v = report.verdict;
  const bool fails = v.name() == "fail";
  const char* element = fails ? "failure" : "error";
  std::string body;
  if (!v.passed) {
    body = fmt::format("    <{0} message=\"{1}\">{2}</{0}>\n", element, v.name(), in_xml(v.text));
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuite name=\"taper check\" tests=\"1\" failures=\"{}\" errors=\"{}\" time=\"{:.3f}\">\n"
      "  <testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\">\n{}"
      "    <system-out>{}</system-out>\n  </testcase>\n</testsuite>\n",
      fails ? 1 : 0, v.passed || fails ? 0 : 1, report.seconds, in_xml(subject_of(report)),
      in_xml(report.run), report.seconds, body, in_xml(v.text));
}

std::string github_annotation(const CheckReport& report) {
  const Verdict& v = report.verdict;
  if (v.passed) return "";
  // https://docs.github.com/actions/reference/workflow-commands-for-github-actions
  const std::string text = replaced_all(
      replaced_all(replaced_all(headed_text(v), "%", "%25"), "\r", "%0D"), "\n", "%0A");
  const std::string file = replaced_all(
      replaced_all(replaced_all(subject_of(report), "%", "%25"), ",", "%2C"), ":", "%3A");
  return fmt::format("::{} file={},line={}::{}\n", v.is_inconclusive ? "warning" : "error", file,
                     line_of_step(report.golden, v), text);
}

std::string github_summary(const CheckReport& report) {
  const Verdict& v = report.verdict;
  const std::string against =
      report.golden.empty() ? "" : concat_to_string(" against `", report.golden, "`");
  std::string out = fmt::format("### taper check: {}\n\n`{}`{}, {:.1f} s\n\n", v.name(), report.run,
                                against, report.seconds);
  if (!v.metrics.empty()) {
    out +=
        "| metric | run | recorded | worse by | SD | p | detects "
        "|\n|---|---|---|---|---|---|---|\n";
  }
  for (const MetricComparison& m : v.metrics) {
    out += fmt::format(
        "| {} | {:.5g} ± {:.2g} ({}) | {:.5g} ± {:.2g} ({}) | {:.3g} | {:.2g} | {:.2g} | "
        "{:.3g} SD |\n",
        m.metric, m.got.mean, m.got.sd, m.got.n, m.want.mean, m.want.sd, m.want.n, m.test.shift,
        m.test.effect, m.adjusted_p, m.detectable);
  }
  return concat_to_string(out, "\n```text\n", v.text, "```\n");
}

}  // namespace taper::v0::runner
