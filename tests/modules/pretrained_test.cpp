// Weights of an earlier training, and parameters that stay as they are.
#include "modules/models/pretrained.h"

#include <algorithm>
#include <filesystem>

#include <gtest/gtest.h>
#include <unistd.h>

#include "autograd/ops/nn/loss_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/unary_ops.h"
#include "framework/factory/factories.h"
#include "framework/io/pt.h"
#include "framework/io/safetensors.h"
#include "modules/layers/containers.h"
#include "modules/layers/linear.h"
#include "modules/layers/norm_layers.h"
#include "modules/layers/stateless.h"
#include "modules/models/gpt.h"
#include "modules/models/resnet.h"
#include "optim/algorithms/adam.h"
#include "optim/algorithms/sgd.h"
#include "tests/data_files.h"
#include "tests/modules/modules.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

using State = std::vector<NamedTensor>;

LoadedTensors file_with(const State& state) {
  LoadedTensors file("weights.pt");
  file.assign(state.begin(), state.end());
  return file;
}
State with_prefix(State state, const std::string& prefix) {
  for (NamedTensor& t : state) t.name = prefix + t.name;
  return state;
}
Tensor value_of(const Module& model, const std::string& name) {
  for (const NamedTensor& t : model.state_dict()) {
    if (t.name == name) return t.tensor.clone();
  }
  return {};
}
struct Pretrained : DataFiles {
  Pretrained() { manual_seed(3); }
};

TEST_F(Pretrained, LoadsFilesOfBothFormatsAndRenewsTheHead) {
  const ResNet before = resnet18({.num_classes = 7, .width = 4});
  const std::string pt = (directory_ / "resnet18.pth").string();
  const std::string safe = (directory_ / "resnet18.safetensors").string();
  save_pt(pt, before.state_dict());
  save_safetensors(safe, before.state_dict());
  for (const std::string& path : {pt, safe}) {
    ResNet net = resnet18({.num_classes = 3, .width = 4});
    const Tensor head = value_of(net, "fc.weight");
    const PretrainedReport report = load_pretrained(net, load_weights(path));
    EXPECT_EQ(report.loaded.size(), 120u);
    EXPECT_EQ(report.in_model, 122u);
    EXPECT_EQ(report.kept, (Names{"fc.weight", "fc.bias"}));
    EXPECT_TRUE(report.missing.empty() && report.unexpected.empty());
    EXPECT_EQ(report.summary(),
              "120 of the model's 122 tensors loaded\n"
              "new weights for fc: fc.weight is [7, 32] in the file and [3, 32] in the model, "
              "fc.bias is [7] in the file and [3] in the model");
    EXPECT_TRUE(same_bits(value_of(net, "fc.weight"), head));
    for (const char* name : {"conv1.weight", "layer4.1.bn2.running_var", "bn1.bias"}) {
      EXPECT_TRUE(same_bits(value_of(net, name), value_of(before, name))) << name;
    }
  }
}

TEST_F(Pretrained, NamesWhatOnlyOneSideHas) {
  const Sequential before(Linear(4, 6), Linear(6, 2));
  Sequential net(Linear(4, 6), Linear(6, 2), Linear(2, 2));
  State state = before.state_dict();
  state.push_back({"aux.weight", ones({2})});
  state.push_back({"aux.bias", ones({2})});
  const PretrainedReport report = load_pretrained(net, file_with(state));
  EXPECT_EQ(report.missing, (Names{"2.weight", "2.bias"}));
  EXPECT_EQ(report.unexpected, (Names{"aux.bias", "aux.weight"}));
  EXPECT_EQ(report.summary(),
            "4 of the model's 6 tensors loaded\n"
            "not in the file, so new weights: 2\n"
            "not in the model, so unused: aux");
}

TEST_F(Pretrained, RemovesAPrefixThatTheModelLacks) {
  const Sequential before(Linear(4, 6), Linear(6, 2));
  for (const std::string prefix : {"module.", "model.net."}) {
    Sequential net(Linear(4, 6), Linear(6, 2));
    State state = with_prefix(before.state_dict(), prefix);
    state.push_back({"optimizer.lr", ones({})});
    const PretrainedReport report = load_pretrained(net, file_with(state));
    EXPECT_EQ(report.prefix, prefix);
    EXPECT_EQ(report.loaded.size(), 4u);
    EXPECT_EQ(report.unexpected, Names{"optimizer.lr"});
    EXPECT_TRUE(same_bits(value_of(net, "1.bias"), value_of(before, "1.bias")));
  }
}

