// The families of rows, which all_rows() combines.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "tests/conformance/conformance.h"

namespace taper::v0::conformance {

// Collects rows:
// rows("shape.add", 0, [] { return to_string(ones({2, 3}) + ones({2, 4})); });
struct Rows : std::vector<Row> {
  // Adds a row. The result can be used to declare how Taper differs.
  Row& operator()(const std::string& name, int gpus, std::function<std::string()> run) {
    return emplace_back(Row{name, gpus, std::move(run)});
  }
};

void device_rows(Rows& rows);
void print_rows(Rows& rows);
void move_rows(Rows& rows);
void compute_rows(Rows& rows);
void module_rows(Rows& rows);
void runtime_rows(Rows& rows);
void operator_rows(Rows& rows);
void linalg_rows(Rows& rows);

// The reason of every row in which C++ wording replaces PyTorch's Python wording.
inline constexpr const char* kCppWording = "C++ wording";
// The reason of every row in which only the "torch." before a dtype or type is missing.
inline constexpr const char* kNoTorchPrefix = "names of dtypes and types have no 'torch.' prefix";

}  // namespace taper::v0::conformance
