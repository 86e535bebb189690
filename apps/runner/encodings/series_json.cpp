#include "apps/runner/encodings/series_json.h"

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "apps/runner/config/json_reader.h"

namespace taper::v0::runner {

using data::KnownColumn;
using data::SeriesEncoding;
using data::SeriesScale;
using data::TimeStep;
using nlohmann::json;

namespace {

constexpr Range kSteps{1, 100'000};
const std::vector<std::string> kDateForms = {"text", "digits", "seconds", "milliseconds"};

Schema describe(TimeStep& s) {
  Schema out;
  out("unit", s.unit, "of the distance").required();
  out("length", s.length, kPositive, "of a step").required();
  out("is_at_month_end", s.is_at_month_end, "times are last days of months").required();
  out("are_dates", s.are_dates, "times are seconds since 1970").required();
  out("length", "must be a number of months up to 12000", [&s] {
    const bool is_whole = s.length == double(int64_t(std::min(s.length, 1e9)));
    return s.unit != data::StepUnit::kMonths || (is_whole && s.length <= 12'000);
  });
  return out;
}

Schema describe(KnownColumn& k) {
  Schema out;
  out("name", k.name, "of the column").required();
  out.field("words", value_in(k.words), "that become features").required();
  out("mean", k.mean, "of numbers").required();
  out("std", k.std, kPositive, "of numbers").required();
  return out;
}

Schema describe(SeriesScale& s) {
  Schema out;
  out("name", s.name, "of the series").required();
  out("mean", s.mean, "of its values").required();
  out("std", s.std, kPositive, "of its values").required();
  out("naive", s.naive, kPositive, "by which MASE divides").required();
  return out;
}

Schema describe(SeriesEncoding& e) {
  Schema out;
  out("delimiter", e.delimiter, "of cells").required();
  out("decimal", e.decimal, {".", ","}, "separator").required();
  out("encoding", e.encoding, {"utf-8", "latin-1", "utf-16"}, "of the text").required();
  out("skip", e.skip, {0, 1'000'000}, "lines that are not read").required();
  out("time", e.time, "column").required();
  out("target", e.target, "column").required();
  out.field("series", value_in(e.series), "columns").required();
  out("date_form", e.date_form, kDateForms, "of times").required();
  out("date_order", e.date_order, "of times").required();
  out.field("step", Section{[&e] { return describe(e.step); }}, "between times").required();
  out("gaps", e.gaps, "missing steps").required();
  out("past", e.past, kSteps, "steps that the model sees").required();
  out("horizon", e.horizon, kSteps, "steps to predict").required();
  out("season", e.season, kSteps, "steps of a season").required();
  out("uses_calendar", e.uses_calendar, "features of the time").required();
  out.field("known", list_in(e.known, describe), "columns").required();
  out.field("scales", list_in(e.scales, describe), "of each series").required();
  return out;
}

json json_of(const TimeStep& s) {
  return {{"unit", s.unit.word()},
          {"length", s.length},
          {"is_at_month_end", s.is_at_month_end},
          {"are_dates", s.are_dates}};
}
json json_of(const KnownColumn& k) {
  return {{"name", k.name}, {"words", k.words}, {"mean", k.mean}, {"std", k.std}};
}
json json_of(const SeriesScale& s) {
  return {{"name", s.name}, {"mean", s.mean}, {"std", s.std}, {"naive", s.naive}};
}
template <class Part> json json_of(const std::vector<Part>& parts) {
  json out = json::array();
  for (const Part& part : parts) out.push_back(json_of(part));
  return out;
}

}  // namespace

std::string to_json(const SeriesEncoding& e) {
  return json{{"delimiter", e.delimiter},
              {"decimal", e.decimal},
              {"encoding", e.encoding},
              {"skip", e.skip},
              {"time", e.time},
              {"target", e.target},
              {"series", e.series},
              {"date_form", kDateForms[size_t(e.date_form)]},
              {"date_order", e.date_order.word()},
              {"step", json_of(e.step)},
              {"gaps", e.gaps.word()},
              {"past", e.past},
              {"horizon", e.horizon},
              {"season", e.season},
              {"uses_calendar", e.uses_calendar},
              {"known", json_of(e.known)},
              {"scales", json_of(e.scales)}}
      .dump();
}

std::vector<Problem> read_series_encoding(const Node& node, std::optional<SeriesEncoding>& out) {
  SeriesEncoding encoding;
  std::vector<Problem> problems = read(describe(encoding), node).problems;
  if (problems.empty()) out = std::move(encoding);
  return problems;
}

}  // namespace taper::v0::runner
