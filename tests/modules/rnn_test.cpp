// LSTM and GRU. tests/interop compares them with PyTorch.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <type_traits>

#include <gtest/gtest.h>

#include "autograd/autocast.h"
#include "autograd/engine.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/inplace.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "modules/layers/containers.h"
#include "modules/layers/linear.h"
#include "modules/layers/rnn_layers.h"
#include "tests/modules/modules.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

TEST(LSTM, StartsUniformWithinOneOverTheRootOfItsUnits) {
  for (const Device device : all_devices()) {
    manual_seed(1);
    const LSTM here(3, 25);
    manual_seed(1);
    const LSTM layer(3, 25, {.device = device});
    EXPECT_EQ(layer.named_parameters().size(), 4u);
    for (size_t i = 0; i < 4; ++i) {
      const Tensor p = layer.parameters()[i];
      EXPECT_TRUE(same_bits(p, here.parameters()[i])) << i;
      double largest = 0;
      for (const double w : values_of(p)) largest = std::max(largest, std::abs(w));
      EXPECT_LE(largest, 0.2);
      EXPECT_GT(largest, 0.19);
    }
  }
}

TEST(LSTM, NamesItsParametersAsInPyTorch) {
  const LSTM layer(3, 4, {.num_layers = 2, .bidirectional = true});
  std::vector<std::string> names;
  for (const NamedTensor& p : layer.named_parameters()) names.push_back(p.name);
  std::vector<std::string> want;
  for (const char* place : {"l0", "l0_reverse", "l1", "l1_reverse"}) {
    for (const char* what : {"weight_ih_", "weight_hh_", "bias_ih_", "bias_hh_"}) {
      want.push_back(std::string(what) + place);
    }
  }
  EXPECT_EQ(names, want);
  EXPECT_EQ(layer.cells[2].weight_ih->shape(), (Shape{16, 8}));
}

TEST(LSTM, ContinuesFromItsState) {
  for (const Device device : all_devices()) {
    LSTM layer(3, 4, {.num_layers = 2, .device = device});
    const Tensor x = numbers({6, 2, 3}, device);
    const RnnResult whole = layer(x, {});
    const RnnResult first = layer(x.narrow(0, 0, 4), {});
    const RnnResult second = layer(x.narrow(0, 4, 2), {first.h_n, first.c_n});
    EXPECT_TRUE(close(cat({first.output, second.output}, 0), whole.output, 1e-6));
    EXPECT_TRUE(close(second.h_n, whole.h_n, 1e-6));
    EXPECT_TRUE(close(second.c_n, whole.c_n, 1e-6));
    EXPECT_TRUE(close(layer(x), whole.output, 0)) << "one argument gives the output alone";
  }
}

TEST(LSTM, DropsBetweenItsLayersByTheSeed) {
  for (const Device device : all_devices()) {
    LSTM layer(3, 8, {.num_layers = 2, .dropout = 0.5, .device = device});
    const Tensor x = numbers({5, 2, 3}, device);
    manual_seed(7);
    const Tensor once = layer(x);
    manual_seed(7);
    EXPECT_TRUE(same_bits(layer(x), once));
    EXPECT_FALSE(same_bits(layer(x), once));
    layer.eval();
    EXPECT_TRUE(same_bits(layer(x), layer(x)));
  }
}

TEST(GRU, TakesEveryFloatingDtypeAndAnEmptyBatch) {
  for (const Device device : all_devices()) {
    GRU layer(3, 4, {.device = device});
    const Tensor x = numbers({5, 2, 3}, device);
    const Tensor y = layer(x).detach();
    for (const DType dtype : {kFloat16, kBFloat16}) {
      layer.to(dtype);
      EXPECT_TRUE(close(layer(x.to(dtype)), y, 2e-2)) << name_of(dtype);
    }
    EXPECT_EQ(layer(zeros({5, 0, 3}, {.dtype = kBFloat16, .device = device})).shape(),
              (Shape{5, 0, 4}));
  }
}

