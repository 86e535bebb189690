// Models as a config names them.
#pragma once

#include <memory>

#include "apps/runner/config/config.h"
#include "apps/runner/data/data_info.h"
#include "autograd/autocast.h"
#include "modules/containers.h"

namespace taper::inline v0::runner {

// Inputs of every layer are inferred from the one before; an mlp gets its last layer added, a
// sequential model must end in the output. Throws ConfigError at the layer's (or model's) place,
// with the shape that arrives there, when shapes do not fit.
std::unique_ptr<Module> build_model(const Component& config, const DataInfo& data, Device device);

// Zeros as the data give them to the model.
Tensor sample_batch(const DataInfo& data, int64_t count, Device device);

// While it lives, ops compute in the half type that the precision names, if it names one.
inline Autocast autocast_of(Precision precision, DeviceType device) {
  return Autocast(device, precision == Precision::kFp16 ? kFloat16 : kBFloat16,
                  precision == Precision::kFp16 || precision == Precision::kBf16);
}

}  // namespace taper::inline v0::runner
