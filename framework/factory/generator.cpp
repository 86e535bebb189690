#include "framework/factory/generator.h"

#include <mutex>

namespace taper::v0 {
namespace {

thread_local const DrawScope* innermost = nullptr;

// Guards the keys of all generators; held for a few instructions only.
std::mutex key_mutex;

// Never destroyed, because threads may draw until the process ends.
Generator& of_the_process() {
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

Generator& default_generator() {
  for (const DrawScope* scope = innermost; scope; scope = scope->outer_) {
    if (scope->generator_) return *scope->generator_;
  }
  return of_the_process();
}

void manual_seed(uint64_t seed) { default_generator().manual_seed(seed); }

DrawScope::DrawScope(Generator* generator, std::vector<PhiloxKey>* keys, bool repeats)
    : generator_(generator), keys_(keys), repeats_(repeats), outer_(innermost) {
  innermost = this;
}
DrawScope::~DrawScope() { innermost = outer_; }

PhiloxKey DrawScope::draw(const DrawScope* scope) {
  if (!scope) return of_the_process().next();
  if (scope->generator_) return scope->generator_->next();
  if (!scope->repeats_) return scope->keys_->emplace_back(draw(scope->outer_));
  if (scope->repeated_ < scope->keys_->size()) return (*scope->keys_)[scope->repeated_++];
  return draw(scope->outer_);
}

PhiloxKey next_key(Generator* generator) {
  return generator ? generator->next() : DrawScope::draw(innermost);
}

}  // namespace taper::v0
