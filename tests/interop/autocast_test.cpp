// Under autocast each op has the result type that PyTorch's autocast lists for CUDA define.
// autocast.py stores them.
#include "autograd/autocast.h"

#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/index/order.h"
#include "autograd/ops/linalg/linalg_ops.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/nn/attention_ops.h"
#include "autograd/ops/nn/conv_ops.h"
#include "autograd/ops/nn/loss_ops.h"
#include "autograd/ops/nn/norm_ops.h"
#include "autograd/ops/nn/pool_ops.h"
#include "autograd/ops/random_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "tests/source_files.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

// An op of a positive tensor [4, 4].
using Op = std::function<Tensor(const Tensor& x)>;

std::map<std::string, Op> ops() {
  const auto labels = [](const Tensor& x) {
    return zeros({4}, {.dtype = kInt64, .device = x.device()});
  };
  const auto image = [](const Tensor& x) { return x.view({1, 1, 4, 4}); };
  const auto volume = [](const Tensor& x) { return x.view({1, 1, 1, 4, 4}); };
  return {
      {"linear", [](auto& x) { return linear(x, x, x[0]); }},
      {"mm", [](auto& x) { return mm(x, x); }},
      {"bmm", [](auto& x) { return bmm(x.unsqueeze(0), x.unsqueeze(0)); }},
      {"matmul", [](auto& x) { return matmul(x, x[0]); }},
      {"addmm", [](auto& x) { return addmm(x, x, x); }},
      {"conv1d",
       [](auto& x) {
         return conv1d(x.view({1, 4, 4}), x.view({4, 4, 1}));
       }},
      {"conv2d", [=](auto& x) { return conv2d(image(x), image(x)); }},
      {"conv3d", [=](auto& x) { return conv3d(volume(x), volume(x)); }},
      {"conv_transpose1d",
       [](auto& x) {
         return conv_transpose1d(x.view({1, 4, 4}), x.view({4, 4, 1}));
       }},
      {"conv_transpose2d", [=](auto& x) { return conv_transpose2d(image(x), image(x)); }},
      {"conv_transpose3d", [=](auto& x) { return conv_transpose3d(volume(x), volume(x)); }},
      {"scaled_dot_product_attention",
       [](auto& x) {
         const Tensor q = x.view({1, 4, 4});
         return scaled_dot_product_attention(q, q, q);
       }},
      {"pow", [](auto& x) { return pow(x, 2); }},
      {"pow of tensors", [](auto& x) { return pow(x, x); }},
      {"rsqrt", [](auto& x) { return rsqrt(x); }},
      {"reciprocal", [](auto& x) { return reciprocal(x); }},
      {"exp", [](auto& x) { return exp(x); }},
      {"expm1", [](auto& x) { return expm1(x); }},
      {"log", [](auto& x) { return log(x); }},
      {"log2", [](auto& x) { return log2(x); }},
      {"log1p", [](auto& x) { return log1p(x); }},
      {"log10", [](auto& x) { return log10(x); }},
      {"tan", [](auto& x) { return tan(x); }},
      {"asin", [](auto& x) { return asin(x); }},
      {"acos", [](auto& x) { return acos(x); }},
      {"sinh", [](auto& x) { return sinh(x); }},
      {"cosh", [](auto& x) { return cosh(x); }},
      {"softplus", [](auto& x) { return softplus(x); }},
      {"softmax", [](auto& x) { return softmax(x, 1); }},
      {"log_softmax", [](auto& x) { return log_softmax(x, 1); }},
      {"sum", [](auto& x) { return sum(x); }},
      {"mean", [](auto& x) { return mean(x); }},
      {"prod", [](auto& x) { return prod(x, 0); }},
      {"cumsum", [](auto& x) { return cumsum(x, 0); }},
      {"norm", [](auto& x) { return norm(x); }},
      {"logsumexp", [](auto& x) { return logsumexp(x, {0}); }},
      {"var", [](auto& x) { return var(x); }},
      {"std", [](auto& x) { return std(x); }},
      {"amax", [](auto& x) { return amax(x, {0}); }},
      {"layer_norm", [](auto& x) { return layer_norm(x, {4}); }},
      {"rms_norm", [](auto& x) { return rms_norm(x, {4}); }},
      {"group_norm", [](auto& x) { return group_norm(x, 2); }},
      {"batch_norm", [](auto& x) { return batch_norm(x, {}, {}, {.training = true}); }},
      {"cross_entropy", [=](auto& x) { return cross_entropy(x, labels(x)); }},
      {"nll_loss", [=](auto& x) { return nll_loss(x, labels(x)); }},
      {"mse_loss", [](auto& x) { return mse_loss(x, x); }},
      {"l1_loss", [](auto& x) { return l1_loss(x, x); }},
      {"huber_loss", [](auto& x) { return huber_loss(x, x); }},
      {"smooth_l1_loss", [](auto& x) { return smooth_l1_loss(x, x); }},
      {"binary_cross_entropy_with_logits",
       [](auto& x) { return binary_cross_entropy_with_logits(x, x); }},
      {"kl_div", [](auto& x) { return kl_div(x, x, Reduction::kBatchmean); }},
      {"cosine_similarity", [](auto& x) { return cosine_similarity(x, x); }},
      {"cosine_embedding_loss", [](auto& x) { return cosine_embedding_loss(x, x, x[0]); }},
      {"margin_ranking_loss", [](auto& x) { return margin_ranking_loss(x, x, x); }},
      {"triplet_margin_loss", [](auto& x) { return triplet_margin_loss(x, x, x); }},
      {"prelu", [](auto& x) { return prelu(x, x[0]); }},
      {"add", [](auto& x) { return x + x; }},
      {"sub", [](auto& x) { return x - x; }},
      {"mul", [](auto& x) { return x * x; }},
      {"div", [](auto& x) { return x / x; }},
      {"neg", [](auto& x) { return neg(x); }},
      {"abs", [](auto& x) { return abs(x); }},
      {"sqrt", [](auto& x) { return sqrt(x); }},
      {"square", [](auto& x) { return square(x); }},
      {"sin", [](auto& x) { return sin(x); }},
      {"cos", [](auto& x) { return cos(x); }},
      {"tanh", [](auto& x) { return tanh(x); }},
      {"atan", [](auto& x) { return atan(x); }},
      {"exp2", [](auto& x) { return exp2(x); }},
      {"lgamma", [](auto& x) { return lgamma(x); }},
      {"digamma", [](auto& x) { return digamma(x); }},
      {"trunc", [](auto& x) { return trunc(x); }},
      {"selu", [](auto& x) { return selu(x); }},
      {"mish", [](auto& x) { return mish(x); }},
      {"hardswish", [](auto& x) { return hardswish(x); }},
      {"logsigmoid", [](auto& x) { return logsigmoid(x); }},
      {"glu", [](auto& x) { return glu(x); }},
      {"atan2", [](auto& x) { return atan2(x, x); }},
      {"addcmul", [](auto& x) { return addcmul(x, x, x); }},
      {"lerp", [](auto& x) { return lerp(x, x, 0.5); }},
      {"sigmoid", [](auto& x) { return sigmoid(x); }},
      {"relu", [](auto& x) { return relu(x); }},
      {"leaky_relu", [](auto& x) { return leaky_relu(x); }},
      {"elu", [](auto& x) { return elu(x); }},
      {"gelu", [](auto& x) { return gelu(x); }},
      {"silu", [](auto& x) { return silu(x); }},
      {"erf", [](auto& x) { return erf(x); }},
      {"maximum", [](auto& x) { return maximum(x, x); }},
      {"outer", [](auto& x) { return outer(x[0], x[0]); }},
      {"avg_pool2d", [=](auto& x) { return avg_pool2d(image(x), 2); }},
      {"max_pool2d", [=](auto& x) { return max_pool2d(image(x), 2); }},
      {"avg_pool3d",
       [=](auto& x) {
         return avg_pool3d(volume(x), {1, 2, 2});
       }},
      {"max_pool3d",
       [=](auto& x) {
         return max_pool3d(volume(x), {1, 2, 2});
       }},
      {"interpolate", [=](auto& x) { return interpolate(image(x), {.scale_factor = 2}); }},
      {"interpolate of areas",
       [=](auto& x) {
         return interpolate(image(x), {.scale_factor = 2, .mode = Interpolation::kArea});
       }},
      {"interpolate of volumes",
       [=](auto& x) {
         return interpolate(volume(x), {.scale_factor = 2, .mode = Interpolation::kTrilinear});
       }},
      {"dropout", [](auto& x) { return dropout(x, 0.5); }},
      {"where", [](auto& x) { return where(x > 1, x, 0.0); }},
      {"dot", [](auto& x) { return dot(x[0], x[0]); }},
      {"matrix_norm", [](auto& x) { return linalg::matrix_norm(x); }},
      {"cross", [](auto& x) { return cross(x.narrow(1, 0, 3), x.narrow(1, 0, 3), 1); }},
      {"diff", [](auto& x) { return diff(x); }},
      {"logcumsumexp", [](auto& x) { return logcumsumexp(x, 0); }},
      {"erfinv", [](auto& x) { return erfinv(x); }},
      {"clamp_min", [](auto& x) { return clamp_min(x, 1); }},
      {"clamp_max", [](auto& x) { return clamp_max(x, 1); }},
      {"broadcast_tensors",
       [](auto& x) {
         return broadcast_tensors({x, x[0]})[1];
       }},
      {"gumbel_softmax", [](auto& x) { return gumbel_softmax(x); }},
      {"pairwise_distance", [](auto& x) { return pairwise_distance(x, x); }},
      {"cdist", [](auto& x) { return cdist(x, x); }},
      {"cumprod", [](auto& x) { return cumprod(x, 0); }},
      {"normalize", [](auto& x) { return normalize(x); }},
      {"median", [](auto& x) { return median(x); }},
      {"multi_margin_loss", [=](auto& x) { return multi_margin_loss(x, labels(x)); }},
      {"multilabel_margin_loss",
       [](auto& x) { return multilabel_margin_loss(x, zeros_like(x).to(kInt64)); }},
      {"soft_margin_loss", [](auto& x) { return soft_margin_loss(x, x); }},
      {"multilabel_soft_margin_loss", [](auto& x) { return multilabel_soft_margin_loss(x, x); }},
      {"poisson_nll_loss", [](auto& x) { return poisson_nll_loss(x, x); }},
      {"poisson_nll_loss of counts",
       [](auto& x) { return poisson_nll_loss(x, x, {.log_input = false, .full = true}); }},
      {"hinge_embedding_loss", [](auto& x) { return hinge_embedding_loss(x, x); }},
      {"linear_cross_entropy", [=](auto& x) { return linear_cross_entropy(x, x, labels(x)); }},
      {"feed_forward",
       [](auto& x) { return feed_forward(x, x, x[0], x, x[0], Activation::kGelu); }},
  };
}