TEST(LSTM, ComputesInTheHalfTypeUnderAutocast) {
  for (const Device device : all_devices()) {
    LSTM layer(3, 4, {.num_layers = 2, .device = device});
    const Tensor x = numbers({5, 2, 3}, device), y = layer(x).detach();
    RnnResult half;
    {
      const AutocastGuard guard(device.type(), kBFloat16);
      half = layer(x, {});
      half = layer(x, {half.h_n, half.c_n});
      EXPECT_TRUE(close(layer(x), y, 2e-2));
    }
    EXPECT_EQ(half.output.dtype(), kBFloat16);
    half.output.sum().backward();
    for (const Tensor& p : layer.parameters()) EXPECT_EQ(p.grad().dtype(), kFloat32);
  }
}

TEST(GRU, WorksWithinSequential) {
  Sequential net(GRU(3, 4, {.batch_first = true}), Linear(4, 2));
  const Tensor y = net(numbers({2, 5, 3}));
  EXPECT_EQ(y.shape(), (Shape{2, 5, 2}));
  y.sum().backward();
  for (const Tensor& p : net.parameters()) EXPECT_TRUE(p.grad().defined());
  EXPECT_TRUE(refuses<Error>(
      [&] {
        return net(numbers({2, 5, 4}));
      },
      "input.size(-1) must be equal to input_size. Expected 3, got 4 (in module 0)"));
}

