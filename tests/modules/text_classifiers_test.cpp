// Classifiers of texts of different lengths.
#include "modules/models/text_classifiers.h"

#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "framework/factory/factories.h"
#include "tests/testing.h"

namespace taper::v0 {
namespace {

constexpr int64_t kPad = 3, kTokens = 12;

std::vector<std::unique_ptr<Module>> padded_models() {
  manual_seed(3);
  std::vector<std::unique_ptr<Module>> out;
  out.push_back(std::make_unique<BagClassifier>(
      BagClassifierOptions{.vocab_size = kTokens, .num_classes = 4, .padding_idx = kPad}));
  out.push_back(std::make_unique<LSTMClassifier>(LSTMClassifierOptions{
      .vocab_size = kTokens, .num_classes = 4, .num_layers = 2, .padding_idx = kPad}));
  out.push_back(std::make_unique<EncoderClassifier>(EncoderClassifierOptions{
      .vocab_size = kTokens, .num_classes = 4, .max_len = 9, .padding_idx = kPad}));
  for (const auto& model : out) model->eval();
  return out;
}

Tensor filled_up(const std::vector<int64_t>& text, int64_t length) {
  Tensor out = full({1, length}, kPad, {.dtype = kInt64});
  for (size_t i = 0; i < text.size(); ++i) out.data<int64_t>()[i] = text[i];
  return out;
}

TEST(TextClassifiers, PaddingDoesNotChangeTheLogits) {
  const std::vector<int64_t> texts[] = {{1}, {5, 2, 7, 2}, {4, 4, 1, 0, 11, 2, 5, 6, 9}};
  for (const auto& model : padded_models()) {
    for (const std::vector<int64_t>& text : texts) {
      const Tensor alone = (*model)(filled_up(text, std::ssize(text)));
      const Tensor padded = (*model)(filled_up(text, 9));
      EXPECT_TRUE(allclose(padded, alone, 1e-5, 1e-6)) << model->type_name();
    }
  }
}

TEST(TextClassifiers, ATextOfPaddingAloneHasFiniteLogits) {
  for (const auto& model : padded_models()) {
    EXPECT_TRUE(all(isfinite((*model)(filled_up({}, 9)))).item<bool>()) << model->type_name();
  }
}

TEST(TextClassifiers, IndicesMayBeInt32) {
  for (const auto& model : padded_models()) {
    const Tensor x = filled_up({5, 2, 7, 2}, 9);
    EXPECT_TRUE(equal((*model)(x), (*model)(x.to(kInt32)))) << model->type_name();
  }
}

}  // namespace
}  // namespace taper::v0
