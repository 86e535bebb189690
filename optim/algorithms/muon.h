// Muon (https://pytorch.org/docs/stable/generated/torch.optim.Muon.html): momentum whose singular
// values are moved towards 1, for the matrices of hidden layers. Use AdamW for biases, norms,
// embeddings and the head.
//
// Newton-Schulz iterations are computed in the parameter's dtype, or in bfloat16 for half types.
// PyTorch uses bfloat16 for all types, so its float32 results differ by that rounding. Matrices of
// the same shape are multiplied in one batch.
#pragma once

#include "framework/base/text_enum.h"
#include "optim/optimizer.h"

namespace taper::v0::optim {

// The factor of lr for a matrix [A, B]: sqrt(max(1, A / B)), or 0.2 sqrt(max(A, B)).
struct AdjustLrValues {
  enum class Value : int64_t { kOriginal, kMatchRmsAdamw };
  static constexpr Value kOriginal = Value::kOriginal, kMatchRmsAdamw = Value::kMatchRmsAdamw;
  static constexpr const char* kOption = "adjust_lr_fn";
  static constexpr const char* kWords[] = {"original", "match_rms_adamw"};
};
using AdjustLr = TextEnum<AdjustLrValues>;

struct MuonOptions {
  double lr = 1e-3;
  double weight_decay = 0.1;  // decoupled: shrinks the weight itself
  double momentum = 0.95;
  bool nesterov = true;
  std::array<double, 3> ns_coefficients = {3.4445, -4.7750, 2.0315};
  double eps = 1e-7;
  int64_t ns_steps = 5;
  AdjustLr adjust_lr_fn = AdjustLr::kOriginal;
  bool master_weights = false;
  static constexpr int kMinStates = 1, kMaxStates = 1;

  template <class V> void describe(V& v) {
    v("lr", lr, kPositive, "learning rate");
    v("momentum", momentum, kBelowOne, "momentum factor");
    v("nesterov", nesterov, "use Nesterov momentum");
    v("eps", eps, kPositive, "added to the denominator for numerical stability");
    v("weight_decay", weight_decay, kNonNegative, "decoupled weight decay, multiplied by lr");
    v("ns_coefficients", ns_coefficients, "coefficients of the Newton-Schulz polynomial");
    v("ns_steps", ns_steps, Range{1, 100}, "number of Newton-Schulz iterations");
    v("adjust_lr_fn", adjust_lr_fn, "how lr depends on the shape of a matrix");
    v("master_weights", master_weights, "keep float32 copies of half-precision weights");
  }
  OptimizerTraits traits() const;
  void update(const std::vector<kernels::Update>& updates,
              const kernels::StepScalars& scalars) const;
};
using Muon = OptimizerOf<MuonOptions>;

}  // namespace taper::v0::optim
