// Parameter groups by name, and optimizer state that is restored bit by bit.
#include <gtest/gtest.h>

#include "modules/layers/containers.h"
#include "modules/layers/linear.h"
#include "modules/layers/norm_layers.h"
#include "tests/optim/all_optimizers.h"

namespace taper::v0::test {
namespace {

using namespace optim;

std::vector<NamedTensor> named(std::initializer_list<const char*> names) {
  std::vector<NamedTensor> out;
  for (const char* name : names) out.push_back({name, ones({2}, {.requires_grad = true})});
  return out;
}
// Returns the indices of the parameters of each group: "0,1 | 2".
std::string ids_of(const Optimizer& optimizer, const std::vector<NamedTensor>& params) {
  std::string out;
  const std::vector<Tensor> order = optimizer.parameters();
  std::vector<int64_t> ends;
  for (const auto& [name, tensor] : optimizer.state_dict()) {
    if (name.ends_with(".params")) ends.push_back(tensor.numel());
  }
  size_t at = 0;
  for (const int64_t n : ends) {
    if (!out.empty()) out += " | ";
    for (int64_t k = 0; k < n; ++k, ++at) {
      for (const auto& p : params) {
        if (p.tensor.is_same(order[at])) out += (k ? "," : "") + p.name;
      }
    }
  }
  return out;
}

TEST(ParamGroups, ByPatternEveryParameterInOneGroup) {
  const auto params = named({"a.weight", "a.bias", "norm1.weight", "norm1.bias", "b.weight"});
  struct Row {
    std::vector<GroupRule> rules;
    const char* groups;
  };
  const Row rows[] = {
      {{}, "a.weight,a.bias,norm1.weight,norm1.bias,b.weight"},
      {{{"*.bias", {}}}, "a.weight,norm1.weight,b.weight | a.bias,norm1.bias"},
      {{{"*.bias|norm*", {}}}, "a.weight,b.weight | a.bias,norm1.weight,norm1.bias"},
      {{{"norm*", {}}, {"*.bias", {}}}, "a.weight,b.weight | norm1.weight,norm1.bias | a.bias"},
      {{{"a.weight", {}}}, "a.bias,norm1.weight,norm1.bias,b.weight | a.weight"},
      {{{"*", {}}}, "a.weight,a.bias,norm1.weight,norm1.bias,b.weight"},
      {{{"*1*s|b*t", {}}}, "a.weight,a.bias,norm1.weight | norm1.bias,b.weight"},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(ids_of(SGD(params, {.lr = 0.1}, row.rules), params), row.groups);
  }
}

TEST(ParamGroups, MayBeAddedLaterWithTheFirstOptionsOrTheirOwn) {
  const auto params = named({"a", "b", "c", "d"});
  const auto tensor_of = [&](size_t i) { return std::vector{params[i].tensor}; };
  SGD optimizer(tensor_of(0), {.lr = 0.1, .momentum = 0.9});
  optimizer.set_lr(0.5);
  optimizer.add_param_group(tensor_of(1));  // with the options of the constructor, as in PyTorch
  optimizer.add_param_group(tensor_of(2), {.lr = 0.2});
  optimizer.add_param_group({params[3]}, {.lr = 0.3}, {{"d", {{"momentum", 0.7}}}});
  EXPECT_EQ(ids_of(optimizer, params), "a | b | c | d");
  const double rates[] = {0.5, 0.1, 0.2, 0.3}, momenta[] = {0.9, 0.9, 0, 0.7};
  for (size_t g = 0; g < 4; ++g) {
    EXPECT_EQ(optimizer.lr(g), rates[g]);
    for (const auto& [name, value] : optimizer.state_dict()) {
      if (name != concat_to_string("param_groups.", g, ".momentum")) continue;
      EXPECT_EQ(value.item<double>(), momenta[g]);
    }
  }
  EXPECT_TRUE(refuses<ValueError>([&] { return optimizer.add_param_group(tensor_of(0)), 0; },
                                  "some parameters appear in more than one parameter group"));
  EXPECT_EQ(Adam(tensor_of(0)).lr(), 1e-3);
}

TEST(ParamGroups, StepByAClosureGivesItsLoss) {
  const Tensor w = ones({3}, {.requires_grad = true});
  SGD optimizer({w}, {.lr = 0.1});
  const Tensor loss = optimizer.step([&] {
    w.set_grad(ones({3}));
    return full({}, 7.0);
  });
  EXPECT_EQ(loss.item<double>(), 7);
  EXPECT_TRUE(close(w.detach(), full({3}, 0.9), 1e-6));
}

TEST(ParamGroups, TakeTheirOwnSettingsAndTheRestFromAll) {
  const auto params = named({"w", "b"});
  SGD optimizer(params, {.lr = 0.5, .weight_decay = 1},
                {{"b", {{"weight_decay", 0}, {"lr", 0.25}}}});
  for (const auto& p : params) p.tensor.set_grad(ones({2}));
  optimizer.step();
  EXPECT_EQ(values_of(params[0].tensor), std::vector<double>(2, 0.0));
  EXPECT_EQ(values_of(params[1].tensor), std::vector<double>(2, 0.75));
  EXPECT_EQ(optimizer.lr(1), 0.25);
}

TEST(ParamGroups, NoDecayTakesBiasesAndNorms) {
  Sequential net(Linear(3, 4), LayerNorm({4}), Linear(4, 2));
  AdamW optimizer(net.named_parameters(), {.lr = 1e-3}, {no_decay()});
  std::vector<double> decays;
  for (const auto& [name, tensor] : optimizer.state_dict()) {
    if (name.ends_with("weight_decay")) decays.push_back(tensor.item<double>());
  }
  EXPECT_EQ(decays, (std::vector<double>{1e-2, 0}));
  EXPECT_EQ(ids_of(optimizer, net.named_parameters()),
            "0.weight,2.weight | 0.bias,1.weight,1.bias,2.bias");
}

TEST(ParamGroups, WrongRulesAreRefused) {
  const auto make = [](std::vector<GroupRule> rules) {
    return [=] { return SGD(named({"w", "b"}), {.lr = 0.1}, rules).num_groups(); };
  };
  EXPECT_TRUE(
      refuses<ValueError>(make({{"bias", {}}}), "no parameter matches the pattern \"bias\""));
  EXPECT_TRUE(
      refuses<ValueError>(make({{"*", {}}, {"b", {}}}),
                          "no parameter matches the pattern \"b\", or earlier patterns match"));
  EXPECT_TRUE(refuses<ValueError>(
      make({{"w", {}, 0}}), "no parameter matches the pattern \"w\" with dimensions up to 0"));
  EXPECT_TRUE(refuses<ValueError>(
      make({{"w", {{"decay", 0}}}}),
      "SGD has no setting \"decay\" that is a single number; its settings are lr, momentum, "));
  EXPECT_TRUE(refuses<ValueError>(make({{"w", {{"lr", -1}}}}), "Invalid learning rate: -1"));
  EXPECT_TRUE(refuses<ValueError>([] { return Muon(named({"w"}), MuonOptions{}).num_groups(); },
                                  "Muon only supports 2D parameters whereas we found a parameter "
                                  "with size: [2] (parameter w)"));
  const Tensor holes = ones({4, 4}).narrow(1, 0, 2).detach().requires_grad_();
  EXPECT_TRUE(refuses<ValueError>([&] { return SGD({holes}, {}).num_groups(); },
                                  "parameter 0 of group 0 has holes in memory"));
}

TEST(OptimizerState, GoesOnWithTheSameBits) {
  for (const Device device : all_devices()) {
    for (const DType dtype : {kFloat32, kFloat64, kBFloat16}) {
      for (const AnyOptimizer& kind : all_optimizers()) {
        const std::vector<Tensor> a = leaves(kind, dtype, device);
        const auto first = kind.make(a, true);
        const auto train = [](const std::vector<Tensor>& params, Optimizer& optimizer, int t) {
          give_gradients(params, t);
          params[1].set_grad({});             // is never updated
          if (t % 2) params[2].set_grad({});  // has a step count of its own
          optimizer.step();
        };
        for (int t = 0; t < 5; ++t) train(a, *first, t);
        std::vector<Tensor> b;
        for (const Tensor& p : a) b.push_back(p.detach().clone().requires_grad_());
        const auto second = kind.make(b, true);
        second->set_lr(7);
        second->load_state_dict(first->state_dict());
        for (int t = 5; t < 9; ++t) {
          train(a, *first, t);
          train(b, *second, t);
        }
        expect_same(a, *first, b, *second, concat_to_string(kind.name, " ", name_of(dtype)));
      }
    }
  }
}

TEST(OptimizerState, WrongStateIsRefusedWhole) {
  const auto trained = [](Optimizer& optimizer) {
    give_gradients(optimizer.parameters(), 1);
    optimizer.step();
    return optimizer.state_dict();
  };
  const auto make = [](Shape second = {3}) {
    return Adam({ones({2}, {.requires_grad = true}), ones(second, {.requires_grad = true})}, {});
  };
  Adam adam = make();
  const std::vector<NamedTensor> good = trained(adam);
  SGD sgd(make().parameters(), {.momentum = 0.9});
  Adam other_shape = make({4});
  Adam one({ones({2}, {.requires_grad = true})}, {});
  const Tensor w = ones({2}, {.requires_grad = true}), b = ones({3}, {.requires_grad = true});
  Adam groups({ParamGroup<AdamOptions>{{w}, {}}, ParamGroup<AdamOptions>{{b}, {}}});
  const auto without = [&](const std::string& name) {
    auto state = good;
    std::erase_if(state, [&](const NamedTensor& e) { return e.name == name; });
    return state;
  };
  const auto with = [&](const std::string& name, const Tensor& value) {
    auto state = without(name);
    state.push_back({name, value});
    return state;
  };
  struct Row {
    std::vector<NamedTensor> state;
    std::string text;
  };
  const std::string errors = "Error(s) in loading state_dict for Adam:\n\t";
  const Row rows[] = {
      {{}, "loaded state dict has a different number of parameter groups (0, the optimizer has 1)"},
      {trained(groups), "loaded state dict has a different number of parameter groups (2, "},
      {trained(one),
       "loaded state dict contains a parameter group that doesn't match the size of optimizer's "
       "group (group 0: 1 parameters, the optimizer's has 2)"},
      {trained(sgd),
       errors + "Missing key(s) in state_dict: \"param_groups.0.betas\", \"param_groups.0.eps\", "
                "\"param_groups.0.amsgrad\", \"state.0.exp_avg\", \"state.0.exp_avg_sq\", "
                "\"state.0.step\", \"state.1.exp_avg\", \"state.1.exp_avg_sq\", "
                "\"state.1.step\".\n\tUnexpected key(s) in state_dict: "
                "\"param_groups.0.dampening\", \"param_groups.0.momentum\", "
                "\"param_groups.0.nesterov\", \"state.0.momentum_buffer\", "
                "\"state.1.momentum_buffer\"."},
      {trained(other_shape),
       errors + "size mismatch for state.1.exp_avg: copying a param with shape [4] from "
                "checkpoint, the shape in current optimizer is [3].\n\tsize mismatch for "
                "state.1.exp_avg_sq: "},
      {without("state.1.step"), errors + "Missing key(s) in state_dict: \"state.1.step\"."},
      {without("param_groups.0.params"),
       errors + "Missing key(s) in state_dict: \"param_groups.0.params\""},
      {with("state.2.step", zeros({})),
       errors + "Unexpected key(s) in state_dict: \"state.2.step\""},
      {with("more", zeros({})), errors + "Unexpected key(s) in state_dict: \"more\"."},
      {with("state.0.step", Tensor()), errors + "Missing key(s) in state_dict: \"state.0.step\"."},
      {with("param_groups.0.betas", ones({3})),
       errors + "size mismatch for param_groups.0.betas: copying a param with shape [3] from "
                "checkpoint, the shape in current optimizer is [2]."},
      {with("param_groups.0.lr", full({}, -1.0)), errors + "Invalid learning rate: -1 (group 0)"},
  };
  for (const Row& row : rows) {
    EXPECT_TRUE(refuses<ValueError>([&] { return adam.load_state_dict(row.state), 0; }, row.text));
  }
  // A refused load changes nothing.
  const std::vector<NamedTensor> after = adam.state_dict();
  ASSERT_EQ(after.size(), good.size());
  for (size_t i = 0; i < good.size(); ++i) EXPECT_TRUE(same_bits(after[i].tensor, good[i].tensor));
}

}  // namespace
}  // namespace taper::v0::test
