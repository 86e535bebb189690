#include "apps/runner/report/report.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/runner/base/files.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/config/json_reader.h"
#include "apps/runner/report/svg.h"
#include "apps/runner/run/run_directory.h"

namespace taper::v0::runner {
namespace {

using Json = nlohmann::ordered_json;

struct RunFiles {
  std::string name;
  std::vector<Json> metrics, timing;
  Json env, data, end;  // {} if the file is missing
  Json rates;           // lr_find.json
  std::string config, samples;
};

// Returns whether the row has the keys and types that the page requires.
bool is_sound(const Json& row) {
  const auto is = [&](const char* key, bool (Json::*has_kind)() const noexcept) {
    return !row.contains(key) || (row[key].*has_kind)();
  };
  const auto are_counts = [](const Json& list) {
    return list.is_array() && std::ranges::all_of(list, &Json::is_number_integer);
  };
  return row.is_object() && row.contains("step") && is("step", &Json::is_number) &&
         is("kind", &Json::is_string) && is("split", &Json::is_string) &&
         is("seconds", &Json::is_number) && is("peak_bytes", &Json::is_number) &&
         is("confusion", &Json::is_array) &&
         (!row.contains("confusion") || std::ranges::all_of(row["confusion"], are_counts));
}

// Returns the lines of a JSONL file. Ignores a last line without a line break, which is still being
// written.
std::vector<Json> read_lines(const fs::path& file) {
  std::vector<Json> out;
  const std::string text = read_file(file, "numbers of the run");
  for (size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string_view line = std::string_view(text).substr(at, end - at);
    out.push_back(json_value<Json>(line, file.string(), std::ssize(out) + 1));
    if (is_sound(out.back())) continue;
    throw InputError(concat_to_string(file.string(), ":", out.size(),
                                      ": the line is damaged: ", escaped_for_display(line, 80)));
  }
  return out;
}

std::string read_text(const fs::path& file) {
  return fs::exists(file) ? read_file(file, "text of the run") : "";
}

Json read_metadata(const fs::path& file) {
  return fs::exists(file) ? read_json_file<Json>(file, "metadata of the run") : Json::object();
}

RunFiles read_run(const fs::path& dir) {
  if (fs::exists(dir / "config.yaml")) verify_run(dir);
  const fs::path timing = dir / "timing.jsonl";
  return {dir.string(),
          read_lines(dir / "metrics.jsonl"),
          fs::exists(timing) ? read_lines(timing) : std::vector<Json>(),
          read_metadata(dir / "env.json"),
          read_metadata(dir / "data.json"),
          read_metadata(dir / "exit.json"),
          read_metadata(dir / "lr_find.json"),
          read_text(dir / "config.yaml"),
          read_text(dir / "samples.txt")};
}

// Returns the element for which is_it() is true. If there is none, appends and returns `made`.
template <class T, class F> T& find_or_add(std::vector<T>& list, F is_it, T made) {
  const auto found = std::ranges::find_if(list, is_it);
  return found == list.end() ? list.emplace_back(std::move(made)) : *found;
}

std::string title_of(std::string key) {
  if (key == "lr") return "Learning rate";
  std::ranges::replace(key, '_', ' ');
  key[0] = char(std::toupper(key[0]));
  return key;
}

// Returns whether the values of a key become a curve. From timing.jsonl only rates do, because
// other times of runs cannot be compared. Memory is one number for the whole run.
bool is_shown(const Json& row, const std::string& key) {
  if (!row[key].is_number() || key == "step" || key == "epoch") return false;
  const std::string kind = row.value("kind", "");
  return kind != "memory" && (kind != "epoch" || key.ends_with("_per_second"));
}

// Returns one chart per title, in the order in which the keys first appear.
std::vector<Chart> charts_of(const std::vector<RunFiles>& runs) {
  std::vector<Chart> charts;
  for (size_t i = 0; i < runs.size(); ++i) {
    std::vector<Json> rows = runs[i].metrics;
    rows.insert(rows.end(), runs[i].timing.begin(), runs[i].timing.end());
    for (const Json& row : rows) {
      const std::string split = row.value("split", "");
      const std::string label =
          split.empty() ? runs[i].name : concat_to_string(runs[i].name, " (", split, ")");
      for (const auto& [key, value] : row.items()) {
        if (!is_shown(row, key)) continue;
        const std::string title = title_of(key);
        Chart& chart = find_or_add(charts, [&](const Chart& c) { return c.title == title; },
                                   {.title = title, .may_be_log = key != "lr"});
        Series& series =
            find_or_add(chart.series, [&](const Series& s) { return s.label == label; },
                        {.label = label, .color = int(i % 8), .is_sparse = !split.empty()});
        series.x.push_back(row["step"].get<double>());
        series.y.push_back(value.get<double>());
      }
    }
  }
  return charts;
}

// Returns the chart of `taper lr-find`, without series if no run has its points.
Chart rate_chart(const std::vector<RunFiles>& runs) {
  Chart chart{.title = "Loss by learning rate", .x_name = "learning rate", .is_x_log = true};
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].rates.contains("points") || !runs[i].rates["points"].is_array()) continue;
    Series loss{.label = runs[i].name, .color = int(i % 8)};
    Series average{.label = concat_to_string(runs[i].name, " (average)"),
                   .color = loss.color,
                   .is_sparse = true};
    for (const Json& point : runs[i].rates["points"]) {
      for (const auto& [series, key] : {std::pair(&loss, "loss"), {&average, "average"}}) {
        series->x.push_back(point.value("lr", 0.0));
        series->y.push_back(point.value(key, 0.0));
      }
    }
    chart.series.insert(chart.series.end(), {loss, average});
  }
  return chart;
}

