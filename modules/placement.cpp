// Moves modules to other devices and dtypes, and places their parts on several devices.
#include "modules/placement.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "autograd/node.h"
#include "autograd/ops/shape_ops.h"
#include "framework/cuda/cuda.h"
#include "framework/factory/low_precision_cache.h"
#include "modules/module.h"

namespace taper::v0 {
namespace {

using Range = std::pair<int64_t, int64_t>;

std::optional<int64_t> number_in(std::string_view text) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  return is_number && n >= 0 ? std::optional(n) : std::nullopt;
}

// Returns the numbers of a part such as "6-11"; std::nullopt for every other part.
std::optional<Range> range_in(std::string_view part) {
  const size_t dash = part.find('-');
  if (dash == part.npos) return {};
  const auto first = number_in(part.substr(0, dash)), last = number_in(part.substr(dash + 1));
  return first && last ? std::optional(Range(*first, *last)) : std::nullopt;
}

// Returns whether the pattern, in which `*` matches any text, matches the whole name.
bool matches_text(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern[0] == '*') {
    return matches_text(pattern.substr(1), name) ||
           (!name.empty() && matches_text(pattern, name.substr(1)));
  }
  return !name.empty() && pattern[0] == name[0] && matches_text(pattern.substr(1), name.substr(1));
}

bool matches_part(const std::string& part, const std::string& name) {
  const auto range = range_in(part);
  const auto number = number_in(name);
  if (range && number) return range->first <= *number && *number <= range->second;
  return matches_text(part, name);
}

std::string in_quotes(const std::string& text) { return concat_to_string("\"", text, "\""); }

}  // namespace

// A pattern, and what it has matched so far.
struct PlacementPattern {
  explicit PlacementPattern(const PlacementRule& rule) : text(rule.pattern), device(rule.device) {
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find('.', begin), text.size());
      parts.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
    for (const std::string& part : parts) {
      require<ValueError>(!part.empty(), "place: the pattern ", in_quotes(text),
                          " has an empty part; a pattern is the path of a module, such as "
                          "\"encoder.layers.0-5\"");
      const auto range = range_in(part);
      require<ValueError>(!range || range->first <= range->second, "place: the pattern ",
                          in_quotes(text), " has the empty range ", part);
    }
    numbers.resize(parts.size());
  }

  // Returns whether the first path.size() parts match the path.
  bool begins_with(const std::vector<std::string>& path) const {
    return path.size() <= parts.size() &&
           std::equal(path.begin(), path.end(), parts.begin(),
                      [](const auto& name, const auto& part) { return matches_part(part, name); });
  }
  void note_match(const std::vector<std::string>& path) {
    is_used = true;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (range_in(parts[i])) numbers[i].insert(*number_in(path[i]));
    }
  }
  // Throws ValueError if no module has one of the numbers of a range.
  void check_ranges() const {
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto range = range_in(parts[i]);
      for (int64_t n = range ? range->first : 1; n <= (range ? range->second : 0); ++n) {
        require<ValueError>(numbers[i].contains(n), "place: the pattern ", in_quotes(text),
                            " names a module with the number ", n, ", which does not exist");
      }
    }
  }

  std::string text;
  Device device;
  std::vector<std::string> parts;
  bool is_used = false;
  std::vector<std::set<int64_t>> numbers;  // for each part that is a range: the numbers matched
  // The module that matches most of the parts.
  size_t nearest_parts = 0;
  const Module* nearest = nullptr;
  std::string nearest_path = "the model";
};

namespace {

std::string joined_path(const std::vector<std::string>& path) {
  std::string out;
  for (const std::string& name : path) out += (out.empty() ? "" : ".") + name;
  return out;
}

// Replaces the memory behind a handle. All copies of the handle see the new memory.
void replace_memory(const Tensor& target, const Tensor& source) {
  TensorImpl* impl = target.impl();
  forget_low_precision_copy(impl);
  impl->storage = source.storage();
  impl->offset = source.storage_offset();
  impl->shape = source.shape();
  impl->strides = source.strides();
  impl->dtype = source.dtype();
}

// The tensor of a module, and what replaces its memory and its gradient.
struct Move {
  Tensor target, value, grad;
};

// Returns the move of a tensor and its gradient. Integer tensors keep their dtype.
Move move_of(const Tensor& tensor, Device device, std::optional<DType> dtype) {
  const NoGradGuard no_grad;
  const auto moved = [&](const Tensor& t) {
    return to_copy(t, device, t.is_floating_point() ? dtype.value_or(t.dtype()) : t.dtype());
  };
  const Tensor grad = tensor.grad();
  return {tensor, moved(tensor.detach()), grad.defined() ? moved(grad.detach()) : Tensor()};
}

// Replaces the memory of the tensors. Cannot fail.
void apply_moves(const std::vector<Move>& moves) {
  for (const Move& move : moves) {
    replace_memory(move.target, move.value);
    move.target.impl()->grad = IntrusivePtr<TensorImpl>::share(move.grad.impl());
  }
}

// Moves the tensors. Arguments that are the same tensor stay the same tensor.
void move_all(std::vector<Tensor>& tensors, Device device) {
  const std::vector<Tensor> given = tensors;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& x = given[i];
    if (!x.defined() || x.device() == device) continue;
    const auto same = [&](const Tensor& other) { return other.defined() && other.is_same(x); };
    const auto first = size_t(std::ranges::find_if(given, same) - given.begin());
    tensors[i] = first < i ? tensors[first] : to_copy(x, device, x.dtype());
  }
}

}  // namespace

