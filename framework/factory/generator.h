// Random number generators. Every random op takes the next stream of a generator. The same seed
// gives the same numbers on every device, for any number of threads and any launch configuration.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "framework/base/philox.h"
#include "framework/tensor/tensor.h"

namespace taper::v0 {

// A generator of random numbers. Several threads may draw from it at the same time, and each draw
// takes its own stream. Which thread gets which stream depends on their timing. Threads whose
// numbers must be reproducible draw from their own generators (DrawGuard).
class Generator {
 public:
  explicit Generator(uint64_t seed = 0) : key_{seed, 0} {}
  Generator(const Generator& other) : key_(other.state()) {}
  Generator& operator=(const Generator& other) {
    set_state(other.state());
    return *this;
  }

  void manual_seed(uint64_t seed) { set_state({seed, 0}); }
  uint64_t initial_seed() const { return state().seed; }
  // Returns the key of one draw, or the first of `draws` consecutive keys. The next call returns
  // another key.
  PhiloxKey next(uint64_t draws = 1);
  // Returns the state that a checkpoint stores.
  PhiloxKey state() const;
  void set_state(PhiloxKey state);
  // Returns the state as 0-dim int64 tensors: "seed" and "stream", the number of draws so far.
  std::vector<NamedTensor> state_dict() const;
  // Restores a state, so that the next draws are those that followed it. Throws ValueError if one
  // of the two numbers is missing or if there are others.
  void load_state_dict(const std::vector<NamedTensor>& state);

 private:
  PhiloxKey key_;
};

// Returns the generator that ops use if they are called without one. It is shared by all devices
// and threads of the process and initially has seed 0. Within a DrawGuard that has a generator,
// returns that generator.
Generator& default_generator();
void manual_seed(uint64_t seed);

// Redirects the draws of ops that this thread calls without a generator, until the end of the
// scope.
class DrawGuard {
 public:
  explicit DrawGuard(Generator& generator) : DrawGuard(&generator, nullptr, false) {}
  // Returns a guard that draws as without it, and appends the key of each draw to `keys`.
  static DrawGuard record(std::vector<PhiloxKey>& keys) { return {nullptr, &keys, false}; }
  // Returns a guard that repeats the draws with the recorded keys. Further draws are as without the
  // guard.
  static DrawGuard replay(std::vector<PhiloxKey>& keys) { return {nullptr, &keys, true}; }
  ~DrawGuard();
  DrawGuard& operator=(DrawGuard&&) = delete;  // neither copied nor moved

 private:
  friend Generator& default_generator();
  friend PhiloxKey next_key(Generator* generator);
  DrawGuard(Generator* generator, std::vector<PhiloxKey>* keys, bool replays);
  static PhiloxKey draw(const DrawGuard* scope);

  Generator* generator_;
  std::vector<PhiloxKey>* keys_;
  bool replays_;
  mutable size_t replayed_ = 0;
  const DrawGuard* outer_;
};

// Used by ops. Returns the key of one draw from the given generator, or from the default one if it
// is null.
PhiloxKey next_key(Generator* generator);

}  // namespace taper::v0
