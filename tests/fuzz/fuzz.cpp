// Fuzz targets: one function for each reader of external input. TAPER_FUZZ_TARGET names the one to
// run. A reader may reject its input only with a taper::Error. Any other exception, and any report
// of the sanitizers, ends the program.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>
#include <zlib.h>

#include "apps/runner/commands/commands.h"
#include "apps/runner/components/model_config.h"
#include "apps/runner/config/json_reader.h"
#include "apps/runner/gate/gate.h"
#include "apps/runner/report/report.h"
#include "apps/runner/run/data_info.h"
#include "apps/runner/run/run_metadata.h"
#include "apps/runner/settings/run_config.h"
#include "data/images/cifar.h"
#include "data/images/image_encoding.h"
#include "data/images/image_files.h"
#include "data/images/image_header.h"
#include "data/images/images.h"
#include "data/series/series.h"
#include "data/tables/csv.h"
#include "data/tables/dates.h"
#include "data/tables/raw_table.h"
#include "data/tables/reading/number_cell.h"
#include "data/text/labeled_text.h"
#include "data/text/token_files.h"
#include "data/tokenizer.h"
#include "data/tokenizers/bpe.h"
#include "framework/base/device.h"
#include "framework/factory/factories.h"
#include "framework/io/archive.h"
#include "framework/io/input_file.h"
#include "framework/io/json_scanner.h"
#include "framework/io/npy.h"
#include "framework/io/pt.h"
#include "framework/io/safetensors.h"
#include "modules/models/gpt.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;
using namespace data;

const fs::path& scratch() {
  static const fs::path dir = [] {
    const fs::path memory = "/dev/shm";
    const fs::path root = fs::exists(memory) ? memory : fs::temp_directory_path();
    return root / ("taper_fuzz_" + std::to_string(::getpid()));
  }();
  fs::create_directories(dir);
  return dir;
}

std::string file_of(std::string_view bytes, const char* name = "input") {
  const fs::path file = scratch() / name;
  std::ofstream(file, std::ios::binary).write(bytes.data(), std::streamsize(bytes.size()));
  return file.string();
}

// Two inputs in one: the text up to the first zero byte, and the rest.
struct Halves {
  std::string_view first, second;
};
Halves halves_of(std::string_view bytes) {
  const size_t zero = std::min(bytes.find('\0'), bytes.size());
  return {bytes.substr(0, zero), bytes.substr(std::min(zero + 1, bytes.size()))};
}

double touched(const Tensor& x) {
  double sum = 0;
  const char* bytes = static_cast<const char*>(x.data_ptr());
  for (size_t i = 0; i < x.nbytes(); ++i) sum += bytes[i];
  return sum;
}

// A config, followed by a zero byte and an override.
void config(std::string_view bytes) {
  const auto [text, override] = halves_of(bytes);
  std::vector<std::string> words;
  if (!override.empty()) words.emplace_back(override);
  (void)to_yaml(load_config(file_of(text), words));
}

// The first byte selects the options. A second file may follow after a line of '%'.
void csv(std::string_view bytes) {
  if (bytes.empty()) return;
  const auto bits = uint8_t(bytes[0]);
  CsvFormat options;
  options.header = CsvFormat::Header::Value(bits % 3);
  options.delimiter = bits & 4 ? ";" : ",";
  options.task = bits & 8 ? Task::kRegression : Task::kClassification;
  options.missing = CsvFormat::Missing::Value(bits >> 4 & 1);
  options.categories = CsvFormat::Categories::Value(bits >> 5 & 1);
  bytes.remove_prefix(1);
  const size_t cut = std::min(bytes.find("%\n"), bytes.size());
  const CsvTable train = read_csv(file_of(bytes.substr(0, cut)), options);
  (void)fit_standardizer(train.cells, train.columns);
  (void)features_of(train);
  if (cut == bytes.size()) return;
  (void)read_csv_like(train, file_of(bytes.substr(cut + 2), "other"),
                      bits & 64 ? LabelColumn::kOptional : LabelColumn::kRequired);
}