TEST(LSTM, TakesSeventyThousandSteps) {
  LSTM lstm(1, 1);
  const Tensor x = randn({70'000, 1, 1}, {.requires_grad = true});
  lstm(x).sum().backward();
  EXPECT_EQ(x.grad().shape(), x.shape());
  EXPECT_NE(x.grad()[69'999].item<float>(), 0);
}

TEST(LSTM, RefusesInPyTorchsWords) {
  const auto refused = [](auto f, const std::string& text) {
    EXPECT_TRUE(refuses<Error>(f, text));
  };
  refused([] { return LSTM(0, 2).hidden_size; }, "input_size must be greater than zero");
  refused([] { return LSTM(2, 0).hidden_size; }, "hidden_size must be greater than zero");
  refused([] { return LSTM(2, 2, {.num_layers = 0}).hidden_size; },
          "num_layers must be greater than zero");
  refused([] { return LSTM(2, 2, {.dropout = 2}).hidden_size; },
          "dropout should be a number in range [0, 1] representing the probability of an element "
          "being zeroed");
  LSTM lstm(3, 4);
  GRU gru(3, 4);
  const Tensor x = ones({2, 2, 3});
  const auto state = [](const Shape& h, const Shape& c) { return RnnState{ones(h), ones(c)}; };
  refused([&] { return lstm(ones({3})); }, "LSTM: Expected input to be 2D or 3D, got 1D instead");
  refused([&] { return gru(ones({3})); }, "GRU: Expected input to be 2D or 3D, got 1D instead");
  refused(
      [&] {
        return lstm(ones({0, 2, 3}));
      },
      "Expected sequence length to be larger than 0 in RNN");
  refused(
      [&] {
        return lstm(x[0], state({1, 1, 4}, {1, 1, 4})).output;
      },
      "For unbatched 2-D input, hx and cx should also be 2-D but got (3-D, 3-D) tensors");
  refused(
      [&] {
        return lstm(x, state({1, 4}, {1, 4})).output;
      },
      "For batched 3-D input, hx and cx should also be 3-D but got (2-D, 2-D) tensors");
  refused(
      [&] {
        return lstm(x, state({1, 3, 4}, {1, 2, 4})).output;
      },
      "Expected hidden[0] size (1, 2, 4), got [1, 3, 4]");
  refused(
      [&] {
        return lstm(x, state({1, 2, 4}, {1, 2, 5})).output;
      },
      "Expected hidden[1] size (1, 2, 4), got [1, 2, 5]");
  refused(
      [&] {
        return gru(x, {ones({1, 4})}).output;
      },
      "For batched 3-D input, hx should also be 3-D but got 2-D tensor");
  refused(
      [&] {
        return gru(x, {ones({1, 2, 5})}).output;
      },
      "Expected hidden size (1, 2, 4), got [1, 2, 5]");
  refused(
      [&] {
        return gru(x, {ones({1, 2, 4}, {.dtype = kFloat64})}).output;
      },
      "Input and hidden tensors are not the same dtype, found input tensor with Float and "
      "hidden tensor with Double");
}

// A layer, an input and a state in float64, whose second derivatives are compared with differences.
struct SecondDerivativeRow {
  const char* name;
  RnnOptions options;
  bool packed = false;
};

const SecondDerivativeRow kSecondDerivatives[] = {
    {"one layer", {}},
    {"two layers", {.num_layers = 2}},
    {"bidirectional", {.bidirectional = true}},
    {"without biases, batch first", {.bias = false, .batch_first = true}},
    {"packed", {}, true},
    {"packed, two bidirectional layers", {.num_layers = 2, .bidirectional = true}, true},
};

// Returns the sum of all results, which depend on each other in different ways.
Tensor joined(const Tensor& output, const Tensor& h, const Tensor& c) {
  Tensor sum = output.sin().sum() + h.cos().sum() * 2;
  return c.defined() ? sum + c.sin().sum() * 3 : sum;
}

// Returns the gradients of joined() of a run with respect to `leaves`.
template <class Layer>
std::vector<Tensor> gradients_of(Layer& layer, bool packed, const std::vector<Tensor>& leaves,
                                 bool create_graph) {
  const RnnState state{leaves[1], leaves[2]};
  const auto result = [&] {
    if (!packed) {
      const RnnResult y = layer(leaves[0], state);
      return joined(y.output, y.h_n, y.c_n);
    }
    const PackedRnnResult y = layer(
        pack_padded_sequence(leaves[0], {1, 3},
                             {.batch_first = layer.options.batch_first, .enforce_sorted = false}),
        state);
    return joined(y.output.data, y.h_n, y.c_n);
  }();
  std::vector<Tensor> inputs;
  for (const Tensor& x : leaves) {
    if (x.defined()) inputs.push_back(x);
  }
  return grad({result}, inputs, {.create_graph = create_graph});
}

// Returns a curved function of all gradients.
Tensor sum_of_squares(const std::vector<Tensor>& gradients) {
  Tensor sum = zeros({}, {.dtype = kFloat64, .device = gradients[0].device()});
  for (const Tensor& g : gradients) sum = sum + g.square().sum();
  return sum;
}

// Compares the derivative of sum_of_squares(gradients) along a random direction with a difference.
template <class Layer>
void check_second_derivatives(const SecondDerivativeRow& row, Device device) {
  RnnOptions options = row.options;
  options.device = device;
  Layer layer(2, 3, options);
  layer.to(kFloat64);
  const int64_t states = int64_t(layer.cells.size());
  const auto leaf = [&](const Shape& shape) {
    return (numbers(shape, device).to(kFloat64) * 0.7).requires_grad_();
  };
  const int64_t hidden = options.proj_size > 0 ? options.proj_size : 3;
  std::vector<Tensor> leaves = {options.batch_first ? leaf({2, 3, 2}) : leaf({3, 2, 2}),
                                leaf({states, 2, hidden}),
                                std::is_same_v<Layer, LSTM> ? leaf({states, 2, 3}) : Tensor()};
  for (const Tensor& p : layer.parameters()) leaves.push_back(p);

  const std::vector<Tensor> fused = gradients_of(layer, row.packed, leaves, false);
  const std::vector<Tensor> first = gradients_of(layer, row.packed, leaves, true);
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_TRUE(close(first[i], fused[i].detach(), 1e-12))
        << "with and without create_graph: " << i;
  }
  std::vector<Tensor> inputs;
  std::ranges::copy_if(leaves, std::back_inserter(inputs), &Tensor::defined);
  const std::vector<Tensor> second = grad({sum_of_squares(first)}, inputs);
  constexpr double kStep = 1e-5;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor direction = numbers(inputs[i].shape(), device).to(kFloat64);
    const auto value_at = [&](double step) {
      inputs[i].detach().add_(direction * step);
      const Tensor value = sum_of_squares(gradients_of(layer, row.packed, leaves, false));
      inputs[i].detach().add_(direction * -step);
      return value.item<double>();
    };
    const double difference = (value_at(kStep) - value_at(-kStep)) / (2 * kStep);
    const double derivative = (second[i] * direction).sum().item<double>();
    EXPECT_NEAR(derivative, difference, 1e-6 * (1 + std::abs(difference))) << "input " << i;
  }
}

TEST(RecurrentLayers, DifferentiateTwice) {
  for (const Device device : all_devices()) {
    for (const SecondDerivativeRow& row : kSecondDerivatives) {
      SCOPED_TRACE(concat_to_string(row.name, " on ", device));
      check_second_derivatives<LSTM>(row, device);
      check_second_derivatives<GRU>(row, device);
      check_second_derivatives<RNN>(row, device);
    }
    check_second_derivatives<LSTM>({"projected", {.proj_size = 2}}, device);
  }
}

TEST(RecurrentLayers, PassGradgradcheckAndDifferentiateThreeTimes) {
  LSTM lstm(2, 2);
  GRU gru(2, 2);
  lstm.to(kFloat64);
  gru.to(kFloat64);
  const Tensor x = numbers({3, 1, 2}).to(kFloat64), h = numbers({1, 1, 2}).to(kFloat64);
  EXPECT_TRUE(gradgradcheck(
      [&](const std::vector<Tensor>& in) {
        return lstm(in[0], {in[1], in[2]}).output;
      },
      {x, h, h * 0.5}));
  EXPECT_TRUE(gradgradcheck(
      [&](const std::vector<Tensor>& in) { return gru(in[0], {in[1]}).output; }, {x, h}));
  const auto gradient = [&](const std::vector<Tensor>& in) {
    const Tensor dx =
        grad({lstm(in[0], {}).output.sin().sum()}, {in[0]}, {.create_graph = true})[0];
    return dx.square().sum();
  };
  EXPECT_TRUE(gradgradcheck(gradient, {x}));
}

TEST(RecurrentLayers, OfHalfTypesDifferentiateTwice) {
  for (const Device device : all_devices()) {
    const auto second = [&](auto layer, DType dtype) {
      layer.to(dtype);
      const Tensor x = numbers({3, 2, 2}, device).to(dtype).requires_grad_();
      const Tensor dx = grad({layer(x).sum()}, {x}, {.create_graph = true})[0];
      EXPECT_EQ(dx.dtype(), dtype);
      return grad({dx.square().sum()}, {x})[0].to(kFloat32);
    };
    const auto check = [&]<class Layer>(const Layer& layer) {
      EXPECT_TRUE(close(second(clone(layer), kBFloat16), second(clone(layer), kFloat32), 3e-2));
    };
    check(LSTM(2, 3, {.device = device}));
    check(GRU(2, 3, {.device = device}));
  }
}

TEST(PackedSequence, WithoutStepsIsRefused) {
  LSTM layer(2, 3);
  EXPECT_TRUE(refuses<ValueError>([&] { return layer(PackedSequence()).h_n; },
                                  "LSTM: the packed sequence has no steps"));
  EXPECT_TRUE(refuses<ValueError>([&] { return pad_packed_sequence({}).lengths.size(); },
                                  "pad_packed_sequence: the packed sequence has no steps"));
}

}  // namespace
}  // namespace taper::v0::test
