// The conformance rows as a program:
//   test_conformance          runs the tests
//   test_conformance --table  prints each row of pytorch-2.11.json with its outcome, and totals;
//                             exits with 1 if a row fails
#include <iostream>
#include <string_view>

#include <gtest/gtest.h>

#include "tests/conformance/conformance.h"

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--table") {
    const taper::conformance::Report report = taper::conformance::run_all();
    std::cout << report.text;
    return report.failed == 0 ? 0 : 1;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
