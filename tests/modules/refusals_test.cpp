// Calls that layers refuse, with the messages of PyTorch 2.11: one row each.
#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "framework/factory/factories.h"
#include "modules/layers/conv_layers.h"
#include "modules/layers/linear.h"
#include "modules/layers/loss_layers.h"
#include "modules/layers/norm_layers.h"
#include "modules/layers/stateless.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

struct Row {
  std::function<void()> call;
  const char* text;
};

// Creates a layer and calls it with ones of a shape.
template <class M, class... Args>
std::function<void()> on(const Shape& shape, const Args&... args) {
  return [=] {
    M layer(args...);
    (void)layer(ones(shape));
  };
}
template <class M, class... Args> std::function<void()> made(const Args&... args) {
  return [=] { M layer(args...); };
}
template <class L, class... Args>
std::function<void()> of(const Tensor& input, const Tensor& target, const Args&... args) {
  return [=] {
    L loss(args...);
    (void)loss(input, target);
  };
}

std::vector<Row> layers() {
  return {
      {made<Linear>(0, 3), "Linear: in_features must be positive, got 0"},
      {on<Linear>({2, 4}, 3, 1), "mat1 and mat2 shapes cannot be multiplied (2x4 and 3x1)"},
      {made<Conv2d>(3, 4, 1, ConvOptions{.groups = 2}), "in_channels must be divisible by groups"},
      {made<Conv2d>(4, 3, 1, ConvOptions{.groups = 2}), "out_channels must be divisible by groups"},
      {made<Conv1d>(4, 3, 1, ConvOptions{.groups = 0}), "groups must be a positive integer"},
      {made<Conv1d>(4, 3, 0),
       "Conv1d: channels and kernel_size must be positive, got 4, 3 and (0,)"},
      {[] { Conv2d(4, 3, 3, {.padding = "full"}); },
       "'full' is not a valid value for padding, which is 'valid' or 'same'"},
      {made<Conv2d>(4, 3, 3, ConvOptions{.stride = {1, 2}, .padding = "same"}),
       "padding \"same\" is not supported for strided convolutions"},
      {on<Conv2d>({2, 4, 2, 2}, 4, 3, 3,
                  ConvOptions{.padding = 2, .padding_mode = PaddingMode::kReflect}),
       "Argument #4: Padding size should be less than the corresponding input dimension, but got: "
       "padding (2, 2) at dimension 3 of input [2, 4, 2, 2]"},
      {made<ConvTranspose2d>(4, 3, 1, ConvTransposeOptions{.groups = 2}),
       "out_channels must be divisible by groups"},
      {made<Conv3d>(3, 4, 1, Conv3d::Options{.groups = 2}),
       "in_channels must be divisible by groups"},
      {made<Conv3d>(4, 3, Triple(3, 0, 3)),
       "Conv3d: channels and kernel_size must be positive, got 4, 3 and (3, 0, 3)"},
      {made<Conv3d>(4, 3, 3, Conv3d::Options{.stride = {2, 1, 1}, .padding = "same"}),
       "padding \"same\" is not supported for strided convolutions"},
      {on<Conv3d>({2, 4, 2, 2, 2}, 4, 3, 3,
                  Conv3d::Options{.padding = {2, 0, 0}, .padding_mode = PaddingMode::kReflect}),
       "Argument #8: Padding size should be less than the corresponding input dimension, but got: "
       "padding (2, 2) at dimension 2 of input [2, 4, 2, 2, 2]"},
      {on<Conv3d>({2, 4, 3}, 4, 3, 3),
       "Expected 4D (unbatched) or 5D (batched) input to conv3d, but got input of size: [2, 4, 3]"},
      {on<Conv3d>({2, 5, 3, 3, 3}, 4, 3, 3),
       "Given groups=1, weight of size [3, 4, 3, 3, 3], expected input[2, 5, 3, 3, 3] to have 4 "
       "channels, but got 5 channels instead"},
      {made<ConvTranspose3d>(4, 3, 1, ConvTranspose3d::Options{.groups = 2}),
       "out_channels must be divisible by groups"},
      {on<ConvTranspose1d>({2, 5, 7}, 4, 3, 3),
       "Given transposed=1, weight of size [4, 3, 3], expected input[2, 5, 7] to have 4 channels"},
      {made<ReflectionPad2d>(std::vector<int64_t>{1, 2}),
       "ReflectionPad2d: padding must have 4 numbers, got 2"},
      {made<ReflectionPad3d>(std::vector<int64_t>{1, 2, 3, 4}),
       "ReflectionPad3d: padding must have 6 numbers, got 4"},
      {on<Conv1d>({2, 5, 7}, 4, 3, 3),
       "Given groups=1, weight of size [3, 4, 3], expected input[2, 5, 7] to have 4 channels, but "
       "got 5 channels instead"},
      {on<Conv2d>({2, 4}, 4, 3, 3),
       "Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: [2, 4]"},
      {on<Conv2d>({2, 4, 2, 2}, 4, 3, 3),
       "Calculated padded input size per channel: (2 x 2). Kernel size: (3 x 3). Kernel size can't "
       "be greater than actual input size"},
      {made<BatchNorm2d>(0), "BatchNorm2d: num_features must be positive, got 0"},
      {on<BatchNorm1d>({2, 4, 3, 3}, 4), "expected 2D or 3D input (got 4D input)"},
      {on<BatchNorm2d>({2, 4}, 4), "expected 4D input (got 2D input)"},
      {made<BatchNorm3d>(0), "BatchNorm3d: num_features must be positive, got 0"},
      {on<BatchNorm3d>({2, 4, 3, 3}, 4), "expected 5D input (got 4D input)"},
      {on<InstanceNorm3d>({4, 3, 3}, 4), "expected 4D or 5D input (got 3D input)"},
      {on<BatchNorm1d>({1, 4}, 4),
       "Expected more than 1 value per channel when training, got input"},
      {on<BatchNorm1d>({2, 5}, 4), "running_mean should contain 5 elements not 4"},
      {made<GroupNorm>(3, 4), "num_channels (4) must be divisible by num_groups (3)"},
      {on<GroupNorm>({2, 6, 2}, 2, 4),
       "Expected weight to be a vector of size equal to the number of channels in input, but got "
       "weight of shape [4] and input of shape [2, 6, 2]"},
      {on<LayerNorm>({2, 4}, Shape{3}),
       "Given normalized_shape=[3], expected input with shape [*, 3], but got input of size[2, 4]"},
      {on<RMSNorm>({2, 4}, Shape{3}),
       "Given normalized_shape=[3], expected input with shape [*3], but got input of size[2, 4]"},
      {made<Embedding>(3, 2, EmbeddingOptions{.padding_idx = 3}),
       "Padding_idx must be within num_embeddings"},
      {made<Embedding>(3, 2, EmbeddingOptions{.padding_idx = -4}),
       "Padding_idx must be within num_embeddings"},
      {on<Embedding>({2}, 3, 2),
       "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, "
       "Int; but got Float"},
      {made<Dropout>(1.5), "dropout probability has to be between 0 and 1, but got 1.5"},
      {made<Dropout2d>(-0.1), "dropout probability has to be between 0 and 1, but got -0.1"},
      {made<Dropout>(std::nan("")), "dropout probability has to be between 0 and 1, but got nan"},
      {on<Dropout2d>({3}), "Feature dropout requires at least 2 dimensions in the input"},
      {made<GELU>("erf"), "'erf' is not a valid value for approximate, which is 'none' or 'tanh'"},
      {on<Hardtanh>({2}, 2, 1), "min_val cannot be greater than max_val"},
      {on<Softmax>({2, 3}, 2),
       "Dimension out of range (expected to be in range of [-2, 1], but got 2)"},
      {on<Unflatten>({2, 3}, 1, Shape{2, 2}),
       "unflatten: Provided sizes [2, 2] don't multiply up to the size of dim 1 (3) in the input "
       "tensor"},
      {on<Flatten>({2, 3, 4}, 2, 1),
       "flatten() has invalid args: start_dim cannot come after end_dim"},
      {on<MaxPool2d>({2, 3}, 3), "non-empty 3D or 4D (batch mode) tensor expected for input"},
      {on<MaxPool2d>({1, 1, 2, 2}, 3),
       "Given input size: (1x2x2). Calculated output size: (1x0x0). Output size is too small"},
      {on<MaxPool1d>({2}, 3),
       "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim"},
      {on<MaxPool3d>({2, 3, 3}, 3), "non-empty 4D or 5D (batch mode) tensor expected for input"},
      {on<AvgPool3d>({1, 1, 2, 2, 2}, 3),
       "Given input size: (1x2x2x2). Calculated output size: (1x0x0x0). Output size is too small"},
      {on<AvgPool1d>({4}, 2),
       "Expected 2 to 3 dimensions, but got 1-dimensional tensor for argument"},
      {on<AdaptiveAvgPool2d>({3, 3}, 2),
       "adaptive_avg_pool2d(): Expected 3D or 4D tensor, but got [3, 3]"},
      {on<AdaptiveAvgPool3d>({3, 3, 3}, 2),
       "adaptive_avg_pool3d(): Expected 4D or 5D tensor, but got [3, 3, 3]"},
      {on<Upsample>({1, 1, 2, 2}, InterpolateOptions()),
       "either size or scale_factor should be defined"},
      {on<Upsample>({1, 1, 2, 2}, InterpolateOptions{.size = Triple(2, 3, 4)}),
       "Input and output must have the same number of spatial dimensions, but got input with "
       "spatial dimensions of [2, 2] and 3 output sizes"},
  };
}

