#include "apps/runner/run/run_metadata.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "apps/runner/base/files.h"
#include "apps/runner/base/process.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/config/json_reader.h"
#include "apps/runner/run/run_directory.h"
#include "apps/runner/settings/data_path.h"
#include "framework/base/cancel.h"
#include "framework/host/thread_pool.h"

namespace taper::v0::runner {

using Json = nlohmann::ordered_json;

// --- configs ---

RunConfig load_run_config(const fs::path& run, const std::vector<std::string>& overrides) {
  if (is_data_path(run, overrides)) return load_config(run, overrides);
  const fs::path file = fs::is_directory(run) ? run / "config.yaml" : run;
  RunConfig config = load_config(file, overrides);
  const fs::path dir = file.parent_path().empty() ? "." : file.parent_path();
  const bool sets_data = std::ranges::any_of(
      overrides, [](const std::string& text) { return text.starts_with("data"); });
  if (sets_data || !is_run(dir) || !fs::exists(dir / "env.json")) return config;
  const Json env = read_json_file<Json>(dir / "env.json", "metadata of the run");
  const auto started = env.find("started_in");
  if (started == env.end() || !started->is_string()) return config;
  const fs::path base = (fs::canonical(dir) / started->get<std::string>()).lexically_normal();
  std::error_code none;
  if (fs::is_directory(base, none) && !fs::equivalent(base, ".", none)) config.data.base = base;
  return config;
}

// Returns the history of a run: for each phase the number of steps before it and its YAML.
static Json history_of(const fs::path& run) {
  const fs::path file = run / kHistory;
  if (!fs::exists(file)) return Json::array();
  return json_value<Json>(read_file(file, "history of the run"), file.string());
}

std::vector<Phase> phases_of_run(const fs::path& run) try {
  const bool is_directory = fs::is_directory(run);
  const fs::path yaml = is_directory ? run / "config.yaml" : run;
  if (!fs::exists(yaml))
    throw InputError(concat_to_string("not a run: '", yaml.string(), "' does not exist"));
  if (is_directory) verify_run(run);
  RunConfig last = load_run_config(run);
  const Json history = is_directory ? history_of(run) : Json::array();
  std::vector<Phase> out;
  for (size_t i = 0; i + 1 < history.size(); ++i) {
    const TemporaryDirectory scratch;
    const fs::path file = scratch.path() / "phase.yaml";
    write_file(file, history.at(i).at("config"));
    out.push_back({load_config(file, {}), history.at(i + 1).at("step")});
    out.back().config.data.base = last.data.base;
  }
  out.push_back({std::move(last)});
  return out;
} catch (const Json::exception&) {
  throw InputError(concat_to_string("'", (run / kHistory).string(), "' is damaged"));
}

void note_phase(const fs::path& dir, int64_t step, const std::string& before,
                const std::string& after) try {
  Json history = history_of(dir);
  const auto is_later = [&](const Json& phase) { return phase.at("step") >= step; };
  history.erase(std::remove_if(history.begin(), history.end(), is_later), history.end());
  if (history.empty() && step > 0) history.push_back({{"step", 0}, {"config", before}});
  if (before != after && step > 0) history.push_back({{"step", step}, {"config", after}});
  if (history.size() > 1) {
    write_file(dir / kHistory, history.dump(1) + "\n");
  } else {
    fs::remove(dir / kHistory);
  }
} catch (const Json::exception&) {
  throw InputError(concat_to_string("'", (dir / kHistory).string(), "' is damaged"));
}

// --- program, machine and data ---

// Returns name, size and checksum of each data file. Skips missing files: the code that reads them
// reports the error.
static Json data_metadata(const DataConfig& data) {
  Json out = Json::array();
  for (const data::DataFile& file : source_of(data)->files()) {
    if (!std::ranges::all_of(file.parts, [](const fs::path& part) { return fs::exists(part); })) {
      continue;
    }
    // The name is relative to data.base as in the config, so that it does not depend on the current
    // directory.
    const fs::path path = file.name, below = path.lexically_relative(data.base);
    const bool is_below = !data.base.empty() && !below.empty() && *below.begin() != "..";
    uint64_t bytes = 0;
    uint32_t sum = 0;
    for (const fs::path& part : file.parts) {
      bytes += fs::file_size(part);
      sum = file_crc32(part, UINT64_MAX, sum, check_stop);
    }
    out.push_back({{"file", (is_below ? below : path).string()},
                   {"bytes", bytes},
                   {"crc32", hex_crc32(sum)}});
  }
  return out;
}

// Returns name, size and checksum of the file of model.init, in a list. The list is empty if there
// is no such file.
static Json init_metadata(const RunConfig& config) {
  Json out = Json::array();
  const fs::path file = init_file(config.model, config.data.base);
  std::error_code none;
  if (!config.model.init || !fs::is_regular_file(file, none)) return out;
  const uint32_t sum = file_crc32(file, UINT64_MAX, 0, check_stop);
  out.push_back(
      {{"file", *config.model.init}, {"bytes", fs::file_size(file)}, {"crc32", hex_crc32(sum)}});
  return out;
}

std::string metadata_of_rank(const RunConfig& config) {
  const BuildInfo b = build_info();
  const Json program = {{"taper", b.version}, {"commit", b.commit}, {"compiler", b.compiler}};
  return concat_to_string(to_yaml(config), "\nprogram: ", program.dump(),
                          "\ndata_files: ", data_metadata(config.data).dump(), "\n");
}

void write_env(const fs::path& dir, const RunConfig& config, Device device,
               const fs::path& resumed) {
  Json env, init;
  if (resumed.empty()) init = init_metadata(config);
  if (!resumed.empty() && fs::exists(resumed / "env.json")) {
    init = read_json_file<Json>(resumed / "env.json", "metadata of the run").value("init", Json());
  }
  for (const auto& [key, value] : golden::program_values(device)) env[key] = value;
  env["threads"] = get_num_threads();
  env["seed"] = config.seed;
  env["data"] = data_metadata(config.data);
  if (!init.empty()) env["init"] = init;
  // The path is relative to the run's directory, so that both may be moved together.
  const fs::path base = config.data.base.empty() ? fs::current_path() : config.data.base;
  env["started_in"] = fs::relative(base, fs::canonical(dir)).string();
  // No run needs this value, so it is left out if /proc is not mounted.
  if (fs::exists("/proc/self/cmdline")) env["command"] = command_line();
  // Invalid UTF-8, which a path may have, is written as replacement characters.
  write_file(dir / "env.json", env.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

static MetadataMap shown(const Json& files) {
  MetadataMap out;
  for (const Json& f : files) {
    out[f.at("file")] =
        concat_to_string(f.at("bytes"), " bytes, CRC-32 ", f.at("crc32").get<std::string>());
  }
  return out;
}

RunMetadata metadata_of_run(const fs::path& run) try {
  RunMetadata out;
  const Json env = read_json_file<Json>(run / "env.json", "metadata of the run");
  for (const auto& [key, value] : env.items()) {
    if (key == "data" || key == "init") {
      out.data.merge(shown(value));
    } else if (key != "seed" && key != "threads" && key != "started_in" && key != "command") {
      out.program[key] = value.is_string() ? value.get<std::string>() : value.dump();
    }
  }
  return out;
} catch (const Json::exception&) {
  throw InputError(concat_to_string("'", (run / "env.json").string(), "' is damaged"));
}

std::string changed_data(const fs::path& run, const RunConfig& config, bool checks_init) {
  if (!fs::exists(run / "env.json")) return "";
  MetadataMap then = metadata_of_run(run).data, now = shown(data_metadata(config.data));
  if (checks_init) now.merge(shown(init_metadata(config)));
  if (!checks_init) then.erase(config.model.init.value_or(""));
  std::erase_if(now, [&](const auto& file) { return !then.contains(file.first); });
  return differences(then, now);
}

// --- differences ---

std::string differences(const MetadataMap& a, const MetadataMap& b, const std::string& none) {
  MetadataMap all = a;
  all.insert(b.begin(), b.end());
  std::string out;
  for (const auto& [name, either] : all) {
    const std::string x = a.contains(name) ? either : none;
    const std::string y = b.contains(name) ? b.at(name) : none;
    if (x != y) out += concat_to_string("  ", name, ": ", x, " | ", y, "\n");
  }
  return out;
}

static void flatten(const Node& node, const std::string& path, MetadataMap& out) {
  if (node.kind == Node::Kind::kScalar) out[path] = node.text;
  for (size_t i = 0; i < node.children.size(); ++i) {
    const Node& child = node.children[i];
    flatten(child, join_path(path, node.kind == Node::Kind::kMap ? child.key : concat_to_string(i)),
            out);
  }
}

MetadataMap flat_config(const std::string& text) {
  MetadataMap out;
  if (const Document doc = parse_yaml(text, {}); doc.root) flatten(*doc.root, "", out);
  std::erase_if(out, [](const auto& entry) {
    return entry.first.starts_with("command.") || entry.first == "started_in" ||
           entry.first.starts_with("log.");
  });
  return out;
}

std::string config_differences(const std::string& a, const std::string& b) {
  return differences(flat_config(a), flat_config(b), "(none)");
}

std::string env_differences(const fs::path& a, const fs::path& b) {
  const auto env = [](const fs::path& run) {
    return read_file(run / "env.json", "metadata of the run");
  };
  return config_differences(env(a), env(b));
}

}  // namespace taper::v0::runner
