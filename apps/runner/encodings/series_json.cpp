#include "apps/runner/encodings/series_json.h"

#include <algorithm>
#include <set>

#include "apps/runner/config/json_reader.h"

namespace taper::v0::runner {

using data::KnownColumn;
using data::SeriesEncoding;
using data::SeriesScale;
using data::TimeStep;

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

}  // namespace

Schema series_schema(SeriesEncoding& e) {
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

}  // namespace taper::v0::runner