// Returns the type of each op by name: low, float32 or as_given.
std::map<std::string, std::string> stored() {
  std::ifstream file(TAPER_INTEROP_DIR "/autocast.txt");
  std::map<std::string, std::string> types;
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    types[line.substr(0, colon)] = line.substr(colon + 2);
  }
  return types;
}

TEST(Autocast, ChoosesTheTypeByTheOpAsInPyTorch) {
  const std::map<std::string, Op> all = ops();
  const std::map<std::string, std::string> types = stored();
  for (const auto& [name, type] : types) EXPECT_TRUE(all.contains(name)) << name;
  for (const Device device : all_devices()) {
    for (const DType low : {kBFloat16, kFloat16}) {
      for (const auto& [name, op] : all) {
        ASSERT_TRUE(types.contains(name)) << name;
        const std::string& type = types.at(name);
        for (const DType given : {kFloat32, low, kFloat64}) {
          SCOPED_TRACE(concat_to_string(name, " of ", given, " with ", low, " on ", device));
          const Tensor x = (arange(16.) / 16 + 0.5).view({4, 4}).to(device, given);
          const AutocastGuard guard(device.type(), low);
          const DType by_rule = type == "low" ? low : type == "float32" ? kFloat32 : given;
          EXPECT_EQ(op(x).dtype(), given == kFloat64 ? kFloat64 : by_rule);
        }
      }
    }
  }
}