TEST_F(Pretrained, RenamesByPattern) {
  const Sequential before(Linear(4, 6), Linear(6, 2));
  Sequential net(Linear(4, 6), Linear(6, 2));
  State state = before.state_dict();
  for (NamedTensor& t : state) {
    t.name = t.name[0] == '0' ? "body.first" + t.name.substr(1) : "head" + t.name.substr(1);
  }
  const Tensor head = value_of(net, "1.weight");
  const PretrainedReport report =
      load_pretrained(net, file_with(state), {.rename = {{"body.first", "0"}, {"head.*", ""}}});
  EXPECT_EQ(report.loaded, (Names{"0.weight", "0.bias"}));
  EXPECT_EQ(report.missing, (Names{"1.weight", "1.bias"}));
  EXPECT_TRUE(report.unexpected.empty());  // left out on purpose
  EXPECT_TRUE(same_bits(value_of(net, "0.weight"), value_of(before, "0.weight")));
  EXPECT_TRUE(same_bits(value_of(net, "1.weight"), head));
}

// An old bias next to a new weight would be a layer that no training has made.
TEST_F(Pretrained, LoadsALayerAsAWhole) {
  const Sequential before(Linear(4, 6), Linear(6, 2));
  Sequential net(Linear(4, 8), Linear(8, 2));
  const Tensor bias = value_of(net, "1.bias");
  State state = before.state_dict();
  state.push_back({"extra", ones({1})});
  Sequential deeper(Linear(4, 8), Linear(8, 2), BatchNorm1d(2));
  const BatchNorm1d norm(2);
  state.push_back({"2.weight", full({2}, 5.0)});
  const PretrainedReport report = load_pretrained(deeper, file_with(state));
  EXPECT_EQ(report.loaded, Names{"2.weight"});
  EXPECT_EQ(report.kept, (Names{"0.weight", "0.bias", "1.weight", "1.bias"}));
  EXPECT_EQ(report.misfits.size(), 3u);  // all but 1.bias
  EXPECT_THROW((void)load_pretrained(net, file_with(before.state_dict())), InputError);
  EXPECT_TRUE(same_bits(value_of(net, "1.bias"), bias));
}

TEST_F(Pretrained, ATiedWeightNeedsOneOfItsNames) {
  const GPTOptions options{
      .vocab_size = 9, .block_size = 4, .n_layer = 1, .n_head = 1, .n_embd = 8};
  GPT before(options), net(options);
  State state = before.state_dict();
  const size_t all = state.size();
  std::erase_if(state, [](const NamedTensor& t) { return t.name == "lm_head.weight"; });
  ASSERT_EQ(state.size(), all - 1);
  EXPECT_TRUE(load_pretrained(net, file_with(state)).missing.empty());
}

TEST_F(Pretrained, CountersOfBatchesMayBeMissing) {
  Sequential net(Linear(2, 2), BatchNorm1d(2));
  State state = net.state_dict();
  std::erase_if(state, [](const NamedTensor& t) { return t.name == "1.num_batches_tracked"; });
  EXPECT_TRUE(load_pretrained(net, file_with(state)).missing.empty());
}

struct RefusedRow {
  const char* rule;
  State state;
  PretrainedOptions options;
  std::string message;
};

