#include "data/series/series.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "data/series/series_dataset.h"
#include "data/tables/standardizer.h"
#include "framework/base/log.h"
#include "framework/io/text_utils.h"

namespace taper::v0::data {
namespace {

namespace fs = std::filesystem;
using detail::in_quotes;

constexpr size_t kMostNamed = 5;  // series

std::vector<fs::path> paths_of(const std::vector<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

// The times at which the validation and the test part begin.
struct Cuts {
  double validation = INFINITY, test = INFINITY;
};

SeriesEncoding encoding_of(const Series& o) {
  SeriesEncoding out;
  out.delimiter = o.read.delimiter;
  out.decimal = o.read.decimal;
  out.encoding = o.read.encoding;
  out.skip = o.read.skip;
  out.time = o.time;
  out.target = o.target;
  out.series = o.series;
  out.gaps = o.gaps;
  out.horizon = o.horizon;
  out.past = o.past.value_or(4 * o.horizon);
  out.uses_calendar = o.calendar;
  for (const std::string& name : o.known) out.known.push_back({.name = name});
  return out;
}

// Throws OptionError if a column has two roles.
void require_distinct(const Series& o) {
  std::vector<std::pair<std::string, const char*>> roles = {{o.time, "time"}, {o.target, "target"}};
  for (const std::string& name : o.series) roles.emplace_back(name, "series");
  for (const std::string& name : o.known) roles.emplace_back(name, "known");
  for (size_t i = 0; i < roles.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      if (roles[i].first != roles[k].first) continue;
      throw OptionError(roles[i].second,
                        concat_to_string("column ", in_quotes(roles[i].first), " is given as ",
                                         roles[k].second, " and as ", roles[i].second));
    }
  }
}

// Loads series in steps that share what was found before.
class SeriesLoader {
 public:
  explicit SeriesLoader(const Series& options) : o_(options), encoding_(encoding_of(options)) {}

  Splits load() {
    require_distinct(o_);
    table_ = read_series_file(encoding_, paths_of(o_.path));
    (void)find_column(table_, o_.target);
    fit_columns(table_, encoding_);
    encoding_.season = o_.season.value_or(encoding_.step.usual_season());
    grid_ = std::make_shared<SeriesGrid>(grid_of(table_, encoding_));
    find_cuts();
    fit_known();
    for (const OneSeries& s : grid_->series) {
      encoding_.scales.push_back(fit_scale(s, encoding_, steps_before(s, cuts_.validation)));
    }
    return encode();
  }

 private:
  void find_cuts();
  void fit_known();
  void scale_known(KnownColumn& known, size_t column);
  std::string gaps_text() const;
  int64_t steps_before(const OneSeries& s, double time) const;
  Splits encode();
  DatasetPtr part(std::vector<Window> windows, bool has_scales) const {
    return std::make_shared<SeriesDataset>(grid_, how_, how_->scales, std::move(windows),
                                           has_scales);
  }
  std::string report(const std::vector<int64_t>& windows) const;
  std::string too_short() const;

