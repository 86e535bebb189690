#include "apps/runner/data/dataset.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <span>

#include <spdlog/spdlog.h>

#include "apps/runner/data/digits.h"
#include "apps/runner/data/idx.h"
#include "apps/runner/run/errors.h"
#include "apps/runner/run/text.h"
#include "apps/runner/train/signals.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/index.h"
#include "framework/factories.h"
#include "framework/kernels/parallel_cpu.h"

namespace taper::runner {
namespace {

namespace fs = std::filesystem;

std::span<float> values_of(const Tensor& x) { return x.span<float>(); }

// --- rows ---

// Rows may overlap, as the windows of a text do.
Tensor rows_of(const Tensor& x, std::span<const int64_t> rows, bool pinned) {
  if (!x.defined()) return {};
  Shape shape = x.shape();
  shape[0] = std::ssize(rows);
  const size_t bytes = size_t(shape.numel()) * x.element_size();
  const Tensor out =
      pinned ? Tensor::make(allocate_pinned(bytes), shape, contiguous_strides(shape), 0, x.dtype())
             : Tensor::make(shape, x.dtype(), Device());
  const char* from = static_cast<const char*>(x.data_ptr());
  char* to = static_cast<char*>(out.data_ptr());
  for (const int64_t row : rows) {
    if (row < 0 || row >= x.size(0)) throw IndexError(cat("no row ", row, " of ", x.size(0)));
    std::memcpy(to, from + row * x.stride(0) * int64_t(x.element_size()), bytes / rows.size());
    to += bytes / rows.size();
  }
  return out;
}

// --- splits ---

// A random part of the samples becomes the test set; `key` names the fraction.
void split_rows(Dataset& out, const Split& all, double test_fraction, uint64_t seed,
                const char* key) {
  const int64_t rows = all.size(), test_rows = std::llround(double(rows) * test_fraction);
  if (test_rows < 1 || test_rows >= rows) {
    throw InputError(cat(key, " ", test_fraction, " of ", rows, " rows leaves ", rows - test_rows,
                         " to train and ", test_rows, " to test; both must be at least 1"));
  }
  Generator generator(seed);
  const Tensor order = randperm(rows, {}, &generator);
  out.test = Split{batch(all, order.narrow(0, 0, test_rows))};
  out.train = Split{batch(all, order.narrow(0, test_rows, rows - test_rows))};
}

// --- images ---

// Pixels become [0, 1].
Split as_split(const Images& images) {
  const Tensor inputs = empty({images.count, 1, images.height, images.width});
  float* out = inputs.data<float>();
  kernels::cpu::parallel_for(inputs.numel(), kernels::cpu::kSerialWork,
                             [&](int64_t begin, int64_t end) {
                               for (int64_t i = begin; i < end; ++i) {
                                 out[i] = float(images.pixels[size_t(i)]) / 255.0f;
                               }
                             });
  if (images.labels.empty()) return Split{{inputs, {}}};
  return Split{{inputs, tensor_of(images.labels.data(), {images.count})}};
}

void require_size(const DataInfo& info, const Images& images, const char* what) {
  const Shape size = {1, images.height, images.width};
  if (size == info.input_shape) return;
  throw InputError(cat("training images are ", info.input_shape[1], "x", info.input_shape[2], ", ",
                       what, " images are ", images.height, "x", images.width));
}

Dataset of_images(const Images& train, const Images& test, int64_t classes = 10) {
  Dataset out;
  out.input_shape = {1, train.height, train.width};
  out.outputs = classes;
  for (int64_t i = 0; i < classes; ++i) out.class_names.push_back(cat(i));
  require_size(out, test, "test");
  out.train = as_split(train);
  out.test = as_split(test);
  return out;
}

// Classes are counted from 0 to the largest label: gaps are told, and what makes no sense refused.
int64_t classes_of(const std::vector<int64_t>& labels, const std::string& file) {
  constexpr int64_t kUnlabelled = 255;
  const std::set<int64_t> seen(labels.begin(), labels.end());
  const int64_t classes = 1 + *seen.rbegin(), missing = classes - std::ssize(seen);
  if (seen.size() == 1) {
    throw DataError(cat(file, ": all labels are ", *seen.begin(), ": there is nothing to learn"));
  }
  if (*seen.rbegin() == kUnlabelled && missing > 0) {
    const auto first = std::ranges::find(labels, kUnlabelled) - labels.begin();
    throw DataError(cat(file, ": record ", first, " (counted from 0) has the label 255, but ",
                        missing, " labels below it never come: take out what has no label"));
  }
  if (missing == 0) return classes;
  int64_t gap = 0;
  while (seen.contains(gap)) ++gap;
  spdlog::warn(
      "{}: labels go to {}, so the model has {} outputs, but {} of them never come (the "
      "first is {}): number the classes from 0",
      file, classes - 1, classes, missing, gap);
  return classes;
}

Dataset load_idx(const IdxConfig& config) {
  const Images train = read_idx_images(config.train_images, config.train_labels, 256);
  const int64_t classes = classes_of(train.labels, config.train_labels);
  return of_images(train, read_idx_images(config.test_images, config.test_labels, classes),
                   classes);
}

// --- tables ---

Split as_split(const CsvTable& table) {
  const Tensor inputs = tensor_of(table.features.data(), {table.rows, table.width});
  if (!table.labels.empty()) return Split{{inputs, tensor_of(table.labels.data(), {table.rows})}};
  if (table.targets.empty()) return Split{{inputs, {}}};
  return Split{{inputs, tensor_of(table.targets.data(), {table.rows})}};
}

// Gaps are filled in any case; a word's feature stays 0 or 1.
Standardizer scale_of(const CsvTable& table, const Tensor& train, bool is_standardized) {
  Standardizer out = fit_standardizer(values_of(train), table.width);
  size_t feature = 0;
  for (const auto& words : table.categories) {
    for (size_t i = 0; i < std::max<size_t>(words.size(), 1); ++i, ++feature) {
      if (is_standardized && words.empty()) continue;
      out.mean[feature] = 0;
      out.std[feature] = 1;
    }
  }
  return out;
}

// From the file's unit to that of the model's outputs.
void scale_targets(const DataInfo& info, const Tensor& targets) {
  if (info.task != Task::kRegression || !targets.defined()) return;
  for (float& y : values_of(targets)) {
    y = static_cast<float>((y - info.target_mean) / info.target_std);
  }
}

// What the rows have nothing to say about.
void check_columns(const CsvTable& table, const std::string& file) {
  const auto is_same = [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  const bool is_constant =
      table.classes.empty() && std::ranges::count(table.targets, table.targets[0]) == table.rows;
  if (table.classes.size() == 1 || (is_constant && table.rows > 1)) {
    throw DataError(cat(file, ": column '", table.label_name, "' has the one value ",
                        is_constant ? cat(table.targets[0]) : in_quotes(table.classes[0]),
                        ": there is nothing to learn"));
  }
  std::string names;
  int64_t count = 0;
  for (int64_t column = 0, first = 0; column < table.columns; ++column) {
    const int64_t width = std::max<int64_t>(std::ssize(table.categories[size_t(column)]), 1);
    bool differs = width > 1;
    for (int64_t at = first; !differs && at < std::ssize(table.features); at += table.width) {
      differs = !is_same(table.features[size_t(at)], table.features[size_t(first)]);
    }
    first += width;
    if (differs) continue;
    if (++count <= 3)
      names += cat(names.empty() ? "" : ", ", in_quotes(table.feature_names[size_t(column)]));
  }
  if (count == 0 || table.rows < 2) return;
  spdlog::warn("{}: {} feature column(s) are empty or the same in every row and tell nothing: {}{}",
               file, count, names, count > 3 ? ", ..." : "");
}

Dataset load_csv(const CsvConfig& config, uint64_t seed) {
  CsvTable table = read_csv(config.path, config);
  check_columns(table, config.path);
  Dataset out;
  if (config.test_path) {
    out.train = as_split(table);
    out.test = as_split(read_csv_like(table, *config.test_path));
  } else {
    split_rows(out, as_split(table), config.test_fraction, seed, "data.test_fraction");
  }
  out.task = config.task;
  out.class_names = table.classes;
  out.outputs = config.task == Task::kRegression ? 1 : std::ssize(table.classes);
  out.input_shape = {table.width};
  table.scale = scale_of(table, out.train.inputs, config.standardize);
  if (config.scale_target && config.task == Task::kRegression) {
    const Standardizer target = fit_standardizer(values_of(out.train.targets), 1);
    out.target_mean = target.mean[0];
    out.target_std = target.std[0];
  }
  for (const Split& split : {out.train, out.test}) {
    standardize(values_of(split.inputs), table.scale);
    scale_targets(out, split.targets);
  }
  out.table = std::move(table);
  return out;
}

// --- text ---

Tokenizer tokenizer_of(const TextConfig& config, const std::string& text) {
  switch (config.tokenizer) {
    case TokenizerType::kGpt2: return Tokenizer::gpt2(config.vocabulary.value_or(""));
    case TokenizerType::kBytes: return Tokenizer::bytes();
    default: break;
  }
  // Of the held-out part too, as nanoGPT has it: it could not be encoded else.
  return Tokenizer::chars(config.lines ? text + "\n" : text);
}

Split windows_of(const Tokenizer& tokenizer, std::string_view text, int64_t block,
                 const char* what) {
  const std::vector<int64_t> tokens = tokenizer.encode(text);
  if (std::ssize(tokens) > block) {
    return {{tensor_of(tokens.data(), {std::ssize(tokens)}), {}}, block};
  }
  throw ValueError(cat("the ", what, " part of the text has ", tokens.size(),
                       " tokens, but a sample takes data.block_size + 1 = ", block + 1,
                       ": lower block_size, or take more text"));
}

// A row for each line: from "\n" to its last token, and from its first to "\n".
Split line_rows(const Tokenizer& tokenizer, std::string_view text, int64_t block) {
  const int64_t end = tokenizer.encode("\n").at(0);
  std::vector<int64_t> inputs, targets;
  for (size_t at = 0, stop = 0; at < text.size(); at = stop + 1) {
    check_stop();
    stop = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, stop - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const std::vector<int64_t> tokens = tokenizer.encode(line);
    const int64_t room = block - 1 - std::ssize(tokens);
    if (room < 0) {
      throw ValueError(cat("line ", 1 + std::count(text.begin(), text.begin() + int64_t(at), '\n'),
                           " of the text has ", tokens.size(), " tokens: data.block_size must be ",
                           "at least ", tokens.size() + 1, ", got ", block));
    }
    inputs.push_back(end);
    inputs.insert(inputs.end(), tokens.begin(), tokens.end());
    inputs.insert(inputs.end(), size_t(room), end);
    targets.insert(targets.end(), tokens.begin(), tokens.end());
    targets.push_back(end);
    targets.insert(targets.end(), size_t(room), kIgnoredTarget);
  }
  const Shape shape = {std::ssize(inputs) / block, block};
  return Split{{tensor_of(inputs.data(), shape), tensor_of(targets.data(), shape)}};
}

Dataset load_text(const TextConfig& config, uint64_t seed) try {
  const std::string text = read_texts(config.path);
  const auto tokenizer = std::make_shared<const Tokenizer>(tokenizer_of(config, text));
  Dataset out;
  out.task = Task::kLanguage;
  out.tokenizer = tokenizer;
  out.lines = config.lines;
  out.input_shape = {config.block_size};
  out.outputs = tokenizer->size();
  if (config.lines) {
    split_rows(out, line_rows(*tokenizer, text, config.block_size), config.validation_fraction,
               seed, "data.validation_fraction");
    return out;
  }
  // As nanoGPT: cut first, then encode each part; not within a character.
  size_t cut = size_t(double(text.size()) * (1 - config.validation_fraction));
  while (cut > 0 && is_continuation(text[cut])) --cut;
  const std::string_view all = text;
  out.train = windows_of(*tokenizer, all.substr(0, cut), config.block_size, "training");
  out.test = windows_of(*tokenizer, all.substr(cut), config.block_size, "validation");
  return out;
} catch (const ValueError& error) {
  throw InputError(cat(config.path, ": ", error.what()));
}

}  // namespace

int64_t Split::size() const { return block > 0 ? (inputs.size(0) - 1) / block : inputs.size(0); }

size_t Split::nbytes() const {
  return inputs.nbytes() + (targets.defined() ? targets.nbytes() : 0);
}

Split Split::to(Device device) const {
  return {{inputs.to(device), targets.defined() ? targets.to(device) : Tensor()}, block};
}

Batch batch(const Split& split, const Tensor& rows, bool pinned) {
  if (split.inputs.is_cpu()) {
    const std::span<const int64_t> names = rows.span<int64_t>();
    const auto windows = [&](int64_t first) {
      return view_as(split.inputs, {split.places(), split.block}, {1, 1}, first);
    };
    const bool has_rows = split.block == 0;
    return {rows_of(has_rows ? split.inputs : windows(0), names, pinned),
            rows_of(has_rows ? split.targets : windows(1), names, pinned)};
  }
  if (split.block > 0) {
    const Tensor at = rows.unsqueeze(1) + arange(split.block, {.device = rows.device()});
    return {embedding(split.inputs, at), embedding(split.inputs, at + 1)};
  }
  return {embedding(split.inputs, rows),
          split.targets.defined() ? embedding(split.targets, rows) : Tensor()};
}

DataConfig resolved(DataConfig config) {
  std::error_code none;
  const auto find = [&](std::string& path) {
    // Of a pattern only the folder before its first wildcard can be asked for.
    const size_t wild = path.find_first_of("*?[{");
    const fs::path there = config.base / path, folder = config.base / path.substr(0, wild);
    const bool is_pattern = wild != std::string::npos;
    if (fs::exists(there, none) || (is_pattern && fs::exists(folder.parent_path(), none))) {
      path = there.lexically_normal();
    }
  };
  if (config.base.empty()) return config;
  for (std::string* path :
       {&config.mnist.root, &config.idx.train_images, &config.idx.train_labels,
        &config.idx.test_images, &config.idx.test_labels, &config.csv.path, &config.text.path}) {
    if (!path->empty()) find(*path);
  }
  if (config.csv.test_path) find(*config.csv.test_path);
  if (config.text.vocabulary) find(*config.text.vocabulary);
  return config;
}

Dataset load_dataset(const DataConfig& given, uint64_t seed) {
  const DataConfig config = resolved(given);
  switch (config.type) {
    case DataType::kMnist: {
      const Images train = load_mnist(config.mnist.root, true);
      return of_images(train, load_mnist(config.mnist.root, false));
    }
    case DataType::kIdx: return load_idx(config.idx);
    case DataType::kCsv: return load_csv(config.csv, seed);
    case DataType::kText: return load_text(config.text, seed);
    default: break;
  }
  const DigitsConfig& digits = config.digits;
  return of_images(draw_digits(digits.seed, 0, digits.train_size),
                   draw_digits(digits.seed, digits.train_size, digits.test_size));
}

Split load_more(const DataInfo& info, const fs::path& file) {
  if (info.table) {
    const CsvTable table = read_csv_like(*info.table, file, true);
    const Split out = as_split(table);
    standardize(values_of(out.inputs), table.scale);
    scale_targets(info, out.targets);
    return out;
  }
  if (info.tokenizer) throw InputError("a model of text takes a prompt, not a file of samples");
  const Images images = read_idx_images(file, {}, info.outputs);
  require_size(info, images, file.c_str());
  return as_split(images);
}

}  // namespace taper::runner
