#include "apps/runner/rerun.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include <spdlog/spdlog.h>

#include "apps/runner/errors.h"
#include "apps/runner/text.h"
#include "apps/runner/train.h"
#include "apps/runner/yaml.h"

namespace taper::runner {
namespace {

namespace fs = std::filesystem;
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
    if (x != y && !key.starts_with("command.")) out += cat("  ", key, ": ", x, " | ", y, "\n");
  }
  return out;
}

std::string line_at(const std::string& text, size_t at) {
  const size_t begin = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
  return text.substr(begin, text.find('\n', at) - begin);
}

}  // namespace

TemporaryDirectory::TemporaryDirectory() {
  std::string name = (fs::temp_directory_path() / "taper-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    throw InputError(cat("cannot make a temporary directory '", name, "': set TMPDIR"));
  }
  path_ = name;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

RunConfig config_of_run(const fs::path& run) {
  const fs::path file = fs::is_directory(run) ? run / "config.yaml" : run;
  if (!fs::exists(file)) throw InputError(cat("no run: there is no '", file.string(), "'"));
  return load_config(file, {});
}

void run_again(const RunConfig& config, const fs::path& dir, Observer* observer) {
  const auto level = spdlog::get_level();
  spdlog::set_level(spdlog::level::warn);
  try {
    train(config, dir, {.observer = observer});
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

MetricsDifference compare_metrics(const fs::path& a, const fs::path& b) {
  const std::string left = read_file(a / "metrics.jsonl", "metrics of the run");
  const std::string right = read_file(b / "metrics.jsonl", "metrics of the run");
  const size_t same = size_t(std::ranges::mismatch(left, right).in1 - left.begin());
  if (same == left.size() || same == right.size()) {
    return {0, "", "", std::ssize(right) - std::ssize(left)};
  }
  const auto line = 1 + std::count(left.begin(), left.begin() + std::ptrdiff_t(same), '\n');
  return {line, line_at(left, same), line_at(right, same)};
}

}  // namespace taper::runner
