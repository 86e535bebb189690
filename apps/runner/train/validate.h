// What a run would be, and take of its device's memory.
#pragma once

#include <functional>
#include <string>

#include "apps/runner/settings/run_config.h"
#include "framework/distributed/communicator.h"
#include "modules/module.h"

namespace taper::v0::runner {

// `taper train CONFIG --validate`: builds the model on the CPU, whatever the config's device, and
// runs a few samples through a step: shapes, parameters and multiply-adds module by module, memory
// by its parts at the batch sizes of training and evaluation, and the number of steps. Of images
// only headers are read. Throws ConfigError for shapes that do not fit (check_batches), InputError
// for data that are missing or damaged. `ranks`: of so many.
std::string validate(const RunConfig& config, int64_t ranks = 1);

// The bytes of all parts together for a run that goes on; draws stay as they were. holds_data: the
// samples lie on the device, too. Of several ranks, those of one.
int64_t foretold_memory(const RunConfig& config, const data::Splits& data, bool holds_data,
                        const distributed::Communicator& ranks);

// Returns the largest power of two up to 1024 with which an evaluation, and what is there all the
// time, take at most half of the memory on one rank, so that it is the same for any number of
// ranks. The model lies on the CPU. `total`, the memory's size, is called only where it matters.
int64_t fitting_eval_batch_size(const RunConfig& config, const DataInfo& info, Module& model,
                                bool on_gpu, const std::function<int64_t()>& total);
// The batch size of evaluations: the config's, or else that of eval_batch_size_of for a
// text, fitting_eval_batch_size of the device's total memory for other data. What is free there has
// no say.
int64_t choose_eval_batch_size(const RunConfig& config, const DataInfo& info,
                               const distributed::Communicator& ranks);

// The most that tensors of the device held since reset_peak_memory().
int64_t peak_memory(Device device);
void reset_peak_memory(Device device);

}  // namespace taper::v0::runner