void idx(std::string_view bytes) { (void)read_idx(file_of(bytes)); }

// The data are compressed here, because a fuzzer does not find valid checksums.
void idx_gz(std::string_view bytes) {
  const std::string file = (scratch() / "packed").string();
  const gzFile out = gzopen(file.c_str(), "wb1");
  gzwrite(out, bytes.data(), unsigned(bytes.size()));
  gzclose(out);
  (void)read_idx(file);
}

// The first byte selects the image mode and how the image becomes a sample. The checksums of PNG
// chunks are corrected, so that the fuzzer gets past them.
void image(std::string_view bytes) {
  if (bytes.empty()) return;
  const auto choice = uint8_t(bytes[0]);
  const ImageMode mode = ImageMode::Value(choice % 3);
  std::string file(bytes.substr(1));
  for (size_t at = 8; file.starts_with("\x89PNG") && at + 12 <= file.size();) {
    size_t length = 0;
    for (size_t i = 0; i < 4; ++i) length = length << 8 | uint8_t(file[at + i]);
    if (length > file.size() - at - 12) break;
    const auto* chunk = reinterpret_cast<const Bytef*>(&file[at + 4]);
    const uLong sum = crc32(0, chunk, uInt(length + 4));
    for (size_t i = 0; i < 4; ++i) file[at + 8 + length + i] = char(sum >> (24 - 8 * i));
    at += 12 + length;
  }
  const std::string name = file_of(file);
  const ImageEncoding encoding{.channels = choice & 4 ? 1 : 3,
                               .height = choice & 8 ? 5 : 40,
                               .width = choice & 16 ? 3 : 50,
                               .fit = ImageFit::Value(choice / 32 % 3)};
  try {
    (void)touched(read_sample_image(name, encoding));
    (void)read_image_header(name);  // a file that can be decoded has a header
  } catch (const InputError&) {
  }
  (void)touched(read_image(name, mode));
}

void cifar(std::string_view bytes) {
  if (!bytes.empty()) (void)read_cifar(file_of(bytes.substr(1)), CifarLabels::Value(bytes[0] & 1));
}

void npy(std::string_view bytes) { (void)touched(load_npy(file_of(bytes))); }

void safetensors(std::string_view bytes) {
  for (const NamedTensor& t : load_safetensors(file_of(bytes)).tensors) (void)touched(t.tensor);
}

// Reads the last element, which a wrong stride would place out of bounds.
void pt(std::string_view bytes) {
  for (const auto& [name, x] : load_pt(file_of(bytes))) {
    if (x.numel() == 0) continue;
    const char* at = static_cast<const char*>(x.data_ptr());
    for (int d = 0; d < x.dim(); ++d) at += (x.size(d) - 1) * x.strides()[d] * x.element_size();
    if (at[x.element_size() - 1] == 1 && name == "?") std::abort();
  }
}

// The archive is written here, because a fuzzer does not find valid checksums.
void pickle(std::string_view bytes) {
  static const std::string storage(64, '\1');
  const std::string file = (scratch() / "archive").string();
  write_zip(file, {{"a/data.pkl", bytes}, {"a/data/0", storage}, {"a/data/1", storage}});
  pt(read_file(file, ""));
}

// data.json, followed by a zero byte and a CSV file of further rows.
void data(std::string_view bytes) {
  const auto [text, rows] = halves_of(bytes);
  const DataInfo info = data_info_from_json(text, "data.json");
  (void)data_info_from_json(to_json(info), "again");
  if (info.tokenizer) (void)info.tokenizer->decode(info.tokenizer->encode(rows));
  if (!info.table) return;
  (void)features_of(read_csv_like(*info.table, file_of(rows), LabelColumn::kOptional));
}