TEST_F(Pretrained, RefusesFilesThatGiveNothing) {
  const RefusedRow rows[] = {
      {"no name", {{"a.weight", ones({2})}}, {}, "no name in the file is one of the model's"},
      {"an empty file", {}, {}, "nothing could be loaded"},
      {"no shape", {{"0.weight", ones({9, 9})}}, {}, "0.weight is [9, 9] in the file and [6, 4]"},
      {"a dtype", {{"0.weight", ones({6, 4}, {.dtype = kInt64})}}, {}, "no shape does"},
      {"a pattern", {{"0.weight", ones({6, 4})}}, {{{"x.*", "y"}}}, "matches \"x.*\""},
      {"two of a name",
       {{"0.weight", ones({6, 4})}, {"a.weight", ones({6, 4})}},
       {{{"a", "0"}}},
       "two tensors get the name \"0.weight\""},
      {"too many *", {{"a.weight", ones({2})}}, {{{"a", "*"}}}, "more * than the pattern"},
      {"a long name",
       {{"x" + std::string(5000, 'y'), ones({2})}},
       {},
       "The file has x" + std::string(99, 'y') + "...; the model has"},
      {"a name of control characters",
       {{"a\n\x1b[2J", ones({2})}},
       {},
       "The file has a\\x0a\\x1b[2J; the model"},
      {"a matrix of GPT-2 without elements, whose size times 3 is no number",
       {{"h.0.attn.c_attn.weight", empty({int64_t(1) << 62, 0}, {.dtype = kInt8})}},
       {},
       "no name in the file is one of the model's"},
  };
  for (const auto& [rule, state, options, message] : rows) {
    Sequential net(Linear(4, 6));
    const Tensor weight = value_of(net, "0.weight");
    const std::string error =
        refusal_of<Error>([&] { (void)load_pretrained(net, file_with(state), options); });
    EXPECT_NE(error.find(message), std::string::npos) << rule << ": " << error;
    EXPECT_TRUE(same_bits(value_of(net, "0.weight"), weight)) << rule;
  }
}

TEST_F(Pretrained, AnUnreadableEntryMattersIfTheModelNeedsIt) {
  Sequential net(Linear(4, 6));
  LoadedTensors file = file_with({{"0.weight", ones({6, 4})}});
  file.unreadable["other"] = "weights.pt: other has the dtype complex64";
  EXPECT_EQ(load_pretrained(net, file).unexpected, Names{"other"});
  file.unreadable["0.bias"] = "weights.pt: 0.bias has the dtype complex64";
  EXPECT_EQ(refusal_of<InputError>([&] { (void)load_pretrained(net, file); }),
            "weights.pt: 0.bias has the dtype complex64");
}

// Without a map the file is at fault, and otherwise the map may be.
TEST_F(Pretrained, TwoTensorsOfANameAreTheFilesFault) {
  const GPTOptions options{
      .vocab_size = 9, .block_size = 4, .n_layer = 1, .n_head = 1, .n_embd = 8};
  GPT net(options);
  const std::string name = "h.0.attn.c_attn.weight";
  LoadedTensors file = file_with({{name, ones({8, 24})}, {"transformer." + name, ones({8, 24})}});
  EXPECT_EQ(refusal_of<InputError>([&] { (void)load_pretrained(net, file); }),
            "weights.pt: two tensors get the name \"transformer." + name +
                "\", one of them \"transformer." + name + "\"");
  // The model does not need the name that two have after the prefix is removed.
  Sequential other(Linear(4, 6));
  const State state = {{"a.0.weight", ones({6, 4})}, {"a.x", ones({1})}, {"x", ones({2})}};
  EXPECT_EQ(load_pretrained(other, file_with(state)).loaded, Names{"0.weight"});
}

