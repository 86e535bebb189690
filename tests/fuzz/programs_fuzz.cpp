// Random programs by clang's libFuzzer; scripts/fuzz.sh runs them.
#include <cstdlib>

#include "tests/fuzz/programs.h"

// A tensor that is written in place by what was computed from it keeps itself alive where its old
// value was saved, as in PyTorch; such programs leak.
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
