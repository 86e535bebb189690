#include "apps/runner/programs/speed.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/runner/base/child_process.h"
#include "apps/runner/base/files.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/base/writable.h"
#include "apps/runner/config/json_reader.h"
#include "apps/runner/gate/cause.h"
#include "apps/runner/programs/program_runs.h"
#include "apps/runner/run/log_sink.h"

namespace taper::v0::runner {
namespace {

using SpeedJson = nlohmann::ordered_json;

constexpr const char* kThisProgram = "/proc/self/exe";

std::string program_or_this(const std::string& program) {
  return program.empty() ? kThisProgram : program;
}

// --- one run ---

// Reads the training time from timing.jsonl. Older programs do not write it; then it is the sum of
// the epochs' times, if the run did not end within an epoch.
void read_timing(const fs::path& dir, SpeedSample& out) {
  const fs::path file = dir / "timing.jsonl";
  double epochs = 0;
  int64_t last_step = 0;
  for (const std::string& line : lines_of(read_file(file, "times of the run"))) {
    const auto row = json_value<SpeedJson>(line, file.string());
    const std::string kind = row.value("kind", "");
    if (kind == "epoch") {
      epochs += row.value("seconds", 0.0);
      last_step = row.value("step", int64_t(0));
    } else if (kind == "memory") {
      if (row.contains("peak_bytes")) out.peak_bytes = row["peak_bytes"].get<int64_t>();
      const bool has_all = row.value("step", int64_t(-1)) == last_step;
      if (row.contains("training_seconds")) {
        out.training_seconds = row["training_seconds"].get<double>();
      } else if (has_all) {
        out.training_seconds = epochs;
      }
    }
  }
}

bool ran_on_gpu(const fs::path& dir) {
  const MetadataMap program = metadata_of_run(dir).program;
  const auto device = program.find("device");
  return device != program.end() && device->second.starts_with("cuda");
}

// Lets the program train in a temporary directory.
SpeedSample measure_run(const std::string& program, const fs::path& config, int64_t steps) {
  const TemporaryDirectory scratch;
  const fs::path dir = scratch.path() / "run";
  std::vector<std::string> words = {program, "train", config.string(), "--out", dir.string()};
  if (steps > 0) {
    words.emplace_back("train.epochs=null");
    words.push_back(concat_to_string("train.steps=", steps));
  }
  const auto begin = std::chrono::steady_clock::now();
  const ProgramEnd end = run_program({.words = words, .log = scratch.path() / "log"});
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (end.code != kExitOk) fail_with(program, end);
  SpeedSample out{.process_seconds = took.count()};
  try {
    read_timing(dir, out);
    out.is_on_gpu = ran_on_gpu(dir);
  } catch (const SpeedJson::exception&) {
    throw InputError(
        concat_to_string("the program ", in_quotes(program), " wrote a damaged timing.jsonl"));
  }
  return out;
}

fs::path config_file(const fs::path& run) {
  const fs::path file = fs::is_directory(run) ? run / "config.yaml" : run;
  if (!fs::exists(file)) throw InputError(concat_to_string("'", file.string(), "' does not exist"));
  return file;
}

SpeedSamples measured(const fs::path& run, const std::string& old, const std::string& now,
                      const SpeedOptions& options) {
  const fs::path config = config_file(run);
  const int64_t runs = 2 * (options.pairs + 1);
  int64_t begun = 0;
  const auto measure = [&](const std::string& program) {
    const StatusGuard status(concat_to_string("training run ", ++begun, " of ", runs));
    return measure_run(program, config, options.steps);
  };
  return measure_pairs(measure, old, now, options.pairs);
}

// --- recordings ---

struct SpeedRecording {
  std::string config{};
  int64_t steps = 0;
  std::string program{};  // the name of the file with the program, in the folder of the recording
  std::string crc32{};    // of that file
};

Schema recording_schema(SpeedRecording& r, int64_t& version, std::vector<Row>& resolution) {
  Schema schema;
  schema("speed", version, {1, 1}, "version of the format").required();
  schema("config", r.config, "config of the runs").required();
  schema("steps", r.steps, kNonNegative, "training steps of each run; 0: all").required();
  schema("program", r.program, "file with the program").required();
  schema("crc32", r.crc32, "checksum of the program").required();
  schema.field("resolution", value_in(resolution), "ratios of equal programs").required();
  return schema;
}

SpeedRecording load_speed(const fs::path& file) {
  const std::string text = read_file(file, "recording of the speed", kMaxJsonBytes);
  if (text.find("\"speed\"") == std::string::npos) {
    throw InputError(
        concat_to_string(file.string(), ":1: is not a recording of `taper record --time`"));
  }
  SpeedRecording out;
  int64_t version = 0;
  std::vector<Row> resolution;
  read_json(text, file.string(), recording_schema(out, version, resolution));
  const fs::path program = file.parent_path() / fs::path(out.program).filename();
  if (!fs::exists(program)) {
    throw InputError(
        concat_to_string("the program of ", file.string(), " is missing: ", program.string()));
  }
  if (const std::string sum = hex_crc32(file_crc32(program)); sum != out.crc32) {
    throw InputError(concat_to_string("the program of ", file.string(),
                                      " has changed: the CRC-32 of ", program.string(), " is ", sum,
                                      ", recorded ", out.crc32));
  }
  out.program = fs::absolute(program).string();
  return out;
}

std::string config_text(const fs::path& run) { return to_yaml(load_run_config(config_file(run))); }

// Returns the path of a program that is given as a path or by its name in PATH.
fs::path path_of_program(const std::string& program) {
  if (fs::exists(program)) return program;
  const char* path = std::getenv("PATH");
  for (const std::string& folder : lines_of(path ? path : "", ':')) {
    if (fs::exists(fs::path(folder) / program)) return fs::path(folder) / program;
  }
  throw InputError(concat_to_string("cannot run the program ", in_quotes(program)));
}

void require_new(const fs::path& file) {
  require<ConfigError>(!fs::exists(file), "'", file.string(),
                       "' exists; remove it to record the speed again");
}

}  // namespace

Verdict record_speed(const fs::path& run, const fs::path& to, const std::string& program,
                     const SpeedOptions& options) {
  const fs::path copy = fs::path(to).replace_extension(".program");
  require<ConfigError>(copy != to, "--to ", in_quotes(to.string()), ": expected a .json file");
  require_new(to);
  require_new(copy);
  check_writable(to);
  const std::string config = config_text(run);
  const fs::path original = path_of_program(program_or_this(program));
  const SpeedSamples samples = measured(run, original.string(), original.string(), options);
  const std::vector<RatioComparison> ratios = speed_ratios(samples, options.alpha);
  std::error_code error;
  fs::copy_file(original, copy, error);
  require<DiskError>(!error, "cannot copy the program to '", copy.string(), "': ", error.message());
  SpeedJson resolution = SpeedJson::array();
  std::string text = concat_to_string("recorded ", copy.string(), "; equal programs measured in ",
                                      options.pairs, " pairs:\n");
  for (const RatioComparison& r : ratios) {
    resolution.push_back({{"name", r.name},
                          {"low", fmt::format("{:.4g}", r.low)},
                          {"high", fmt::format("{:.4g}", r.high)}});
    text +=
        fmt::format("  {}: {:.3g} s, ratios from {:.3g} to {:.3g}\n", r.name, r.now, r.low, r.high);
  }
  const SpeedJson all = {{"speed", 1},
                         {"config", config},
                         {"steps", options.steps},
                         {"program", copy.filename().string()},
                         {"crc32", hex_crc32(file_crc32(copy))},
                         {"resolution", resolution}};
  write_file(to, all.dump(1, ' ', false, SpeedJson::error_handler_t::replace) + "\n");
  return {true, text};
}

Verdict check_speed(const fs::path& run, const fs::path& recording,
                    const std::vector<std::string>& programs, const SpeedOptions& options) {
  const bool has_two = programs.size() == 2;
  require<ConfigError>(programs.size() <= 2, "check --time compares two programs, not ",
                       programs.size());
  require<ConfigError>(has_two == recording.empty(),
                       "check --time compares two programs: give --program OLD --program NEW, or "
                       "--against a recording of `taper record --time`, which has the old one");
  SpeedOptions how = options;
  if (has_two) return compare_speed(measured(run, programs[0], programs[1], how), how);
  const SpeedRecording recorded = load_speed(recording);
  const std::string found = relevant_differences(config_text(run), recorded.config);
  require<ConfigError>(found.empty(), recording.string(),
                       " records another config (the run | the recording):\n", found,
                       "both programs must train the same");
  if (how.steps == 0) how.steps = recorded.steps;
  const std::string now = program_or_this(programs.empty() ? "" : programs[0]);
  return compare_speed(measured(run, recorded.program, now, how), how);
}

}  // namespace taper::v0::runner
