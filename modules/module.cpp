#include "modules/module.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <unordered_set>

#include "autograd/anomaly.h"
#include "autograd/node.h"
#include "autograd/print.h"
#include "framework/profiler/profiler.h"
#include "modules/members.h"

namespace taper::v0 {
namespace {

std::string joined(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

thread_local Module* running = nullptr;  // the innermost module whose forward() is running

// The last exception not derived from Error that left a forward(), and the module that it has
// reached. The exception is kept alive so that no other one can have its address.
struct Foreign {
  std::exception_ptr kept{};
  const std::exception* error = nullptr;
  const Module* caller = nullptr;
  std::string path{};
};
thread_local Foreign foreign;

std::string indented(const std::string& text) {
  std::string out;
  for (const char c : text) {
    out += c;
    if (c == '\n') out += "  ";
  }
  return out;
}

}  // namespace

// --- calls ---

Tensor Module::forward(const Tensor&) {
  throw NotImplementedError("Module [", type_name(),
                            "] is missing the required \"forward\" function");
}

Tensor Module::operator()(const Tensor& x) {
  return call_with_hooks([this](const Tensor& input) { return forward(input); }, x);
}

std::string Module::type_name() const { return short_name(typeid(*this)); }

Module::Call::Call(Module& module)
    : module_(module),
      outer_(running),
      scope_(is_anomaly_enabled() || is_observed() ? module.path_in(outer_) : "") {
  if (module.was_moved_) {
    throw Error("this ", module.type_name(),
                " was moved from: its parameters and modules are where it was moved to. It may be "
                "destroyed or assigned to");
  }
  if (!outer_ && foreign.error) foreign = {};
  if (outer_ && module.parents_.empty() && is_grad_enabled()) {
    const std::vector<Tensor> parameters = module.parameters();
    if (std::any_of(parameters.begin(), parameters.end(), std::mem_fn(&Tensor::requires_grad))) {
      throw Error(module.type_name(), " runs inside ", outer_->type_name(),
                  "'s forward but is in no module's tree, so that its parameters would be "
                  "neither trained nor moved nor saved: make it a Child, as in Child<",
                  module.type_name(),
                  "> layer{*this, \"layer\", ...}, or freeze it with "
                  "requires_grad_(false)");
    }
  }
  running = &module;
}
Module::Call::~Call() { running = outer_; }

void Module::Call::locate() const {
  const std::string path = module_.path_in(outer_);
  try {
    throw;
  } catch (Error& error) {
    if (!path.empty()) error.add_module(path);
  } catch (const std::exception& error) {
    const bool goes_on = foreign.error == &error && foreign.caller == &module_;
    const std::string below = goes_on ? foreign.path : "";
    foreign = {std::current_exception(), &error, outer_,
               path.empty() || below.empty() ? path + below : joined(path, below)};
  }
}

std::string module_of(const std::exception& error) {
  return foreign.error == &error ? foreign.path : "";
}

std::string Module::path_in(const Module* other) const {
  if (parents_.empty()) return "";
  Module* way = parents_[0];
  const bool is_direct = std::ranges::count(parents_, other) > 0;
  for (Module* parent : parents_) {
    if (is_direct ? parent == other : other && parent->is_in(*other)) {
      way = parent;
      break;
    }
  }
  const std::string name = place_in(*way)->first;
  if (is_direct || !other || !way->is_in(*other)) return name;
  return joined(way->path_in(other), name);
}

// --- the tree ---

Module::Module() = default;

Module::Module(Module&& other) noexcept {
  take_tree(other);
  if (!other.is_held_) take_places(other);
}

Module& Module::operator=(Module&& other) {
  if (this == &other) return *this;
  if (typeid(*this) != typeid(other)) {
    throw TypeError("a ", other.type_name(), " cannot be assigned to a ", type_name());
  }
  if (is_in(other) || other.is_in(*this)) {
    throw Error(
        "a ", type_name(),
        " cannot be assigned to one that it is a part of, nor to a part of its own: move it "
        "to a variable first");
  }
  for (const Entry& entry : tensors_) entry.slot->state = ModuleSlot::State::kDropped;
  for (const auto& [name, child] : children_) {
    child->has_lost_place_ = true;
    std::erase(child->parents_, this);
  }
  take_tree(other);
  for (const Entry& entry : tensors_) entry.slot->state = ModuleSlot::State::kArriving;
  if (!other.is_held_ && (parents_.empty() || has_lost_place_)) take_places(other);
  has_lost_place_ = was_moved_ = false;
  return *this;
}

void Module::take_tree(Module& other) noexcept {
  drop_hooks();
  tensors_ = std::exchange(other.tensors_, {});
  children_ = std::exchange(other.children_, {});
  for (const auto& [name, child] : children_) std::ranges::replace(child->parents_, &other, this);
  hooks_ = std::exchange(other.hooks_, nullptr);
  if (hooks_) hooks();
  placement_ = std::exchange(other.placement_, std::nullopt);
  training_ = other.training_;
  other.was_moved_ = true;
}

void Module::take_places(Module& other) noexcept {
  for (Module* parent : other.parents_) {
    for (auto& [name, child] : parent->children_) {
      if (child == &other) child = this;
    }
  }
  if (parents_.empty()) return parents_.swap(other.parents_);
  parents_.insert(parents_.begin(), other.parents_.begin(), other.parents_.end());
  other.parents_.clear();
}

Module::~Module() {
  for (Module* parent : parents_) {
    std::erase_if(parent->children_, [&](const auto& place) { return place.second == this; });
  }
  for (const auto& [name, child] : children_) std::erase(child->parents_, this);
  while (held_) held_->leave();
  drop_hooks();
}

bool Module::is_in(const Module& other) const {
  return this == &other ||
         std::ranges::any_of(parents_, [&](const Module* p) { return p->is_in(other); });
}

std::vector<Module::Named>::iterator Module::place_in(Module& parent) const {
  return std::ranges::find(parent.children_, this, &Named::second);
}

void Module::replace_with(Module& fresh) {
  if (this == &fresh) return;
  if (is_in(fresh)) throw Error("a ", fresh.type_name(), " cannot be put into itself");
  if (!fresh.parents_.empty()) {
    Module& left = *fresh.parents_[0];
    left.children_.erase(fresh.place_in(left));
    fresh.parents_.erase(fresh.parents_.begin());
  }
  if (parents_.empty()) return;
  place_in(*parents_[0])->second = &fresh;
  fresh.parents_.insert(fresh.parents_.begin(), parents_[0]);
  parents_.erase(parents_.begin());
}

void Module::check_name(const char* kind, const std::string& name) {
  if (name.empty()) throw Error(kind, " name must not be empty");
  require(name.find('.') == std::string::npos, kind, " name must not contain a dot (got '", name,
          "')");
  std::erase_if(tensors_, [](const Entry& e) { return !e.slot->tensor.defined(); });
  require(std::ranges::find(tensors_, name, &Entry::name) == tensors_.end() &&
              std::ranges::find(children_, name, &Named::first) == children_.end(),
          kind, " '", name, "' already defined");
}

void Module::register_tensor(const std::string& name, std::shared_ptr<ModuleSlot> slot,
                             TensorRole role) {
  check_name(role == TensorRole::kParameter ? "Parameter" : "Buffer", name);
  tensors_.push_back({name, std::move(slot), role});
}

void Module::register_parameter(const std::string& name, const Tensor& tensor) {
  register_tensor(name, std::make_shared<ModuleSlot>(tensor), TensorRole::kParameter);
}

void Module::register_buffer(const std::string& name, const Tensor& tensor,
                             const BufferOptions& options) {
  register_tensor(name, std::make_shared<ModuleSlot>(tensor),
                  options.persistent ? TensorRole::kBuffer : TensorRole::kUnsavedBuffer);
}

void Module::register_module(const std::string& name, Module& child) {
  check_name("Submodule", name);
  if (is_in(child)) throw Error("a ", child.type_name(), " cannot be put into itself");
  child.parents_.push_back(this);
  child.has_lost_place_ = false;
  children_.push_back({name, &child});
}

std::vector<Module::Found> Module::collect(bool once) const {
  std::vector<Found> out;
  std::unordered_set<const TensorImpl*> seen;
  const std::function<void(const std::string&, const Module&)> add = [&](const std::string& path,
                                                                         const Module& module) {
    for (const auto& [name, slot, role] : module.tensors_) {
      const Tensor& tensor = slot->tensor;
      if (!tensor.defined() || (!seen.insert(tensor.impl()).second && once)) continue;
      out.push_back({joined(path, name), slot, role});
    }
    for (const auto& [name, child] : module.children_) add(joined(path, name), *child);
  };
  add("", *this);
  return out;
}

std::vector<Module::Found> Module::collect_saved() const {
  std::vector<Found> out = collect(false);
  std::erase_if(out, [](const Found& found) { return found.role == TensorRole::kUnsavedBuffer; });
  return out;
}

std::vector<Module::Named> Module::named_modules() {
  std::vector<Named> out;
  std::unordered_set<const Module*> seen;
  const std::function<void(const std::string&, Module&)> add = [&](const std::string& path,
                                                                   Module& module) {
    if (!seen.insert(&module).second) return;
    out.push_back({path, &module});
    for (const auto& [name, child] : module.children_) add(joined(path, name), *child);
  };
  add("", *this);
  return out;
}

Module& Module::apply(const std::function<void(Module&)>& f) {
  for (const auto& [name, child] : children_) child->apply(f);
  f(*this);
  return *this;
}

Module& Module::requires_grad_(BoolArg on) {
  for (const Tensor& p : parameters()) p.requires_grad_(on);
  return *this;
}

std::vector<NamedTensor> Module::named(bool buffers) const {
  std::vector<NamedTensor> out;
  for (const Found& found : collect(true)) {
    const bool is_buffer = found.role != TensorRole::kParameter;
    if (is_buffer == buffers) out.push_back({found.path, found.tensor()});
  }
  return out;
}

std::vector<NamedTensor> Module::named_parameters() const { return named(false); }
std::vector<NamedTensor> Module::named_buffers() const { return named(true); }

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> out;
  for (const NamedTensor& p : named_parameters()) out.push_back(p.tensor);
  return out;
}

int64_t Module::num_parameters() const {
  int64_t n = 0;
  for (const Tensor& p : parameters()) n += p.numel();
  return n;
}

Module& Module::train(BoolArg on) {
  training_ = on;
  for (const auto& [name, child] : children_) child->train(on);
  return *this;
}

void Module::zero_grad() {
  for (const Tensor& p : parameters()) p.set_grad({});
}

std::string to_string(const Module& module) {
  const std::string extra = module.extra_repr();
  if (module.children().empty()) {
    // multi-line settings are printed on lines of their own
    const bool lines = extra.find('\n') != std::string::npos;
    return concat_to_string(module.type_name(), "(", lines ? indented("\n" + extra) + "\n" : extra,
                            ")");
  }
  std::string out = concat_to_string(module.type_name(), "(");
  const auto& children = module.children();
  for (size_t i = 0, next; i < children.size(); i = next) {
    const std::string text = to_string(*children[i].second);
    next = i + 1;
    // A list prints equal neighbors once: "(0-3): 4 x ReLU()".
    const bool folds = module.type_name() == "ModuleList";
    while (folds && next < children.size() && to_string(*children[next].second) == text) ++next;
    out += concat_to_string("\n  (", children[i].first);
    if (next - i > 1) out += concat_to_string("-", children[next - 1].first);
    out += next - i > 1 ? concat_to_string("): ", next - i, " x ") : "): ";
    out += indented(text);
  }
  return out + "\n)";
}

void check_all_registered(const Module& module, const Tensor& loss) {
  const std::vector<Tensor> parameters = module.parameters();
  std::string strays;
  for (const Tensor& leaf : leaves_of(loss)) {
    const auto same = [&](const Tensor& p) { return p.is_same(leaf); };
    if (std::none_of(parameters.begin(), parameters.end(), same))
      strays += concat_to_string(" ", leaf.shape());
  }
  if (strays.empty()) return;
  throw Error("the loss depends on tensors that require grad and are no parameters of the ",
              module.type_name(), ", of shapes", strays,
              ": they would never be trained, moved or saved. Make each a member Parameter "
              "name{*this, \"name\", value}");
}

}  // namespace taper::v0