// metrics.jsonl, followed by a zero byte and the run's metadata.
void report(std::string_view bytes) {
  const auto [metrics, facts] = halves_of(bytes);
  file_of(metrics, "metrics.jsonl");
  file_of(metrics, "timing.jsonl");
  for (const char* name : {"data.json", "env.json", "evaluation.json", "exit.json"}) {
    facts.empty() ? (void)fs::remove(scratch() / name) : (void)file_of(facts, name);
  }
  write_report({scratch()}, scratch() / "report.html");
}

// vocab.bpe for a small built-in vocabulary, or a vocabulary, a zero byte and vocab.bpe.
void tokenizer(std::string_view bytes) {
  const auto [first, second] = halves_of(bytes);
  std::string vocabulary = R"({"th":256,"the":257)";
  for (uint32_t b = 0; b < 256; ++b) {
    const bool is_printable = (b > 32 && b < 127) || (b > 160 && b != 173);
    const uint32_t c = is_printable ? b : 0x100 + (b <= 32 ? b : b <= 160 ? b - 94 : 67);
    char entry[24];
    std::snprintf(entry, sizeof entry, R"(,"\u%04x":%u)", c, b);
    vocabulary += entry;
  }
  const bool is_default = second.empty();
  file_of(is_default ? vocabulary + "}" : std::string(first), "encoder.json");
  file_of(is_default ? first : second, "vocab.bpe");
  const Tokenizer made = Tokenizer::gpt2(scratch());
  (void)made.decode(made.encode(bytes));
}

// Texts for a language model. The first byte chooses the format and the tokens.
void text(std::string_view bytes) {
  if (bytes.empty()) return;
  const auto choice = static_cast<unsigned char>(bytes[0]);
  const fs::path file = file_of(bytes.substr(1), choice & 1 ? "input.jsonl" : "input.txt");
  (void)read_text_file(file);
  BpeTrainer trainer;
  trainer.add(bytes);
  const Tokenizer pairs = Tokenizer::bpe(trainer.merges(choice >> 2));
  const Tokenizer made = (choice & 2 ? pairs : Tokenizer::bytes()).with_special({Tokenizer::kEnd});
  if (pairs.decode(pairs.encode(bytes)) != bytes) std::abort();
  const uint64_t size = text_size(file), half = size / 2;
  const TextLayout layout{.keeps_words = (choice & 2) != 0};
  (void)touched(encode_spans({{file, 0, half}, {file, half, size}}, layout, made, true));
  (void)touched(read_token_files({file_of(bytes.substr(1))}, choice & 2 ? 2 : 4, 300));
}

void recording(std::string_view bytes) {
  const Recording read = load_recording(file_of(bytes));
  (void)compare(read, read, {});
  save_recording(read, scratch() / "again");
}

void json(std::string_view bytes) {
  size_t depth = 0, last = 0;
  (void)scan_json(bytes, [&](const JsonEvent& event) {
    if (event.at < last || event.at >= bytes.size()) std::abort();
    last = event.at;
    ++depth;
  });
  (void)parse_json(bytes, {.name = "text"});
}

void device(std::string_view bytes) { (void)to_string(Device(std::string(bytes))); }

// A table of any format. The first byte chooses options. A second reading, of all columns as text,
// must find the same cells.
void table(std::string_view bytes) {
  if (bytes.empty()) return;
  const auto choice = static_cast<unsigned char>(bytes[0]);
  TableReadOptions options;
  options.delimiter = std::array{"auto", "auto", ";", "blanks"}[choice & 3];
  options.decimal = choice & 4 ? "," : ".";
  options.encoding = std::array{"utf-8", "utf-8", "latin-1", "utf-16"}[choice >> 3 & 3];
  options.skip = choice >> 5 & 1;
  options.header = TableReadOptions::Header::Value((choice >> 6) % 3);
  const fs::path file = file_of(bytes.substr(1));
  const RawTable read = read_table({file}, options);
  std::vector<std::string> names;
  for (const RawColumn& column : read.columns) names.push_back(column.name);
  const RawTable again = read_table({file}, options, names);
  if (again.rows != read.rows || again.columns.size() != read.columns.size()) std::abort();
  const char point = read.files[0].format == "csv" ? options.decimal[0] : '.';
  for (size_t i = 0; i < names.size(); ++i) {
    for (int64_t row = 0; row < read.rows; ++row) {
      const RawColumn& cells = read.columns[i];
      const std::string text = again.columns[i].text(row);
      const auto number = reading::number_in_cell(text, point);
      if (again.columns[i].is_number(row) || cells.is_number(row) != number.has_value())
        std::abort();
      if (number ? cells.number(row) != *number : cells.text(row) != text) std::abort();
      (void)parse_date(text);
      (void)read.place_of(row);
    }
  }
}

