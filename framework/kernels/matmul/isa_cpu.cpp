#include "framework/kernels/matmul/isa_cpu.h"

#include <oneapi/dnnl/dnnl.hpp>

#include "framework/base/error.h"

namespace taper::v0::kernels {

std::string cpu_isa() {
  switch (const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41: return "sse41";
    case dnnl::cpu_isa::avx: return "avx";
    case dnnl::cpu_isa::avx2: return "avx2";
    case dnnl::cpu_isa::avx2_vnni: return "avx2_vnni";
    case dnnl::cpu_isa::avx512_core: return "avx512_core";
    case dnnl::cpu_isa::avx512_core_vnni: return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core_bf16: return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_amx: return "avx512_core_amx";
    // Newer versions of oneDNN know more names.
    default: return concat_to_string("isa ", int(isa));
  }
}

}  // namespace taper::v0::kernels
