// Reads and writes the encoding of series, a part of a run's data.json.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/runner/config/yaml.h"
#include "data/series/series_encoding.h"

namespace taper::v0::runner {

std::string to_json(const data::SeriesEncoding& encoding);
// Returns the problems of the node. Sets `out` if there are none.
std::vector<Problem> read_series_encoding(const Node& node,
                                          std::optional<data::SeriesEncoding>& out);

}  // namespace taper::v0::runner
