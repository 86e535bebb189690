// Generators: every random op takes the next stream of one. The same seed gives the same numbers
// on every device, whatever the thread count or launch shape.
#pragma once

#include <cstdint>

#include "framework/philox.h"

namespace taper {

class Generator {
 public:
  explicit Generator(uint64_t seed = 0) : key_{seed, 0} {}

  void manual_seed(uint64_t seed) { key_ = {seed, 0}; }
  uint64_t initial_seed() const { return key_.seed; }
  // The key of one draw; the next call gives another.
  PhiloxKey next() {
    PhiloxKey key = key_;
    ++key_.stream;
    return key;
  }
  // Until end_capture, draws count from a number in the memory of a GPU, for kernels that are
  // captured into a graph; then state() is as before, and the number of draws is returned.
  void begin_capture(const uint64_t* base) {
    before_capture_ = key_;
    key_ = {key_.seed, 0, base};
  }
  uint64_t end_capture() {
    const uint64_t draws = key_.stream;
    key_ = before_capture_;
    return draws;
  }
  // As if so many draws had been made.
  void skip(uint64_t draws) { key_.stream += draws; }
  // What a checkpoint keeps.
  PhiloxKey state() const { return key_; }
  void set_state(PhiloxKey state) { key_ = state; }

 private:
  PhiloxKey key_, before_capture_;
};

// The generator of ops that are given none: one for all devices, kept per thread.
Generator& default_generator();
void manual_seed(uint64_t seed);

}  // namespace taper
