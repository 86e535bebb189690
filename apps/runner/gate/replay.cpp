#include "apps/runner/gate/replay.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string_view>

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/runner/config/yaml.h"
#include "apps/runner/run/errors.h"
#include "apps/runner/run/text.h"
#include "apps/runner/train/train.h"

namespace taper::runner {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kScratch = "taper-scratch-";

using Values = std::map<std::string, std::string>;  // by path: "train.epochs"

void flatten(const Node& node, const std::string& path, Values& out) {
  if (node.kind == Node::Kind::kScalar) out[path] = node.text;
  for (size_t i = 0; i < node.children.size(); ++i) {
    const Node& child = node.children[i];
    const std::string key = node.kind == Node::Kind::kMap ? child.key : cat(i);
    flatten(child, path.empty() ? key : cat(path, ".", key), out);
  }
}

// Of YAML, which JSON is too.
std::string differences(const std::string& a, const std::string& b) {
  Values left, right;
  if (const Document doc = parse_yaml(a, {}); doc.root) flatten(*doc.root, "", left);
  if (const Document doc = parse_yaml(b, {}); doc.root) flatten(*doc.root, "", right);
  Values all = left;
  all.insert(right.begin(), right.end());
  std::string out;
  for (const auto& [key, value] : all) {
    const std::string x = left.contains(key) ? left[key] : "(none)";
    const std::string y = right.contains(key) ? right[key] : "(none)";
    if (x != y && !key.starts_with("command.") && key != "started_in")
      out += cat("  ", key, ": ", x, " | ", y, "\n");
  }
  return out;
}

std::string line_at(const std::string& text, size_t at) {
  const size_t begin = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
  return text.substr(begin, text.find('\n', at) - begin);
}

}  // namespace

// Whoever uses such a directory holds its lock, which ends with the process.
static void remove_left_behind(const fs::path& all) {
  std::error_code error;
  for (auto it = fs::directory_iterator(all, error); !error && it != fs::end(it);
       it.increment(error)) {
    const std::string name = it->path().filename();
    if (!name.starts_with(kScratch) || name.size() != kScratch.size() + 6) continue;
    const int file = ::open(it->path().c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat info;
    const bool is_left = file >= 0 && ::fstat(file, &info) == 0 && info.st_uid == ::geteuid() &&
                         ::flock(file, LOCK_EX | LOCK_NB) == 0;
    std::error_code ignored;
    if (is_left) fs::remove_all(it->path(), ignored);
    if (file >= 0) ::close(file);
  }
}

TemporaryDirectory::TemporaryDirectory() {
  const fs::path all = fs::temp_directory_path();
  remove_left_behind(all);
  do {  // again where another took it for left behind, before it was locked
    if (lock_ >= 0) ::close(lock_);
    std::string name = (all / cat(kScratch, "XXXXXX")).string();
    if (mkdtemp(name.data()) == nullptr) {
      throw InputError(cat("cannot make a temporary directory '", name, "': set TMPDIR"));
    }
    path_ = name;
    lock_ = ::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock_ >= 0) (void)::flock(lock_, LOCK_EX);
  } while (!fs::exists(path_));
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  if (lock_ >= 0) ::close(lock_);
}

std::vector<Phase> phases_to_run_again(const fs::path& run) {
  const fs::path file = fs::is_directory(run) ? run / "config.yaml" : run;
  if (!fs::exists(file)) throw InputError(cat("no run: there is no '", file.string(), "'"));
  if (fs::is_directory(run)) verify_run(run);
  return phases_of_run(run);
}

void run_again(const std::vector<Phase>& phases, const fs::path& dir, Observer* observer) {
  const auto level = spdlog::get_level();
  spdlog::set_level(spdlog::level::warn);
  try {
    for (const Phase& phase : phases) {
      const bool is_last = phase.until == 0;
      const TrainResult result = train(phase.config, dir,
                                       {.resume = &phase == phases.data() ? "no" : "last",
                                        .stop_at = is_last ? -1 : phase.until,
                                        .observer = observer});
      if (is_last || result.steps < phase.until) break;
      spdlog::set_level(spdlog::level::err);  // that it goes on is no news
    }
  } catch (...) {
    spdlog::set_level(level);
    throw;
  }
  spdlog::set_level(level);
}

std::string config_differences(const std::string& a, const std::string& b) {
  return differences(a, b);
}

std::string env_differences(const fs::path& a, const fs::path& b) {
  const auto env = [](const fs::path& run) {
    return read_file(run / "env.json", "facts of the run");
  };
  return differences(env(a), env(b));
}

std::string weights_difference(const fs::path& a, const fs::path& b) {
  const fs::path left = a / "model.safetensors", right = b / "model.safetensors";
  if (!fs::exists(left) || !fs::exists(right)) return "";
  const auto bytes = [](const fs::path& file) { return read_file(file, "weights of the run"); };
  if (bytes(left) == bytes(right)) return "";
  return "model.safetensors of the run is not what the run made again has\n";
}

std::string metrics_of(const fs::path& run) {
  return read_file(run / "metrics.jsonl", "metrics of the run");
}

MetricsDifference compare_metrics(const std::string& left, const std::string& right) {
  const size_t same = size_t(std::ranges::mismatch(left, right).in1 - left.begin());
  if (same == left.size() || same == right.size()) {
    return {0, "", "", std::ssize(right) - std::ssize(left)};
  }
  const auto line = 1 + std::count(left.begin(), left.begin() + std::ptrdiff_t(same), '\n');
  return {line, line_at(left, same), line_at(right, same)};
}

}  // namespace taper::runner
