// The groups of parameters that a config requests, with rates of their own or without weight decay.
#include <map>
#include <optional>
#include <set>
#include <string>

#include "apps/runner/base/errors.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/components/components.h"
#include "framework/base/name_pattern.h"

namespace taper::v0::runner {
namespace {

using Rules = std::vector<optim::GroupRule>;

// A group of parameters with a learning rate of their own, without weight decay, or both.
struct GroupKey {
  std::optional<double> lr{};
  bool decays = true;
  auto operator<=>(const GroupKey&) const = default;
};

std::vector<std::string> rate_patterns(const OptimizerSite& at) {
  std::vector<std::string> out;
  for (const auto& [pattern, lr] : at.lr_by_part) out.push_back(pattern);
  return out;
}

}  // namespace

void check_parts(const OptimizerSite& at) {
  if (at.lr_by_part.empty()) return;
  const std::vector<std::string> patterns = rate_patterns(at);
  std::set<size_t> used;
  const std::vector<NamedTensor> params = trainable_parameters(at.model);
  std::vector<std::string> names;
  for (const NamedTensor& p : params) {
    names.push_back(p.name);
    if (const auto i = longest_match(patterns, p.name)) used.insert(*i);
  }
  for (size_t i = 0; i < patterns.size(); ++i) {
    require<ConfigError>(used.contains(i), "optimizer.lr: the pattern \"", patterns[i],
                         "\" names no parameter that is trained and that no longer pattern names; "
                         "trained are ",
                         names_by_module(names, names));
  }
}

Rules rules_of(const OptimizerSite& at, const std::vector<NamedTensor>& params) {
  const std::vector<std::string> patterns = rate_patterns(at);
  std::map<GroupKey, std::string> groups;  // the names of the parameters, as a pattern
  for (const auto& [name, param] : params) {
    const auto part = longest_match(patterns, name);
    GroupKey key{.decays = !at.no_decay || param.dim() >= 2};
    if (part) key.lr = at.lr_by_part.at(patterns[*part]);
    std::string& names = groups[key];
    names += concat_to_string(names.empty() ? "" : "|", name);
  }
  Rules rules;
  for (const auto& [key, names] : groups) {
    if (!key.lr && key.decays) continue;  // the default group
    optim::GroupRule rule{.pattern = names, .settings = {}};
    if (key.lr) rule.settings.push_back({"lr", *key.lr});
    if (!key.decays) rule.settings.push_back({"weight_decay", 0});
    rules.push_back(std::move(rule));
  }
  return rules;
}

Rules rules_of(const OptimizerSite& at) { return rules_of(at, trainable_parameters(at.model)); }

double lr_of(const Component& optimizer) {
  Component copy = optimizer;
  for (const Field& field : copy.schema().fields) {
    const auto* value = std::get_if<Value>(&field.target);
    if (field.name != "lr" || value == nullptr) continue;
    const Scalar lr = value->scalars({}).at(0);
    if (const auto* number = std::get_if<double*>(&lr)) return **number;
  }
  throw ConfigError(located(optimizer.place, concat_to_string("optimizer '", optimizer.type,
                                                              "' has no option lr, so parts of "
                                                              "the model cannot have their own")));
}

}  // namespace taper::v0::runner
