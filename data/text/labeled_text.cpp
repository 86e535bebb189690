#include "data/text/labeled_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <ranges>

#include "data/folders.h"
#include "data/loader.h"
#include "data/tables/table_report.h"
#include "data/text/length_sampler.h"
#include "data/text/text_folder.h"
#include "data/text/token_files.h"
#include "data/tokenizers/bpe.h"
#include "data/tokenizers/vocabulary.h"
#include "framework/base/cancel.h"
#include "framework/base/log.h"
#include "framework/factory/factories.h"
#include "framework/io/text_utils.h"

namespace taper::v0::data {
namespace {

namespace fs = std::filesystem;

// Returns the folder of that part of the data, or std::nullopt if there is none.
std::optional<std::string> part_in(const fs::path& folder,
                                   std::initializer_list<const char*> names) {
  for (const char* name : names) {
    std::error_code none;
    if (fs::is_directory(folder / name, none)) return (folder / name).string();
  }
  return std::nullopt;
}

// Returns the options with the paths of the parts of a folder, the columns of a folder, and the
// kind of the column of texts. Throws OptionError if a column is not given.
LabeledText resolved(LabeledText o) {
  std::error_code none;
  if (fs::is_directory(o.path.at(0), none)) {
    const fs::path root = o.path[0];
    const auto train = part_in(root, {"train"}), test = part_in(root, {"test"}),
               validation = part_in(root, {"validation", "valid", "val"});
    if (train && (test || validation)) {
      o.path = {*train};
      if (!o.split.test) o.split.test = test;
      if (!o.split.validation) o.split.validation = validation;
    }
    if (o.text.empty()) o.text = kTextColumn;
    if (o.target.empty()) o.target = {kClassColumn};
    o.columns.try_emplace(kFileColumn, "keep");
  }
  for (const auto& [key, is_given] :
       {std::pair("text", !o.text.empty()), std::pair("target", !o.target.empty())}) {
    if (is_given) continue;
    throw OptionError(key, concat_to_string(key, ": which column of ", o.path[0], " is it?"));
  }
  if (std::ranges::count(o.target, o.text) > 0) {
    throw OptionError("text", concat_to_string("column ", detail::in_quotes(o.text),
                                               " is given as text and as target"));
  }
  o.columns[o.text] = "text";
  return o;
}

// Returns the tokens of a text, at most `length`. An empty text has one unknown token.
std::vector<int64_t> tokens_of(const Tokenizer& tokenizer, std::string_view text, int64_t length) {
  // Nothing after this many bytes can be among the first tokens: words are at most kMostBytes long
  // on average, or the text is unusual enough to be cut.
  constexpr int64_t kMostBytes = 64;
  std::vector<int64_t> ids = tokenizer.encode(text.substr(0, size_t(kMostBytes * length)));
  if (std::ssize(ids) > length) ids.resize(size_t(length));
  if (ids.empty()) ids.push_back(*tokenizer.special_id(Tokenizer::kUnknown));
  return ids;
}

// Returns the tokens of these rows, [n, length] int32.
Tensor encode_texts(const Tokenizer& tokenizer, const RawColumn& column,
                    std::span<const int64_t> rows, int64_t length) {
  const int64_t padding = *tokenizer.special_id(Tokenizer::kPadding);
  const Tensor out = full({std::ssize(rows), length}, padding, {.dtype = kInt32});
  int32_t* to = out.data<int32_t>();
  for (const int64_t row : rows) {
    check_stop();
    std::ranges::copy(tokens_of(tokenizer, column.text(row), length), to);
    to += length;
  }
  return out;
}

class LabeledTextLoader : public TableLoader {
 public:
  explicit LabeledTextLoader(const LabeledText& options) : TableLoader(options), t_(options) {}

 private:
  RawTable read_files(const std::vector<fs::path>& files) const override;
  TableRequest request() const override;
  void fit_inputs() override;
  DatasetPtr with_inputs(const std::vector<int64_t>& rows, Batch rest) const override;
  void describe_inputs(DataInfo& out) const override;

