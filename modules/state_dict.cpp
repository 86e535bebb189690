// Saving and loading of a module's tensors, with PyTorch's strict report.
#include <map>
#include <set>

#include "framework/io/loaded_tensors.h"
#include "framework/io/text_utils.h"
#include "framework/kernels/elementwise/copy.h"
#include "modules/module.h"

namespace taper::v0 {
namespace {

// Returns the prefix of `longer` before `name`, with its dot; empty if they do not differ by a
// prefix.
std::string prefix_before(const std::string& name, const std::string& longer) {
  return longer.ends_with("." + name) ? longer.substr(0, longer.size() - name.size()) : "";
}

// Returns advice if the names differ only by a prefix.
std::string hint(const IncompatibleKeys& keys) {
  for (const std::string& missing : keys.missing_keys) {
    for (const std::string& unexpected : keys.unexpected_keys) {
      if (const std::string more = prefix_before(missing, unexpected); !more.empty()) {
        return concat_to_string("\n\tThe names of the state begin with \"", more,
                                "\", the model's do not: load_state_dict(state, {.prefix = \"",
                                more, "\"}).");
      }
      if (const std::string more = prefix_before(unexpected, missing); !more.empty()) {
        return concat_to_string("\n\tThe model's names begin with \"", more,
                                "\", those of the state do not: load it into the module \"",
                                more.substr(0, more.size() - 1), "\".");
      }
    }
  }
  return "";
}

std::string strict_report(const IncompatibleKeys& keys) {
  return detail::state_keys("Missing", keys.missing_keys) +
         detail::state_keys("Unexpected", keys.unexpected_keys) + hint(keys);
}

// Describes the difference of the shapes. Returns an empty text if they are equal.
std::string size_mismatch(const std::string& name, const Shape& given, const Shape& own) {
  if (given == own) return "";
  return concat_to_string("\n\tsize mismatch for ", name, ": copying a param with shape ", given,
                          " from checkpoint, the shape in current model is ", own, ".");
}

// Returns the reason why the file's entry of that name is unreadable. Returns an empty text if
// there is no such entry.
std::string why_unreadable(const LoadedTensors& file, const std::string& name) {
  const auto why = file.unreadable.find(name);
  return why == file.unreadable.end() ? "" : why->second;
}

// Returns the tensors whose names begin with the prefix, by the rest of their names.
std::map<std::string, Tensor> by_name(const std::vector<NamedTensor>& state,
                                      const std::string& prefix) {
  std::map<std::string, Tensor> given;
  for (const auto& [name, tensor] : state) {
    if (!name.starts_with(prefix)) continue;
    require<ValueError>(given.emplace(name.substr(prefix.size()), tensor).second,
                        "load_state_dict: the state has two tensors \"", name, "\"");
  }
  return given;
}

}  // namespace

std::vector<NamedTensor> Module::state_dict() const {
  std::vector<NamedTensor> out;
  for (const Found& found : collect_saved()) out.push_back({found.path, found.tensor().detach()});
  return out;
}

IncompatibleKeys Module::load_state_dict(const std::vector<NamedTensor>& state,
                                         const LoadOptions& options) {
  return load(state, nullptr, options);
}

IncompatibleKeys Module::load_state_dict(const LoadedTensors& state, const LoadOptions& options) {
  return load(state, &state, options);
}

IncompatibleKeys Module::load(const std::vector<NamedTensor>& state, const LoadedTensors* file,
                              const LoadOptions& options) {
  IncompatibleKeys keys;
  std::map<std::string, Tensor> given = by_name(state, options.prefix);
  const std::vector<Found> own = collect_saved();
  std::vector<std::pair<Tensor, Tensor>> copies;
  std::set<const TensorImpl*> named;  // tensors that were given under at least one of their names
  for (const Found& found : own) {
    if (given.contains(found.path)) named.insert(found.tensor().impl());
  }
  std::string wrong;
  for (const Found& found : own) {
    const auto value = given.find(found.path);
    if (value == given.end()) {
      if (named.contains(found.tensor().impl())) continue;
      const std::string why = file ? why_unreadable(*file, options.prefix + found.path) : "";
      why.empty() ? keys.missing_keys.push_back(found.path) : (void)(wrong += "\n\t" + why);
      continue;
    }
    wrong += size_mismatch(found.path, value->second.shape(), found.tensor().shape());
    copies.push_back({found.tensor(), value->second});
    given.erase(value);
  }
  for (const auto& [name, tensor] : state) {
    const bool read =
        name.starts_with(options.prefix) && !given.contains(name.substr(options.prefix.size()));
    if (!read) keys.unexpected_keys.push_back(name);
  }
  const std::string problems = (options.strict ? strict_report(keys) : "") + wrong;
  require(problems.empty(), "Error(s) in loading state_dict for ", type_name(), ":", problems);
  for (const auto& [target, value] : copies) {
    kernels::copy_into(target, value);
    target.storage()->version.fetch_add(1);
  }
  return keys;
}

}  // namespace taper::v0
