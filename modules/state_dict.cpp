// What a module saves and loads, with PyTorch's strict report.
#include <map>
#include <set>

#include "framework/io/text.h"
#include "framework/kernels/elementwise/copy.h"
#include "modules/module.h"

namespace taper::v0 {
namespace {

// What stands before `name` in `longer`, with the dot; empty when that is not how they differ.
std::string prefix_before(const std::string& name, const std::string& longer) {
  return longer.ends_with("." + name) ? longer.substr(0, longer.size() - name.size()) : "";
}

// Where names differ by a prefix alone, what to do about it.
std::string hint(const IncompatibleKeys& keys) {
  for (const std::string& missing : keys.missing_keys) {
    for (const std::string& unexpected : keys.unexpected_keys) {
      if (const std::string more = prefix_before(missing, unexpected); !more.empty()) {
        return cat("\n\tThe names of the state begin with \"", more,
                   "\", the model's do not: load_state_dict(state, {.prefix = \"", more, "\"}).");
      }
      if (const std::string more = prefix_before(unexpected, missing); !more.empty()) {
        return cat("\n\tThe model's names begin with \"", more,
                   "\", those of the state do not: load it into the module \"",
                   more.substr(0, more.size() - 1), "\".");
      }
    }
  }
  return "";
}

}  // namespace

std::vector<NamedTensor> Module::state_dict() const {
  std::vector<NamedTensor> out;
  for (const Found& found : collect(false)) out.push_back({found.path, found.tensor.detach()});
  return out;
}

IncompatibleKeys Module::load_state_dict(const std::vector<NamedTensor>& state,
                                         const LoadOptions& options) {
  IncompatibleKeys keys;
  std::map<std::string, Tensor> given;
  for (const auto& [name, tensor] : state) {
    if (!name.starts_with(options.prefix)) continue;
    require<ValueError>(given.emplace(name.substr(options.prefix.size()), tensor).second,
                        "load_state_dict: the state has two tensors \"", name, "\"");
  }
  const std::vector<Found> own = collect(false);
  std::vector<std::pair<Tensor, Tensor>> copies;
  std::set<const TensorImpl*> named;  // under at least one of their names
  for (const Found& found : own) {
    if (given.contains(found.path)) named.insert(found.tensor.impl());
  }
  std::string misshapen;
  for (const Found& found : own) {
    const auto value = given.find(found.path);
    if (value == given.end()) {
      if (!named.contains(found.tensor.impl())) keys.missing_keys.push_back(found.path);
      continue;
    }
    if (value->second.shape() != found.tensor.shape()) {
      misshapen +=
          cat("\n\tsize mismatch for ", found.path, ": copying a param with shape torch.Size(",
              value->second.shape(), ") from checkpoint, the shape in current model is torch.Size(",
              found.tensor.shape(), ").");
    }
    copies.push_back({found.tensor, value->second});
    given.erase(value);
  }
  for (const auto& [name, tensor] : state) {
    const bool read =
        name.starts_with(options.prefix) && !given.contains(name.substr(options.prefix.size()));
    if (!read) keys.unexpected_keys.push_back(name);
  }

  std::string problems;
  if (options.strict) {
    problems = detail::state_keys("Missing", keys.missing_keys) +
               detail::state_keys("Unexpected", keys.unexpected_keys) + hint(keys);
  }
  problems += misshapen;
  require(problems.empty(), "Error(s) in loading state_dict for ", type_name(), ":", problems);
  for (const auto& [target, value] : copies) {
    kernels::copy_into(target, value);
    target.storage()->version.fetch_add(1);
  }
  return keys;
}

}  // namespace taper::v0
