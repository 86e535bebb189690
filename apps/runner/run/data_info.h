// The description of a run's data as JSON: the file data.json, also stored in checkpoints.
#pragma once

#include <string>
#include <string_view>

#include "data/source.h"
#include "framework/base/namespace.h"

namespace taper::v0::runner {

using data::DataInfo;
using data::Task;

std::string to_json(const DataInfo& info);
// Returns whether both describe the same data. Statistics may differ by the rounding error of
// float32, because earlier versions stored them as float32.
bool are_same_data(const DataInfo& a, const DataInfo& b);
// Parses JSON that to_json() has written. Throws InputError, with the position in the text, if it
// is malformed or its fields contradict each other. name: the file, for messages.
DataInfo data_info_from_json(std::string_view json, const std::string& name);

}  // namespace taper::v0::runner