// Returns the operators in the row of docs/mixed_precision.md that begins with `type`.
std::set<std::string> names_in_the_guide(const std::string& type) {
  static const std::regex name("`(\\w+)`");
  std::set<std::string> names;
  for (const std::string& line : lines_of(kRoot / "docs/mixed_precision.md")) {
    if (!line.starts_with("| " + type + " |")) continue;
    for (std::sregex_iterator it(line.begin(), line.end(), name), end; it != end; ++it) {
      names.insert((*it)[1]);
    }
  }
  return names;
}

TEST(Autocast, ListsInTheGuideAreThoseOfPyTorch) {
  std::map<std::string, std::set<std::string>> by_type;
  for (const auto& [name, type] : stored()) by_type[type].insert(name.substr(0, name.find(" of ")));
  EXPECT_EQ(names_in_the_guide("half"), by_type.at("low"));
  EXPECT_EQ(names_in_the_guide("float32"), by_type.at("float32"));
}

// PyTorch's "promote" list: operands of different dtypes are computed in the widest one.
TEST(Autocast, WidensMixedOperandsOfProducts) {
  for (const Device device : all_devices()) {
    const Tensor x = tensor({1.0, 2.0, 3.0}, {.device = device}), low = x.to(kBFloat16);
    const AutocastGuard guard(device.type(), kBFloat16);
    EXPECT_EQ(dot(x, low).dtype(), kFloat32);
    EXPECT_EQ(cross(low, x).dtype(), kFloat32);
    EXPECT_EQ(dot(low, low).dtype(), kBFloat16);
  }
}

}  // namespace
}  // namespace taper::v0::test
