#include "modules/functional_call.h"

#include <algorithm>
#include <map>
#include <ranges>
#include <string>

namespace taper::v0 {
namespace {

constexpr size_t kMostNames = 20;  // limit of the names in a message

// Returns what is wrong with a tensor that is to replace `own`, or an empty text.
std::string misfit(const NamedTensor& given, const Tensor& own) {
  if (!given.tensor.defined()) return "is undefined";
  if (given.tensor.shape() == own.shape()) return "";
  return concat_to_string("has shape ", given.tensor.shape(), ", the module's has shape ",
                          own.shape());
}

std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < names.size() && i < kMostNames; ++i) {
    out += concat_to_string(i > 0 ? ", \"" : "\"", names[i], "\"");
  }
  if (names.size() > kMostNames) out += ", ...";
  return out.empty() ? "none" : out;
}

}  // namespace

// Collects the given tensors by the tensors that they replace, and everything that does not fit.
class FunctionalGuard::Matcher {
 public:
  explicit Matcher(const Module& module) : module_(module), own_(module.collect(false)) {}

  void add(const NamedTensor& given) {
    const auto found = std::ranges::find(own_, given.name, &Module::Found::path);
    if (found == own_.end()) {
      has_unknown_ = true;
      return refuse(given.name, "is no parameter or buffer of the module");
    }
    const std::string misfits = misfit(given, found->tensor());
    if (!misfits.empty()) refuse(given.name, misfits);
    const auto [place, is_new] = substitutes_.try_emplace(found->tensor().impl(), &given);
    if (is_new) return;
    const NamedTensor& first = *place->second;
    if (first.name == given.name) {
      refuse(given.name, "is given twice");
    } else if (!first.tensor.is_same(given.tensor)) {
      refuse(given.name, concat_to_string("and \"", first.name,
                                          "\" are tied, but two different tensors are given"));
    }
  }
  // Returns the replacements. Throws ValueError if anything did not fit.
  std::vector<Replacement> finish() {
    if (has_unknown_) problems_ += "\n\tThe module's tensors: " + listed(own_names());
    require<ValueError>(problems_.empty(), "functional_call of a ", module_.type_name(), ":",
                        problems_);
    std::vector<Replacement> out;
    for (const Module::Found& found : own_) {
      const auto substitute = substitutes_.find(found.tensor().impl());
      if (substitute == substitutes_.end()) continue;
      out.push_back({found.slot, found.tensor(), substitute->second->tensor});
    }
    return out;
  }

 private:
  void refuse(const std::string& name, const std::string& why) {
    problems_ += concat_to_string("\n\t\"", name, "\" ", why);
  }
  std::vector<std::string> own_names() const {
    std::vector<std::string> names;
    for (const Module::Found& found : own_) names.push_back(found.path);
    return names;
  }

  const Module& module_;
  std::vector<Module::Found> own_;
  std::map<const TensorImpl*, const NamedTensor*> substitutes_;
  std::string problems_;
  bool has_unknown_ = false;
};

FunctionalGuard::FunctionalGuard(Module& module, const std::vector<NamedTensor>& tensors) {
  Matcher matcher(module);
  for (const NamedTensor& given : tensors) matcher.add(given);
  replacements_ = matcher.finish();
  for (const Replacement& r : replacements_) r.slot->tensor = r.substitute;
}

FunctionalGuard::~FunctionalGuard() {
  // The module may have given up the tensor meanwhile, for example because a layer was replaced.
  for (const Replacement& r : std::views::reverse(replacements_)) {
    if (r.slot->tensor.is_same(r.substitute)) r.slot->tensor = r.before;
  }
}

}  // namespace taper::v0
