// Choices as words and as enumerators, in calls and options, and the options structs of functions.
#include <cmath>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "optim/algorithms/lbfgs.h"
#include "taper.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

struct Spelling {
  const char* name;
  std::function<Tensor()> by_word, by_enumerator;
};

std::vector<Spelling> calls() {
  manual_seed(0);
  const Tensor x = randn({2, 3, 6, 6}), y = randn({2, 3, 6, 6}), w = randn({4, 3, 3, 3});
  const Tensor rows = randn({4, 5}), index = tensor({{0, 1, 2, 0, 1}});
  const Tensor grid = rand({2, 4, 4, 2}) * 2.4 - 1.2;
  return {
      {"reduction", [=] { return mse_loss(x, y, "sum"); },
       [=] { return mse_loss(x, y, Reduction::kSum); }},
      {"reduction in options",
       [=] { return gaussian_nll_loss(x, y, y * y, {.reduction = "none"}); },
       [=] { return gaussian_nll_loss(x, y, y * y, false, 1e-6, Reduction::kNone); }},
      {"approximate", [=] { return gelu(x, "tanh"); },
       [=] { return x.gelu(GeluApproximate::kTanh); }},
      {"rounding_mode", [=] { return x.div(y, "floor"); },
       [=] { return div(x, y, RoundingMode::kFloor); }},
      {"reduce", [=] { return scatter_reduce(rows, 0, index, rows, "amax"); },
       [=] { return rows.scatter_reduce(0, index, rows, ScatterReduce::kAmax); }},
      {"interpolation", [=] { return quantile(rows, 0.3, 1, false, "higher"); },
       [=] { return rows.quantile(0.3, 1, false, QuantileMode::kHigher); }},
      {"indexing",
       [=] {
         return meshgrid({arange(2), arange(3)}, "xy")[0];
       },
       [=] {
         return meshgrid({arange(2), arange(3)}, MeshIndexing::kXy)[0];
       }},
      {"mode of pad",
       [=] {
         return pad(x, {1, 2, 2, 1}, "reflect");
       },
       [=] {
         return pad(x, {1, 2, 2, 1}, PadMode::kReflect);
       }},
      {"padding", [=] { return conv2d(x, w, {}, {.padding = "same"}); },
       [=] { return conv2d(x, w, {}, {.padding = ConvPaddingMode::kSame}); }},
      {"activation", [=] { return conv2d(x, w, {}, {}, "gelu_tanh"); },
       [=] { return conv2d(x, w, {}, {}, Activation::kGeluTanh); }},
      {"mode of interpolate",
       [=] { return interpolate(x, {.scale_factor = 2, .mode = "bilinear"}); },
       [=] { return interpolate(x, {.scale_factor = 2, .mode = Interpolation::kBilinear}); }},
      {"padding_mode of grid_sample",
       [=] { return grid_sample(x, grid, {.mode = "nearest", .padding_mode = "border"}); },
       [=] {
         return grid_sample(
             x, grid, {.mode = Interpolation::kNearest, .padding_mode = GridPadding::kBorder});
       }},
      {"mode of embedding_bag", [=] { return embedding_bag(index, rows, {}, {.mode = "max"}); },
       [=] { return embedding_bag(index, rows, {}, {.mode = BagMode::kMax}); }},
      {"nonlinearity", [=] { return full({}, init::calculate_gain("tanh")); },
       [=] { return full({}, init::calculate_gain(init::Nonlinearity::kTanh)); }},
  };
}

TEST(TextEnum, WordsMeanTheirEnumerators) {
  for (const Spelling& c : calls())
    EXPECT_TRUE(same_bits(c.by_word(), c.by_enumerator())) << c.name;
}

TEST(TextEnum, ConvertsFromTextsThatAreNotLiterals) {
  const std::string text = "sum";
  const std::string_view view = text;
  EXPECT_EQ(Reduction(text), Reduction::kSum);
  EXPECT_EQ(Reduction(view), Reduction::kSum);
  EXPECT_EQ(Reduction(text.c_str()), Reduction::kSum);
  Reduction reduction = Reduction::kMean;
  reduction = text;
  EXPECT_EQ(to_string(reduction), "sum");
  EXPECT_EQ(size_t(reduction), 2);
  EXPECT_TRUE(reduction == "sum" && reduction != Reduction::kMean);
  constexpr Reduction kByWord = "none";  // at compile time
  static_assert(kByWord == Reduction::kNone);
}

TEST(TextEnum, RefusesOtherWordsWithTheList) {
  const Tensor x = ones({2});
  const char* const kReductions =
      "is not a valid value for reduction, which is 'none', 'mean', 'sum' or 'batchmean'";
  for (const char* wrong : {"men", "", "Mean", "mean "}) {
    EXPECT_TRUE(refuses<ValueError>([&] { return mse_loss(x, x, wrong); },
                                    concat_to_string("'", wrong, "' ", kReductions)));
  }
  EXPECT_TRUE(refuses<ValueError>(
      [&] {
        return optim::LBFGS({ones({1}).requires_grad_()}, {.line_search_fn = "wolfe"})
            .state_dict()
            .size();
      },
      "'wolfe' is not a valid value for line_search_fn, which is 'none' or 'strong_wolfe'"));
}

