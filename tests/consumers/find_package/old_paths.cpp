// Headers can still be included by their paths of version 0.1.
#include <taper/framework/host/hooks.h>
#include <taper/framework/tensor.h>
#include <taper/modules/layers/norm.h>

static_assert(sizeof(taper::Tensor) > 0 && sizeof(taper::CpuAllocator) > 0);
static_assert(sizeof(taper::LayerNorm) > 0);
