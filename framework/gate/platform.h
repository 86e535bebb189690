// The program, libraries and machine of a training, as far as its numbers depend on them.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/device.h"

namespace taper::v0::golden {

// Values as text, by name or path ("train.epochs").
using MetadataMap = std::map<std::string, std::string>;

// What a training depends on. The keys of `program` are the names of values of the program and
// machine. The keys of `data` are data files, with values such as "N bytes, CRC-32 X".
struct RunMetadata {
  MetadataMap program{}, data{};
};

// How Taper was built. The commit is the version if it was built from an archive.
struct BuildInfo {
  std::string version, commit, compiler, onednn;
};
BuildInfo build_info();
// Returns the name of the processor, such as "AMD EPYC 9654 96-Core Processor".
std::string cpu_name();
// Returns the version of cuBLASLt, as "13.1.0"; empty without CUDA, or if it cannot be loaded.
std::string cublas_version();
// Returns the version of NCCL, as "2.28.9"; empty in a build without NCCL, or if it cannot be
// loaded.
std::string nccl_version();
// Returns names and values of Taper's version and commit, compiler, oneDNN, instruction set,
// processor and device; for a GPU also of its model, its driver, CUDA, cuBLAS, cuDNN and NCCL.
std::vector<std::pair<std::string, std::string>> program_values(Device device);

// Returns the part of the metadata on which bits depend: the device, the processor's instruction
// set, compilers, libraries, and Taper's version. The commit is not part of it, and neither is
// NCCL, which a training on one device does not use.
MetadataMap platform_of(const MetadataMap& program);
// Returns the platform in one line: "cpu, isa AVX512, compiler GNU 12.2.0, onednn 2.7".
std::string platform_text(const MetadataMap& program);

}  // namespace taper::v0::golden
