// Describes the encodings of tables and images, parts of a run's data.json, for reading and
// writing.
#pragma once

#include "apps/runner/config/schema.h"
#include "data/images/image_encoding.h"
#include "data/tables/table_encoding.h"

namespace taper::v0::runner {

Schema table_schema(data::TableEncoding& encoding);
Schema image_schema(data::ImageEncoding& encoding);

}  // namespace taper::v0::runner