std::vector<Row> losses() {
  const Tensor x = ones({2, 3}), classes = tensor({0, 1});
  return {
      {on<MSELoss>({2}), "MSELoss.forward() missing 1 required positional argument: 'target'"},
      {on<CrossEntropyLoss>({2, 3}),
       "CrossEntropyLoss.forward() missing 1 required positional argument: 'target'"},
      {of<MSELoss>(ones({2}), ones({3})),
       "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0"},
      {of<MSELoss>(x, x, Reduction::kBatchmean), "batchmean is not a valid value for reduction"},
      {of<CrossEntropyLoss>(x, tensor({0})),
       "Expected input batch_size (2) to match target batch_size (1)."},
      {of<CrossEntropyLoss>(x, tensor({0, 3})), "Target 3 is out of bounds."},
      {of<CrossEntropyLoss>(x, classes, CrossEntropyOptions{.label_smoothing = 2}),
       "label_smoothing must be between 0.0 and 1.0. Got: 2"},
      {of<CrossEntropyLoss>(x, classes, CrossEntropyOptions{.weight = ones({2})}),
       "weight tensor should be defined either for all 3 classes or no classes but got weight "
       "tensor of shape: [2]"},
      {of<NLLLoss>(x, ones({2})), "expected scalar type Long but found Float"},
      {of<HuberLoss>(x, x, Reduction::kMean, 0),
       "huber_loss does not support non-positive values for delta."},
      {of<SmoothL1Loss>(x, x, Reduction::kMean, -1),
       "smooth_l1_loss does not support negative values for beta."},
      {of<BCEWithLogitsLoss>(ones({2}), ones({3})),
       "Target size ([3]) must be the same as input size ([2])"},
  };
}

TEST(Layers, RefuseWrongArgumentsInPyTorchsWords) {
  for (const auto& part : {layers(), losses()}) {
    for (const Row& row : part)
      EXPECT_TRUE(refuses<Error>([&] { return row.call(), 0; }, row.text));
  }
}

}  // namespace
}  // namespace taper::v0::test
