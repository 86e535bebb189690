// Metrics against their formulas, with values computed by hand or by another method.
#include "data/metrics.h"

#include <algorithm>
#include <cmath>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/shape_ops.h"
#include "framework/factory/factories.h"
#include "tests/data_files.h"
#include "tests/testing.h"

namespace taper::v0::data {
namespace {

using test::all_devices;

// Returns the metric over batches of two rows. Also checks that two meters that divide the batches
// give the same.
double value_of(const Metric& metric, const Tensor& outputs, const Tensor& targets, Device device) {
  Meter meter(metric), odd(metric);
  for (int64_t first = 0, k = 0; first < outputs.size(0); first += 2, ++k) {
    const int64_t count = std::min<int64_t>(2, outputs.size(0) - first);
    const Tensor x = outputs.narrow(0, first, count).to(device);
    const Tensor y = targets.narrow(0, first, count).to(device);
    meter.update(x, y);
    if (k % 2 == 1) odd.update(x, y);
  }
  Meter other(metric);
  for (int64_t first = 0; first < outputs.size(0); first += 4) {
    const int64_t count = std::min<int64_t>(2, outputs.size(0) - first);
    other.update(outputs.narrow(0, first, count), targets.narrow(0, first, count));
  }
  odd.add(other);
  EXPECT_NEAR(odd.value(), meter.value(), device.is_cpu() ? 1e-12 : 1e-6);
  odd.reset();
  EXPECT_TRUE(std::isnan(odd.value()));
  return meter.value();
}

// Targets 0 0 1 1 2 2 2, predicted 0 1 1 1 2 0 2. Class 3 does not occur.
TEST(Metrics, OfClasses) {
  const Tensor targets = tensor({0, 0, 1, 1, 2, 2, 2});
  const Tensor outputs = tensor({{5.0, 1.0, 2.0, 0.0},
                                 {3.0, 4.0, 0.0, 1.0},
                                 {0.0, 2.0, 1.0, 1.0},
                                 {1.0, 9.0, 3.0, 2.0},
                                 {0.0, 1.0, 4.0, 3.0},
                                 {4.0, 3.0, 2.0, 1.0},
                                 {0.0, 1.0, 4.0, 2.0}});
  // F1 of each class, 2 tp / (targets + predictions): 2/4, 4/5, 4/5.
  const double macro = (2. / 4 + 4. / 5 + 4. / 5) / 3;
  double nll = 0;
  const std::vector<double> x = outputs.to_vector<double>();
  for (size_t i = 0; i < 7; ++i) {
    double sum = 0;
    for (size_t c = 0; c < 4; ++c) sum += std::exp(x[4 * i + c]);
    nll += std::log(sum) - x[4 * i + size_t(targets[int64_t(i)].item<int64_t>())];
  }
  for (const Device device : all_devices()) {
    const auto value = [&](const Metric& m) { return value_of(m, outputs, targets, device); };
    EXPECT_EQ(value(accuracy()), 5. / 7);
    EXPECT_EQ(value(topk_accuracy(1)), 5. / 7);
    EXPECT_EQ(value(topk_accuracy(2)), 6. / 7);
    EXPECT_EQ(value(topk_accuracy(3)), 1);
    EXPECT_NEAR(value(f1_score(4)), macro, 1e-12);
    EXPECT_EQ(value(f1_score(4, Average::kMicro)), 5. / 7);
    EXPECT_NEAR(value(perplexity()), std::exp(nll / 7), 1e-4);
    Meter confusion(confusion_matrix(3));
    EXPECT_FALSE(confusion.sums().defined());
    confusion.update(outputs.narrow(1, 0, 3).to(device), targets.to(device));
    confusion.update(outputs.narrow(1, 0, 3).to(device), targets.to(device));
    EXPECT_EQ(confusion.sums().cpu().to_vector<int64_t>(),
              (std::vector<int64_t>{2, 2, 0, 0, 4, 0, 2, 0, 4}));
    EXPECT_THROW((void)confusion.value(), Error);
  }
}

TEST(Metrics, ATargetThatIsNoClassIsRefused) {
  for (const Metric& m : {accuracy(), topk_accuracy(1), confusion_matrix(2)}) {
    EXPECT_THROW(Meter(m).update(ones({2, 2}), tensor({0, 2})), IndexError);
  }
  const std::string refusal = refusal_of<IndexError>([] {
    Meter(accuracy()).update(ones({2, 2}), tensor({0, 2}));
  });
  EXPECT_EQ(refusal.find("Target 2 is out of bounds."), 0u) << refusal;
}

TEST(Metrics, OfTokensOfWhichSomeDoNotCount) {
  const Tensor outputs =
      tensor({{{1.0, 0.0}, {0.0, 1.0}, {2.0, 0.0}}, {{0.0, 3.0}, {1.0, 0.0}, {0.0, 1.0}}});
  const Tensor targets = tensor({{0, 0, kIgnoredTarget}, {1, kIgnoredTarget, 1}});
  for (const Device device : all_devices()) {
    EXPECT_EQ(value_of(accuracy(), outputs, targets, device), 3. / 4);
  }
}

// The area is the fraction of (positive, negative) pairs in the right order. A tie counts one half.
TEST(Metrics, AreaUnderTheCurveIsTheShareOfPairs) {
  Generator draws(3);
  const Tensor scores = randint(0, 12, {41}, {}, &draws).to(kFloat32) / 4 - 1;
  const Tensor targets = randint(0, 2, {41}, {}, &draws);
  const std::vector<float> s = scores.to_floats();
  const std::vector<int64_t> y = targets.to_vector<int64_t>();
  double right = 0, pairs = 0;
  for (size_t i = 0; i < 41; ++i) {
    for (size_t j = 0; j < 41; ++j) {
      if (y[i] != 1 || y[j] != 0) continue;
      right += s[i] > s[j] ? 1 : s[i] == s[j] ? 0.5 : 0;
      ++pairs;
    }
  }
  for (const Device device : all_devices()) {
    EXPECT_NEAR(value_of(auc(), scores, targets, device), right / pairs, 1e-12);
    const Tensor two = cat({zeros({41, 1}), scores.unsqueeze(1)}, 1);
    EXPECT_NEAR(value_of(auc(), two, targets, device), right / pairs, 1e-12);
    EXPECT_EQ(value_of(auc(), scores, zeros_like(targets), device), 0);
  }
  // A single logit per sample is that of class 1.
  double hits = 0;
  for (size_t i = 0; i < 41; ++i) hits += (s[i] > 0) == (y[i] == 1);
  EXPECT_EQ(value_of(accuracy(), scores.unsqueeze(1), targets, "cpu"), hits / 41);
  EXPECT_EQ(refusal_of<ValueError>([] {
              Meter(auc()).update(zeros({2, 3}), zeros({2}, {.dtype = kInt64}));
            }),
            "auc: expected 2 classes, got 3");
}

// The values of scikit-learn 1.9.1 for these outputs.
TEST(Metrics, OfClassesAsInScikitLearn) {
  const Tensor targets = tensor({0, 0, 1, 1, 2, 2, 2});
  const Tensor outputs = tensor({{5.0, 1.0, 2.0},
                                 {3.0, 4.0, 0.0},
                                 {0.0, 2.0, 1.0},
                                 {1.0, 9.0, 3.0},
                                 {0.0, 1.0, 4.0},
                                 {4.0, 3.0, 2.0},
                                 {0.0, 1.0, 4.0}});
  struct Row {
    const char* name;
    Metric metric;
    double value;
  };
  const Row rows[] = {{"precision", precision(3), 0.7222222222222222},
                      {"precision, weighted", precision(3, Average::kWeighted), 0.7619047619047619},
                      {"precision, micro", precision(3, Average::kMicro), 5. / 7},
                      {"recall", recall(3), 0.7222222222222222},
                      {"recall, weighted", recall(3, Average::kWeighted), 0.7142857142857143},
                      {"f1", f1_score(3), 0.7},
                      {"f1, weighted", f1_score(3, Average::kWeighted), 0.7142857142857143},
                      {"balanced accuracy", balanced_accuracy(3), 0.7222222222222222},
                      {"log loss", log_loss(), 0.6203195062491861},
                      {"auc", auc(3), 0.9055555555555556},
                      {"average precision", average_precision(3), 0.861111111111111},
                      // By the definition, with numpy.
                      {"calibration error", calibration_error(), 0.177995536774169}};
  for (const Device device : all_devices()) {
    for (const Row& row : rows) {
      EXPECT_NEAR(value_of(row.metric, outputs, targets, device), row.value, 1e-9) << row.name;
    }
  }
}

// A class that is never predicted has no precision, one that never occurs has no recall: both are 0
// where they count. Classes that appear nowhere do not count.
TEST(Metrics, OfClassesThatDoNotOccur) {
  const Tensor outputs = tensor({{1.0, 0.0, 0.0, 0.0}, {1.0, 0.0, 0.0, 0.0}, {0.0, 0.0, 1.0, 0.0}});
  const Tensor targets = tensor({0, 1, 0});
  const auto value = [&](const Metric& m) { return value_of(m, outputs, targets, "cpu"); };
  EXPECT_NEAR(value(precision(4)), (0.5 + 0 + 0) / 3, 1e-12);
  EXPECT_NEAR(value(recall(4)), (0.5 + 0 + 0) / 3, 1e-12);
  EXPECT_NEAR(value(balanced_accuracy(4)), (0.5 + 0) / 2, 1e-12);
  EXPECT_EQ(value_of(auc(4), outputs, zeros_like(targets), "cpu"), 0);
  EXPECT_EQ(value_of(average_precision(4), outputs, zeros_like(targets), "cpu"), 0);
  Meter of_nan(auc(4));
  of_nan.update(full({3, 4}, NAN), targets);
  EXPECT_TRUE(std::isnan(of_nan.value()));
  EXPECT_THROW((void)calibration_error(0), ValueError);
}

// Compares with values of scikit-learn 1.9.1 for two classes. Equal scores are one threshold.
TEST(Metrics, AreasOfTwoClassesAsInScikitLearn) {
  const Tensor scores = tensor({0.5, -1.0, 2.0, 0.5, 0.0, -0.25, 3.0, 1.5});
  const Tensor targets = tensor({1, 0, 1, 0, 0, 1, 0, 1});
  for (const Device device : all_devices()) {
    EXPECT_NEAR(value_of(auc(), scores, targets, device), 0.59375, 1e-12);
    EXPECT_NEAR(value_of(average_precision(), scores, targets, device), 0.5845238095238094, 1e-12);
  }
}

// The example of sklearn.metrics.r2_score: 1 - 1.5 / 29.1875, and other metrics of the same values.
TEST(Metrics, OfValues) {
  const Tensor given = tensor({2.5, 0.0, 2.0, 8.0}), wanted = tensor({3.0, -0.5, 2.0, 7.0});
  for (const Device device : all_devices()) {
    for (const Tensor& x : {given, given.unsqueeze(1)}) {
      EXPECT_NEAR(value_of(mean_absolute_error(), x, wanted, device), 0.5, 1e-12);
      EXPECT_NEAR(value_of(mean_absolute_error(10), x, wanted, device), 5, 1e-12);
      EXPECT_NEAR(value_of(root_mean_squared_error(), x, wanted, device), std::sqrt(0.375), 1e-12);
      EXPECT_NEAR(value_of(r2_score(), x, wanted, device), 1 - 1.5 / 29.1875, 1e-12);
      EXPECT_NEAR(value_of(mean_absolute_percentage_error(), x, wanted, device), 0.3273809523809524,
                  1e-12);
      EXPECT_NEAR(value_of(symmetric_mean_absolute_percentage_error(), x, wanted, device),
                  0.5787878787878787, 1e-12);
    }
    // Values in units of 2 above 1: 6, 1, 5, 17 for 7, 0, 5, 15.
    EXPECT_NEAR(value_of(mean_absolute_percentage_error(1, 2), given.narrow(0, 2, 2),
                         wanted.narrow(0, 2, 2), device),
                (2. / 15) / 2, 1e-12);
    const Tensor zero = zeros({1}), one = ones({1});
    EXPECT_GT(value_of(mean_absolute_percentage_error(), one, zero, device), 1e15);
    EXPECT_EQ(value_of(symmetric_mean_absolute_percentage_error(), one, zero, device), 2);
    EXPECT_EQ(value_of(symmetric_mean_absolute_percentage_error(), zero, zero, device), 0);
  }
  EXPECT_EQ(refusal_of<ValueError>([&] {
              Meter(r2_score()).update(zeros({4, 2}), wanted);
            }),
            "metric: outputs [4, 2] do not go with targets [4]");
}

// Samples of weight 0 do not count.
TEST(Metrics, WeightSamplesAsScikitLearn) {
  struct Row {
    const char* name;
    Metric metric;
    double value;
  };
  const Row of_classes[] = {{"accuracy", accuracy(), 0.7368421052631579},
                            {"f1", f1_score(2), 0.6360153256704981},
                            {"f1 of class 1", f1_score(2, Average::kBinary), 0.8275862068965517},
                            {"precision of class 1", precision(2, Average::kBinary), 0.75},
                            {"recall of class 1", recall(2, Average::kBinary), 0.9230769230769231},
                            {"balanced accuracy", balanced_accuracy(2), 0.6282051282051282},
                            {"auc", auc(), 0.8974358974358975},
                            {"pr_auc", average_precision(), 0.9434389140271493},
                            {"log_loss", log_loss(), 0.40566635270313134}};
  std::vector<double> logits;
  for (const double p : {.1, .6, .35, .8, .6, .2, .9}) logits.push_back(std::log(p / (1 - p)));
  const Tensor targets = tensor({0, 0, 1, 1, 1, 0, 1});
  const Tensor weights = tensor({1.0, 2.0, 0.5, 3.0, 1.0, 0.0, 2.0});
  for (const Row& row : of_classes) {
    Meter meter(row.metric);
    meter.update(tensor_of(logits.data(), {7}), targets, weights);
    EXPECT_NEAR(meter.value(), row.value, 1e-6) << row.name;
  }
  const Row of_values[] = {{"mae", mean_absolute_error(), 0.7692307692307693},
                           {"rmse", root_mean_squared_error(), 1.1602387022306428},
                           {"r2", r2_score(), 0.4340796019900498},
                           {"mape", mean_absolute_percentage_error(), 0.7115384615384616}};
  for (const Row& row : of_values) {
    Meter meter(row.metric);
    meter.update(tensor({1.5, 2.0, 3.0, 1.0}), tensor({1.0, 2.0, 4.0, -1.0}),
                 tensor({1.0, 3.0, 0.5, 2.0}));
    EXPECT_NEAR(meter.value(), row.value, 1e-12) << row.name;
  }
}

TEST(Metrics, KeepNoGraph) {
  const Tensor w = tensor({1.0, 2.0}).requires_grad_();
  Meter meter(mean_absolute_error());
  meter.update(w * 2, tensor({0.0, 0.0}));
  EXPECT_FALSE(meter.sums().requires_grad());
}

}  // namespace
}  // namespace taper::v0::data
