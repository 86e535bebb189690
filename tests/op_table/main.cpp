// The op table's driver as a program:
//   test_ops         runs the tests
//   test_ops --bench [part [device [processor]]]
//                    times the row with the title `part`, otherwise the rows whose title contains
//                    it; the last column is the rate relative to that of a copy; `processor`
//                    measures processor time
//   test_ops --docs  prints docs/operators.md
#include <iostream>
#include <string>

#include <gtest/gtest.h>

#include "tests/op_table/op_table.h"

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "--docs") {
    std::cout << taper::test::operators_page();
    return 0;
  }
  if (what == "--bench") {
    taper::test::bench_rows(argc > 2 ? argv[2] : "", argc > 3 ? argv[3] : "",
                            argc > 4 && argv[4] == std::string("processor"));
    return 0;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
