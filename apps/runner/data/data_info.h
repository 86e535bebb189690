// What is kept of a run's data: data.json.
#pragma once

#include <string>
#include <string_view>

#include "data/loader.h"
#include "data/source.h"

namespace taper::inline v0::runner {

using data::Batch;
using data::DataInfo;
using data::DataLoader;
using data::Task;

std::string to_json(const DataInfo& info);
// InputError, with the place in what the name says: not what to_json() gave, or not consistent.
DataInfo data_info_from_json(std::string_view json, const std::string& name);

}  // namespace taper::inline v0::runner
