// Describes the encoding of series, a part of a run's data.json, for reading and writing.
#pragma once

#include "apps/runner/config/schema.h"
#include "data/series/series_encoding.h"

namespace taper::v0::runner {

Schema series_schema(data::SeriesEncoding& encoding);

}  // namespace taper::v0::runner
