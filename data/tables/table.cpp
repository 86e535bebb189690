#include "data/tables/table.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <numeric>
#include <ranges>
#include <utility>

#include "data/tables/reading/csv_cells.h"
#include "data/tables/table_report.h"
#include "data/tables/table_targets.h"
#include "framework/base/log.h"
#include "framework/factory/factories.h"
#include "framework/io/text_utils.h"

namespace taper::v0::data {
namespace {

namespace fs = std::filesystem;
using detail::in_quotes;

// The kinds of columns that a user may give, in the order of ColumnKind.
constexpr const char* kKinds[] = {"number", "category", "date",  "text",
                                  "ignore", "keep",     "group", "weight"};

std::vector<fs::path> paths_of(const std::vector<std::string>& texts) {
  return expand_wildcards({texts.begin(), texts.end()});
}

// Returns the file of a part that is given as a path.
std::optional<std::string> file_of(const std::optional<std::string>& part) {
  return part && !TableSplit::fraction_of(*part) ? part : std::nullopt;
}

// Returns what the options say about the columns.
TableRequest request_of(const Table& t) {
  TableRequest out{.targets = t.target, .columns = {}, .missing = t.missing.values, .group = {}};
  if (out.missing.empty()) out.missing = usual_missing_words();
  for (const auto& [name, kind] : t.columns) {
    const auto at = std::ranges::find(kKinds, kind);
    out.columns[name] = ColumnKind(at - std::begin(kKinds));
  }
  if (t.split.by == TableSplit::By::kGroup) out.group = t.split.column;
  return out;
}

}  // namespace

TableLoader::TableLoader(const Table& options) : o_(options) {}
TableLoader::~TableLoader() = default;

Splits TableLoader::load() {
  read();
  columns_ = understand_columns(table_, request());
  find_task();
  drop_rows();
  refuse_words();
  divide();
  fit();
  balance();
  return encode();
}

TableRequest TableLoader::request() const { return request_of(o_); }

const ColumnSummary& TableLoader::summary_of(const std::string& name) const {
  return columns_[size_t(find_column(table_, name))];
}

void TableLoader::read() {
  std::vector<fs::path> files = paths_of(o_.path);
  training_files_ = files.size();
  for (const auto& part : {file_of(o_.split.validation), file_of(o_.split.test)}) {
    if (part) files.emplace_back(*part);
  }
  table_ = read_files(files);
}

RawTable TableLoader::read_files(const std::vector<fs::path>& files) const {
  std::vector<std::string> kept;
  for (const auto& [name, kind] : o_.columns) {
    if (kind == "keep") kept.push_back(name);
  }
  TableReadOptions options = o_.read.for_reader();
  options.expected_columns = o_.target;
  for (const auto& [name, kind] : o_.columns) options.expected_columns.push_back(name);
  return read_table(files, options, kept);
}

void TableLoader::find_task() {
  if (o_.task == Table::Task::kClassification) task_ = Task::kClassification;
  if (o_.task == Table::Task::kRegression) task_ = Task::kRegression;
  if (o_.task != Table::Task::kAuto) return;
  if (o_.learns() == data::Task::kRegression) {
    task_ = Task::kRegression;
  } else if (o_.target.size() > 1) {
    std::vector<const ColumnSummary*> targets;
    for (const std::string& name : o_.target) targets.push_back(&summary_of(name));
    task_ = task_for_several(table_, targets);
  } else {
    task_ =
        task_for(table_.columns[size_t(find_column(table_, o_.target[0]))], target().missing_cells);
  }
}

void TableLoader::drop_rows() {
  for (int64_t row = 0; row < table_.rows; ++row) rows_.push_back(row);
  for (const std::string& name : o_.target) {
    const auto at = size_t(find_column(table_, name));
    const CellReader cells(table_.columns[at], columns_[at].missing_cells);
    const auto first =
        std::ranges::find_if(rows_, [&](int64_t row) { return cells.is_missing(row); });
    if (first == rows_.end()) continue;
    if (o_.missing.target == MissingOptions::Target::kRefuse) {
      throw InputError(concat_to_string(
          table_.place_of(*first), ": column ", in_quotes(table_.columns[at].name),
          ": the target is missing; `missing: {target: drop}` leaves such rows out"));
    }
    std::erase_if(rows_, [&](int64_t row) { return cells.is_missing(row); });
  }
  require<InputError>(!rows_.empty(), table_.files[0].path, ": no row has a target");
}

// Throws InputError for a word among the values of a target.
void TableLoader::refuse_words() const {
  if (task_ != Task::kRegression) return;
  for (const std::string& name : o_.target) {
    const RawColumn& column = table_.columns[size_t(find_column(table_, name))];
    for (const int64_t row : rows_) {
      if (column.is_number(row)) continue;
      const std::string text = column.text(row);
      refuse_cell(table_, row, column.name,
                  concat_to_string("expected a number, got ", in_quotes(text), csv::guess_of(text),
                                   "; if it says that the value is missing, list it in "
                                   "missing.values; `task: classification` predicts classes"));
    }
  }
}

std::vector<int64_t> TableLoader::take_rows_of_file(size_t first) {
  int64_t begin = 0;
  for (size_t i = 0; i < first; ++i) begin += table_.files[i].rows;
  const auto from = std::ranges::lower_bound(rows_, begin);
  std::vector<int64_t> out(from, rows_.end());
  rows_.erase(from, rows_.end());
  return out;
}

// The files of the test and validation parts come last, in this order from the end.
void TableLoader::divide() {
  const bool has_validation = file_of(o_.split.validation).has_value(),
             has_test = file_of(o_.split.test).has_value();
  std::vector<int64_t> test, validation;
  if (has_test) test = take_rows_of_file(training_files_ + has_validation);
  if (has_validation) validation = take_rows_of_file(training_files_);
  TableSplit rest = o_.split;
  if (has_test) rest.test = "0";
  if (has_validation) rest.validation = "0";
  std::vector<int64_t> classes;
  std::string names;
  for (const std::string& name : o_.target) {
    names += concat_to_string(names.empty() ? "" : " and ", summary_of(name).name);
  }
  if (task_ == Task::kClassification) {
    const TableEncoding only_targets{
        .delimiter = {}, .decimal = {}, .encoding = {}, .targets = fit_targets(rows_, rows_)};
    classes = strata_of(only_targets, table_, rows_);
  }
  parts_ = split_rows(table_, rows_, classes, names, rest);
  if (has_test) parts_.test = std::move(test);
  if (has_validation) parts_.validation = std::move(validation);
  if (has_test && has_validation) parts_.how = "by files";
  if (parts_.train.empty() || parts_.test.empty()) {
    throw OptionError(
        "split", concat_to_string("split: ", std::ssize(parts_.train), " rows to train and ",
                                  std::ssize(parts_.test), " to test; both must be at least 1"));
  }
}

void TableLoader::refuse_gaps() const {
  if (o_.missing.numbers == MissingOptions::Numbers::kMedian) return;
  for (const FeatureColumn& f : encoding_.features) {
    if (f.kind != ColumnKind::kNumber && f.kind != ColumnKind::kDate) continue;
    const CellReader cells(table_.columns[size_t(find_column(table_, f.name))], f.missing);
    for (int64_t row = 0; row < table_.rows; ++row) {
      if (!cells.is_missing(row)) continue;
      throw InputError(concat_to_string(table_.place_of(row), ": column ", in_quotes(f.name),
                                        " is missing; `missing: {numbers: median}` fills it"));
    }
  }
}

std::vector<TargetColumn> TableLoader::fit_targets(std::span<const int64_t> rows,
                                                   std::span<const int64_t> all_rows) const {
  std::vector<TargetColumn> out;
  for (const std::string& name : o_.target) {
    const bool is_log = o_.log_target || std::ranges::count(o_.log_targets, name) > 0;
    out.push_back(
        fit_target(table_, summary_of(name), task_, is_log, o_.scale_target, rows, all_rows));
  }
  return out;
}

void TableLoader::fit() {
  encoding_.decimal = o_.read.decimal;
  encoding_.encoding = o_.read.encoding;
  encoding_.delimiter = o_.read.delimiter;
  encoding_.skip = o_.read.skip;
  encoding_.has_header = table_.files[0].has_header;
  encoding_.refuses_unknown = o_.unknown == Table::Unknown::kRefuse;
  for (const RawColumn& column : table_.columns) encoding_.column_names.push_back(column.name);
  for (const ColumnSummary& column : columns_) {
    if (column.kind == ColumnKind::kKeep) encoding_.keep.push_back(column.name);
    if (column.kind == ColumnKind::kWeight) encoding_.weight = column.name;
  }
  fit_inputs();
  std::vector<int64_t> all = parts_.train;
  for (const auto* part : {&parts_.validation, &parts_.test}) {
    all.insert(all.end(), part->begin(), part->end());
  }
  encoding_.targets = fit_targets(parts_.train, all);
  if (encoding_.text.empty()) check_features();
  check_target();
}

void TableLoader::fit_inputs() {
  encoding_.features =
      fit_features(table_, columns_, parts_.train,
                   {.rare = o_.rare,
                    .text_words = o_.text_words,
                    .standardize = o_.standardize,
                    .has_missing_category = o_.missing.words == MissingOptions::Words::kCategory});
}

// Returns why columns are ignored, as "; 'x' is ignored: the same in every row".
static std::string ignored_text(const std::vector<ColumnSummary>& columns) {
  constexpr size_t kMost = 5;
  std::string out;
  size_t count = 0;
  for (const ColumnSummary& column : columns) {
    if (column.kind != ColumnKind::kIgnore || ++count > kMost) continue;
    out += concat_to_string("; ", in_quotes(column.name), " is ignored",
                            column.note.empty() ? "" : ": ", column.note);
  }
  if (count > kMost) out += concat_to_string("; and ", count - kMost, " more");
  return out;
}

void TableLoader::check_features() const {
  refuse_gaps();
  require<DataError>(!encoding_.features.empty(), table_.files[0].path, ": no column is left to ",
                     "learn from", ignored_text(columns_));
  check_width();
}

// Repeats training rows of rarer classes, in turn, until all classes have the same number.
void TableLoader::balance() {
  if (o_.balance != Table::Balance::kOversample || task_ != Task::kClassification) return;
  std::vector<std::vector<int64_t>> rows(encoding_.targets[0].classes.size());
  const std::vector<int64_t> classes =
      encode_targets(encoding_, table_, parts_.train).to_vector<int64_t>();
  for (size_t i = 0; i < classes.size(); ++i) rows[size_t(classes[i])].push_back(parts_.train[i]);
  size_t most = 0;
  for (const std::vector<int64_t>& of_class : rows) most = std::max(most, of_class.size());
  for (const std::vector<int64_t>& of_class : rows) {
    for (size_t i = of_class.size(); !of_class.empty() && i < most; ++i) {
      parts_.train.push_back(of_class[i % of_class.size()]);
    }
  }
  parts_.how += ", rare classes repeated";
}

std::vector<double> TableLoader::weights_of_classes() const {
  const std::vector<std::string>& names = encoding_.targets[0].classes;
  std::vector<double> out(names.size(), 1);
  if (o_.balance == Table::Balance::kWeights) {
    std::vector<double> counts(names.size());
    const std::vector<int64_t> classes =
        encode_targets(encoding_, table_, parts_.train).to_vector<int64_t>();
    std::vector<float> weights(classes.size(), 1);
    if (!encoding_.weight.empty()) {
      weights = encode_weights(encoding_, table_, parts_.train).to_floats();
    }
    double all = 0;
    for (size_t i = 0; i < classes.size(); ++i) {
      counts[size_t(classes[i])] += double(weights[i]);
      all += double(weights[i]);
    }
    for (size_t i = 0; i < out.size(); ++i) {
      if (counts[i] > 0) out[i] = all / (double(names.size()) * counts[i]);
    }
    return out;
  }
  if (o_.class_weights.empty()) return {};
  for (const auto& [name, text] : o_.class_weights) {
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) {
      throw OptionError("class_weights",
                        concat_to_string("class_weights: there is no class ", in_quotes(name),
                                         "; the nearest are ", csv::nearest_names(names, name)));
    }
    (void)detail::parse_number(text, out[size_t(found - names.begin())]);
  }
  return out;
}

