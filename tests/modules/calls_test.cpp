// Calls of modules: arguments in braces, also within a module, and the module that threw an
// exception.
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>

#include <gtest/gtest.h>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "framework/factory/factories.h"
#include "modules/layers/containers.h"
#include "modules/layers/linear.h"
#include "modules/layers/multihead_attention.h"
#include "modules/layers/norm_layers.h"
#include "modules/layers/rnn_layers.h"
#include "modules/layers/stateless.h"
#include "modules/layers/transformer.h"
#include "tests/modules/modules.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

struct PairState {
  Tensor h, c;
  auto tensors() { return std::tie(h, c); }
};
// Any arguments, through ModuleOf.
struct StatefulLayer : ModuleOf<StatefulLayer> {
  Tensor forward(const Tensor& x, const PairState& state) { return x + state.h - state.c; }
};
struct OfAStateAlone : ModuleOf<OfAStateAlone> {
  Tensor forward(const PairState& state) { return state.h - state.c; }
};
// A user's class with several calls.
struct Scaling : Module {
  struct Options {
    double by = 1;
    bool negate = false;
    void tensors(const auto&) {}
  };
  Tensor forward(const Tensor& x) override { return x; }
  using Module::operator();
  Tensor operator()(const Tensor& x, const Options& how) {
    return call_with_hooks(
        [](const Tensor& a, const Options& o) { return a * (o.negate ? -o.by : o.by); }, x, how);
  }
  Tensor operator()(const Tensor& x, const Tensor& y, const Options& how) {
    return (*this)(x + y, how);
  }
};

struct Caller : Module {
  Child<MultiheadAttention> mha{*this, "mha", 4, 2};
  Child<LSTMCell> cell{*this, "cell", 4, 4};
  Child<GRUCell> gru_cell{*this, "gru_cell", 4, 4};
  Child<LSTM> lstm{*this, "lstm", 4, 4};
  Child<TransformerEncoderLayer> layer{*this, "layer", 4, 2, {.dim_feedforward = 4, .dropout = 0}};
  Child<TransformerEncoder> encoder{
      *this, "encoder",
      [] { return TransformerEncoderLayer(4, 2, {.dim_feedforward = 4, .dropout = 0}); }, 1};
  Child<TransformerDecoderLayer> decoder{
      *this, "decoder", 4, 2, {.dim_feedforward = 4, .dropout = 0}};
  Child<Linear> fc{*this, "fc", 4, 4};
  Child<StatefulLayer> stateful{*this, "stateful"};
  Child<OfAStateAlone> of_a_state{*this, "of_a_state"};
  Child<Scaling> scaling{*this, "scaling"};
};

TEST(ChildCalls, TakeArgumentsInBraces) {
  for (const Device device : all_devices()) {
    Caller net;
    net.to(device);
    const Tensor x = numbers({3, 2, 4}, device), row = numbers({2, 4}, device);
    const Tensor state = numbers({1, 2, 4}, device);
    const Tensor mask = zeros({2, 3}, {.dtype = kBool, .device = device});
    const auto same = [](const Tensor& a, const Tensor& b) {
      EXPECT_TRUE(same_bits(a.detach(), b.detach()));
    };
    EXPECT_FALSE(net.mha(x, x, x, {.need_weights = false}).weights.defined());
    same(net.mha(x, x, x, {.key_padding_mask = mask, .is_causal = true}).output,
         (*net.mha)(x, x, x, {.key_padding_mask = mask, .is_causal = true}).output);
    const auto [h, c] = net.cell(row, {row, row});
    same(c, (*net.cell)(row, LstmState{row, row}).c);
    same(net.gru_cell(row, {}), net.gru_cell(row));
    same(net.lstm(x, {state, state}).h_n, (*net.lstm)(x, RnnState{state, state}).h_n);
    const PackedSequence packed = pack_padded_sequence(x, {3, 2});
    same(net.lstm(packed, {state, state}).h_n, (*net.lstm)(packed, RnnState{state, state}).h_n);
    same(net.layer(x, {.is_causal = true}), (*net.layer)(x, {.is_causal = true}));
    same(net.encoder(x, {.src_key_padding_mask = mask}),
         (*net.encoder)(x, {.src_key_padding_mask = mask}));
    same(net.decoder(x, x, {.tgt_is_causal = true}), (*net.decoder)(x, x, {.tgt_is_causal = true}));
    same(net.stateful(row, {row, row * 2}), row - row);
    StatefulLayer alone;
    same(alone(row, {row, row * 2}), row - row);
    same(net.of_a_state({row * 3, row}), row * 3 - row);
    same(net.scaling(row, {.by = 3}), row * 3);
    same(net.scaling(row, row, {.by = 3, .negate = true}), row * -6);
    // Calls without braces are unchanged: constants, variables, temporaries and defaults.
    Tensor variable = x;
    AttendOptions how;
    how.need_weights = false;
    EXPECT_TRUE(close(net.mha(variable, x, x * 1, how).output, net.mha(x, x, x).output, 1e-6));
    same(net.mha(variable), net.mha(x));
    same(net.fc(variable, Activation::kRelu), net.fc(x, Activation::kRelu));
    same(net.fc(x), net.fc(variable * 1));
    same(net.scaling(net.fc->bias, Scaling::Options()), *net.fc->bias);
  }
}