TEST(TextEnum, IsPrintedAsItsWordAndAScalarAsItsNumber) {
  std::ostringstream out;
  out << Reduction(Reduction::kBatchmean) << " " << tensor({2.5}).item() << " "
      << tensor({7}).item() << " " << tensor({true}).item();
  EXPECT_EQ(out.str(), "batchmean 2.5 7 true");
}

TEST(OptionsInBraces, AreThePositionalArguments) {
  manual_seed(0);
  const Tensor q = randn({2, 4, 5, 8}), k = randn({2, 2, 5, 8}), mask = randn({5, 5});
  EXPECT_TRUE(same_bits(scaled_dot_product_attention(q, q, q, {.attn_mask = mask}),
                        scaled_dot_product_attention(q, q, q, mask)));
  EXPECT_TRUE(same_bits(
      scaled_dot_product_attention(q, k, k, {.is_causal = true, .scale = 0.3, .enable_gqa = true}),
      scaled_dot_product_attention(q, k, k, {}, 0, true, 0.3, nullptr, true)));
  const Tensor qkv = randn({2, 5, 24});
  EXPECT_TRUE(same_bits(packed_attention(qkv, 2, {.is_causal = true, .scale = 0.3}),
                        packed_attention(qkv, 2, 0, true, 0.3)));
  EXPECT_TRUE(refuses<Error>([&] { return packed_attention(qkv, 2, {.attn_mask = mask}); },
                             "packed_attention takes no attn_mask"));
  const Tensor x = randn({3, 4, 2}), mean = zeros({4}), var = ones({4}), scale = randn({4});
  EXPECT_TRUE(same_bits(batch_norm(x, mean, var, {.weight = scale, .eps = 0.1}),
                        batch_norm(x, mean, var, scale, {}, false, 0.1, 0.1)));
  EXPECT_TRUE(same_bits(instance_norm(x, {}, {}, {.bias = scale, .eps = 0.1}),
                        instance_norm(x, {}, {}, {}, scale, true, 0.1, 0.1)));
  const PackedSequence packed =
      pack_padded_sequence(x, {2, 3, 1}, {.batch_first = true, .enforce_sorted = false});
  EXPECT_TRUE(same_bits(packed.data, pack_padded_sequence(x, {2, 3, 1}, true, false).data));
  EXPECT_TRUE(same_bits(
      pad_packed_sequence(packed, {.batch_first = true, .padding_value = 7, .total_length = 6})
          .output,
      pad_packed_sequence(packed, true, 7, 6).output));
  const Tensor logp = log_softmax(randn({6, 2, 4}), 2), targets = tensor({{1, 2}, {3, 1}});
  const Tensor lengths = tensor({6, 6}), sizes = tensor({2, 1});
  EXPECT_TRUE(same_bits(
      ctc_loss(logp, targets, lengths, sizes, {.reduction = "sum", .zero_infinity = true}),
      ctc_loss(logp, targets, lengths, sizes, 0, Reduction::kSum, true)));
}

TEST(OptionsInBraces, AreThoseOfMethods) {
  manual_seed(0);
  const Tensor x = randn({4, 5}), near = x + 0.01;
  const Tensor lower = quantile(x, 0.3, 1, true, "lower");
  EXPECT_TRUE(
      same_bits(quantile(x, 0.3, {.dim = 1, .keepdim = true, .interpolation = "lower"}), lower));
  EXPECT_TRUE(same_bits(
      x.quantile(tensor(0.3f), {.dim = 1, .keepdim = true, .interpolation = "lower"}), lower));
  EXPECT_TRUE(same_bits(x.quantile(0.3, {.interpolation = "lower"}),
                        quantile(x, 0.3, std::nullopt, false, "lower")));
  const Tensor repeated = tensor({3, 1, 3});
  const auto [values, places, counts] = unique(repeated, {.return_counts = true});
  EXPECT_FALSE(places.defined());
  EXPECT_TRUE(same_bits(counts, tensor({1, 2})));
  EXPECT_TRUE(
      same_bits(repeated.unique({.return_inverse = true}).inverse_indices, tensor({1, 0, 1})));
  EXPECT_FALSE(x.allclose(near));
  EXPECT_TRUE(allclose(x, near, {.atol = 0.02}));
  EXPECT_TRUE(near.isclose(x, {.rtol = 0, .atol = 0.02}).all().item<bool>());
  const Tensor nan = full({1}, NAN);
  EXPECT_FALSE(nan.allclose(nan));
  EXPECT_TRUE(nan.allclose(nan, {.equal_nan = true}));
}

// A function with many options, called with them in braces and one by one.
struct Call {
  const char* name;
  Tensor in_braces, by_position;
};