  const RawColumn& texts() const { return table_.columns[size_t(find_column(table_, t_.text))]; }
  Tokenizer make_tokenizer();
  Tokenizer make_words();
  // Returns what the report says about the lengths of the training texts. Sets length_.
  std::string choose_length();

  const LabeledText& t_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  int64_t length_ = 0;
  std::string note_;  // about the tokens, for the report
};

RawTable LabeledTextLoader::read_files(const std::vector<fs::path>& files) const {
  const auto folders = std::ranges::count_if(files, [](const fs::path& file) {
    std::error_code none;
    return fs::is_directory(file, none);
  });
  if (folders == std::ssize(files)) return read_text_folders(files);
  require<InputError>(folders == 0, files[0].string(), ": the parts must all be tables, or all be ",
                      "folders of texts");
  TableReadOptions options = o_.read.for_reader();
  options.expected_columns = o_.target;
  std::vector<std::string> words;
  for (const auto& [name, kind] : o_.columns) {
    options.expected_columns.push_back(name);
    if (kind != "weight") words.push_back(name);
  }
  return read_table(files, options, words);
}

TableRequest LabeledTextLoader::request() const {
  TableRequest out = TableLoader::request();
  for (const RawColumn& column : table_.columns) {
    const bool is_given = std::ranges::any_of(
        t_.columns, [&](const auto& each) { return matches_column(each.first, column.name); });
    if (!is_given) out.columns[column.name] = ColumnKind::kIgnore;
  }
  return out;
}

Tokenizer LabeledTextLoader::make_words() {
  WordCounts counts;
  for (const int64_t row : parts_.train) counts.add(texts().text(row));
  std::vector<std::string> words = counts.most_frequent(t_.vocabulary_size);
  require<DataError>(!words.empty(), table_.files[0].path, ": no word occurs twice in the ",
                     "training texts of column ", detail::in_quotes(t_.text));
  int64_t known = 0;
  for (const std::string& word : words) known += counts.count(word);
  char share[16];
  std::snprintf(share, sizeof share, "%.1f", 100 * double(known) / double(counts.total()));
  note_ = concat_to_string("the ", with_separators(std::ssize(words)), " most frequent of ",
                           with_separators(counts.distinct()), " words, ", share, " % of the text");
  return Tokenizer::words(std::move(words));
}

Tokenizer LabeledTextLoader::make_tokenizer() {
  using Tokens = LabeledText::Tokens;
  if (t_.tokenizer == Tokens::kWordTokens) return make_words();
  if (needs_vocabulary(t_.tokenizer)) {
    return read_vocabulary(t_.tokenizer, t_.vocabulary.value_or(""));
  }
  if (t_.tokenizer == Tokens::kBytes) return Tokenizer::bytes();
  if (t_.tokenizer == Tokens::kBpe) {
    BpeTrainer trainer;
    for (const int64_t row : parts_.train) trainer.add(texts().text(row));
    return Tokenizer::bpe(trainer.merges(t_.vocabulary_size - 256));
  }
  CharacterSet characters;
  for (const int64_t row : parts_.train) characters.add(texts().text(row));
  return Tokenizer::of({.kind = Tokenizer::TokenKind::kChars, .tokens = characters.characters()});
}

std::string LabeledTextLoader::choose_length() {
  constexpr int64_t kMost = 256, kStep = 8, kMostCounted = 100'000;
  std::vector<int64_t> lengths;
  for (const int64_t row : parts_.train) {
    const auto tokens = tokens_of(*tokenizer_, texts().text(row), kMostCounted);
    lengths.push_back(std::ssize(tokens));
  }
  std::ranges::sort(lengths);
  const int64_t usual = lengths[lengths.size() * 95 / 100];
  length_ = t_.length > 0 ? t_.length : std::min(kMost, (usual + kStep - 1) / kStep * kStep);
  const auto cut = lengths.end() - std::ranges::upper_bound(lengths, length_);
  char share[16];
  std::snprintf(share, sizeof share, "%.1f", 100 * double(cut) / double(lengths.size()));
  return concat_to_string("median ", with_separators(lengths[lengths.size() / 2]),
                          " tokens, longest ", with_separators(lengths.back()),
                          lengths.back() == kMostCounted ? " or more, " : ", ",
                          with_separators(length_), " used, which cuts ", with_separators(cut),
                          " of ", with_separators(std::ssize(lengths)), " texts (", share, " %)");
}

void LabeledTextLoader::fit_inputs() {
  const Tokenizer made = make_tokenizer().with_special({Tokenizer::kPadding, Tokenizer::kUnknown});
  tokenizer_ = std::make_shared<const Tokenizer>(made);
  if (note_.empty()) {
    note_ = concat_to_string(with_separators(made.size()), " tokens (", t_.tokenizer, ")");
  }
  note_ += concat_to_string("; ", choose_length());
  encoding_.text = texts().name;
  for (ColumnSummary& column : columns_) {
    if (column.name == encoding_.text) column.note = note_;
    if (column.kind == ColumnKind::kIgnore && column.note.empty()) column.note = "not used";
  }
}

DatasetPtr LabeledTextLoader::with_inputs(const std::vector<int64_t>& rows, Batch rest) const {
  rest.inputs = encode_texts(*tokenizer_, texts(), rows, length_);
  return std::make_shared<TensorDataset>(std::move(rest));
}

void LabeledTextLoader::describe_inputs(DataInfo& out) const {
  out.input_shape = {length_};
  out.tokenizer = tokenizer_;
}

// Texts that know their lengths, for batches of similar length.
class TextSamples final : public TensorDataset {
 public:
  // lengths: of each text.
  TextSamples(Batch all, std::vector<int64_t> lengths)
      : TensorDataset(std::move(all)), lengths_(std::move(lengths)) {}