  const Series& o_;
  SeriesEncoding encoding_;
  std::shared_ptr<const SeriesEncoding> how_;  // encoding_, when it is complete
  RawTable table_;
  std::shared_ptr<SeriesGrid> grid_;
  Cuts cuts_;
  int64_t num_times_ = 0;
  double first_time_ = 0, last_time_ = 0;
};

// Divides all times at which some series has a value.
void SeriesLoader::find_cuts() {
  std::vector<double> times;
  for (const OneSeries& s : grid_->series) {
    for (int64_t i = 0; i < s.size(); ++i) times.push_back(s.time_at(i, encoding_.step));
  }
  std::ranges::sort(times);
  const auto repeated = std::ranges::unique(times);
  times.erase(repeated.begin(), repeated.end());
  num_times_ = std::ssize(times);
  require<InputError>(num_times_ > 0, table_.files[0].path, ": column ", in_quotes(o_.target),
                      " has no value");
  first_time_ = times.front();
  last_time_ = times.back();
  const auto steps_of = [&](double part) {
    if (part == 0) return int64_t(0);
    const auto steps = int64_t(part < 1 ? std::round(part * double(num_times_)) : part);
    return std::max(steps, encoding_.horizon);
  };
  const int64_t test = steps_of(o_.split.test), validation = steps_of(o_.split.validation);
  const int64_t train = num_times_ - test - validation;
  if (train < encoding_.past + encoding_.horizon) {
    throw OptionError(
        "split", concat_to_string(
                     table_.files[0].path, ": of ", num_times_, " steps of ", encoding_.step.text(),
                     ", the test needs ", test, " and the validation ", validation, ", so ",
                     std::max<int64_t>(train, 0), " are left to train, fewer than past + horizon (",
                     encoding_.past, " + ", encoding_.horizon, "): lower past, horizon or split"));
  }
  cuts_.test = times[size_t(num_times_ - test)];
  cuts_.validation = times[size_t(train)];
}

int64_t SeriesLoader::steps_before(const OneSeries& s, double time) const {
  int64_t steps = 0;
  while (steps < s.size() && s.time_at(steps, encoding_.step) < time) ++steps;
  return steps;
}

// Scales known numbers by the steps of the training part.
void SeriesLoader::fit_known() {
  size_t column = 0;
  for (KnownColumn& known : encoding_.known) {
    if (known.words.empty()) scale_known(known, column);
    column += size_t(known.num_features());
  }
}

void SeriesLoader::scale_known(KnownColumn& known, size_t column) {
  const auto width = size_t(encoding_.known_features());
  std::vector<double> values;
  for (const OneSeries& s : grid_->series) {
    const int64_t steps = steps_before(s, cuts_.validation);
    for (int64_t i = 0; i < steps; ++i) values.push_back(s.known[size_t(i) * width + column]);
  }
  if (values.empty()) return;
  const Standardizer fitted = fit_standardizer(values, 1);
  known.mean = fitted.mean[0];
  known.std = fitted.std[0];
  for (OneSeries& s : grid_->series) {
    for (size_t i = column; i < s.known.size(); i += width) {
      s.known[i] = float((s.known[i] - known.mean) / known.std);
    }
  }
}

Splits SeriesLoader::encode() {
  how_ = std::make_shared<const SeriesEncoding>(encoding_);
  const auto windows = [&](double from, double until) {
    return find_windows(*grid_, *how_,
                        [=](double first, double last) { return first >= from && last < until; });
  };
  std::vector<Window> train = windows(-INFINITY, cuts_.validation),
                      validation = windows(cuts_.validation, cuts_.test),
                      test = windows(cuts_.test, INFINITY);
  const std::string gaps = gaps_text(), short_ones = too_short();
  if (train.empty() || test.empty()) {
    throw OptionError("split", concat_to_string(table_.files[0].path, ": ", train.size(),
                                                " windows to train and ", test.size(),
                                                " to test; both must be at least 1",
                                                gaps.empty() ? "" : "; " + gaps,
                                                short_ones.empty() ? "" : "; " + short_ones));
  }
  if (!gaps.empty()) warn(concat_to_string(table_.files[0].path, ": ", gaps));
  Splits out;
  out.task = Task::kRegression;
  out.input_shape = {how_->width()};
  out.outputs = how_->horizon;
  out.series = how_;
  out.report = report({std::ssize(train), std::ssize(validation), std::ssize(test)});
  out.train = part(std::move(train), false);
  out.test = part(std::move(test), true);
  if (!validation.empty()) out.validation = part(std::move(validation), true);
  return out;
}

// Names the series that are too short for a window.
std::string SeriesLoader::too_short() const {
  std::string names;
  size_t count = 0;
  for (const OneSeries& s : grid_->series) {
    if (s.size() >= encoding_.past + encoding_.horizon || ++count > kMostNamed) continue;
    names += concat_to_string(names.empty() ? "" : ", ", s.name.empty() ? "the series" : s.name,
                              " (", s.size(), " steps)");
  }
  if (count == 0) return "";
  if (count > kMostNamed) names += concat_to_string(" and ", count - kMostNamed, " more");
  return concat_to_string("too short for past + horizon (", encoding_.past, " + ",
                          encoding_.horizon, "): ", names);
}

std::string SeriesLoader::report(const std::vector<int64_t>& windows) const {
  const TimeStep& step = encoding_.step;
  const GridNotes& notes = grid_->notes;
  std::string out =
      concat_to_string(table_.files[0].path, table_.files.size() > 1 ? " and others" : "", ": ",
                       table_.rows, " rows, ", grid_->series.size(), " series, ", num_times_,
                       " steps of ", step.text(), " from ", step.time_text(first_time_), " to ",
                       step.time_text(last_time_), ", season ", encoding_.season);
  const auto line = [&](const auto&... text) { out += concat_to_string("\n  ", text...); };
  line(
      "sees ", encoding_.past, " steps", encoding_.known.empty() ? "" : " and ",
      [&] {
        std::string names;
        for (const KnownColumn& k : encoding_.known) names += (names.empty() ? "" : ", ") + k.name;
        return names;
      }(),
      ", predicts ", encoding_.horizon, "; each series has its own scale");
  if (notes.gaps > 0) {
    line("gaps: ", notes.missing, " missing steps in ", notes.gaps,
         notes.gaps == 1 ? " place" : " places",
         ", filled but not predicted; the first: ", notes.first_gap);
  }
  if (notes.known_filled > 0) {
    line("known columns: ", notes.known_filled, " missing cells got the value before them");
  }
  if (notes.was_unsorted) line("rows were not in the order of time, and were sorted");
  if (const std::string text = too_short(); !text.empty()) line("left out: ", text);
  out += concat_to_string("\nsplit: ", windows[0], " training, ", windows[1], " validation, ",
                          windows[2], " test windows; validation from ",
                          windows[1] > 0 ? step.time_text(cuts_.validation) : "nowhere",
                          ", test from ", step.time_text(cuts_.test));
  return out;
}

// Returns a text about many missing steps; "" if there are few.
std::string SeriesLoader::gaps_text() const {
  const GridNotes& notes = grid_->notes;
  constexpr int64_t kMany = 10;  // percent
  int64_t steps = 0;
  for (const OneSeries& s : grid_->series) steps += s.size();
  if (100 * notes.missing <= kMany * steps) return "";
  return concat_to_string(100 * notes.missing / steps, " % of the steps of ", encoding_.step.text(),
                          " are missing; if rows follow each other without regard to the time, as "
                          "trading days do, set data.gaps=ignore");
}

const SeriesEncoding& encoding_in(const DataInfo& info, const fs::path& file) {
  if (!info.series) throw InputError(file.string(), ": the training data were no series");
  return *info.series;
}

}  // namespace

Splits Series::load(uint64_t) const { return SeriesLoader(*this).load(); }

std::vector<DataFile> Series::files() const {
  std::vector<DataFile> out;
  for (const std::string& text : path) out.push_back({text, expand_wildcards({text})});
  return out;
}

DatasetPtr Series::more(const DataInfo& info, const fs::path& file) const {
  const auto how = std::make_shared<const SeriesEncoding>(encoding_in(info, file));
  const RawTable table = read_series_file(*how, {file});
  (void)find_column(table, how->target);
  const auto grid = std::make_shared<SeriesGrid>(grid_of(table, *how));
  std::vector<Window> windows = find_windows(*grid, *how, [](double, double) { return true; });
  require<InputError>(!windows.empty(), file.string(), ": no series has ", how->past, " + ",
                      how->horizon, " steps with values, which past and horizon need");
  return std::make_shared<SeriesDataset>(grid, how, scales_of(*grid, *how), std::move(windows),
                                         true);
}

std::vector<Forecast> forecasts_of(const SeriesEncoding& how, const std::vector<fs::path>& files) {
  const RawTable table = read_series_file(how, files);
  (void)find_column(table, how.target);
  const SeriesGrid grid = grid_of(table, how);
  const std::vector<SeriesScale> scales = scales_of(grid, how);
  std::vector<Forecast> out;
  std::string short_ones;
  for (size_t i = 0; i < grid.series.size(); ++i) {
    const OneSeries& s = grid.series[i];
    const std::string name = s.name.empty() ? "the series" : "series " + in_quotes(s.name);
    if (s.size() < how.past) {
      short_ones += concat_to_string(short_ones.empty() ? "" : ", ", name);
      continue;
    }
    require<InputError>(how.known.empty() || s.future >= how.horizon, table.files[0].path, ": ",
                        name, " has ", s.future, " rows after its last ", how.target, ", of the ",
                        how.horizon, " that a forecast needs for the known column ",
                        how.known.empty() ? "" : in_quotes(how.known[0].name),
                        ": add rows with the times from ",
                        how.step.time_text(s.time_at(s.num_steps(), how.step)), " on, an empty ",
                        how.target, " and these columns");
    Forecast f{.keys = s.keys, .times = {}, .features = {}, .scale = scales[i]};
    for (int64_t h = 0; h < how.horizon; ++h) {
      f.times.push_back(how.step.time_text(s.time_at(s.size() + h, how.step)));
    }
    f.features.resize(size_t(how.width()));
    write_features(s, how, scales[i], s.size() - how.past, f.features);
    out.push_back(std::move(f));
  }
  require<InputError>(!out.empty(), table.files[0].path, ": no series has the ", how.past,
                      " steps that the model needs");
  if (!short_ones.empty()) {
    warn(concat_to_string(table.files[0].path, ": no forecast, because they have fewer than ",
                          how.past, " steps: ", short_ones));
  }
  return out;
}

}  // namespace taper::v0::data
