// Runs random programs with clang's libFuzzer; see scripts/fuzz.sh.
#include <cstdlib>

#include "tests/fuzz/programs.h"

// Leaks are not reported: as in PyTorch, a tensor keeps itself alive if a result computed from it
// is written to it in place and the old value was saved.
extern "C" const char* __asan_default_options() {
  return "allocator_may_return_null=1:detect_leaks=0";
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const bool prints = [] {
    taper::fuzz::limit_memory();
    return std::getenv("TAPER_FUZZ_PRINT") != nullptr;
  }();
  taper::fuzz::Program({reinterpret_cast<const char*>(bytes), size}, prints).run();
  return 0;
}
