// Writes the checkpoints of a run while training goes on.
#pragma once

#include <functional>
#include <future>
#include <string>

#include "framework/base/namespace.h"

namespace taper::v0::runner {

// How Trainer::save() saves a checkpoint.
struct SaveOptions {
  bool is_best = false;
  // Extra checkpoints (signal, time limit) are rollback targets only if there are no others,
  // because an uninterrupted run would not have written them.
  bool is_extra = false;
  bool ends_run = false;  // no step follows
};

// Runs a function that writes a checkpoint, on a thread of its own or on the caller's. At most one
// runs at a time. All members are called on the same thread. The destructor waits for the thread
// and drops its error.
class CheckpointWriter {
 public:
  // Writes the files and returns a message for the log.
  using Write = std::function<std::string()>;

  // Starts to write on a new thread. Otherwise, and if the system gives no thread, wait() writes.
  // wait() must have returned for the checkpoint before. `write` and what it captures are destroyed
  // by wait(), so that tensors are freed on the caller's thread.
  void start(const Write& write, bool in_background);
  // Returns whether start() was called without wait() after it.
  bool is_busy() const { return message_.valid(); }
  // Returns whether wait() has something to return, or to write, without waiting for the thread.
  bool is_due() const;
  // Waits until the checkpoint is written. Returns the message of `write`, or throws its error.
  std::string wait() { return message_.get(); }

 private:
  std::future<std::string> message_;
};

}  // namespace taper::v0::runner