// --- the module of an exception ---

struct Throwing : Module {
  Tensor forward(const Tensor&) override { throw std::runtime_error("inside"); }
};
struct Around : Module {
  Child<Throwing> layer{*this, "layer"};
  Tensor forward(const Tensor& x) override { return layer(x); }
};

std::string module_of_caught(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::exception& error) {
    return module_of(error);
  }
  return "nothing was thrown";
}

TEST(ModuleOfAnException, IsThatOfThisVeryException) {
  Around net;
  const auto call = [&] { (void)net(ones({1})); };
  EXPECT_EQ(module_of_caught(call), "layer");
  // Another exception, which would get the same memory if that were free.
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(module_of_caught([] { throw std::runtime_error("elsewhere"); }), "");
    EXPECT_EQ(module_of_caught([] { throw std::logic_error("elsewhere"); }), "");
  }
  EXPECT_EQ(module_of_caught(call), "layer");
  EXPECT_EQ(module_of_caught([&] {
              try {
                call();
              } catch (const std::exception& error) {
                throw std::runtime_error(error.what());  // a copy is a different exception
              }
            }),
            "");
  // It is remembered until the next call of a module, and may be rethrown.
  std::exception_ptr kept;
  try {
    call();
  } catch (...) {
    kept = std::current_exception();
  }
  EXPECT_EQ(module_of_caught([&] { std::rethrow_exception(kept); }), "layer");
  (void)Linear(1, 1)(ones({1, 1}));
  EXPECT_EQ(module_of_caught([&] { std::rethrow_exception(kept); }), "");
}

TEST(ModuleOfAnException, IsNotKeptForLongerThanTheNextCall) {
  struct Counted : std::runtime_error {
    explicit Counted(std::shared_ptr<int> held)
        : std::runtime_error("counted"), token(std::move(held)) {}
    std::shared_ptr<int> token;
  };
  struct Holding : Module {
    std::shared_ptr<int> token = std::make_shared<int>(0);
    Tensor forward(const Tensor&) override { throw Counted(token); }
  } net;
  EXPECT_EQ(module_of_caught([&] { (void)net(ones({1})); }), "");
  EXPECT_EQ(net.token.use_count(), 2);
  (void)ReLU()(ones({1}));
  EXPECT_EQ(net.token.use_count(), 1);
}

// --- paths of calls in traces ---

TEST(Calls, AreNamedByTheirPathFromTheCallersModule) {
  struct Deep : Module {
    Child<ModuleList> layers{*this, "layers"};
    Child<ReLU> act{*this, "act"};
    Deep() {
      layers->add(Sequential(Linear(2, 2), ReLU()));
      layers->add(Linear(2, 2));
      register_module("again", *act);
    }
    Tensor forward(const Tensor& x) override { return act(layers->at<Linear>(1)((*layers)[0](x))); }
  } net;
  const auto message = [&](const Shape& shape) {
    try {
      (void)net(ones(shape));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(message({1, 3}).find("(in module layers.0.0)"), std::string::npos);
  net.layers->replace(1, Linear(3, 2));
  EXPECT_NE(message({1, 2}).find("(in module layers.1)"), std::string::npos);
}

}  // namespace
}  // namespace taper::v0::test
