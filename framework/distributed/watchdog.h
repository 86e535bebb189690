// A thread that supervises collectives on a GPU, for which the host does not wait.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "framework/cuda/cuda.h"
#include "framework/distributed/backend.h"

namespace taper::v0::distributed {

// A collective that has started.
struct StartedCall {
  CollectiveCall call;
  uint64_t number = 0;
  std::chrono::steady_clock::time_point since = {};
};
struct WatchedCall : StartedCall {
  cuda::Stream stream{};
  cuda::Event end{};                  // on the stream of the collective
  std::atomic<bool> recorded{false};  // set after `end` was recorded; it is only read afterwards
};

// Aborts the communicator if a collective does not end in time, waits for a rank that has ended, or
// fails. Aborting frees the GPU, and the host continues with an error. Supervision begins with the
// first collective. A captured graph may run at any time: once there is one, ranks must not end
// before they have called leave().
class Watchdog {
 public:
  // `broken` returns what is wrong with the communicator, or an empty text. The thread calls both
  // functions.
  Watchdog(double timeout, Peers& peers, std::function<std::string()> broken,
           std::function<void()> abort);
  ~Watchdog() { stop(); }
  // After it returns, the communicator has been aborted or will not be.
  void stop();

  // Counts a call that starts. The caller records its event.
  std::shared_ptr<WatchedCall> watch(const CollectiveCall& call, bool is_captured);
  // Returns why the communicator was aborted, and the rank; empty if it was not.
  Peers::Late failure();

 private:
  void start();
  void run();
  // Returns why to abort; the text is empty if there is no reason.
  Peers::Late look(const std::optional<StartedCall>& oldest);

  double timeout_;
  Peers& peers_;
  std::function<std::string()> broken_;
  std::function<void()> abort_;
  bool one_is_lost_ = false;  // result of the last poll
  std::atomic<bool> has_graphs_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  // In the order of their start, in which they also end. Finished entries are reused with their
  // events and destroyed with the watchdog: destroying an event waits for a host that waits for the
  // GPU, and it is this thread that ends such a wait.
  std::list<std::shared_ptr<WatchedCall>> begun_, ended_;
  Peers::Late failure_;
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace taper::v0::distributed
