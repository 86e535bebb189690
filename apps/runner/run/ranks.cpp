#include "apps/runner/run/ranks.h"

#include <algorithm>
#include <cstdlib>
#include <functional>

#include <unistd.h>

#include "apps/runner/base/process.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/run/host_state.h"
#include "apps/runner/run/run_metadata.h"
#include "framework/cuda/cuda.h"
#include "framework/host/thread_pool.h"

namespace taper::v0::runner {
namespace {

constexpr const char* kRankNames[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "RANK"};
constexpr const char* kLocalSizes[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS",
                                       "LOCAL_WORLD_SIZE"};

template <size_t N> int number_of(const char* const (&names)[N], int otherwise) {
  for (const char* name : names) {
    if (const char* value = std::getenv(name)) return std::atoi(value);
  }
  return otherwise;
}

// An error that all ranks throw. The first rank prints it.
struct SharedError : RunError {
  using RunError::RunError;
};

Communicator rendezvous(Device device, double timeout) try {
  return Communicator::world(device, {.timeout = timeout});
} catch (const distributed::RankError& error) {
  throw RunError(kExitRanks, error.what());
}

// Returns the first rank's file names on all ranks.
template <class T>
std::vector<std::string> names_from_first(const Communicator& ranks,
                                          const std::map<std::string, T>& files) {
  std::string lines;
  for (const auto& [name, content] : files) lines += name + "\n";
  return lines_of(from_first(ranks, lines));
}

}  // namespace

bool is_later_rank() { return Communicator::is_launched() && number_of(kRankNames, 0) > 0; }

Communicator set_up_ranks(const RunConfig& config) {
  if (!Communicator::is_launched()) return Communicator::alone(set_up(config));
  const bool on_gpu = config.device == "auto" ? cuda::is_available() : config.device != "cpu";
  const Device kind = on_gpu ? DeviceType::kCuda : DeviceType::kCpu;
  run_on_all_ranks(config.distributed.timeout, [&] {
    RunConfig on_cpu = config;
    on_cpu.device = "cpu";  // each rank chooses its own device below
    set_up(on_cpu);
    require<ConfigError>(!config.device.starts_with("cuda:"), "device: ", config.device,
                         " is one GPU, but several ranks were started; with device: cuda each ",
                         "rank uses the GPU of its own number on its host");
    if (const std::string why = Communicator::unavailable_reason(kind); !why.empty()) {
      throw DeviceUnavailable(why);
    }
  });
  Communicator ranks = rendezvous(kind, config.distributed.timeout);
  if (config.threads == 0) {  // the ranks of a host share its cores
    const int here = number_of(kLocalSizes, ranks.size());
    set_num_threads(std::max(1, get_num_threads() / std::max(here, 1)));
  }
  return ranks;
}

void require_equal_ranks(const RunConfig& config, const Communicator& ranks) {
  if (ranks.size() == 1) return;
  std::string own;
  run_on_all_ranks(ranks, [&] { own = metadata_of_rank(config); });
  const std::vector<std::string> all = ranks.all_gather_text(own);
  for (int r = 1; r < ranks.size(); ++r) {
    const std::string differences = config_differences(all[0], all[size_t(r)]);
    if (differences.empty()) continue;
    const bool data_alone = std::ranges::all_of(lines_of(differences), [](const std::string& line) {
      return line.starts_with("  data_files");
    });
    throw SharedError(
        data_alone ? kExitInput : kExitConfig,
        concat_to_string("ranks of one run must have the same program, config and data (",
                         ranks.name_of(0), " | ", ranks.name_of(r), "):\n", differences));
  }
}

void run_on_all_ranks(const Communicator& ranks, const std::function<void()>& f) {
  if (ranks.size() == 1) return f();
  int code = kExitOk;
  std::string what;
  try {
    f();
  } catch (const std::exception& error) {
    code = exit_code_of(error);
    what = message_of(error);
  }
  const std::vector<std::string> all =
      ranks.all_gather_text(code ? concat_to_string(code, " ", what) : "");
  const auto first = std::ranges::find_if(all, [](const std::string& s) { return !s.empty(); });
  if (first == all.end()) return;
  const ExitCode first_code = ExitCode(std::stoi(*first));
  const auto said = [](const std::string& text) { return text.substr(text.find(' ') + 1); };
  if (std::ranges::count(all, *first) == ranks.size()) throw SharedError(first_code, said(*first));
  std::string text;
  for (int r = 0; r < ranks.size(); ++r) {
    const std::string& theirs = all[size_t(r)];
    if (!theirs.empty())
      text += concat_to_string(text.empty() ? "" : "\n", ranks.name_of(r), ": ", said(theirs));
  }
  throw SharedError(first_code, text);
}

void run_on_all_ranks(const double& timeout, const std::function<void()>& f) {
  const bool has_mpi = Communicator::is_launched() && Communicator::unavailable_reason().empty();
  if (!has_mpi) return f();
  std::exception_ptr error;
  try {
    f();
  } catch (const std::exception&) {
    error = std::current_exception();
  }
  const Communicator ranks = rendezvous(DeviceType::kCpu, timeout);
  try {
    run_on_all_ranks(ranks, [&] {
      if (error) std::rethrow_exception(error);
    });
  } catch (const std::exception& shared) {
    abort_rank(ranks, shared, 0);
  }
}

std::string from_first(const Communicator& ranks, const std::string& text) {
  if (ranks.size() == 1) return text;
  return ranks.all_gather_text(ranks.rank() == 0 ? text : "")[0];
}

std::optional<Checkpoint> from_first(const Communicator& ranks, std::optional<Checkpoint> given) {
  if (ranks.size() == 1 || from_first(ranks, given ? "there" : "").empty()) return given;
  const bool is_first = ranks.rank() == 0;
  Checkpoint out = is_first ? std::move(*given) : Checkpoint{};
  out.path = from_first(ranks, out.path.string());
  for (const std::string& name : names_from_first(ranks, out.texts)) {
    out.texts[name] = from_first(ranks, is_first ? out.texts[name] : "");
  }
  for (const std::string& name : names_from_first(ranks, out.tensors)) {
    out.tensors[name] = ranks.broadcast_named(out.tensors[name]);
  }
  return out;
}

void abort_rank(const Communicator& ranks, const std::exception& error, int64_t step) {
  const std::string here = ranks.name_of(ranks.rank());
  if (is_any<SharedError, Interrupted, Diverged>(error)) {
    throw RunError(exit_code_of(error), ranks.rank() == 0 ? error.what() : "");
  }
  if (is_any<distributed::RankError>(error)) {
    throw RunError(kExitRanks, concat_to_string(here, ", after step ", step, ": ", error.what()));
  }
  log_message(LogLevel::kError,
              concat_to_string(here, ", after step ", step, ": ", message_of(error)));
  Communicator::abort(exit_code_of(error));
}

void launch(int64_t ranks) {
  if (const std::string why = Communicator::unavailable_reason(); !why.empty()) {
    throw ConfigError(concat_to_string("--ranks: ", why));
  }
  std::vector<std::string> words = {"mpirun", "-n", concat_to_string(ranks),
                                    fs::read_symlink("/proc/self/exe").string()};
  const std::vector<std::string> own = command_line();
  for (size_t i = 1; i < own.size(); ++i) {
    if (own[i] == "--ranks") {
      ++i;
    } else if (!own[i].starts_with("--ranks=")) {
      words.push_back(own[i]);
    }
  }
  // Sets defaults for variables that the user has not set: ranks may share one host, and threads
  // are not bound to cores. If a rank is lost, the others have 5 seconds to report that or to save.
  setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0);
  setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 0);
  setenv("OMPI_MCA_orte_execute_quiet", "1", 0);  // the ranks themselves report errors
  setenv("OMPI_MCA_odls_base_sigkill_timeout", "5", 0);
  if (::geteuid() == 0) {  // root, as in a container
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
  }
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  throw ConfigError(
      "--ranks: mpirun is not on PATH; install it with scripts/install.sh distributed");
}

}  // namespace taper::v0::runner