// Series in a table with the columns t, y, s and k. The first byte chooses options.
void series(std::string_view bytes) {
  if (bytes.empty()) return;
  const auto choice = static_cast<unsigned char>(bytes[0]);
  Series options;
  options.path = {file_of(bytes.substr(1))};
  options.time = "t";
  options.target = "y";
  if (choice & 1) options.series = {"s"};
  if (choice & 2) options.known = {"k"};
  options.gaps = Gaps(Gaps::Value((choice >> 2) % 3));
  options.horizon = 1 + (choice >> 4 & 3);
  options.past = 1 + (choice >> 6);
  const Splits all = options.load(0);
  for (const auto& part : {all.train, all.validation, all.test}) {
    if (!part) continue;
    const Batch batch = part->get(tensor({int64_t(0), part->size() - 1}));
    if (batch.inputs.shape()[1] != all.input_shape[0]) std::abort();
    (void)touched(batch.inputs);
    (void)touched(batch.targets);
  }
  (void)data_info_from_json(to_json(all), "data.json");
  (void)forecasts_of(*all.series, {options.path[0]});
}

void sentencepiece(std::string_view bytes) {
  const Tokenizer made = Tokenizer::sentencepiece(file_of(bytes, "input.model"));
  const std::string text = "the cat sat\xef\xac\x81 on \xe4\xb8\xad 12";
  std::vector<int64_t> ids = made.encode(text);
  for (const int64_t id : ids) (void)made.continuation(id);
  (void)made.decode(ids);
}

// A compressed text, and the input as the content of one.
void text_gz(std::string_view bytes) {
  const std::string file = (scratch() / "packed.txt.gz").string();
  const gzFile out = gzopen(file.c_str(), "wb1");
  gzwrite(out, bytes.data(), unsigned(bytes.size()));
  gzclose(out);
  if (read_text_file(file) != bytes) std::abort();
  const fs::path given = file_of(bytes, "given.jsonl.gz");
  const uint64_t size = text_size(given);
  each_text_part({given, 0, size}, {}, [](std::string_view, bool) {});
}

// A table of texts in the column t with classes or values in the column y. The first byte chooses
// the format, the tokens and the length.
void labeled_text(std::string_view bytes) {
  if (bytes.empty()) return;
  const auto choice = static_cast<unsigned char>(bytes[0]);
  using Tokens = LabeledText::Tokens;
  LabeledText options;
  options.path = {file_of(bytes.substr(1), choice & 1 ? "texts.jsonl" : "texts.csv")};
  options.text = "t";
  options.target = {"y"};
  options.tokenizer = std::array<Tokens, 4>{Tokens::kWordTokens, Tokens::kBpe, Tokens::kChars,
                                            Tokens::kBytes}[choice >> 1 & 3];
  options.vocabulary_size = 300;
  options.length = choice >> 3;
  const Splits all = options.load(0);
  for (const auto& part : {all.train, all.validation, all.test}) {
    if (!part) continue;
    const Batch batch = part->get(tensor({int64_t(0), part->size() - 1}));
    (void)touched(batch.inputs);
    (void)touched(batch.targets);
  }
  (void)data_info_from_json(to_json(all), "data.json");
  (void)options.more(all, options.path[0])->size();
}

// The bytes of all weights of a model.
std::string bytes_of(const Module& model) {
  std::string out;
  for (const NamedTensor& t : model.state_dict()) {
    out.append(static_cast<const char*>(t.tensor.data_ptr()), t.tensor.nbytes());
  }
  return out;
}

