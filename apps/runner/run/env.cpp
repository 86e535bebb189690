#include "apps/runner/run/env.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include <nlohmann/json.hpp>

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

Json data_facts(const DataConfig& data) {
  Json out = Json::array();
  for (const data::DataFile& file : source_of(data)->files()) {
    // Named as the config names them, wherever the run is looked at from.
    const fs::path path = file.name, below = path.lexically_relative(data.base);
    const bool is_below = !data.base.empty() && !below.empty() && *below.begin() != "..";
    uint64_t bytes = 0;
    uint32_t sum = 0;
    bool is_there = true;
    for (const fs::path& part : file.parts) {
      is_there = is_there && fs::exists(part);
      if (!is_there) break;  // its reader says so
      bytes += fs::file_size(part);
      sum = file_crc32(part, UINT64_MAX, sum);
    }
    if (!is_there) continue;
    out.push_back({{"file", (is_below ? below : path).string()},
                   {"bytes", bytes},
                   {"crc32", hex_crc32(sum)}});
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
