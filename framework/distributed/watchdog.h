// Collectives that run on a GPU, whose host does not wait: a thread looks after them.
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

// A collective that was begun.
struct Begun {
  Call call;
  uint64_t number = 0;
  std::chrono::steady_clock::time_point since = {};
};
struct Watched : Begun {
  cuda::Stream stream{};
  cuda::Event end{};                  // on that stream
  std::atomic<bool> recorded{false};  // `end`, after which it is only read
};

// From the first collective on, aborts a communicator with one that does not end, that waits for a
// rank that has ended, or that is broken: the GPU is free then, and the host goes on to an error.
// What a graph holds may run at any time: once there is one, ranks must not end before they leave.
class Watchdog {
 public:
  // `broken` says what is wrong with the communicator, if anything; both are called by the thread.
  Watchdog(double timeout, Peers& peers, std::function<std::string()> broken,
           std::function<void()> abort);
  ~Watchdog() { stop(); }
  // Afterwards the communicator is aborted or will not be.
  void stop();

  // Counts a call that begins. Its event is the caller's to record.
  std::shared_ptr<Watched> watch(const Call& call, bool is_captured);
  // Why the communicator was aborted, and the rank; empty while it is not.
  Peers::Late failure();

 private:
  void start();
  void run();
  // Why to abort; else no text.
  Peers::Late look(const std::optional<Begun>& oldest);

  double timeout_;
  Peers& peers_;
  std::function<std::string()> broken_;
  std::function<void()> abort_;
  bool one_is_lost_ = false;  // when last looked
  std::atomic<bool> has_graphs_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  // In their order, in which they end. Those that have ended are used again, events and all, and go
  // with the watchdog: to destroy an event waits for a host that waits for the GPU, and this thread
  // is the one to end that.
  std::list<std::shared_ptr<Watched>> begun_, ended_;
  Peers::Late failure_;
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace taper::v0::distributed
