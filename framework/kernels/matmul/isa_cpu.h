// The instruction set for which matrix products on the CPU are generated.
#pragma once

#include <string>

#include "framework/base/namespace.h"

namespace taper::v0::kernels {

// Returns the instruction set that oneDNN uses, such as "avx512_core". It depends on the processor
// and on ONEDNN_MAX_CPU_ISA in the environment. Processors with the same one give the same bits.
std::string cpu_isa();

}  // namespace taper::v0::kernels
