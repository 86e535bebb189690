#include "framework/io/loaded_tensors.h"

#include <algorithm>

#include "framework/base/error.h"
#include "framework/io/text_utils.h"

namespace taper::v0 {
namespace {

constexpr std::size_t kMostNames = 500;  // limit of the names in a message, in bytes

// Returns the name without the key and the dot that follows it.
std::string below(const std::string& name, std::string_view entry) {
  if (entry.empty()) return name;
  return name.size() == entry.size() ? "" : name.substr(entry.size() + 1);
}

// Returns the names for a message.
std::string names_of(const std::vector<NamedTensor>& tensors) {
  std::string names;
  for (const NamedTensor& t : tensors) {
    if (names.size() <= kMostNames) names += concat_to_string(names.empty() ? "" : ", ", t.name);
  }
  return detail::escaped_for_display(names, kMostNames);
}

}  // namespace

bool is_below(std::string_view name, std::string_view entry) {
  return entry.empty() || name == entry ||
         (name.starts_with(entry) && name.substr(entry.size()).starts_with('.'));
}

Tensor LoadedTensors::at(std::string_view name) const {
  const auto found = std::ranges::find(*this, name, &NamedTensor::name);
  if (found != end()) return found->tensor;
  if (const auto why = unreadable.find(std::string(name)); why != unreadable.end()) {
    throw InputError(why->second);
  }
  throw InputError(path, ": has no tensor ", detail::in_quotes(name),
                   "; its tensors: ", names_of(*this));
}

void LoadedTensors::keep_prefix(const std::string& prefix) {
  if (prefix.empty()) return;
  const auto begins = [&](const auto& name) { return name.starts_with(prefix); };
  const bool has_any = std::ranges::any_of(*this, begins, &NamedTensor::name) ||
                       std::ranges::any_of(unreadable, begins, [](auto& e) { return e.first; });
  if (!has_any) {
    throw InputError(path, ": no tensor's name begins with ", detail::in_quotes(prefix),
                     "; its tensors: ", names_of(*this));
  }
  std::erase_if(*this, [&](const NamedTensor& t) { return !begins(t.name); });
  for (NamedTensor& t : *this) t.name.erase(0, prefix.size());
  std::map<std::string, std::string> kept;
  for (auto& [name, why] : unreadable) {
    if (begins(name)) kept.emplace(name.substr(prefix.size()), std::move(why));
  }
  unreadable = std::move(kept);
}

void LoadedTensors::keep_below(const std::string& entry, const std::string& keys) {
  std::erase_if(*this, [&](const NamedTensor& t) { return !is_below(t.name, entry); });
  for (NamedTensor& t : *this) t.name = below(t.name, entry);
  std::map<std::string, std::string> kept;
  for (auto& [name, why] : unreadable) {
    if (empty() && (is_below(name, entry) || is_below(entry, name))) throw InputError(why);
    if (is_below(name, entry)) kept.emplace(below(name, entry), std::move(why));
  }
  unreadable = std::move(kept);
  if (!empty() || entry.empty()) return;
  throw InputError(path, ": has no tensors below ", detail::in_quotes(entry),
                   "; its entries: ", detail::escaped_for_display(keys, kMostNames));
}

}  // namespace taper::v0