void TableLoader::check_target() const {
  const std::string& file = table_.files[0].path;
  require_learnable(encoding_, file);
  for (const TargetColumn& each : encoding_.targets) {
    const auto count = std::ssize(each.classes);
    if (task_ != Task::kClassification || count <= 20 || 2 * count <= std::ssize(rows_)) continue;
    warn(concat_to_string(file, ": column ", in_quotes(each.name), " has ", count,
                          " different values in ", std::ssize(rows_),
                          " rows, and each is a class: is it the target?"));
  }
}

void TableLoader::check_width() const {
  const std::vector<int64_t> sizes = encoding_.category_sizes();
  const int64_t width = std::accumulate(sizes.begin(), sizes.end(), encoding_.real_features());
  if (width <= o_.max_features) return;
  std::string widest;
  int64_t most = 0;
  for (const FeatureColumn& f : encoding_.features) {
    if (std::ssize(f.words) <= most) continue;
    most = std::ssize(f.words);
    widest = concat_to_string("; most words are in ", in_quotes(f.name), " (", most, ")");
  }
  throw OptionError(
      "max_features",
      concat_to_string(table_.files[0].path, " makes ", width, " input features, more than the ",
                       o_.max_features, " of data.max_features", widest,
                       ": raise `rare`, ignore columns, or raise it"));
}

