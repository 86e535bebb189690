// host TRAINER: twice loads the library, trains and closes it. No thread may remain after either
// time.
#include <cstdio>
#include <filesystem>
#include <iterator>

#include <dlfcn.h>

static long threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

int main(int, char** argv) {
  const long before = threads();
  unsigned long losses[2] = {};
  for (unsigned long& loss : losses) {
    void* trainer = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    auto train = trainer ? reinterpret_cast<unsigned long (*)()>(dlsym(trainer, "train")) : nullptr;
    if (!train) return std::printf("%s\n", dlerror()), 1;
    loss = train();
    if (dlclose(trainer) != 0) return std::printf("%s\n", dlerror()), 1;
    std::printf("loss %lu, threads %ld\n", loss, threads());
  }
  return losses[0] == losses[1] && losses[0] > 0 && threads() == before ? 0 : 1;
}
