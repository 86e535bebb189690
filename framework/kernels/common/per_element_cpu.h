// Runs a functor for every index on the CPU's threads.
#pragma once

#include "framework/host/parallel.h"
#include "framework/kernels/common/dispatch.h"
#include "framework/kernels/common/simd_cpu.h"

namespace taper::v0::kernels::cpu {

struct Backend {
  // Returns whether an index is in [0, bound), and throws IndexError otherwise.
  struct Check {
    const char* op;
    bool operator()(int64_t index, int64_t bound) const {
      if (index >= 0 && index < bound) return true;
      throw IndexError("index ", index, " is out of bounds for a dimension with size ", bound,
                       " (in ", op, ")");
    }
    // Throws Error with `op`, here a complete sentence, if the condition does not hold.
    void require(bool holds) const {
      if (!holds) throw Error(op);
    }
  };
  static Check check(const char* op, const Tensor&) { return {op}; }

  // Calls f(i) for every i in [0, n), in any order. Each call takes about `work` element
  // operations. A functor that uses math::fused() has kClones; its calls must not read what other
  // calls write.
  template <class F>
  static void run(const char*, const Tensor&, int64_t n, int64_t work, const F& f) {
    if constexpr (requires { F::kClones; }) {
      parallel_for(n, host::grain_of(work), [&](int64_t begin, int64_t end) {
        vector_for(end - begin, [=](int64_t i) { f(begin + i); });
      });
    } else {
      host::parallel_each(n, work, f);
    }
  }
};

}  // namespace taper::v0::kernels::cpu