// Writes a file of weights: the bytes, or an archive of torch.save in which they are the pickle and
// the storages have the sizes of the tensors of the model below. The checksums of an archive are
// computed here, because a fuzzer does not find valid ones.
std::string weights_file(std::string_view bytes, bool is_pickle) {
  if (!is_pickle) return file_of(bytes, "weights");
  const std::string file = (scratch() / "weights").string(), ones(256, '\1');
  const std::string_view all = ones;
  write_zip(file, {{"a/data.pkl", bytes},
                   {"a/data/0", all.substr(0, 16)},
                   {"a/data/1", all.substr(0, 48)},
                   {"a/data/2", all.substr(0, 64)},
                   {"a/data/3", all.substr(0, 128)},
                   {"a/data/4", all.substr(0, 192)},
                   {"a/data/5", all}});
  return file;
}

// The weights of another training for a small GPT: the first byte chooses the kind of file, the
// rest of the first line is a map "PATTERN=NAME,PATTERN=NAME", and the file follows. A refusal is
// one message of bounded length, and leaves the model as it was.
void init(std::string_view bytes) {
  static GPT model({.vocab_size = 4, .block_size = 4, .n_layer = 1, .n_head = 2, .n_embd = 4});
  const size_t line = bytes.find('\n');
  if (line == 0 || line == bytes.npos) return;
  ModelConfig config;
  config.init = weights_file(bytes.substr(line + 1), bytes[0] & 1);
  for (std::string_view rest = bytes.substr(1, line - 1); !rest.empty();) {
    const std::string_view entry = rest.substr(0, rest.find(','));
    const size_t equals = std::min(entry.find('='), entry.size());
    config.map[std::string(entry.substr(0, equals))] =
        entry.substr(std::min(equals + 1, entry.size()));
    rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
  }
  const std::string before = bytes_of(model);
  try {
    load_init(model, config, {});
  } catch (const Error& error) {
    const std::string what = error.what();
    if (what.size() > 8192 + bytes.substr(0, line).size()) std::abort();
    if (bytes_of(model) != before) std::abort();
    throw;
  }
}

struct FuzzTarget {
  const char* name;
  void (*run)(std::string_view bytes);
};
constexpr FuzzTarget kTargets[] = {
    {"config", config},
    {"csv", csv},
    {"series", series},
    {"table", table},
    {"idx", idx},
    {"idx_gz", idx_gz},
    {"image", image},
    {"cifar", cifar},
    {"npy", npy},
    {"safetensors", safetensors},
    {"pt", pt},
    {"pickle", pickle},
    {"data", data},
    {"report", report},
    {"tokenizer", tokenizer},
    {"text", text},
    {"text_gz", text_gz},
    {"sentencepiece", sentencepiece},
    {"labeled_text", labeled_text},
    {"init", init},
    {"json", json},
    {"recording", recording},
    {"device", device},
};

const FuzzTarget& chosen() {
  const char* name = std::getenv("TAPER_FUZZ_TARGET");
  for (const FuzzTarget& target : kTargets) {
    if (name != nullptr && target.name == std::string_view(name)) return target;
  }
  std::fprintf(stderr, "TAPER_FUZZ_TARGET names no target; there are:");
  for (const FuzzTarget& target : kTargets) std::fprintf(stderr, " %s", target.name);
  std::fprintf(stderr, "\n");
  std::exit(2);
}

}  // namespace
}  // namespace taper::v0::runner

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const taper::runner::FuzzTarget& target = []() -> const taper::runner::FuzzTarget& {
    // registers its destructor first, so that it still exists in the handler below
    (void)taper::runner::scratch();
    std::atexit([] { std::filesystem::remove_all(taper::runner::scratch()); });
    return taper::runner::chosen();
  }();
  try {
    target.run({reinterpret_cast<const char*>(bytes), size});
  } catch (const taper::Error&) {  // rejected input
  }
  return 0;
}
