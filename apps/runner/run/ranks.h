// The ranks of a run: one process, or as many as a launcher started, each with a part of every
// batch. The first alone writes files and logs.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "apps/runner/base/errors.h"
#include "apps/runner/run/checkpoint.h"
#include "apps/runner/settings/run_config.h"
#include "framework/distributed/communicator.h"

namespace taper::v0::runner {

using distributed::Communicator;

// Whether this process is one of several, and not the first: by the launcher's environment alone,
// so that errors before the ranks have met are printed once.
bool is_later_rank();

// What set_up() does (process.h), for the ranks that were launched, or for this process alone; on
// several each has a GPU of its own.
Communicator set_up_ranks(const RunConfig& config);

// Throws on all ranks, saying how, when they differ in program, config (ConfigError) or data files
// (InputError).
void require_equal_ranks(const RunConfig& config, const Communicator& ranks);

// Runs f on every rank. Where it throws on some, all throw the first's error, which names the ranks
// unless it is that of all. f calls no collective.
void run_on_all_ranks(const Communicator& ranks, const std::function<void()>& f);

// The same before they have their devices; afterwards they meet within the timeout, which f may
// set. Under a launcher that is no MPI each says its own.
void run_on_all_ranks(const double& timeout, const std::function<void()>& f);

// The first rank's on all.
std::string from_first(const Communicator& ranks, const std::string& text);
std::optional<Checkpoint> from_first(const Communicator& ranks, std::optional<Checkpoint> given);

// Ends a rank whose run threw `error` after `step`: rethrows what all ranks throw, said by the
// first alone (an empty message means that nothing is to be said); says which rank and where for
// the loss of another one; and for what befell this rank alone says so and ends all.
[[noreturn]] void abort_rank(const Communicator& ranks, const std::exception& error, int64_t step);

// `taper ... --ranks N`: this process becomes mpirun, which starts the program N times on this host
// with these words. Throws ConfigError where there is no mpirun, or no MPI to use.
[[noreturn]] void launch(int64_t ranks);

}  // namespace taper::v0::runner
