// Compares layers with PyTorch's results, which layers.py stores.
#include <gtest/gtest.h>

#include "autograd/ops/binary_ops.h"
#include "framework/factory/factories.h"
#include "modules/layers/conv_layers.h"
#include "modules/layers/linear.h"
#include "modules/layers/loss_layers.h"
#include "modules/layers/norm_layers.h"
#include "modules/layers/stateless.h"
#include "tests/interop/layer_rows.h"

namespace taper::v0::test {
namespace {

const Tensor kWeights = tensor({0.5, 2, 1, 0.25});

std::vector<LayerRow> convolutions() {
  return {
      row<Conv1d>("Conv1d", 4, 6, 3),
      row<Conv1d>(
          "Conv1d options", 4, 6, 3,
          ConvOptions{.stride = 2, .padding = 1, .dilation = 2, .groups = 2, .bias = false}),
      row<Conv1d>("Conv1d same", 4, 2, 4, ConvOptions{.padding = "same"}),
      row<Conv1d>("Conv1d unbatched", 4, 2, 2),
      row<Conv2d>("Conv2d", 4, 3, 3),
      row<Conv2d>(
          "Conv2d options", 4, 6, Pair(3, 2),
          ConvOptions{
              .stride = {2, 1}, .padding = {1, 2}, .dilation = {1, 2}, .groups = 2, .bias = false}),
      row<Conv2d>("Conv2d same", 4, 2, Pair(3, 2),
                  ConvOptions{.padding = "same", .dilation = {2, 1}}),
      row<Conv2d>("Conv2d same even", 4, 2, 4, ConvOptions{.padding = "same"}),
      row<Conv2d>("Conv2d valid", 4, 2, 3, ConvOptions{.padding = "valid"}),
      row<Conv2d>("Conv2d depthwise", 4, 4, 3, ConvOptions{.padding = 1, .groups = 4}),
      row<Conv1d>("Conv1d circular", 4, 2, 3,
                  ConvOptions{.padding = 2, .padding_mode = PaddingMode::kCircular}),
      row<Conv2d>("Conv2d reflect", 4, 2, Pair(3, 4),
                  ConvOptions{.padding = "same", .padding_mode = PaddingMode::kReflect}),
      row<Conv2d>(
          "Conv2d replicate", 4, 2, 3,
          ConvOptions{.stride = 2, .padding = {1, 2}, .padding_mode = PaddingMode::kReplicate}),
      row<Conv3d>("Conv3d", 2, 3, 3),
      row<Conv3d>("Conv3d options", 2, 4, Triple(3, 2, 1),
                  Conv3d::Options{.stride = {2, 1, 1},
                                  .padding = {1, 2, 0},
                                  .dilation = {1, 2, 1},
                                  .groups = 2,
                                  .bias = false}),
      row<Conv3d>("Conv3d same", 2, 2, Triple(3, 2, 4),
                  Conv3d::Options{.padding = "same", .dilation = {1, 2, 1}}),
      row<Conv3d>("Conv3d unbatched", 2, 2, 2),
      row<Conv3d>("Conv3d circular", 2, 2, 3,
                  Conv3d::Options{.padding = {1, 2, 0}, .padding_mode = PaddingMode::kCircular}),
      row<Conv3d>("Conv3d reflect", 2, 2, Triple(3, 2, 3),
                  Conv3d::Options{.padding = "same", .padding_mode = PaddingMode::kReflect}),
      row<Conv3d>(
          "Conv3d replicate", 2, 2, 3,
          Conv3d::Options{.stride = 2, .padding = 1, .padding_mode = PaddingMode::kReplicate}),
      row<ConvTranspose3d>("ConvTranspose3d", 2, 3, 2),
      row<ConvTranspose3d>("ConvTranspose3d options", 2, 4, Triple(3, 2, 2),
                           ConvTranspose3d::Options{.stride = {2, 1, 2},
                                                    .padding = {1, 0, 0},
                                                    .output_padding = {1, 0, 1},
                                                    .groups = 2,
                                                    .bias = false,
                                                    .dilation = {1, 2, 1}}),
      row<ConvTranspose1d>("ConvTranspose1d", 4, 3, 3),
      row<ConvTranspose1d>("ConvTranspose1d options", 4, 6, 3,
                           ConvTransposeOptions{.stride = 2,
                                                .padding = 1,
                                                .output_padding = 1,
                                                .groups = 2,
                                                .bias = false,
                                                .dilation = 2}),
      row<ConvTranspose2d>("ConvTranspose2d", 4, 3, 2),
      row<ConvTranspose2d>(
          "ConvTranspose2d options", 4, 2, Pair(3, 2),
          ConvTransposeOptions{.stride = {2, 1}, .padding = {1, 0}, .output_padding = {1, 0}}),
      row<ReflectionPad1d>("ReflectionPad1d", 2),
      row<ReflectionPad2d>("ReflectionPad2d", std::vector<int64_t>{1, 2, 0, 3}),
      row<ReplicationPad1d>("ReplicationPad1d", std::vector<int64_t>{1, 3}),
      row<ReplicationPad2d>("ReplicationPad2d", 2),
      row<CircularPad1d>("CircularPad1d", 3),
      row<CircularPad2d>("CircularPad2d", std::vector<int64_t>{1, 0, 2, 1}),
      row<ZeroPad1d>("ZeroPad1d", 1),
      row<ZeroPad2d>("ZeroPad2d", std::vector<int64_t>{1, 0, -1, 2}),
      row<PixelShuffle>("PixelShuffle", 2),
      row<PixelUnshuffle>("PixelUnshuffle", 2),
      row<Unfold>("Unfold", 2, UnfoldOptions{.padding = 1, .stride = {2, 1}}),
      row<Fold>("Fold", Pair(3, 4), 2),
  };
}

std::vector<LayerRow> pools() {
  return {
      row<MaxPool1d>("MaxPool1d", 3),
      row<MaxPool1d>("MaxPool1d options", 3,
                     MaxPoolOptions{.stride = 2, .padding = 1, .dilation = 2, .ceil_mode = true}),
      row<MaxPool2d>("MaxPool2d", 2),
      row<MaxPool2d>("MaxPool2d options", Pair(3, 2),
                     MaxPoolOptions{.stride = Pair(2, 1), .padding = {1, 0}, .ceil_mode = true}),
      row<AvgPool1d>("AvgPool1d", 2),
      row<AvgPool1d>(
          "AvgPool1d options", 3,
          AvgPoolOptions{.stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false}),
      row<AvgPool2d>("AvgPool2d", 2),
      row<AvgPool2d>("AvgPool2d options", Pair(3, 2),
                     AvgPoolOptions{.stride = Pair(2, 1),
                                    .padding = {1, 0},
                                    .ceil_mode = true,
                                    .count_include_pad = false}),
      row<AdaptiveAvgPool1d>("AdaptiveAvgPool1d", 4),
      row<AdaptiveAvgPool2d>("AdaptiveAvgPool2d", 1),
      row<AdaptiveAvgPool2d>("AdaptiveAvgPool2d sizes", Pair(4, 2)),
      row<AdaptiveAvgPool2d>("AdaptiveAvgPool2d none", OutputSize(std::nullopt, 3)),
      row<AdaptiveMaxPool1d>("AdaptiveMaxPool1d", 4),
      row<AdaptiveMaxPool2d>("AdaptiveMaxPool2d", Pair(3, 2)),
  };
}

Tensors three_batches(Module& m, const Tensors& x) {
  return {m(x[0]), m(2 * x[0] + 1), m(x[0] - 3)};
}

std::vector<LayerRow> norms() {
  return {
      row<BatchNorm1d>("BatchNorm1d", 4),
      row<BatchNorm1d>("BatchNorm1d lines", 4, BatchNormOptions{.momentum = 0.3}),
      row<BatchNorm1d>("BatchNorm1d eval", 4),
      row<BatchNorm2d>("BatchNorm2d", 4),
      row<BatchNorm2d>("BatchNorm2d eval", 4, BatchNormOptions{.eps = 1e-3}),
      {"BatchNorm2d cumulative", make<BatchNorm2d>(4, BatchNormOptions{.momentum = {}}),
       three_batches},
      row<BatchNorm2d>("BatchNorm2d bare", 4,
                       BatchNormOptions{.affine = false, .track_running_stats = false}),
      row<GroupNorm>("GroupNorm", 2, 4),
      row<GroupNorm>("GroupNorm bare", 4, 4, GroupNormOptions{.eps = 1e-3, .affine = false}),
      row<InstanceNorm1d>("InstanceNorm1d", 4),
      row<InstanceNorm2d>("InstanceNorm2d unbatched", 4, InstanceNormOptions{.eps = 1e-3}),
      row<InstanceNorm2d>("InstanceNorm2d tracked", 4,
                          InstanceNormOptions{.affine = true, .track_running_stats = true}),
      row<InstanceNorm2d>("InstanceNorm2d eval", 4,
                          InstanceNormOptions{.affine = true, .track_running_stats = true}),
      row<LayerNorm>("LayerNorm", Shape{4}),
      row<LayerNorm>("LayerNorm two", Shape{5, 4}, LayerNormOptions{.eps = 1e-6}),
      row<LayerNorm>("LayerNorm no bias", Shape{4}, LayerNormOptions{.bias = false}),
      row<LayerNorm>("LayerNorm bare", Shape{4}, LayerNormOptions{.elementwise_affine = false}),
      row<RMSNorm>("RMSNorm", Shape{7}, RMSNormOptions{.eps = 1e-6}),
      row<RMSNorm>("RMSNorm bare", Shape{4, 7},
                   RMSNormOptions{.eps = 0.0001, .elementwise_affine = false}),
  };
}

std::vector<LayerRow> functions() {
  return {
      row<ReLU>("ReLU"),
      row<ReLU6>("ReLU6"),
      row<LeakyReLU>("LeakyReLU"),
      row<ELU>("ELU"),
      row<GELU>("GELU"),
      row<SiLU>("SiLU"),
      row<Sigmoid>("Sigmoid"),
      row<Tanh>("Tanh"),
      row<Softplus>("Softplus"),
      row<Hardtanh>("Hardtanh"),
      row<Softmax>("Softmax", 1),
      row<LogSoftmax>("LogSoftmax", -1),
      row<LeakyReLU>("LeakyReLU slope", 0.2),
      row<ELU>("ELU alpha", 0.5),
      row<GELU>("GELU tanh", "tanh"),
      row<Softplus>("Softplus options", 2, 1),
      row<Hardtanh>("Hardtanh options", -0.5, 0.25),
      row<Identity>("Identity"),
      row<Dropout>("Dropout eval"),
      row<Dropout2d>("Dropout2d eval", 0.25),
      row<Flatten>("Flatten"),
      row<Flatten>("Flatten dims", 0, -2),
      row<Unflatten>("Unflatten", 1, Shape{2, -1}),
      row<Upsample>("Upsample", InterpolateOptions{.scale_factor = 2}),
      row<Upsample>("Upsample lines",
                    InterpolateOptions{.scale_factor = 1.5, .mode = Interpolation::kLinear}),
      row<Upsample>("Upsample bilinear",
                    InterpolateOptions{.size = Pair(7, 5), .mode = Interpolation::kBilinear}),
      row<Upsample>("Upsample bicubic",
                    InterpolateOptions{.scale_factor = 2, .mode = Interpolation::kBicubic}),
      row<Upsample>("Upsample area",
                    InterpolateOptions{.size = Pair(2, 3), .mode = Interpolation::kArea}),
      row<Upsample>(
          "Upsample corners",
          InterpolateOptions{.size = 6, .mode = Interpolation::kBilinear, .align_corners = true}),
  };
}

std::vector<LayerRow> volumes() {
  const std::vector<int64_t> sides = {1, 0, 2, 1, 0, 1};
  return {
      row<ReflectionPad3d>("ReflectionPad3d", sides),
      row<ReplicationPad3d>("ReplicationPad3d", sides),
      row<CircularPad3d>("CircularPad3d", sides),
      row<ZeroPad3d>("ZeroPad3d", std::vector<int64_t>{1, 0, -1, 2, 0, 1}),
      row<ReplicationPad3d>("ReplicationPad3d unbatched", 1),
      row<MaxPool3d>("MaxPool3d", 2),
      row<MaxPool3d>(
          "MaxPool3d options", Triple(3, 2, 1),
          MaxPool3dOptions{.stride = Triple(2, 1, 2), .padding = {1, 0, 0}, .ceil_mode = true}),
      row<AvgPool3d>("AvgPool3d", 2),
      row<AvgPool3d>("AvgPool3d options", Triple(3, 2, 3),
                     AvgPool3dOptions{.stride = Triple(2, 1, 1),
                                      .padding = {1, 0, 1},
                                      .ceil_mode = true,
                                      .count_include_pad = false}),
      row<AvgPool3d>("AvgPool3d unbatched", Triple(1, 2, 2)),
      row<AdaptiveAvgPool3d>("AdaptiveAvgPool3d", 1),
      row<AdaptiveAvgPool3d>("AdaptiveAvgPool3d sizes", Triple(3, 4, 2)),
      row<AdaptiveAvgPool3d>("AdaptiveAvgPool3d none", OutputSize3d(std::nullopt, 3, 1)),
      row<AdaptiveMaxPool3d>("AdaptiveMaxPool3d", Triple(3, 2, 1)),
      row<BatchNorm3d>("BatchNorm3d", 2),
      row<BatchNorm3d>("BatchNorm3d eval", 2, BatchNormOptions{.eps = 1e-3}),
      row<InstanceNorm3d>("InstanceNorm3d unbatched", 2, InstanceNormOptions{.eps = 1e-3}),
      row<InstanceNorm3d>("InstanceNorm3d tracked", 2,
                          InstanceNormOptions{.affine = true, .track_running_stats = true}),
      row<GroupNorm>("GroupNorm volumes", 2, 4),
      row<Dropout3d>("Dropout3d eval", 0.25),
      row<Upsample>("Upsample volumes", InterpolateOptions{.scale_factor = 2}),
      row<Upsample>("Upsample trilinear",
                    InterpolateOptions{.size = Triple(5, 7, 4), .mode = Interpolation::kTrilinear}),
      row<Upsample>(
          "Upsample trilinear corners",
          InterpolateOptions{
              .scale_factor = 1.5, .mode = Interpolation::kTrilinear, .align_corners = true}),
      row<Upsample>("Upsample volumes area",
                    InterpolateOptions{.size = Triple(2, 3, 4), .mode = Interpolation::kArea}),
  };
}

std::vector<LayerRow> losses() {
  constexpr Reduction sum = Reduction::kSum, none = Reduction::kNone;
  return {
      row<CrossEntropyLoss>("CrossEntropyLoss mean"),
      row<CrossEntropyLoss>("CrossEntropyLoss sum", CrossEntropyOptions{.reduction = sum}),
      row<CrossEntropyLoss>("CrossEntropyLoss none", CrossEntropyOptions{.reduction = none}),
      row<CrossEntropyLoss>(
          "CrossEntropyLoss options",
          CrossEntropyOptions{.weight = kWeights, .ignore_index = 1, .label_smoothing = 0.1}),
      row<CrossEntropyLoss>("CrossEntropyLoss probabilities"),
      row<NLLLoss>("NLLLoss"),
      row<NLLLoss>("NLLLoss options",
                   NllLossOptions{.weight = kWeights, .ignore_index = 2, .reduction = sum}),
      row<MSELoss>("MSELoss mean"),
      row<MSELoss>("MSELoss none", none),
      row<L1Loss>("L1Loss mean"),
      row<L1Loss>("L1Loss none", none),
      row<HuberLoss>("HuberLoss mean"),
      row<HuberLoss>("HuberLoss none", none, 1),
      row<HuberLoss>("HuberLoss delta", sum, 0.5),
      row<SmoothL1Loss>("SmoothL1Loss mean"),
      row<SmoothL1Loss>("SmoothL1Loss none", none, 1),
      row<SmoothL1Loss>("SmoothL1Loss beta", sum, 0.5),
      row<BCEWithLogitsLoss>("BCEWithLogitsLoss"),
      row<BCEWithLogitsLoss>(
          "BCEWithLogitsLoss options",
          BceWithLogitsOptions{.weight = kWeights, .pos_weight = 3 * kWeights, .reduction = sum}),
      row<KLDivLoss>("KLDivLoss mean"),
      row<KLDivLoss>("KLDivLoss batchmean", Reduction::kBatchmean),
      row<KLDivLoss>("KLDivLoss log", sum, true),
  };
}

TEST(Layers, ComputeWhatPyTorchComputes) {
  std::vector<LayerRow> rows = {
      row<Linear>("Linear", 4, 3),
      row<Linear>("Linear no bias", 4, 3, LinearOptions{.bias = false}),
      row<Embedding>("Embedding", 6, 3),
      row<Embedding>("Embedding padding", 6, 3, EmbeddingOptions{.padding_idx = -5}),
      row<EmbeddingBag>("EmbeddingBag", 6, 3),
      row<EmbeddingBag>("EmbeddingBag max", 6, 3,
                        EmbeddingBagOptions{.mode = BagMode::kMax, .padding_idx = -5}),
      {"EmbeddingBag offsets", make<EmbeddingBag>(6, 3, EmbeddingBagOptions{.mode = BagMode::kSum}),
       [](Module& m, const Tensors& x) {
         return Tensors{dynamic_cast<EmbeddingBag&>(m)(x[0], x[1], x[2])};
       }},
  };
  for (const auto& part : {convolutions(), pools(), norms(), functions(), volumes(), losses()}) {
    rows.insert(rows.end(), part.begin(), part.end());
  }
  compare_with_pytorch("layers.safetensors", rows);
}

}  // namespace
}  // namespace taper::v0::test
