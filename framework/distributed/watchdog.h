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

// Aborts the communicator if a collective fails, does not end in time, or waits for a rank that has
// ended. Aborting frees the GPU, and the host continues with an error. Supervision begins with the
// first collective. A captured graph may run at any time, so once there is one, ranks must call
// leave() before they end.
class Watchdog {
 public:
  // `broken` returns what is wrong with the communicator, or an empty text. `abort` aborts it. The
  // thread calls both functions.
  Watchdog(double timeout, Peers& peers, std::function<std::string()> broken,
           std::function<void()> abort);
  ~Watchdog() { stop(); }
  // Stops the supervision. After it returns, the communicator has been aborted or will not be.
  void stop();

  // Counts a call that starts, and returns its entry. The caller records the entry's event.
  std::shared_ptr<WatchedCall> watch(const CollectiveCall& call, bool is_captured);
  // Returns why the communicator was aborted, and the rank that was the reason; the text is empty
  // if it was not aborted.
  Peers::Late failure();

 private:
  void start();
  void run();
  // Returns why the communicator must be aborted; the text is empty if there is no reason.
  Peers::Late look(const std::optional<StartedCall>& oldest);

  double timeout_;
  Peers& peers_;
  std::function<std::string()> broken_;
  std::function<void()> abort_;
  bool one_is_lost_ = false;  // result of the last poll
  std::atomic<bool> has_graphs_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  // Calls that have begun, and calls that have ended, in the order of their start. Calls also end
  // in this order. Entries of ended calls are reused with their events, and are destroyed with the
  // watchdog. They are not destroyed earlier, because destroying an event may wait for a host
  // thread that waits for the GPU, and only the watchdog can end that wait.
  std::list<std::shared_ptr<WatchedCall>> begun_, ended_;
  Peers::Late failure_;
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace taper::v0::distributed
