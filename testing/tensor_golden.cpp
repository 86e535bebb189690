// Goldens of tensors: safetensors files, and JSON files with a section for each platform.
#include <algorithm>
#include <set>

#include "framework/gate/blessing.h"
#include "framework/gate/comparison.h"
#include "framework/io/safetensors.h"
#include "framework/io/text_utils.h"
#include "testing/golden_update.h"
#include "testing/training_golden.h"
#include "testing/verdict.h"

namespace taper::v0::test {
namespace {

namespace fs = std::filesystem;

// More elements would make a text file that nobody reads.
constexpr int64_t kMostElements = 100'000;

Verdict compare(const Tensor& got, const Tensor& want, double rtol, double atol) {
  if (rtol == 0 && atol == 0) return same_bits(got, want);
  if (got.dtype() == want.dtype()) return tensor_close(got, want, rtol, atol);
  return {concat_to_string(name_of(got.dtype()), ", expected ", name_of(want.dtype()))};
}

std::string names_of(const std::vector<NamedTensor>& tensors) {
  std::set<std::string> sorted;
  for (const NamedTensor& x : tensors) sorted.insert(concat_to_string("\"", x.name, "\""));
  return concat_to_string("{ ", detail::joined(sorted), " }");
}

// --- safetensors ---

Verdict compare_with_file(const std::vector<NamedTensor>& got, const fs::path& file, double rtol,
                          double atol) {
  const std::vector<NamedTensor> golden = load_safetensors(file.string()).tensors;
  if (names_of(got) != names_of(golden)) {
    return {concat_to_string(names_of(got), ", ", file.string(), " has ", names_of(golden))};
  }
  for (const NamedTensor& mine : got) {
    const auto same = [&](const NamedTensor& x) { return x.name == mine.name; };
    const Verdict result =
        compare(mine.tensor, std::ranges::find_if(golden, same)->tensor, rtol, atol);
    if (!result) return {concat_to_string(file.string(), ", ", mine.name, ": ", result.failure)};
  }
  return {};
}

// Replaces the file if its tensors have other bits. Keeps who did it, when and why.
Verdict bless_file(const std::vector<NamedTensor>& got, const fs::path& file,
                   const std::string& reason) {
  if (compare_with_file(got, file, 0, 0)) return {};
  const std::string author = golden::git_author();
  if (author.empty())
    return {
        "TAPER_BLESS needs an author: set one with `git config user.name NAME`, or in "
        "GIT_AUTHOR_NAME"};
  std::map<std::string, std::string> metadata = load_safetensors(file.string()).metadata;
  std::string& history = metadata["history"];
  history +=
      concat_to_string(history.empty() ? "" : "\n", golden::today(), " ", author, ": ", reason);
  save_safetensors(file.string(), got, metadata);
  return {};
}

Verdict matches_file(const std::vector<NamedTensor>& got, const fs::path& file, double rtol,
                     double atol) {
  const GoldenRequest request = golden_request();
  if (request.adds) save_safetensors(file.string(), got);
  if (!fs::exists(file)) {
    return {concat_to_string("there is no ", file.string(),
                             ": run with TAPER_UPDATE_GOLDEN=1 to write it, and look at it")};
  }
  if (!request.reason.empty() && !request.adds) return bless_file(got, file, request.reason);
  return compare_with_file(got, file, rtol, atol);
}

// --- JSON ---

// Appends a row for each run of elements along the last dimension.
void add_rows(const NamedTensor& named, std::vector<golden::Row>& rows) {
  const std::vector<double> values = values_of(named.tensor);
  const Shape& shape = named.tensor.shape();
  const size_t width = shape.size() == 0 ? 1 : size_t(std::max<int64_t>(1, shape[-1]));
  for (size_t i = 0; i < values.size(); ++i) {
    if (i % width == 0) rows.push_back({{"step", concat_to_string(rows.size() + 1)}});
    const std::string element = concat_to_string(named.name, place(shape, i));
    rows.back()[element] = detail::hex_text(values[i]);
  }
}

Observed observe_tensors(const std::vector<NamedTensor>& tensors) {
  Observed out;
  int64_t elements = 0;
  Device device;
  for (const NamedTensor& named : tensors) elements += named.tensor.numel();
  require<ValueError>(elements <= kMostElements, "a JSON golden holds at most ", kMostElements,
                      " elements, the tensors have ", elements, "; use a .safetensors file");
  for (const NamedTensor& named : tensors) {
    out.config += concat_to_string(named.name, ": ", name_of(named.tensor.dtype()), " ",
                                   named.tensor.shape(), "\n");
    add_rows(named, out.section.rows);
    if (named.tensor.device().is_cuda()) device = named.tensor.device();
  }
  out.section.metadata = test_metadata(device, "");
  out.record = [section = out.section] { return section; };
  return out;
}

// The rows are numbered, but their number means nothing to the reader.
std::string without_step(const std::string& text) {
  return text.starts_with("step ") ? text.substr(text.find('\n') + 1) : text;
}

Verdict matches_sections(const std::vector<NamedTensor>& got, const fs::path& file, double rtol,
                         double atol) try {
  const Observed observed = observe_tensors(got);
  TestGolden golden(file, "tensors");
  if (const auto written = golden.updated(observed))
    return written->passed ? Verdict{} : Verdict{written->text};
  if (const std::string found = golden.config_differences(); !found.empty())
    return {concat_to_string(golden.head(), "the tensors differ (now | recorded):\n", found)};
  const golden::ChosenSection chosen = golden.chosen();
  const golden::Tolerances tolerances = {{"", rtol}};
  const golden::Verdict bits =
      golden::compare_rows(observed.section.rows, chosen.section.rows, true, tolerances, atol);
  if (bits.passed) return {};
  const char* advice = chosen.matches || rtol > 0 || atol > 0
                           ? ""
                           : "give tolerances for other machines, or add a section for this one "
                             "with TAPER_UPDATE_GOLDEN=1\n";
  return {concat_to_string(golden.head(), without_step(bits.text), golden.cause(), advice)};
} catch (const InputError& error) {
  return {error.what()};
} catch (const Error& error) {
  return {concat_to_string(file.string(), ": ", error.what())};
}

}  // namespace

Verdict matches_golden(const std::vector<NamedTensor>& got, const fs::path& file, double rtol,
                       double atol) {
  if (file.extension() == ".json") return matches_sections(got, file, rtol, atol);
  return matches_file(got, file, rtol, atol);
}

Verdict matches_golden(const Tensor& got, const fs::path& file, double rtol, double atol) {
  return matches_golden(std::vector<NamedTensor>{{"tensor", got}}, file, rtol, atol);
}

Verdict matches_golden(const fs::path& run, const fs::path& file, double rtol, double atol) {
  const SafeTensors model = load_safetensors((run / "model.safetensors").string());
  return matches_golden(model.tensors, file, rtol, atol);
}

}  // namespace taper::v0::test
