// Reads a table several times: the Taper side of tables.py.
//   taper_table_bench FILE TIMES     prints the seconds of processor time of each reading, and the
//   peak memory in bytes
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <fstream>
#include <string>

#include "data/tables/raw_table.h"

// Returns the peak of the resident memory in bytes. (getrusage() would include the parent's.)
static int64_t peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kib = 0;
    if (word == "VmHWM:" && status >> kib) return 1024 * kib;
  }
  return 0;
}

int main(int argc, char** argv) try {
  if (argc != 3) return 2;
  for (int i = 0; i < std::atoi(argv[2]); ++i) {
    const std::clock_t start = std::clock();
    const taper::data::RawTable table = taper::data::read_table({argv[1]});
    std::printf("%.6f ", double(std::clock() - start) / CLOCKS_PER_SEC);
  }
  std::printf("%lld\n", static_cast<long long>(peak_memory()));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
