#include "autograd/ops/index.h"

#include "autograd/node.h"
#include "framework/kernels/embedding.h"

namespace taper {

Tensor embedding(const Tensor& weight, const Tensor& index) {
  Tensor y = kernels::take_rows("embedding", weight, index);
  if (!needs_grad({weight})) return y;
  return record("EmbeddingBackward0", y, {weight},
                [index = Saved(index), rows = weight.size(0)](Gradients& g) {
                  refuse_second_derivative("embedding", g.dy());
                  g.dx(0) = kernels::take_rows_backward(g.dy(), index.get(g), rows);
                });
}

}  // namespace taper
