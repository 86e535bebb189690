#include "framework/factory/generator.h"

#include <mutex>

namespace taper::v0 {
namespace {

thread_local const DrawGuard* innermost = nullptr;

// Guards the keys of all generators; held for a few instructions only.
std::mutex key_mutex;

// Returns the generator of the process. It is never destroyed, because threads may draw until the
// process ends.
Generator& process_generator() {
  static Generator& generator = *::new Generator;
  return generator;
}

}  // namespace

PhiloxKey Generator::next(uint64_t draws) {
  const std::lock_guard lock(key_mutex);
  const PhiloxKey key = key_;
  key_.stream += draws;
  return key;
}
PhiloxKey Generator::state() const {
  const std::lock_guard lock(key_mutex);
  return key_;
}
void Generator::set_state(PhiloxKey state) {
  const std::lock_guard lock(key_mutex);
  key_ = state;
}

std::vector<NamedTensor> Generator::state_dict() const {
  const PhiloxKey key = state();
  const auto number = [](uint64_t value) {
    const Tensor out = Tensor::make({}, kInt64, Device());
    *static_cast<uint64_t*>(out.data_ptr()) = value;
    return out;
  };
  return {{"seed", number(key.seed)}, {"stream", number(key.stream)}};
}

void Generator::load_state_dict(const std::vector<NamedTensor>& state) {
  PhiloxKey key = this->state();
  bool has_seed = false, has_stream = false;
  for (const auto& [name, tensor] : state) {
    const bool is_seed = name == "seed", is_known = is_seed || name == "stream";
    bool& has = is_seed ? has_seed : has_stream;
    require<ValueError>(
        is_known && !has && tensor.defined() && tensor.dim() == 0 && tensor.dtype() == kInt64,
        "Generator: expected a state with the int64 numbers \"seed\" and \"stream\", and \"", name,
        "\" is ",
        is_known && has ? "given twice"
        : is_known      ? "no such number"
                        : "not one of them");
    has = true;
    (is_seed ? key.seed : key.stream) = uint64_t(tensor.item<int64_t>());
  }
  require<ValueError>(has_seed && has_stream, "Generator: the state has no \"",
                      has_seed ? "stream" : "seed", "\"");
  set_state(key);
}

Generator& default_generator() {
  for (const DrawGuard* scope = innermost; scope; scope = scope->outer_) {
    if (scope->generator_) return *scope->generator_;
  }
  return process_generator();
}

void manual_seed(uint64_t seed) { default_generator().manual_seed(seed); }

DrawGuard::DrawGuard(Generator* generator, std::vector<PhiloxKey>* keys, bool replays)
    : generator_(generator), keys_(keys), replays_(replays), outer_(innermost) {
  innermost = this;
}
DrawGuard::~DrawGuard() { innermost = outer_; }

PhiloxKey DrawGuard::draw(const DrawGuard* scope) {
  if (!scope) return process_generator().next();
  if (scope->generator_) return scope->generator_->next();
  if (!scope->replays_) return scope->keys_->emplace_back(draw(scope->outer_));
  if (scope->replayed_ < scope->keys_->size()) return (*scope->keys_)[scope->replayed_++];
  return draw(scope->outer_);
}

PhiloxKey next_key(Generator* generator) {
  return generator ? generator->next() : DrawGuard::draw(innermost);
}

}  // namespace taper::v0
