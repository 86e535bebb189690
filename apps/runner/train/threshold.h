// The threshold that decides between two classes: checks the config's rule, and chooses it at the
// end of a run.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/runner/run/evaluate.h"
#include "apps/runner/settings/run_config.h"
#include "data/source.h"
#include "modules/module.h"

namespace taper::v0::runner {

// Returns the thresholds that the config gives as a number, one for each label; an empty list if it
// gives none. Throws the errors of require_two_classes(), and ConfigError if there is no validation
// part by which a threshold could be chosen.
std::vector<double> checked_thresholds(const RunConfig& config, const data::Splits& data);

// Throws ConfigError if the config has a threshold and the data have neither two classes nor
// labels.
void require_two_classes(const RunConfig& config, const DataInfo& info);

// Returns the thresholds that the config gives as a number; an empty list if it gives none.
std::vector<double> given_thresholds(const RunConfig& config, const DataInfo& info);

// Returns whether the threshold is chosen at the end of a run.
bool chooses_threshold(const RunConfig& config);

// Returns the threshold with the best score on the samples of `validation`, or that of each label.
// Restores the mode of the model. Every rank calls it and gets the same number. after_batch: that
// of evaluate().
std::vector<double> choose_thresholds(Module& model, DataLoader& validation,
                                      const RunConfig& config, const DataInfo& info,
                                      const Communicator& ranks,
                                      const std::function<void(int64_t)>& after_batch);

// Returns "0.42 for 'yes', the best f1 on the validation part"; "" without thresholds. Labels are
// listed by name.
std::string threshold_text(const std::vector<double>& thresholds, const RunConfig& config,
                           const DataInfo& info);

}  // namespace taper::v0::runner