// The time is about that of reading the names, and the depth of no recursion is that of a name.
TEST_F(Pretrained, HostileNamesCostLittle) {
  Sequential net(Linear(4, 6));
  State state{{"0.weight", ones({6, 4})}};
  std::string deep;
  for (int i = 0; i < 200'000; ++i) deep += "a.";
  for (const char* last : {"b", "c"}) state.push_back({deep + last, ones({1})});
  for (int i = 0; i < 100'000; ++i) state.push_back({concat_to_string("w", i), ones({1})});
  const PretrainedReport report = load_pretrained(net, file_with(state));
  EXPECT_EQ(report.loaded, Names{"0.weight"});
  EXPECT_LT(report.summary().size(), 5000u);
  const std::string some =
      names_by_module({deep + "b", "w1"}, {deep + "b", deep + "c", "w1", "w2"});
  EXPECT_TRUE(some.starts_with("a.a.a.") && some.ends_with("a...., w1")) << some;
}

// --- frozen parameters ---

Sequential small_net() { return Sequential(Linear(3, 4), BatchNorm1d(4), ReLU(), Linear(4, 2)); }
void train_steps(Module& net, optim::Optimizer& optimizer, int steps) {
  for (int i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    square(net(numbers({8, 3}) * double(i + 1) + 1)).mean().backward();
    optimizer.step();
  }
}

TEST_F(Pretrained, FrozenParametersAndStatisticsStayAsTheyAre) {
  Sequential net = small_net();
  EXPECT_EQ(freeze(net, {"0", "1.*"}), (Names{"0.weight", "0.bias", "1.weight", "1.bias"}));
  EXPECT_TRUE(net.at<BatchNorm1d>(1).is_frozen);
  const State before = [&] {
    State all;
    for (const NamedTensor& t : net.state_dict()) all.push_back({t.name, t.tensor.clone()});
    return all;
  }();
  EXPECT_EQ(names_of(trainable_parameters(net)), (Names{"3.weight", "3.bias"}));
  // All parameters are given, and still the frozen ones get no state and no weight decay.
  optim::AdamW optimizer(net.named_parameters(), {.lr = 0.1, .weight_decay = 0.5});
  train_steps(net, optimizer, 3);
  for (const auto& [name, value] : before) {
    EXPECT_EQ(same_bits(value_of(net, name), value), name[0] != '3') << name;
  }
  for (const NamedTensor& t : optimizer.state_dict()) {
    EXPECT_FALSE(t.name.starts_with("state.0.") || t.name.starts_with("state.3.")) << t.name;
  }
  EXPECT_FALSE(net.parameters()[0].grad().defined());
}

TEST_F(Pretrained, AFrozenBatchNormUsesItsStatisticsInTrainingMode) {
  Sequential net = small_net();
  const Tensor x = numbers({8, 3});
  (void)net(x);
  net.eval();
  const Tensor expected = net(x).detach();
  net.train();
  EXPECT_FALSE(same_bits(net(x).detach(), expected));  // the batch's statistics
  net.load_state_dict(clone(net).state_dict());
  freeze(net, {"1"});
  const Tensor mean = value_of(net, "1.running_mean");
  net.eval();
  const Tensor again = net(x).detach();
  net.train();
  EXPECT_TRUE(same_bits(net(x).detach(), again));
  EXPECT_TRUE(same_bits(value_of(net, "1.running_mean"), mean));
  EXPECT_TRUE(clone(net).at<BatchNorm1d>(1).is_frozen);
  unfreeze(net, {"1"});
  (void)net(x);
  EXPECT_FALSE(same_bits(value_of(net, "1.running_mean"), mean));
}

// A batch norm of which only the bias is frozen still learns.
TEST_F(Pretrained, ABatchNormIsFrozenAsAWholeOnly) {
  Sequential net = small_net();
  freeze(net, {"*.bias"});
  EXPECT_FALSE(net.at<BatchNorm1d>(1).is_frozen);
  freeze(net, {"1.weight"});
  EXPECT_TRUE(net.at<BatchNorm1d>(1).is_frozen);
  unfreeze(net, {"1.bias"});
  EXPECT_FALSE(net.at<BatchNorm1d>(1).is_frozen);
}

TEST_F(Pretrained, ThawedParametersAreTrained) {
  Sequential net = small_net();
  freeze(net, {"0"});
  optim::SGD optimizer(net.named_parameters(), {.lr = 0.1});
  const Tensor weight = value_of(net, "0.weight");
  train_steps(net, optimizer, 1);
  EXPECT_TRUE(same_bits(value_of(net, "0.weight"), weight));
  EXPECT_EQ(unfreeze(net, {"0.weight"}), Names{"0.weight"});
  train_steps(net, optimizer, 1);
  EXPECT_FALSE(same_bits(value_of(net, "0.weight"), weight));
}

TEST_F(Pretrained, APatternWithoutAMatchIsRefused) {
  Sequential net = small_net();
  for (const auto& call : {&freeze, &unfreeze}) {
    const std::string error = refusal_of<ValueError>([&] { (void)call(net, {"0", "layer9.*"}); });
    EXPECT_EQ(error, "no parameter matches the pattern \"layer9.*\"; the model has 0, 1, 3");
  }
  EXPECT_EQ(trainable_parameters(net).size(), 6u);
}

TEST_F(Pretrained, LongListsAreCut) {
  Names names;
  for (int i = 0; i < 50; ++i) names.push_back(concat_to_string("w", i));
  EXPECT_TRUE(names_by_module(names, names).ends_with("w19 and 30 more"));
  EXPECT_EQ(names_by_module({"a.x", "a.y", "b.x"}, {"a.x", "a.y", "b.x", "b.y"}), "a, b.x");
  EXPECT_EQ(names_by_module({}, names), "");
}

}  // namespace
}  // namespace taper::v0::test