std::string shown_value(const Json& value) {
  if (value.is_number_float()) return fmt::format("{:.5g}", value.get<double>());
  return escaped(value.is_string() ? value.get<std::string>() : value.dump());
}

// Returns a table with one row for each key that a run has, and one column for each run.
std::string table(const std::vector<RunFiles>& runs,
                  const std::function<Json(const RunFiles&)>& metadata) {
  Json all = Json::object();  // for each key an array with the value of each run
  std::string head;
  for (size_t i = 0; i < runs.size(); ++i) {
    head += fmt::format(R"(<th><i class="c{}">&#9632;</i> {}</th>)", i % 8, escaped(runs[i].name));
    const Json column = metadata(runs[i]);
    for (const auto& [key, value] : column.items()) {
      all.emplace(key, std::vector<Json>(runs.size()));
      all[key][i] = value;
    }
  }
  std::string out = concat_to_string("<table><tr><th></th>", head, "</tr>\n");
  for (const auto& [key, values] : all.items()) {
    out += concat_to_string("<tr><th>", escaped(key), "</th>");
    for (const Json& value : values)
      out += concat_to_string("<td>", value.is_null() ? "" : shown_value(value), "</td>");
    out += "</tr>\n";
  }
  return out + "</table>\n";
}

// Returns the state of the run: how it ended, its last training line, and its last evaluation.
Json summary(const RunFiles& run) {
  Json out = {{"end", run.end.contains("reason") ? run.end["reason"] : Json("not yet")}};
  if (run.end.contains("warnings") && run.end["warnings"].is_array()) {
    std::string all;
    for (const Json& each : run.end["warnings"]) {
      if (each.is_string())
        all += concat_to_string(all.empty() ? "" : "; ", each.get<std::string>());
    }
    out["warnings"] = all;
  }
  if (run.end.contains("thresholds")) out["thresholds"] = run.end["thresholds"];
  for (const Json& row : run.metrics) {
    const std::string prefix = row.contains("split") ? row["split"].get<std::string>() + " " : "";
    for (const auto& [key, value] : row.items()) {
      if (value.is_number()) out[key == "step" || key == "epoch" ? key : prefix + key] = value;
    }
  }
  double seconds = 0;
  for (const Json& row : run.timing) {
    seconds += row.value("seconds", 0.0);
    if (row.contains("ratio") && row.contains("peak_bytes")) {
      out["peak memory"] = fmt::format("{:.1f} MiB", row["peak_bytes"].get<double>() / (1 << 20));
      out["peak memory / estimate"] = row["ratio"];
    }
  }
  out["seconds of training"] = seconds;
  return out;
}

