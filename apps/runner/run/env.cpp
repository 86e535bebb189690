#include "apps/runner/run/env.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include <nlohmann/json.hpp>
#include <zlib.h>

#include "apps/runner/data/dataset.h"
#include "apps/runner/run/checksums.h"
#include "apps/runner/run/errors.h"
#include "apps/runner/run/info.h"
#include "apps/runner/run/run_directory.h"
#include "apps/runner/run/text.h"
#include "apps/runner/train/metrics.h"
#include "framework/cuda.h"
#include "framework/threads.h"

namespace taper::runner {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Those directly in a directory.
std::vector<fs::path> files_in(const fs::path& directory) {
  std::vector<fs::path> out;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(directory, none)) {
    if (entry.is_regular_file()) out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

// The files that a config reads, but for its text.
std::vector<fs::path> data_files(const DataConfig& data) {
  switch (data.type) {
    case DataType::kDigits: return {};
    case DataType::kMnist: return files_in(data.mnist.root);
    case DataType::kIdx:
      return {data.idx.train_images, data.idx.train_labels, data.idx.test_images,
              data.idx.test_labels};
    case DataType::kCsv:
      if (data.csv.test_path) return {data.csv.path, *data.csv.test_path};
      return {data.csv.path};
    case DataType::kText: break;
  }
  return data.text.vocabulary ? files_in(*data.text.vocabulary) : std::vector<fs::path>();
}

Json data_facts(const DataConfig& given) {
  const DataConfig data = resolved(given);
  // Named as the config names them, wherever the run is looked at from.
  const auto fact = [&](const fs::path& file, size_t bytes, uint32_t sum) -> Json {
    const fs::path name = file.lexically_relative(data.base);
    const bool is_below = !data.base.empty() && !name.empty() && *name.begin() != "..";
    return {
        {"file", (is_below ? name : file).string()}, {"bytes", bytes}, {"crc32", hex_crc32(sum)}};
  };
  Json out = Json::array();
  for (const fs::path& file : data_files(data)) {
    if (!fs::exists(file)) continue;  // its reader says so
    out.push_back(fact(file, fs::file_size(file), file_crc32(file)));
  }
  if (data.type == DataType::kText) {  // as it is trained on: all files in one
    const std::string text = read_texts(data.text.path);
    out.push_back(
        fact(data.text.path, text.size(),
             uint32_t(crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size()))));
  }
  return out;
}

// The words of the command line. A library has none of its own, so the system is asked.
Json command_line() {
  std::istringstream in(read_file("/proc/self/cmdline", "command line"));
  Json out = Json::array();
  for (std::string word; std::getline(in, word, '\0');) out.push_back(word);
  return out;
}

}  // namespace

std::string changed_data(const fs::path& run, const RunConfig& config) try {
  const fs::path file = run / "env.json";
  if (!fs::exists(file)) return "";
  const Json env = Json::parse(read_file(file, "facts of the run"), nullptr, false);
  if (!env.is_object()) throw InputError(cat(file.string(), ": damaged: it is no JSON object"));
  const Json now = data_facts(config.data);
  std::string out;
  for (const Json& then : env.value("data", Json::array())) {
    const auto same = [&](const Json& fact) { return fact.value("file", Json()) == then["file"]; };
    const auto found = std::ranges::find_if(now, same);
    if (found != now.end() && *found == then) continue;
    const auto shown = [](const Json& f) { return cat(f["bytes"], " bytes, CRC-32 ", f["crc32"]); };
    out += cat("  ", then["file"], ": ", shown(then), " | ",
               found == now.end() ? "not there" : shown(*found), "\n");
  }
  return out;
} catch (const Json::exception&) {
  throw InputError(cat((run / "env.json").string(), ": damaged"));
}

void write_env(const fs::path& dir, const RunConfig& config, Device device) {
  const BuildFacts build = build_facts();
  Json env = {{"taper", build.version},     {"commit", build.commit},
              {"compiler", build.compiler}, {"onednn", build.onednn},
              {"cpu", cpu_name()},          {"threads", get_num_threads()},
              {"device", to_string(device)}};
  if (device.is_cuda()) {
    env["gpu"] = cuda::get_device_name(device.index());
    env["driver"] = cuda::driver_version();
    env["cuda"] = cuda::runtime_version();
    env["cudnn"] = cuda::cudnn_version();
  }
  env["seed"] = config.seed;
  env["data"] = data_facts(config.data);
  env["started_in"] = folder_of_data(dir, config);
  env["command"] = command_line();
  // What is not UTF-8 (a path may be anything) is shown with a replacement character.
  write_file(dir / "env.json", env.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace taper::runner
