// The description of a run's data as JSON: the file data.json, and its part of checkpoints.
#pragma once

#include <string>
#include <string_view>

#include "data/source.h"
#include "framework/base/namespace.h"

namespace taper::v0::runner {

using data::DataInfo;
using data::Task;

std::string to_json(const DataInfo& info);
// Returns whether both describe the same data. Statistics may differ by what float32 rounds:
// earlier versions stored them so.
bool are_same_data(const DataInfo& a, const DataInfo& b);
// InputError, with the place in what the name says: not what to_json() gave, or not consistent.
DataInfo data_info_from_json(std::string_view json, const std::string& name);

}  // namespace taper::v0::runner
