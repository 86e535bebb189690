// The paths of 0.1 lead to the headers where they are now.
#include <taper/framework/base/log.h>
#include <taper/framework/tensor/tensor.h>
#include <taper/modules/layers/norm_layers.h>

static_assert(sizeof(taper::Tensor) > 0 && sizeof(taper::CpuAllocator) > 0);
static_assert(sizeof(taper::LayerNorm) > 0);
