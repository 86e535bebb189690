// The transform `normalize` of a config, which also applies to evaluations and to new images.
#pragma once

#include <memory>
#include <vector>

#include "apps/runner/config/table.h"
#include "data/source.h"

namespace taper::v0::runner {

// Returns the index of the entry `normalize`; the size of the list if there is none.
size_t find_normalize(const std::vector<Component>& transforms);

// Returns a source whose data sets are normalized by the entry `normalize`, or the source itself if
// there is none. Loading throws ConfigError with the position of the entry for data that are no
// images with that number of channels, and for image files, which data.normalize normalizes.
std::unique_ptr<data::Source> with_normalization(std::unique_ptr<data::Source> source,
                                                 const std::vector<Component>& transforms);

}  // namespace taper::v0::runner
