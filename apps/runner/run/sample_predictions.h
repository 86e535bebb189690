// Predictions for a few samples, which a report shows as pictures, texts or points.
#pragma once

#include <string>

#include "apps/runner/settings/run_config.h"
#include "modules/module.h"

namespace taper::v0::runner {

// Predicts the first 200 samples of `part` and returns a JSON object:
//   samples    the number of samples that were predicted
//   examples   of classes and labels: at most 16 of the samples, the errors first, those with the
//              most confident prediction at the beginning: {row, true, predicted, probabilities,
//              text or pixels}. `row` is the number of the sample; `probabilities` has the three
//              likeliest classes, or all labels (at most 20), as [class, probability]
//   picture    of images: {width, height, channels, is_stretched}: the size to which pictures are
//              reduced, at most 48 x 48, and whether each is scaled to its own range because its
//              values are not in [0, 1]. `pixels` are rows of interleaved channels in base64
//   values     of values: for up to six targets {name, points}; a point is [true value, prediction]
//              of a sample, or of a step of a series, in the unit of the data; at most 400 points
// The model must be in evaluation mode. Draws no random numbers.
std::string sample_predictions(Module& model, const RunConfig& config, const DataInfo& info,
                               const data::Dataset& part, Device device);

}  // namespace taper::v0::runner