void CallPlacement::move_arguments(std::vector<Tensor>& tensors) const {
  const auto is_given = [](const Tensor& x) { return x.defined(); };
  const auto first = std::ranges::find_if(tensors, is_given);
  const bool moves = moves_arguments || std::any_of(first, tensors.end(), [&](const Tensor& x) {
                       return x.defined() && x.device() != first->device();
                     });
  if (moves) move_all(tensors, device);
}

void CallPlacement::move_results(std::vector<Tensor>& tensors) const {
  if (results) move_all(tensors, *results);
}

// Assigns devices to the modules and tensors of a tree.
class Module::Placer {
 public:
  Placer(Module& root, const std::vector<PlacementRule>& rules, std::optional<Device> rest)
      : root_(root), rest_(rest), patterns_(rules.begin(), rules.end()) {
    visit(root, nullptr, nullptr);
    for (const PlacementPattern& pattern : patterns_) check_used(pattern);
    if (!rest_) find_rest();
    for (const Place& place : places_) assign(place);
  }

  const std::vector<PlacedTensor>& tensors() const { return tensors_; }
  // Gives each module its placement.
  void apply() const {
    for (const auto& [module, place] : first_places_) {
      place->module->placement_ = call_placement(*module, *place);
    }
  }

 private:
  // A path of a module, the module that contains it there, and the pattern that names it.
  struct Place {
    std::string path;
    Module* module;
    Module* parent;
    const PlacementPattern* pattern;  // null if no pattern names it
  };

  void visit(Module& module, Module* parent, const PlacementPattern* inherited) {
    const PlacementPattern* own = path_.empty() ? nullptr : longest_match(module);
    const PlacementPattern* pattern = own ? own : inherited;
    places_.push_back({joined_path(path_), &module, parent, pattern});
    for (const auto& [name, child] : module.children_) {
      path_.push_back(name);
      visit(*child, &module, pattern);
      path_.pop_back();
    }
  }

  // Returns the pattern that names exactly this path, or null. Throws ValueError if there are two.
  const PlacementPattern* longest_match(const Module& module) {
    PlacementPattern* found = nullptr;
    for (PlacementPattern& pattern : patterns_) {
      if (!pattern.begins_with(path_)) continue;
      if (path_.size() > pattern.nearest_parts) {
        pattern.nearest_parts = path_.size();
        pattern.nearest = &module;
        pattern.nearest_path = joined_path(path_);
      }
      if (path_.size() < pattern.parts.size()) continue;
      require<ValueError>(!found, "place: the patterns ", found ? in_quotes(found->text) : "",
                          " and ", in_quotes(pattern.text), " both name ", joined_path(path_),
                          " and have equally many parts; change one of them");
      found = &pattern;
    }
    if (found) found->note_match(path_);
    return found;
  }

  void check_used(const PlacementPattern& pattern) const {
    if (pattern.is_used) return pattern.check_ranges();
    const Module& at = pattern.nearest ? *pattern.nearest : root_;
    const std::string& part = pattern.parts[pattern.nearest_parts];
    const bool is_tensor = std::ranges::count(at.tensors_, part, &Entry::name) > 0;
    std::string names;
    for (const auto& [name, child] : at.children_) {
      names += concat_to_string(names.empty() ? "" : ", ", name);
    }
    throw ValueError("place: the pattern ", in_quotes(pattern.text),
                     " matches no module: ", pattern.nearest_path,
                     is_tensor ? " has a tensor of that name, and only whole modules are placed"
                     : names.empty()
                         ? concat_to_string(" has no module ", in_quotes(part), " and no other")
                         : concat_to_string(" has no module ", in_quotes(part), ", but ", names));
  }

  // Sets `rest_` to the device of the tensors that no pattern names, if there is only one.
  void find_rest() {
    for (const Place& place : places_) {
      for (const Entry& entry : place.module->tensors_) {
        if (place.pattern || !entry.slot->tensor.defined()) continue;
        const Device device = entry.slot->tensor.device();
        if (rest_ && *rest_ != device) return rest_.reset();
        rest_ = device;
      }
    }
  }

  // Returns the device of a place; std::nullopt if its tensors stay where they are.
  std::optional<Device> device_of(const Place& place) const {
    return place.pattern ? place.pattern->device : rest_;
  }

  void assign(const Place& place) {
    const auto [known, is_new] = first_places_.emplace(place.module, &place);
    if (!is_new) check_same("one module", *known->second, place, place.path);
    for (const Entry& entry : place.module->tensors_) {
      const Tensor& tensor = entry.slot->tensor;
      if (!tensor.defined()) continue;
      const std::string name = (place.path.empty() ? "" : place.path + ".") + entry.name;
      const auto [at, is_first] = owners_.emplace(tensor.impl(), &place);
      if (!is_first) check_same("one tensor", *at->second, place, name);
      if (!is_first) continue;
      tensors_.push_back({name, tensor, device_of(place).value_or(tensor.device())});
    }
  }