std::vector<Call> calls_of_functions() {
  manual_seed(0);
  const Tensor x = randn({3, 4, 4}), y = randn({3, 4, 4});
  const Tensor odd = tensor({NAN, kInfinity, -kInfinity, 1.0}), row = tensor({1.0, 3.0, 6.0});
  Generator first(5), second(5);
  return {
      {"norm", norm(x, {.p = 1, .dims = {0}, .dtype = kFloat64}), norm(x, 1, {0}, false, kFloat64)},
      {"diagonal", diagonal(x, {.offset = 1, .dim1 = 1, .dim2 = 2}), diagonal(x, 1, 1, 2)},
      {"diag_embed", diag_embed(row, {.offset = -1}), diag_embed(row, -1)},
      {"slice", slice(x, {.dim = 1, .end = -1, .step = 2}), slice(x, 1, {}, -1, 2)},
      {"nan_to_num", nan_to_num(odd, {.nan = 7, .neginf = -1}), nan_to_num(odd, 7, {}, -1)},
      {"diff", diff(row, {.prepend = tensor({0.0})}), diff(row, 1, -1, tensor({0.0}))},
      {"pairwise_distance", pairwise_distance(x, y, {.p = 1, .keepdim = true}),
       pairwise_distance(x, y, 1, 1e-6, true)},
      {"normalize", normalize(x, {.dim = -1}), normalize(x, 2, -1)},
      {"gumbel_softmax", gumbel_softmax(x, {.tau = 0.5, .hard = true, .generator = &first}),
       gumbel_softmax(x, 0.5, true, -1, &second)},
      {"trunc_normal_",
       init::trunc_normal_(empty({8}), {.std = 2, .a = -1, .b = 3, .generator = &first}),
       init::trunc_normal_(empty({8}), 0, 2, -1, 3, &second)},
  };
}

TEST(OptionsInBraces, AreThePositionalArgumentsOfEveryFunction) {
  for (const Call& c : calls_of_functions()) {
    EXPECT_TRUE(same_bits(c.in_braces, c.by_position)) << c.name;
  }
}

TEST(OptionsInBraces, AreThoseOfTheirMethods) {
  manual_seed(0);
  const Tensor x = randn({3, 4, 4});
  EXPECT_TRUE(same_bits(x.norm({.dims = {1}}), norm(x, 2, {1})));
  EXPECT_TRUE(same_bits(x.diagonal({.dim1 = 1, .dim2 = 2}), diagonal(x, 0, 1, 2)));
  EXPECT_TRUE(same_bits(x.diag_embed({.offset = 1}), diag_embed(x, 1)));
  EXPECT_TRUE(same_bits(x.slice({.start = 1}), x.narrow(0, 1, 2)));
  EXPECT_TRUE(same_bits(x.nan_to_num({.nan = 1}), x));
  EXPECT_TRUE(same_bits(x.diff({.dim = 0}), diff(x, 1, 0)));
}

TEST(OptionsInBraces, OfChecksAndSchedules) {
  const auto cube = [](const std::vector<Tensor>& x) { return x[0] * x[0] * x[0]; };
  const Tensor x = tensor({0.5, 2.0}, {.dtype = kFloat64, .requires_grad = true});
  EXPECT_TRUE(gradcheck(cube, {x}, {.eps = 1e-5}));
  EXPECT_TRUE(gradgradcheck(cube, {x}, {.atol = 1e-4}));
  EXPECT_TRUE(
      refuses<Error>([&] { return gradcheck(cube, {x}, {.eps = 0.1, .rtol = 0}); }, "gradcheck"));
  Linear layer(1, 1);
  optim::SGD sgd(layer.parameters(), {.lr = 1});
  optim::LRScheduler schedule(sgd,
                              optim::schedule::linear({.start_factor = 0.5, .total_iters = 2}));
  EXPECT_EQ(sgd.lr(), 0.5);
  sgd.step();
  schedule.step();
  EXPECT_EQ(sgd.lr(), 0.75);
}

TEST(OptionsInBraces, SelectWhatABackwardPassKeeps) {
  const Tensor x = tensor({3.0}).requires_grad_(), unused = tensor({1.0}).requires_grad_();
  const Tensor y = (x * x * x).sum();
  const Tensor slope = grad({y}, {x}, {.create_graph = true})[0];
  EXPECT_EQ(grad({slope.sum()}, {x}, {.retain_graph = true})[0].item<double>(), 18);
  const std::vector<Tensor> both =
      grad({y}, {x, unused}, {tensor(2.0)}, {.retain_graph = true, .allow_unused = true});
  EXPECT_EQ(both[0].item<double>(), 54);
  EXPECT_FALSE(both[1].defined());
  y.backward({.retain_graph = true});
  const Tensor outputs[] = {y};
  backward(outputs, {}, {.retain_graph = true});
  y.backward(tensor(2.0), {.create_graph = true});
  EXPECT_TRUE(x.grad().requires_grad());
  y.backward();
  EXPECT_EQ(x.grad().item<double>(), 5 * 27);
  EXPECT_TRUE(refuses<Error>([&] { return y.backward(), x; },
                             "Trying to backward through the graph a second time"));
}

}  // namespace
}  // namespace taper::v0::test
