// The ranks of a run: one process, or as many as a launcher has started. Each computes a part of
// every batch. Only the first rank writes files and logs.
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

// Returns whether this process is one of several ranks and not the first. Reads only the launcher's
// environment, so that errors before the ranks are connected are printed once.
bool is_later_rank();

// Sets up this process like set_up() in host_state.h, and connects it to the other ranks that were
// launched, if any. With several ranks each uses a GPU of its own.
Communicator set_up_ranks(const RunConfig& config);

// Throws on all ranks, with the differences, if ranks differ in program or config (ConfigError) or
// in data files (InputError). Every rank calls it.
void require_equal_ranks(const RunConfig& config, const Communicator& ranks);

// Runs f on every rank. If f throws on some ranks, all ranks throw an error with the exit code of
// the first of them. Its message names the failed ranks, unless all failed with the same error. f
// must not call collectives.
void run_on_all_ranks(const Communicator& ranks, const std::function<void()>& f);

// Like run_on_all_ranks() above, but for use before the ranks have devices. Afterwards the ranks
// synchronize within `timeout` seconds, which f may set. Without MPI each rank throws its own
// error.
void run_on_all_ranks(const double& timeout, const std::function<void()>& f);

// Returns the first rank's value on all ranks. Every rank calls it.
std::string from_first(const Communicator& ranks, const std::string& text);
std::optional<Checkpoint> from_first(const Communicator& ranks, std::optional<Checkpoint> given);

// Terminates this rank after a failed run. `step` is the last step. Rethrows an error that all
// ranks share. Only the first rank's error has a message, so that the message is printed once. If
// another rank was lost, throws an error with the name of this rank and the step. If only this rank
// failed, logs the error and aborts the job.
[[noreturn]] void abort_rank(const Communicator& ranks, const std::exception& error, int64_t step);

// Implements `taper ... --ranks N`: replaces this process by mpirun, which starts the program N
// times on this host with the same arguments. Throws ConfigError if mpirun or MPI is missing.
[[noreturn]] void launch(int64_t ranks);

}  // namespace taper::v0::runner
