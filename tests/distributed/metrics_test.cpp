// Metrics that are merged over several ranks, one of which may have no samples.
#include "data/metrics.h"

#include "autograd/ops/binary_ops.h"
#include "framework/factory/factories.h"
#include "tests/distributed/ranks.h"
#include "tests/testing.h"

namespace taper::v0::data {
namespace {

using test::test_device;
using test::world;

TEST(MetricsOverRanks, AreThoseOfAllBatches) {
  const Tensor scores = tensor({0.5, -1.0, 2.0, 0.5, 1.5, -0.5}).to(test_device());
  const Tensor classes = tensor({1, 0, 1, 0, 0, 1}).to(test_device());
  const Tensor values = scores + 1;
  const auto expect_same = [&](const Metric& metric, const Tensor& x, const Tensor& y) {
    Meter alone(metric), own(metric);
    for (int64_t i = 0; i < 6; ++i) {
      const Tensor one = x.narrow(0, i, 1), wanted = y.narrow(0, i, 1);
      alone.update(one, wanted);
      // With several ranks, the first one gets no sample.
      const int64_t first = world().size() > 1 ? 1 : 0;
      if (first + i % (world().size() - first) == world().rank()) own.update(one, wanted);
    }
    own.all_reduce(world());
    if (metric.value) {
      EXPECT_NEAR(own.value(), alone.value(), 1e-12);
    } else {
      EXPECT_EQ(own.sums().cpu().to_vector<double>(), alone.sums().cpu().to_vector<double>());
    }
  };
  expect_same(accuracy(), scores, classes);
  expect_same(auc(), scores, classes);
  expect_same(f1_score(2), scores, classes);
  expect_same(confusion_matrix(2), scores, classes);
  expect_same(perplexity(), scores, classes);
  expect_same(r2_score(), scores, values);
}

TEST(MetricsOverRanks, NobodySawAnything) {
  Meter meter(auc());
  meter.all_reduce(world());
  EXPECT_FALSE(meter.sums().defined());
}

}  // namespace
}  // namespace taper::v0::data
