// Reads and writes the encodings of tables and images, parts of a run's data.json.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/runner/config/yaml.h"
#include "data/images/image_encoding.h"
#include "data/tables/table_encoding.h"

namespace taper::v0::runner {

std::string to_json(const data::TableEncoding& encoding);
// Returns the problems of the node. Sets `out` if there are none.
std::vector<Problem> read_table_encoding(const Node& node, std::optional<data::TableEncoding>& out);

std::string to_json(const data::ImageEncoding& encoding);
std::vector<Problem> read_image_encoding(const Node& node, std::optional<data::ImageEncoding>& out);

}  // namespace taper::v0::runner
