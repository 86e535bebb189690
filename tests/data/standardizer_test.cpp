#include "data/tables/standardizer.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace taper::v0::data {
namespace {

using Doubles = std::vector<double>;

TEST(Standardizer, ColumnsHaveMeanZeroAndDeviationOne) {
  Doubles matrix{1, 0.1, -7, 2, 0.1, 9, 6, 0.1, 40};
  const Standardizer s = fit_standardizer(matrix, 3);
  EXPECT_EQ(s.mean, (Doubles{3, 0.1, 14}));
  EXPECT_DOUBLE_EQ(s.std[0], std::sqrt(14. / 3));
  EXPECT_EQ(s.std[1], 1);
  EXPECT_DOUBLE_EQ(s.std[2], std::sqrt(1142. / 3));
  standardize(matrix, s);
  EXPECT_DOUBLE_EQ(matrix[0], -2 / std::sqrt(14. / 3));
  EXPECT_EQ(matrix[4], 0);
  const Standardizer again = fit_standardizer(matrix, 3);
  for (const size_t j : {0, 2}) {
    EXPECT_NEAR(again.mean[j], 0, 1e-7);
    EXPECT_NEAR(again.std[j], 1, 1e-6);
  }
}

TEST(Standardizer, KeepsTheDigitsOfALargeOffset) {
  const Standardizer s = fit_standardizer(Doubles{16777214, 16777216}, 1);
  EXPECT_EQ(s.mean[0], 16777215);
  EXPECT_EQ(s.std[0], 1);
  EXPECT_EQ(fit_standardizer(Doubles(1000, 0.1), 1).std[0], 1);
}

TEST(Standardizer, RefusesAMatrixWithOtherColumns) {
  Doubles matrix{1, 2, 3};
  EXPECT_THROW(fit_standardizer(matrix, 2), ValueError);
  EXPECT_THROW(fit_standardizer(matrix, 0), ValueError);
  EXPECT_THROW(fit_standardizer(Doubles{}, 2), ValueError);
  EXPECT_THROW(standardize(matrix, fit_standardizer(Doubles{1, 2}, 2)), ValueError);
}

}  // namespace
}  // namespace taper::v0::data
