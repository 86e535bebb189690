#include "framework/kernels/common/per_element_cpu.h"
#include "framework/kernels/common/simd_cpu.h"
#include "framework/kernels/rnn/rnn_kernels.h"

namespace taper::v0::kernels {

// The operands of a row are contiguous.
template <> struct Units<cpu::Backend> {
  template <class F> static void run(const char* op, const Tensor& state, const F& f) {
    const int64_t H = state.size(1);
    cpu::Backend::run(op, state, state.size(0), 16 * H, [&](int64_t row) {
      cpu::vector_for(H, [f, row](int64_t unit) { f.step(row, unit); });
    });
  }
};

template struct RnnKernels<cpu::Backend>;

}  // namespace taper::v0::kernels