// Returns a part of the data. class_weights: by which the weights of rows are multiplied, or empty.
DatasetPtr TableLoader::dataset_of(const std::vector<int64_t>& rows,
                                   std::span<const double> class_weights) {
  Batch out{{}, encode_targets(encoding_, table_, rows)};
  if (encoding_.weight.empty()) return with_inputs(rows, std::move(out));
  Tensor weights = encode_weights(encoding_, table_, rows);
  for (size_t i = 0; !class_weights.empty() && i < rows.size(); ++i) {
    const auto target = size_t(out.targets.data<int64_t>()[i]);
    weights.data<float>()[i] *= float(class_weights[target]);
  }
  const std::span<const float> all = weights.span<float>();
  require<DataError>(std::ranges::any_of(all, [](float w) { return w > 0; }), o_.path[0],
                     ": column ", in_quotes(encoding_.weight), " is 0 in all ", all.size(),
                     " rows of one of the parts, so they have no weight");
  out.others = {std::move(weights)};
  return with_inputs(rows, std::move(out));
}

DatasetPtr TableLoader::with_inputs(const std::vector<int64_t>& rows, Batch rest) const {
  rest.inputs = encode_features(encoding_, table_, rows);
  return std::make_shared<TensorDataset>(std::move(rest));
}

void TableLoader::describe_inputs(DataInfo& out) const {
  out.input_shape = {encoding_.width()};
  out.category_sizes = encoding_.category_sizes();
}