// Returns a table with a row for each true class and a column for each predicted class. The color
// shows the share of the row. Errors are rare, so their color is three times as strong.
std::string confusion(const RunFiles& run) {
  const auto last = std::find_if(run.metrics.rbegin(), run.metrics.rend(),
                                 [](const Json& row) { return row.contains("confusion"); });
  if (last == run.metrics.rend()) return "";
  const Json names = run.data.contains("class_names") ? run.data["class_names"] : Json();
  const auto name = [&](size_t i) {
    return names.is_array() && i < names.size() ? shown_value(names[i]) : concat_to_string(i);
  };
  const auto rows = (*last)["confusion"].get<std::vector<std::vector<int64_t>>>();
  std::string head, body;
  for (size_t i = 0; i < rows.size(); ++i) {
    head += concat_to_string("<th>", name(i), "</th>");
    body += concat_to_string("<tr><th>", name(i), "</th>");
    const auto all = double(std::max<int64_t>(1, std::reduce(rows[i].begin(), rows[i].end())));
    for (size_t j = 0; j < rows[i].size(); ++j) {
      const double share = double(rows[i][j]) / all;
      body += fmt::format(R"~(<td style="background:rgba({},{:.2f})">{}</td>)~",
                          i == j ? "0,158,115" : "213,94,0",
                          std::min(0.7, share * (i == j ? 0.7 : 2)), rows[i][j]);
    }
    body += "</tr>\n";
  }
  return concat_to_string("<h2>Confusion: ", escaped(run.name), ", step ",
                          shown_value((*last)["step"]),
                          "</h2>\n<table class=\"confusion\"><tr><th>true \\ predicted</th>", head,
                          "</tr>\n", body, "</table>\n");
}

std::string block(const std::string& title, const std::string& text) {
  if (text.empty()) return "";
  return concat_to_string("<h2>", escaped(title), "</h2>\n<pre>", escaped(text), "</pre>\n");
}

constexpr const char* kHead = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<title>Taper: training runs</title>
<style>
:root { color-scheme: light dark; --line: #8888; --faint: #8883; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 1340px; padding: 0 1em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.1em; margin: 2em 0 .5em; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr)); gap: 1em; }
figure { margin: 0; break-inside: avoid; } figcaption { font-weight: 600; }
svg { width: 100%; height: auto; max-width: 800px; }
svg text { fill: currentColor; font-size: 12px; opacity: .8; }
.x { text-anchor: middle; } .y { text-anchor: end; }
.grid { stroke: var(--faint); fill: none; } .axis { stroke: var(--line); fill: none; }
polyline { fill: none; stroke: currentColor; stroke-width: 1.4; stroke-linejoin: round; opacity: .75; }
.sparse polyline { stroke-dasharray: 5 3; stroke-width: 2; opacity: 1; } circle { fill: currentColor; }
.legend { font-size: 13px; } .legend span { margin-right: 1em; white-space: nowrap; }
.key { display: inline-block; width: 1.6em; margin-right: .4em; vertical-align: middle; border-top: 2px solid; }
.key.sparse { border-top-style: dashed; }
table { border-collapse: collapse; display: block; overflow-x: auto; font-variant-numeric: tabular-nums; }
th, td { padding: .15em .7em; border-bottom: 1px solid var(--faint); text-align: left; vertical-align: top; }
td { overflow-wrap: anywhere; } .confusion td { text-align: right; }
pre { background: var(--faint); padding: 1em; font-size: 13px; white-space: pre-wrap; }
.c0 { color: #2b7bba; } .c1 { color: #d55e00; } .c2 { color: #009e73; } .c3 { color: #cc79a7; }
.c4 { color: #b8860b; } .c5 { color: #7a5fd0; } .c6 { color: #3aa6b9; } .c7 { color: #888888; }
@media print { body { margin: 0; max-width: none; font-size: 11px; } * { print-color-adjust: exact; } }
</style></head>
<body>
)";

}  // namespace

void write_report(const std::vector<fs::path>& paths, const fs::path& to) {
  std::vector<RunFiles> runs;
  for (const fs::path& path : paths) runs.push_back(read_run(path));
  std::string page = concat_to_string(
      kHead, "<h1>Training runs</h1>\n", table(runs, summary),
      "<p>Full lines: training. Dashed with marks: evaluation.</p>\n<div class=\"charts\">\n");
  page += svg(rate_chart(runs));
  for (const Chart& chart : charts_of(runs)) page += svg(chart);
  page += "</div>\n";
  for (const RunFiles& run : runs)
    page += confusion(run) + block("Samples: " + run.name, run.samples);
  page += "<h2>System</h2>\n" + table(runs, [](const RunFiles& run) { return run.env; });
  for (const RunFiles& run : runs) page += block("Config: " + run.name, run.config);
  write_file(to, page + "</body></html>\n");
}

}  // namespace taper::v0::runner
