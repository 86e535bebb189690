#include "modules/models/forecaster.h"

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/shape_ops.h"
#include "modules/init.h"
#include "modules/layers/stateless.h"

namespace taper::v0 {

Forecaster::Forecaster(const ForecasterOptions& o)
    : linear(*this, "linear", o.past, o.horizon, LinearOptions{.device = o.device}),
      layers(*this, "layers"),
      past_(o.past),
      width_(o.past + o.others) {
  int64_t width = width_;
  for (const int64_t hidden : o.hidden) {
    layers->ModuleList::add<Linear>(width, hidden, LinearOptions{.device = o.device});
    layers->add(ReLU());
    if (o.dropout > 0) layers->add(Dropout(o.dropout));
    width = hidden;
  }
  auto& head = layers->ModuleList::add<Linear>(width, o.horizon, LinearOptions{.device = o.device});
  for (const Linear* zero : {&*linear, &head}) {
    init::zeros_(zero->weight);
    init::zeros_(zero->bias);
  }
}

Tensor Forecaster::forward(const Tensor& samples) {
  require<ValueError>(samples.dim() == 2 && samples.size(1) == width_,
                      "Forecaster: expected samples [B, ", width_, "], got ", samples.shape());
  const Tensor last = samples.narrow(1, past_ - 1, 1);
  const Tensor past = samples.narrow(1, 0, past_) - last;
  const int64_t others = width_ - past_;
  const Tensor all = others > 0 ? cat({past, samples.narrow(1, past_, others)}, 1) : past;
  return last + linear(past) + layers(all);
}

}  // namespace taper::v0
