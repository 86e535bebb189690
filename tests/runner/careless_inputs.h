// What people give to `taper predict`: the table that tests of pictures and of texts share.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/runner/run_process.h"
#include "tests/text.h"

namespace taper::v0::runner {

struct CarelessInput {
  const char* rule;
  std::string file;
  int code;              // the exit code
  std::string out, err;  // parts of what is printed
};

// Predicts each file by the run "r" of the directory. Expects predictions only with exit code 0.
inline void expect_predictions(const RunDirectory& at, const std::vector<CarelessInput>& rows) {
  for (const auto& [rule, file, code, out, err] : rows) {
    const auto got = at.taper({"predict", "r", file});
    EXPECT_EQ(got.code, code) << rule << ": " << got.err;
    EXPECT_TRUE(contains(got.out, out)) << rule << ": " << got.out;
    EXPECT_TRUE(contains(got.err, err)) << rule << ": " << got.err;
    EXPECT_EQ(got.out.empty(), code != 0) << rule << ": " << got.out;
  }
}

}  // namespace taper::v0::runner
