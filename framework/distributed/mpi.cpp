// Collectives of CPU tensors through MPI. The plugin is loaded on first use.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <thread>

#include <dlfcn.h>
#include <sched.h>

#include "framework/distributed/backend.h"
#include "framework/distributed/mpi_plugin.h"
#include "framework/factory/factories.h"
#include "framework/kernels/elementwise/binary.h"

namespace taper::v0::distributed {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// --- the plugin ---

struct Loaded {
  const MpiPlugin* mpi = nullptr;
  std::string problem;
};

// Returns the paths where the plugin may be: the path in the environment, the folder of the program
// or library, and the library folders of either.
std::vector<fs::path> places() {
  if (const char* named = std::getenv("TAPER_MPI_PLUGIN")) return {named};
  std::vector<fs::path> found;
  std::error_code ignored;
  std::vector<fs::path> starts{fs::read_symlink("/proc/self/exe", ignored)};
  Dl_info self;
  static const int here = 0;
  if (dladdr(&here, &self)) starts.push_back(fs::absolute(self.dli_fname, ignored));
  for (const fs::path& start : starts) {
    for (const char* folder : {".", "..", "../lib", "../" TAPER_LIBDIR}) {
      found.push_back((start.parent_path() / folder / "taper_mpi.so").lexically_normal());
    }
  }
  return found;
}

Loaded load() {
  std::string looked;
  void* library = nullptr;
  for (const fs::path& place : places()) {
    if (!fs::exists(place)) {
      if (looked.find(place.string()) == std::string::npos)
        looked += concat_to_string(" ", place.string());
      continue;
    }
    // RTLD_GLOBAL is needed because MPI implementations load plugins of their own that use these
    // symbols.
    library = dlopen(place.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (!library)
      return {nullptr, concat_to_string("cannot load ", place.string(), ": ", dlerror())};
    break;
  }
  if (!library) {
    return {nullptr, concat_to_string(
                         "there is no taper_mpi.so (looked for", looked,
                         "); it is built where CMake finds an MPI: scripts/install.sh distributed, "
                         "then build again, or name one in TAPER_MPI_PLUGIN")};
  }
  const auto get = reinterpret_cast<const MpiPlugin* (*)()>(dlsym(library, MpiPlugin::kSymbol));
  if (!get || get()->version != MpiPlugin::kVersion) {
    return {nullptr, "taper_mpi.so is of another version of Taper: build it anew"};
  }
  return {get(), ""};
}

const Loaded& loaded() {
  static const Loaded plugin = load();
  return plugin;
}

std::atomic<bool> has_begun{false};
// Set when a rank was lost. The process must then end without waiting for all ranks.
std::atomic<bool> lost_a_rank{false};
// The peers of the first communicator, which has all ranks.
std::shared_ptr<const Peers> all_peers;

// Keeps an object forever, because MPI may still access it after a failure.
void keep(std::shared_ptr<void> object) {
  static auto& kept = *std::make_unique<std::vector<std::shared_ptr<void>>>().release();
  kept.push_back(std::move(object));
}

enum class Waited { kDone, kTimedOut, kRankLost };

// Waits until done() returns true, the timeout (in seconds; 0: none) expires, or a rank is lost. A
// rank counts as lost only if it is found lost in two polls, because its last messages may still
// arrive.
template <class F>
Waited wait_for(const F& done, double seconds, const Peers* peers, uint64_t call = 0) {
  if (peers) peers->set_waiting(true);  // stays set after a failure
  const auto start = Clock::now();
  auto look = start + std::chrono::milliseconds(100);
  bool one_is_lost = false;
  while (!done()) {
    // With more ranks than processors, the other ranks need this processor to proceed.
    sched_yield();
    const auto now = Clock::now();
    const std::chrono::duration<double> waited = now - start;
    if (seconds > 0 && waited.count() > seconds) return Waited::kTimedOut;
    if (!peers || now < look) continue;
    look = now + std::chrono::milliseconds(100);
    if (one_is_lost) return Waited::kRankLost;
    one_is_lost = !peers->lost(call).text.empty();
  }
  if (peers) peers->set_waiting(false);
  return Waited::kDone;
}

// Runs a call that waits for other ranks inside MPI on a separate thread, which then runs `after`.
// If the other ranks never arrive, the thread stays blocked and MPI can no longer be used.
std::atomic<bool> is_stuck{false};
template <class F>
auto within(const std::string& text, double timeout, const Peers* peers, F call,
            const std::function<void()>& after = nullptr) {
  const std::string gone = "not all ranks have come";
  if (is_stuck) throw RankError(concat_to_string(text, ": MPI has failed before: ", gone));
  const auto promise = std::make_shared<std::promise<decltype(call())>>();
  auto result = promise->get_future();
  std::thread([=] {
    try {
      promise->set_value(call());
    } catch (...) {
      return promise->set_exception(std::current_exception());
    }
    if (after) after();
  }).detach();
  const auto done = [&] {
    return result.wait_for(std::chrono::milliseconds(1)) == std::future_status::ready;
  };
  const Waited waited = wait_for(done, timeout, peers);
  if (waited == Waited::kDone) return result.get();
  is_stuck = true;
  const Peers::Late lost = waited == Waited::kRankLost ? peers->lost(0) : Peers::Late();
  if (!lost.text.empty()) throw RankError(concat_to_string(text, ": ", lost.text), lost.rank);
  throw RankError(concat_to_string(text, ": not at its end within ", timeout, " s; ", gone));
}

MpiRanks* mpi_comm_world = nullptr;
// The thread that initialized MPI should also finalize it.
struct End {
  std::promise<void> may_come, is_there;
};
End& the_end = *std::make_unique<End>().release();

// Ends MPI together with the other ranks. If a rank was lost, waits for at most five seconds,
// because MPI itself would wait forever. The launcher then sees a rank that left without
// MPI_Finalize.
void end() {
  if (is_stuck) return;
  int ranks = 1;
  MpiRanks& all = *mpi_comm_world;
  // The request is static, because MPI keeps using it if a rank is lost.
  static auto* const request =
      all.start(CollectiveKind::kAllReduce, ReduceOp::kSum, kInt32, &ranks, &ranks, 1, 0);
  const auto done = [&] { return all.test(request); };
  if (wait_for(done, lost_a_rank ? 5 : 0, all_peers.get()) != Waited::kDone) return;
  the_end.may_come.set_value();
  the_end.is_there.get_future().wait();
}

MpiRanks& begun(double timeout) {
  if (mpi_comm_world) return *mpi_comm_world;
  const MpiPlugin* const mpi = loaded().mpi;
  if (!mpi) throw Error(mpi_unavailable_reason());
  const auto leave = [mpi] {
    the_end.may_come.get_future().wait();
    mpi->end();
    the_end.is_there.set_value();
  };
  mpi_comm_world = within("the start of MPI", timeout, nullptr, mpi->begin, leave);
  has_begun = true;
  std::atexit(end);
  return *mpi_comm_world;
}

// --- the backend ---

class MpiBackend : public Backend, public std::enable_shared_from_this<MpiBackend> {
 public:
  MpiBackend(std::shared_ptr<MpiRanks> ranks, const CommunicatorOptions& given)
      : ranks_(std::move(ranks)) {
    options = given;
    checked = given.checked.value_or(true);
    rank = ranks_->rank();
    size = ranks_->size();
    meet();
  }
  ~MpiBackend() override {
    // Other calls may still be inside MPI.
    if (!failure_.empty()) keep(std::move(ranks_));
  }

  std::unique_ptr<Work::Pending> start(Collective collective) override;

  std::vector<std::string> exchange(const std::string& mine, const std::string& text) override {
    refuse_failed();
    const uint64_t call = peers->count_call();
    struct Letters {
      std::string own;
      std::vector<std::string> all;
      std::vector<MpiRanks::Request*> sends, receives;
    };
    const size_t n = size_t(size);
    const auto letters = std::make_shared<Letters>(Letters{mine, std::vector<std::string>(n, mine),
                                                           std::vector<MpiRanks::Request*>(n),
                                                           std::vector<MpiRanks::Request*>(n)});
    for (int r = 0; r < size; ++r) {
      if (r == rank) continue;
      letters->receives[size_t(r)] = ranks_->receive(letters->all[size_t(r)], r);
      letters->sends[size_t(r)] = ranks_->send(letters->own, r);
    }
    const auto done = [&] { return test(letters->receives) && test(letters->sends); };
    const Waited waited = wait_for(done, options.timeout, peers.get(), call);
    if (waited == Waited::kDone) return letters->all;
    keep(letters);
    std::vector<int> missing;
    for (int r = 0; r < size; ++r) {
      if (letters->receives[size_t(r)]) missing.push_back(r);
    }
    fail(text, waited, call, missing);
  }

  std::shared_ptr<Backend> split(int color, int key) override {
    refuse_failed();
    const auto call = [self = shared_from_this(), color, key] {
      return std::shared_ptr<MpiRanks>(self->ranks_->split(color, key));
    };
    const std::string text = concat_to_string("split on ", name_of(rank));
    return std::make_shared<MpiBackend>(within(text, options.timeout, peers.get(), call), options);
  }

  MpiRanks& ranks() { return *ranks_; }
  // Returns whether all requests are done. Requests that are done become null.
  bool test(std::vector<MpiRanks::Request*>& requests) {
    bool all = true;
    for (auto*& request : requests) {
      if (request && ranks_->test(request)) request = nullptr;
      all = all && !request;
    }
    return all;
  }

  // Throws RankError. The ranks in `missing` are known not to have made the call.
  [[noreturn]] void fail(const std::string& text, Waited why, uint64_t call,
                         const std::vector<int>& missing = {}) {
    lost_a_rank = true;
    Peers::Late late;
    if (why == Waited::kRankLost) late = peers->lost(call);
    const bool is_lost = !late.text.empty();
    if (!is_lost) late = peers->late_for(call, missing);
    const std::string after = concat_to_string("not at its end within ", options.timeout, " s; ");
    failure_ = concat_to_string(text, ": ", is_lost ? "" : after, late.text);
    peers->fail(late.rank);
    lost_ = late.rank;
    throw RankError(failure_, lost_);
  }

 private:
  void refuse_failed() const {
    if (failure_.empty()) return;
    throw RankError(concat_to_string("this communicator has failed: ", failure_), lost_);
  }

  std::shared_ptr<MpiRanks> ranks_;
  std::string failure_;
  int lost_ = -1;
};

class MpiPending : public Work::Pending {
 public:
  MpiPending(std::shared_ptr<MpiBackend> backend, Collective collective)
      : backend_(std::move(backend)),
        call_(backend_->peers->count_call()),
        collective_(std::move(collective)) {
    for (const auto& [out, in, root] : collective_.parts) {
      const int64_t each = collective_.kind == CollectiveKind::kAllToAll ? backend_->size : 1;
      const int64_t count = std::min(out.numel(), in.numel()) / each;
      requests_.push_back(backend_->ranks().start(collective_.kind, collective_.op, out.dtype(),
                                                  in.data_ptr(), out.data_ptr(), size_t(count),
                                                  root));
    }
  }
  bool done() override {
    if (!backend_->test(requests_)) return false;
    if (collective_.op == ReduceOp::kAvg) divide();
    return true;
  }
  void wait() override {
    const auto is_done = [this] { return done(); };
    const Waited waited =
        wait_for(is_done, backend_->options.timeout, backend_->peers.get(), call_);
    if (waited == Waited::kDone) return;
    const std::string text = to_string(collective_);
    keep(std::make_shared<std::pair<Collective, std::vector<MpiRanks::Request*>>>(
        std::move(collective_), std::move(requests_)));
    backend_->fail(text, waited, call_);
  }

 private:
  void divide() {
    for (const auto& [out, in, root] : collective_.parts) {
      kernels::binary_into(kernels::BinaryOp::kDiv, out, out, wrap_scalar(double(backend_->size)));
    }
    collective_.op = ReduceOp::kSum;
  }

  std::shared_ptr<MpiBackend> backend_;
  uint64_t call_;
  Collective collective_;
  std::vector<MpiRanks::Request*> requests_;
};

std::unique_ptr<Work::Pending> MpiBackend::start(Collective collective) {
  refuse_failed();
  return std::make_unique<MpiPending>(shared_from_this(), std::move(collective));
}

}  // namespace

std::string mpi_unavailable_reason() {
  const std::string& problem = loaded().problem;
  return problem.empty() ? "" : concat_to_string("MPI, for CPU tensors and mpirun: ", problem);
}

void abort_mpi(int exit_code) {
  if (has_begun) loaded().mpi->abort(exit_code);
}

std::shared_ptr<Backend> mpi_world(const CommunicatorOptions& options) {
  MpiRanks& all = begun(options.timeout);
  const auto call = [&all] { return std::shared_ptr<MpiRanks>(all.split(0, 0)); };
  const auto world = std::make_shared<MpiBackend>(
      within("the start of MPI", options.timeout, all_peers.get(), call), options);
  if (!all_peers) all_peers = world->peers;
  return world;
}

}  // namespace taper::v0::distributed