Splits TableLoader::encode() {
  const TableView view{table_, columns_, encoding_, parts_,
                       table_.rows - std::ssize(parts_.train) - std::ssize(parts_.validation) -
                           std::ssize(parts_.test)};
  Splits out;
  out.report = report_of(view);
  for (const std::string& text : warnings_about(view, o_.split)) warn(text);
  describe_inputs(out);
  describe_targets(out, task_, encoding_);
  out.has_weights = !encoding_.weight.empty();
  std::vector<double> of_rows;  // weights of classes that are part of those of the rows
  if (task_ == Task::kClassification && out.labels.empty())
    out.class_weights = weights_of_classes();
  if (out.has_weights) of_rows = std::exchange(out.class_weights, {});
  out.train = dataset_of(parts_.train, of_rows);
  out.test = dataset_of(parts_.test, {});
  if (!parts_.validation.empty()) out.validation = dataset_of(parts_.validation, {});
  out.columns = std::make_shared<const TableEncoding>(std::move(encoding_));
  return out;
}

static const TableEncoding& encoding_of(const DataInfo& info, const fs::path& file) {
  if (!info.columns) throw InputError(file.string(), ": the training data were no table");
  return *info.columns;
}

bool ReadOptions::is_delimiter(const std::string& text) {
  if (text == "auto" || text == "blanks") return true;
  return text.size() == 1 && std::isalnum(static_cast<unsigned char>(text[0])) == 0 &&
         std::string_view("\"\n\r.+-_").find(text) == std::string_view::npos;
}

