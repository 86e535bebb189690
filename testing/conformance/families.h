// The rows by family; all_rows() is all of them.
#pragma once

#include <vector>

#include "framework/tensor.h"
#include "testing/conformance/conformance.h"

namespace taper::conformance {

std::vector<Row> device_rows();
std::vector<Row> print_rows();
std::vector<Row> move_rows();
std::vector<Row> compute_rows();
std::vector<Row> module_rows();
std::vector<Row> runtime_rows();

// The reason of every row in which only the "torch." before a dtype or type is missing.
inline constexpr const char* kNoTorchPrefix = "names of dtypes and types stand without 'torch.'";

}  // namespace taper::conformance
