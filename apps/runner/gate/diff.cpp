// Finds the first difference between two runs: recordings of both give the step, and hooks on every
// module during that step give the tensor.
#include <algorithm>
#include <iterator>
#include <set>

#include <nlohmann/json.hpp>

#include "apps/runner/base/files.h"
#include "apps/runner/config/json_reader.h"
#include "apps/runner/gate/gate.h"
#include "apps/runner/gate/trace.h"

namespace taper::v0::runner {
namespace {

// Repeats the run until the observer ends it, and returns the observer.
template <class Watch> Watch watch(const std::vector<Phase>& run, Watch observer) {
  const TemporaryDirectory scratch;
  run_again(run, scratch.path() / "run", &observer);
  return observer;
}

std::string first_tensor(const std::vector<Phase>& a, const std::vector<Phase>& b, int64_t step) {
  return first_different_tensor(trace_step(a, step), trace_step(b, step), step);
}

// Returns the elements of `rows` whose keys also occur in `other`.
template <class Row, class Key>
std::vector<Row> in_both(const std::vector<Row>& rows, const std::vector<Row>& other, Key key) {
  std::set<std::string> known;
  std::ranges::transform(other, std::inserter(known, known.end()), key);
  std::vector<Row> out;
  std::ranges::copy_if(rows, std::back_inserter(out),
                       [&](const Row& row) { return known.contains(key(row)); });
  return out;
}

// Repeats both runs and compares their recordings up to the first difference. Records one step more
// than `last`, so that the evaluation after step `last` is included.
std::string search(const std::vector<Phase>& a, const std::vector<Phase>& b, int64_t last) {
  const auto first = watch(a, Recorder({{.steps = last + 1}})).taken.rows;
  const auto second = watch(b, Recorder({{.steps = last + 1}})).taken.rows;
  const auto key = [](const Recording::Row& row) {  // separates a step from the evaluation after it
    return concat_to_string(row.contains("loss"), " ", row.at("step"));
  };
  const auto left = in_both(first, second, key), right = in_both(second, first, key);
  const auto [x, y] = std::ranges::mismatch(left, right);
  if (x == left.end() || y == right.end()) {
    return concat_to_string("repeated here, both runs have the same losses and weights up to step ",
                            last, ": the machine, the program or the data caused the difference\n");
  }
  if (x->contains("loss")) return first_tensor(a, b, std::stoll(x->at("step")));
  return concat_to_string("the weights are the same; the evaluation after step ", x->at("step"),
                          " uses different data or metrics\n");
}

// A line of metrics.jsonl.
struct Line {
  std::string text, kind;
  int64_t step;
};

Line parsed(const std::string& line) try {
  const auto row = json_value<nlohmann::json>(line, "metrics.jsonl");
  return {line, row.at("kind"), row.at("step")};
} catch (const std::exception& error) {
  if (is_any<OutOfMemoryError, std::bad_alloc>(error)) throw;
  throw InputError(
      concat_to_string("metrics.jsonl has a damaged line: ", escaped_for_display(line, 80)));
}

std::vector<Line> all_parsed(const std::string& metrics) {
  std::vector<Line> out;
  for (const std::string& line : lines_of(metrics)) out.push_back(parsed(line));
  return out;
}

// Returns the lines whose step and kind occur in both runs.
std::string lines_of_both(const std::vector<Line>& lines, const std::vector<Line>& other) {
  std::string out;
  const auto key = [](const Line& line) { return concat_to_string(line.kind, " ", line.step); };
  for (const Line& line : in_both(lines, other, key)) out += line.text + "\n";
  return out;
}

}  // namespace

Verdict diff(const fs::path& a, const fs::path& b) {
  const std::vector<Phase> left = phases_of_run(a), right = phases_of_run(b);
  const RunConfig &x = left.back().config, &y = right.back().config;
  std::string text, first = metrics_of(a), second = metrics_of(b);
  const auto list = [&](const char* head, const std::string& lines) {
    if (!lines.empty()) text += concat_to_string(head, " (A | B):\n", lines);
  };
  list("config", config_differences(to_yaml(x), to_yaml(y)));
  list("environment", env_differences(a, b));
  // Steps that only one of the runs has logged or evaluated are not a difference.
  const bool is_sparse =
      x.train.log_every != y.train.log_every || x.train.eval_every != y.train.eval_every;
  if (is_sparse) {
    const std::vector<Line> lines = all_parsed(first), others = all_parsed(second);
    first = lines_of_both(lines, others);
    second = lines_of_both(others, lines);
    text += "compared: the lines of metrics.jsonl that both runs have\n";
  }
  const MetricsDifference found = compare_metrics(first, second);
  if (found.line == 0 && found.more == 0) return {true, text + "the same metrics, byte for byte\n"};
  if (found.line == 0)
    return {false, text + "one run is longer; the lines that both have are the same\n"};
  text += concat_to_string("metrics.jsonl, line ", found.line, ":\n  A ", found.a, "\n  B ",
                           found.b, "\n");
  const int64_t last = std::min(parsed(found.a).step, parsed(found.b).step);
  return {false, text + search(left, right, last)};
}

}  // namespace taper::v0::runner
