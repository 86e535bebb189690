// Runs random programs without a fuzzer, from seeds:
//   random_programs COUNT [FIRST_SEED]       runs COUNT programs
//   random_programs --print SEED             runs one program and prints its operations
// Ends at the first program that takes longer than ten seconds, or that throws anything but a
// taper::Error, and prints its seed.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <random>
#include <string>

#include <unistd.h>

#include "tests/fuzz/programs.h"

#ifdef TAPER_SANITIZED
extern "C" void __sanitizer_set_death_callback(void (*callback)());
// Leaks are not reported: as in PyTorch, a tensor keeps itself alive if a result computed from it
// is written to it in place and the old value was saved.
extern "C" const char* __asan_default_options() {
  return "allocator_may_return_null=1:detect_leaks=0";
}
#endif

namespace {

constexpr unsigned kMostSeconds = 10;

uint64_t running = 0;  // the current seed

void name_program(const char* why) {
  std::fprintf(stderr, "random_programs: the program of seed %llu %s; see it by --print %llu\n",
               static_cast<unsigned long long>(running), why,
               static_cast<unsigned long long>(running));
}
[[noreturn]] void give_up(const char* why) {
  name_program(why);
  std::_Exit(1);
}

std::string bytes_of(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string bytes(256, '\0');
  for (char& b : bytes) b = char(random());
  return bytes;
}

void run(uint64_t seed, bool prints) {
  running = seed;
  alarm(kMostSeconds);
  taper::fuzz::Program(bytes_of(seed), prints).run();
  alarm(0);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::fprintf(stderr, "usage: random_programs COUNT [FIRST_SEED] | --print SEED\n");
    return 2;
  }
  taper::fuzz::limit_memory();
  std::signal(SIGALRM, [](int) { give_up("takes too long"); });
#ifdef TAPER_SANITIZED
  __sanitizer_set_death_callback([] { name_program("is what a sanitizer reports"); });
#else
  for (const int crash : {SIGSEGV, SIGFPE, SIGBUS, SIGABRT}) {
    std::signal(crash, [](int) { give_up("crashes"); });
  }
#endif
  const bool prints = std::strcmp(argv[1], "--print") == 0;
  const uint64_t count = prints ? 1 : std::strtoull(argv[1], nullptr, 10);
  const uint64_t first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  for (uint64_t seed = first; seed < first + count; ++seed) run(seed, prints);
  std::printf("%llu programs ran\n", static_cast<unsigned long long>(count));
  return 0;
} catch (const std::exception& e) {
  give_up(e.what());
}
