// What `taper info` prints (versions, and every device with its memory), and env.json keeps.
#pragma once

#include <string>

namespace taper::runner {

std::string system_info();

// What the program was made of and runs on; the commit is the version where it was built from an
// archive.
struct BuildFacts {
  std::string version, commit, compiler, onednn;
};
BuildFacts build_facts();
// "AMD EPYC 9654 96-Core Processor".
std::string cpu_name();

}  // namespace taper::runner
