// Weights under the names of other libraries, compared with those of transformers and torchvision,
// which names.py stores.
#include "modules/models/names.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include <gtest/gtest.h>
#include <unistd.h>

#include "autograd/node.h"
#include "framework/factory/factories.h"
#include "framework/io/archive.h"
#include "framework/io/pt.h"
#include "modules/models/gpt.h"
#include "modules/models/pretrained.h"
#include "modules/models/resnet.h"
#include "tests/testing.h"

namespace taper::v0::test {
namespace {

namespace fs = std::filesystem;

std::string stored(const char* name) {
  return (fs::path(TAPER_INTEROP_DIR) / "names" / name).string();
}

GPT small_gpt() {
  return GPT({.vocab_size = 31,
              .block_size = 12,
              .n_layer = 2,
              .n_head = 2,
              .n_embd = 16,
              .gelu = "tanh"});
}

std::map<std::string, Tensor> by_name(const std::vector<NamedTensor>& tensors) {
  std::map<std::string, Tensor> out;
  for (const auto& [name, x] : tensors) EXPECT_TRUE(out.emplace(name, x).second) << name;
  return out;
}

// Expects the same names with the same values, in any order.
void expect_equal(const std::vector<NamedTensor>& got, const std::vector<NamedTensor>& want) {
  const auto a = by_name(got), b = by_name(want);
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, x] : b) {
    ASSERT_TRUE(a.contains(name)) << name;
    EXPECT_TRUE(close(a.at(name), x, 0)) << name;
  }
}

TEST(Names, Gpt2OfHuggingFaceComputesHereWhatItComputesThere) {
  if (!has_zip()) GTEST_SKIP() << "built without libzip (TAPER_ZIP)";
  const std::vector<NamedTensor> theirs = load_weights(stored("gpt2.pt"));
  GPT net = small_gpt();
  net.load_state_dict(kHuggingFaceGpt2.to_taper(theirs));
  const auto run = by_name(load_weights(stored("gpt2_run.pt")));
  const NoGradGuard no_grad;
  EXPECT_TRUE(close(net.eval()(run.at("tokens")), run.at("logits"), 1e-5));
  expect_equal(kHuggingFaceGpt2.from_taper(net.state_dict()), theirs);
  // For `names.py check`. TAPER_INTEROP_OUT is a folder, as in model_test.cpp.
  if (const char* out = std::getenv("TAPER_INTEROP_OUT")) {
    save_pt(concat_to_string(out, "/gpt2.pt"), kHuggingFaceGpt2.from_taper(net.state_dict()));
  }
}

TEST(Names, Gpt2sTransformerAloneAndOldMasksAreRead) {
  const GPT net = small_gpt();
  std::vector<NamedTensor> bare;
  for (const auto& [name, x] : kHuggingFaceGpt2.from_taper(net.state_dict())) {
    constexpr std::string_view kPrefix = "transformer.";
    if (name.starts_with(kPrefix)) bare.push_back({name.substr(kPrefix.size()), x});
  }
  bare.push_back({"h.0.attn.bias", ones({1, 1, 12, 12})});
  bare.push_back({"h.1.attn.masked_bias", zeros({})});
  GPT other = small_gpt();
  other.load_state_dict(kHuggingFaceGpt2.to_taper(bare));
  expect_equal(other.state_dict(), net.state_dict());
}

// The file is one of transformers itself, whose matrices are [in, out].
TEST(Names, PretrainedWeightsOfGpt2AreRecognizedByTheirLayout) {
  if (!has_zip()) GTEST_SKIP() << "built without libzip (TAPER_ZIP)";
  const LoadedTensors theirs = load_weights(stored("gpt2.pt"));
  GPT net = small_gpt();
  const PretrainedReport report = load_pretrained(net, theirs);
  EXPECT_EQ(report.transposed, 8u);
  EXPECT_TRUE(report.missing.empty() && report.unexpected.empty() && report.kept.empty());
  EXPECT_EQ(report.summary(),
            concat_to_string(report.in_model, " of the model's ", report.in_model,
                             " tensors loaded\nthe file has the layout of GPT-2 of Hugging Face's "
                             "transformers: 8 matrices were transposed"));
  const auto run = by_name(load_weights(stored("gpt2_run.pt")));
  const NoGradGuard no_grad;
  EXPECT_TRUE(close(net.eval()(run.at("tokens")), run.at("logits"), 1e-5));
  // Taper's own layout stays as it is.
  GPT again = small_gpt();
  LoadedTensors own("own.safetensors");
  for (const NamedTensor& t : net.state_dict()) own.push_back(t);
  const PretrainedReport same = load_pretrained(again, own);
  EXPECT_EQ(same.layout, "");
  expect_equal(again.state_dict(), net.state_dict());
}

