#include "apps/runner/gate/coverage.h"

#include <algorithm>
#include <iterator>

#include "apps/runner/components/components.h"
#include "apps/runner/config/yaml.h"

namespace taper::v0::runner {
namespace {

// Adds the names of the entries of a list of layers, which are "- relu" or "- linear: {...}".
void add_layers(const Node& list, std::set<std::string>& used) {
  for (const Node& entry : list.children) {
    if (entry.kind == Node::Kind::kScalar) used.insert(entry.text);
    if (entry.kind == Node::Kind::kMap && !entry.children.empty())
      used.insert(entry.children[0].key);
  }
}

// Adds the type of a section of the config, which is "{type: NAME, ...}" or the name alone.
void add_type(const Node& root, const char* section, std::set<std::string>& used) {
  const Node* node = root.find(section);
  if (node == nullptr) return;
  const Node* type = node->kind == Node::Kind::kMap ? node->find("type") : node;
  if (type != nullptr) used.insert(type->text);
}

void add_config(const Node& root, std::vector<KindCoverage>& kinds) {
  constexpr const char* kSections[] = {"", "model", "loss", "optimizer", "schedule", "data"};
  for (size_t i = 1; i < kinds.size(); ++i) add_type(root, kSections[i], kinds[i].used);
  const Node* model = root.find("model");
  const Node* list = model != nullptr ? model->find("layers") : nullptr;
  if (list != nullptr) add_layers(*list, kinds[0].used);
}

}  // namespace

std::vector<std::string> KindCoverage::missing() const {
  std::vector<std::string> out;
  std::ranges::copy_if(names, std::back_inserter(out),
                       [&](const std::string& name) { return !used.contains(name); });
  return out;
}

std::vector<KindCoverage> coverage_of(const std::vector<std::string>& configs) {
  std::vector<KindCoverage> out = {
      {"layers", layers().names(), {}},       {"models", models().names(), {}},
      {"losses", losses().names(), {}},       {"optimizers", optimizers().names(), {}},
      {"schedules", schedules().names(), {}}, {"types of data", data_types().names(), {}}};
  for (const std::string& config : configs) {
    const Document doc = parse_yaml(with_defaults(config), {});
    if (doc.root) add_config(*doc.root, out);
  }
  return out;
}

Verdict coverage(const std::vector<std::string>& goldens) {
  std::vector<std::string> configs;
  for (const std::string& file : goldens) configs.push_back(load_run_golden(file).config);
  Verdict out{true};
  for (const KindCoverage& kind : coverage_of(configs)) {
    const std::vector<std::string> missing = kind.missing();
    out.passed = out.passed && missing.empty();
    out.text += concat_to_string(
        kind.kind, ": ", kind.names.size() - missing.size(), " of ", kind.names.size(),
        " are covered", missing.empty() ? "" : "; no recording has ", joined(missing), "\n");
  }
  return out;
}

}  // namespace taper::v0::runner