  std::unique_ptr<Sampler> sampler(const DataLoaderOptions& o, uint64_t seed) const override {
    if (!o.group_by_length || !o.shuffle) return TensorDataset::sampler(o, seed);
    return std::make_unique<LengthGroupedSampler>(lengths_, o.batch_size, seed);
  }
  DatasetPtr to(Device device) const override {
    return std::make_shared<TextSamples>(all().map([&](const Tensor& x) { return x.to(device); }),
                                         lengths_);
  }

 private:
  std::vector<int64_t> lengths_;
};

// Returns the lengths of texts [N, T] without the padding at their ends, rounded up to one of eight
// lengths, so that a GPU captures few graphs and the order within a batch stays random.
std::vector<int64_t> rounded_lengths(const Tensor& tokens, int64_t padding) {
  constexpr int kLengths = 8;
  const int64_t longest = tokens.size(1);
  std::vector<int64_t> allowed, out;
  for (int k = kLengths - 1; k >= 0; --k) {
    allowed.push_back(int64_t(std::ceil(double(longest) * std::exp2(-0.5 * k))));
  }
  const std::span<const int32_t> ids = tokens.span<int32_t>();
  for (auto text = ids.begin(); text != ids.end(); text += longest) {
    int64_t length = longest;
    while (length > 1 && text[length - 1] == padding) --length;
    out.push_back(*std::ranges::lower_bound(allowed, length));
  }
  return out;
}

// Returns whether a further file is a text or a folder of texts. A file that ends in ".txt" is a
// table if the training data were such a table.
bool has_texts(const LabeledText& options, const fs::path& file) {
  std::error_code none;
  const bool is_table = !options.path.empty() && text_extension(options.path[0]) == ".txt";
  return fs::is_directory(file, none) || (!is_table && is_text_folder(file));
}

// Returns the folder of the test part, if the folder has the parts of a data set.
fs::path test_folder_in(const fs::path& folder) {
  const auto test = part_in(folder, {"test"});
  return test && part_in(folder, {"train"}) ? fs::path(*test) : folder;
}

// Reads a further table or folder with the columns of the training data.
RawTable read_texts_like(const LabeledText& options, const DataInfo& info, const fs::path& file) {
  require<InputError>(info.columns && info.tokenizer, file.string(),
                      ": the training data were no texts with a class or value");
  const TableEncoding& encoding = *info.columns;
  if (!has_texts(options, file)) return read_table_like(encoding, file, false);
  RawTable table = read_text_folders({test_folder_in(file)});
  // Folders that are no classes only group the texts.
  const std::vector<std::string>& classes = encoding.targets[0].classes;
  const int64_t at = table.find(kClassColumn);
  const auto is_class = [&](int64_t row) {
    return std::ranges::count(classes, table.columns[size_t(at)].text(row)) > 0;
  };
  const auto rows = std::views::iota(int64_t(0), table.rows);
  if (at >= 0 && std::ranges::none_of(rows, is_class))
    table.columns.erase(table.columns.begin() + at);
  for (RawColumn& column : table.columns) {
    if (column.name == kTextColumn) column.name = encoding.text;
    if (column.name == kClassColumn) column.name = encoding.targets[0].name;
  }
  return table;
}

// Warns of texts without a word, for which a model has nothing to go by.
void warn_of_empty_texts(const RawColumn& texts, int64_t rows, const fs::path& file) {
  int64_t empty = 0;
  for (int64_t row = 0; row < rows; ++row) {
    empty += texts.text(row).find_first_not_of(" \t\r\n") == std::string::npos ? 1 : 0;
  }
  if (empty == 0) return;
  warn(concat_to_string(name_of(file), ": ", empty, " of ", rows, rows == 1 ? " text" : " texts",
                        empty == 1 ? " is" : " are", " empty; the model has nothing to go by"));
}

// Returns the texts of a further table, with the targets and weights that `out` has.
DatasetPtr with_texts(const DataInfo& info, const RawTable& table, const fs::path& file,
                      Batch out) {
  const RawColumn& texts = table.columns[size_t(find_column(table, info.columns->text))];
  warn_of_empty_texts(texts, table.rows, file);
  out.inputs = encode_texts(*info.tokenizer, texts, table.all_rows(), info.input_shape[0]);
  return std::make_shared<TensorDataset>(std::move(out));
}

}  // namespace

Splits LabeledText::load(uint64_t) const {
  const LabeledText options = resolved(*this);
  Splits out = LabeledTextLoader(options).load();
  if (!group_by_length) return out;
  const Batch& all = dynamic_cast<const TensorDataset&>(*out.train).all();
  const int64_t padding = *out.tokenizer->special_id(Tokenizer::kPadding);
  out.train = std::make_shared<TextSamples>(all, rounded_lengths(all.inputs, padding));
  return out;
}

std::vector<DataFile> LabeledText::files() const {
  std::vector<DataFile> out;
  if (vocabulary) out = vocabulary_files(*vocabulary);
  for (const DataFile& file : resolved(*this).Table::files()) {
    std::error_code none;
    const bool is_folder = fs::is_directory(file.name, none);
    out.push_back(is_folder ? DataFile{file.name, list_text_files(file.name)} : file);
  }
  return out;
}

DatasetPtr LabeledText::more(const DataInfo& info, const fs::path& file) const {
  const RawTable table = read_texts_like(*this, info, file);
  return with_texts(info, table, file, encode_targets_if_any(*info.columns, table));
}

DatasetPtr LabeledText::unlabeled(const DataInfo& info, const fs::path& file) const {
  return with_texts(info, read_texts_like(*this, info, file), file, {});
}

KeptColumns LabeledText::kept(const DataInfo& info, const fs::path& file) const {
  const RawTable table = read_texts_like(*this, info, file);
  TableEncoding encoding = *info.columns;
  const bool is_folder = table.find(kFileColumn) >= 0 && has_texts(*this, file);
  if (is_folder && std::ranges::count(encoding.keep, kFileColumn) == 0) {
    encoding.keep.emplace_back(kFileColumn);
  }
  return kept_columns(encoding, table);
}

}  // namespace taper::v0::data