TableReadOptions ReadOptions::for_reader() const {
  return {.delimiter = delimiter,
          .decimal = decimal,
          .encoding = encoding,
          .skip = skip,
          .header = header};
}

std::vector<std::string> Table::column_kinds() { return {std::begin(kKinds), std::end(kKinds)}; }

bool Table::is_weight(const std::string& text) {
  double value = 0;
  return detail::parse_number(text, value) == std::errc() && value > 0 && std::isfinite(value);
}

std::optional<Task> Table::learns() const {
  if (task == Task::kClassification) return data::Task::kClassification;
  if (task == Task::kRegression || log_target || !log_targets.empty())
    return data::Task::kRegression;
  return std::nullopt;
}

Splits Table::load(uint64_t) const { return TableLoader(*this).load(); }

std::vector<DataFile> Table::files() const {
  std::vector<DataFile> out;
  for (const std::string& text : path) out.push_back({text, expand_wildcards({text})});
  for (const auto& part : {file_of(split.validation), file_of(split.test)}) {
    if (part) out.push_back({*part, {*part}});
  }
  return out;
}

Batch encode_targets_if_any(const TableEncoding& encoding, const RawTable& table) {
  Batch out;
  const std::vector<int64_t> rows = table.all_rows();
  const bool has_targets = std::ranges::all_of(
      encoding.targets, [&](const TargetColumn& t) { return table.find(t.name) >= 0; });
  if (!has_targets) return out;
  out.targets = encode_targets(encoding, table, rows, true);
  if (encoding.weight.empty()) return out;
  if (table.find(encoding.weight) >= 0) out.others = {encode_weights(encoding, table, rows)};
  if (out.others.empty()) {
    warn(concat_to_string(table.files[0].path, ": it has no column ", in_quotes(encoding.weight),
                          " of weights, so all rows have the same weight"));
  }
  return out;
}

KeptColumns kept_columns(const TableEncoding& encoding, const RawTable& table) {
  KeptColumns out;
  for (const std::string& name : encoding.keep) {
    const int64_t at = table.find(name);
    if (at < 0) continue;
    out.names.push_back(name);
    out.rows.resize(size_t(table.rows));
    for (int64_t row = 0; row < table.rows; ++row) {
      out.rows[size_t(row)].push_back(table.columns[size_t(at)].text(row));
    }
  }
  return out;
}

DatasetPtr Table::more(const DataInfo& info, const fs::path& file) const {
  const TableEncoding& encoding = encoding_of(info, file);
  const RawTable table = read_table_like(encoding, file, false);
  Batch out = encode_targets_if_any(encoding, table);
  out.inputs = encode_features(encoding, table, table.all_rows());
  return std::make_shared<TensorDataset>(std::move(out));
}

DatasetPtr Table::unlabeled(const DataInfo& info, const fs::path& file) const {
  const TableEncoding& encoding = encoding_of(info, file);
  const RawTable table = read_table_like(encoding, file, false);
  return std::make_shared<TensorDataset>(
      Batch{encode_features(encoding, table, table.all_rows()), {}});
}

KeptColumns Table::kept(const DataInfo& info, const fs::path& file) const {
  const TableEncoding& encoding = encoding_of(info, file);
  if (encoding.keep.empty()) return {};
  return kept_columns(encoding, read_table_like(encoding, file, false));
}

}  // namespace taper::v0::data