  // Throws ValueError if something that is in the tree twice would get two devices.
  void check_same(const char* what, const Place& a, const Place& b, const std::string& name) const {
    if (device_of(a) == device_of(b)) return;
    const auto described = [&](const Place& place) {
      const std::string path = place.path.empty() ? "the model" : place.path;
      const auto device = device_of(place);
      return concat_to_string(path, place.pattern ? " is placed on " : " is left on ",
                              device ? to_string(*device) : "its device");
    };
    throw ValueError("place: ", in_quotes(name), " belongs to two modules but is ", what, ": ",
                     described(a), ", and ", described(b), "; place both on one device");
  }

  // Returns how the calls of a module move tensors; std::nullopt if its device is not known.
  std::optional<CallPlacement> call_placement(const Module& module, const Place& place) const {
    const std::optional<Device> device = device_of(place);
    if (!device) return {};
    // A module without tensors, such as an activation, computes where its arguments are. One that
    // only passes tensors on leaves the moves to its children.
    const bool has_own = std::ranges::any_of(
        module.tensors_, [](const Entry& entry) { return entry.slot->tensor.defined(); });
    const bool passes_on = module.call_style() == CallStyle::kPassesOn;
    const bool needs_device = has_own || (!passes_on && !module.collect(true).empty());
    return CallPlacement{*device, place.pattern || needs_device, result_device(place)};
  }

  // Returns where the module that contains this one needs its results; std::nullopt: anywhere.
  std::optional<Device> result_device(const Place& place) const {
    const auto container_of = [&](const Module* module) -> const Module* {
      if (module == &root_) return root_.parents_.empty() ? nullptr : root_.parents_[0];
      const auto known = first_places_.find(module);
      if (known != first_places_.end()) return known->second->parent;
      return module->parents_.empty() ? nullptr : module->parents_[0];
    };
    const Module* caller = container_of(place.module);
    while (caller && caller->call_style() == CallStyle::kNone) caller = container_of(caller);
    if (!caller || caller->call_style() == CallStyle::kPassesOn) return {};
    const auto known = first_places_.find(caller);
    if (known != first_places_.end()) return device_of(*known->second);
    return caller->placement_ ? std::optional(caller->placement_->device) : std::nullopt;
  }

  Module& root_;
  std::optional<Device> rest_;
  std::vector<PlacementPattern> patterns_;
  std::vector<std::string> path_;                       // of the module that is being visited
  std::vector<Place> places_;                           // depth-first
  std::map<const Module*, const Place*> first_places_;  // of each module
  std::map<const TensorImpl*, const Place*> owners_;    // of each tensor
  std::vector<PlacedTensor> tensors_;
};

// --- one device ---

Module& Module::to(Device device) { return convert(device, {}); }
Module& Module::to(DType dtype) { return convert({}, dtype); }
Module& Module::to(Device device, DType dtype) { return convert(device, dtype); }

Module& Module::cuda(Device device) {
  if (!device.is_cuda()) throw Error("Invalid device, must be cuda device (got ", device, ")");
  return to(device);
}

Module& Module::convert(std::optional<Device> device, std::optional<DType> dtype) {
  if (dtype && !is_floating_point(*dtype)) {
    throw TypeError("Module::to only accepts floating-point dtypes, but got desired dtype=",
                    *dtype);
  }
  // Compute all new values first, because that can fail. Replacing the old ones cannot fail.
  std::vector<Move> moves;
  for (const Found& found : collect(true)) {
    moves.push_back(move_of(found.tensor(), device.value_or(found.tensor().device()), dtype));
  }
  apply_moves(moves);
  if (device) apply([](Module& module) { module.placement_.reset(); });
  return *this;
}

// --- several devices ---

// Replaces "cuda" by "cuda:0" and so on. Throws AcceleratorError if a device does not exist.
static std::vector<PlacementRule> resolved(std::vector<PlacementRule> rules) {
  for (PlacementRule& rule : rules) rule.device = cuda::resolve(rule.device);
  return rules;
}

Module& Module::place(const std::vector<PlacementRule>& rules, std::optional<Device> rest) {
  if (rest) rest = cuda::resolve(*rest);
  const Placer placer(*this, resolved(rules), rest);
  // Compute all new values first, because that can fail.
  std::vector<Move> moves;
  for (const PlacedTensor& placed : placer.tensors()) {
    moves.push_back(move_of(placed.tensor, placed.device, {}));
  }
  apply_moves(moves);
  placer.apply();
  return *this;
}

std::vector<PlacedTensor> Module::plan_placement(const std::vector<PlacementRule>& rules,
                                                 std::optional<Device> rest) {
  return Placer(*this, rules, rest).tensors();
}

bool Module::is_placed() const {
  return placement_ || std::ranges::any_of(
                           children_, [](const Named& child) { return child.second->is_placed(); });
}

}  // namespace taper::v0