TEST(Names, PretrainedWeightsOfGpt2MayLackThePrefixAndHaveMorePositions) {
  if (!has_zip()) GTEST_SKIP() << "built without libzip (TAPER_ZIP)";
  LoadedTensors bare("model.safetensors");
  for (const auto& [name, x] : load_weights(stored("gpt2.pt"))) {
    constexpr std::string_view kPrefix = "transformer.";
    if (name.starts_with(kPrefix)) bare.push_back({name.substr(kPrefix.size()), x});
  }
  bare.push_back({"h.0.attn.bias", ones({1, 1, 12, 12})});
  bare.push_back({"h.1.attn.masked_bias", zeros({})});
  bare.push_back({"score.weight", zeros({2, 16})});
  GPT net(
      {.vocab_size = 31, .block_size = 8, .n_layer = 2, .n_head = 2, .n_embd = 16, .gelu = "tanh"});
  const PretrainedReport report = load_pretrained(net, bare);
  EXPECT_EQ(report.unexpected, std::vector<std::string>{"score.weight"});
  EXPECT_TRUE(report.missing.empty() && report.kept.empty()) << report.summary();
  EXPECT_NE(report.summary().find("transformer.wpe.weight has 12 positions in the file, of which "
                                  "the first 8 are used"),
            std::string::npos)
      << report.summary();
  const auto run = by_name(load_weights(stored("gpt2_run.pt")));
  const NoGradGuard no_grad;
  EXPECT_TRUE(
      close(net.eval()(run.at("tokens").narrow(1, 0, 8)), run.at("logits").narrow(1, 0, 8), 1e-5));
  // The file's names can be mapped; matrices are transposed all the same.
  GPT mapped = small_gpt();
  const PretrainedReport some =
      load_pretrained(mapped, bare, {.rename = {{"h.1", ""}, {"score", ""}}});
  EXPECT_EQ(some.transposed, 8u);
  EXPECT_EQ(some.missing.size(), 12u) << some.summary();
  EXPECT_TRUE(close(by_name(mapped.state_dict()).at("transformer.h.0.mlp.c_fc.weight"),
                    by_name(net.state_dict()).at("transformer.h.0.mlp.c_fc.weight"), 0));
}

TEST(Names, TorchvisionsResNetHasTheNamesAndShapesOfTapers) {
  std::vector<NamedTensor> theirs;
  std::ifstream lines(stored("resnet18.txt"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    NamedTensor t;
    words >> t.name;
    Shape shape;
    for (int64_t n; words >> n;) shape.push_back(n);
    const bool counts = t.name.ends_with("num_batches_tracked");
    t.tensor = full(shape, double(theirs.size()), {.dtype = counts ? kInt64 : kFloat32});
    theirs.push_back(t);
  }
  ASSERT_EQ(theirs.size(), 122u);
  ResNet net = resnet18();
  net.load_state_dict(kTorchvisionResNet.to_taper(theirs));
  expect_equal(kTorchvisionResNet.from_taper(net.state_dict()), theirs);

  std::erase_if(theirs, [](auto& t) { return t.name.ends_with("num_batches_tracked"); });
  net.load_state_dict(kTorchvisionResNet.to_taper(theirs));
  EXPECT_EQ(net.bn1->num_batches_tracked->item<int64_t>(), 0);
}

TEST(Names, WhatNoRuleFitsIsRefusedByName) {
  const Tensor x = zeros({2});
  EXPECT_TRUE(refuses<ValueError>(
      [&] {
        return kTorchvisionResNet.to_taper({{"layer1.0.conv1", x}});
      },
      "tensor 'layer1.0.conv1' is none of torchvision's ResNet"));
  EXPECT_TRUE(refuses<ValueError>(
      [&] {
        return kTorchvisionResNet.from_taper({{"head.weight", x}});
      },
      "tensor 'head.weight' has no name in torchvision's ResNet"));
  EXPECT_TRUE(refuses<ValueError>(
      [&] {
        return kHuggingFaceGpt2.to_taper({{"h.0.mlp.c_fc.weight", x}});
      },
      "tensor 'h.0.mlp.c_fc.weight': expected a matrix, got shape [2]"));
}

TEST(Names, EntriesThatCannotBeReadAreRenamedToo) {
  LoadedTensors file("gpt2.safetensors");
  file.push_back({"wpe.weight", ones({2, 2})});
  file.unreadable = {{"wte.weight", "dtype F8_E4M3"}, {"other", "dtype U16"}};
  const LoadedTensors state = kHuggingFaceGpt2.to_taper(file);
  EXPECT_EQ(state.at("transformer.wpe.weight").shape(), Shape({2, 2}));
  EXPECT_TRUE(
      refuses<InputError>([&] { return state.at("transformer.wte.weight"); }, "dtype F8_E4M3"));
  EXPECT_EQ(state.unreadable.size(), 1u);
}

}  // namespace
}  // namespace taper::v0::test
