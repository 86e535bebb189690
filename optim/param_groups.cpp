// Settings by name, and groups of parameters by patterns of theirs.
#include <cstring>
#include <string_view>

#include "framework/factories.h"
#include "framework/kernels/elementwise/copy.h"
#include "optim/optimizer.h"

namespace taper::optim {
namespace {

// `*` stands for any text; the pattern has no `|`.
bool matches_one(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern[0] != '*') {
    return !name.empty() && name[0] == pattern[0] && matches_one(pattern.substr(1), name.substr(1));
  }
  return matches_one(pattern.substr(1), name) ||
         (!name.empty() && matches_one(pattern, name.substr(1)));
}
bool matches(std::string_view pattern, std::string_view name) {
  const size_t bar = pattern.find('|');
  if (matches_one(pattern.substr(0, bar), name)) return true;
  return bar != pattern.npos && matches(pattern.substr(bar + 1), name);
}

void assign_by_name(kernels::UpdateRule& options, const std::string& name, double value) {
  std::string known;
  for (const Field& field : fields_of(options)) {
    if (field.name == name && field.shape.empty()) return field.assign(wrap_scalar(value));
    known += cat(known.empty() ? "" : ", ", field.name);
  }
  throw ValueError(cat("a group of ", recipe_of(options).optimizer, " has no single number \"",
                       name, "\" among its settings: ", known));
}

}  // namespace

GroupRule no_decay() { return {"*", {{"weight_decay", 0}}, 1}; }

Tensor Field::value() const { return tensor_from_bytes(place_, dtype_, shape, {}); }

void Field::assign(const Tensor& value) const {
  Tensor own = Tensor::make(shape, dtype_, Device());
  kernels::copy_into(own, value);
  std::memcpy(place_, own.data_ptr(), own.nbytes());
}

void Optimizer::add_groups(const std::vector<NamedTensor>& params,
                           const kernels::UpdateRule& options,
                           const std::vector<GroupRule>& rules) {
  std::vector<std::vector<NamedTensor>> members(rules.size() + 1);
  for (const NamedTensor& p : params) {
    size_t rule = 0;
    while (rule < rules.size() && !(matches(rules[rule].pattern, p.name) && p.tensor.defined() &&
                                    p.tensor.dim() <= rules[rule].max_dim)) {
      ++rule;
    }
    members[rule == rules.size() ? 0 : rule + 1].push_back(p);
  }
  if (rules.empty() || !members[0].empty()) add_group(members[0], options);
  for (size_t i = 0; i < rules.size(); ++i) {
    const GroupRule& rule = rules[i];
    if (members[i + 1].empty()) {
      throw ValueError(
          cat("no parameter matches the pattern \"", rule.pattern, "\"",
              rule.max_dim < kMaxDims ? cat(" with dimensions up to ", rule.max_dim) : "",
              i > 0 ? ", or an earlier pattern has it" : ""));
    }
    kernels::UpdateRule own = options;
    for (const auto& [name, value] : rule.settings) assign_by_name(own, name, value);
    add_group(members[i + 1], own);
  }
}

}  // namespace taper::optim
