#include "framework/distributed/watchdog.h"

#include <functional>
#include <memory>
#include <utility>

#include "framework/cuda/runtime.h"

namespace taper::inline v0::distributed {

Watchdog::Watchdog(double timeout, Peers& peers, std::function<std::string()> broken,
                   std::function<void()> abort)
    : timeout_(timeout), peers_(peers), broken_(std::move(broken)), abort_(std::move(abort)) {}

void Watchdog::stop() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Watchdog::watch(std::shared_ptr<Begun> begun) {
  std::list<std::shared_ptr<Begun>> ended;
  const std::lock_guard lock(mutex_);
  ended.swap(ended_);
  begun_.push_back(std::move(begun));
  if (begun_.size() == 1) start();
}

void Watchdog::watch_graphs() {
  const std::lock_guard lock(mutex_);
  if (!has_graphs_.exchange(true)) start();
}

Peers::Late Watchdog::failure() {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Watchdog::start() {
  changed_.notify_all();
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
}

void Watchdog::run() {
  // Its calls are no part of what another thread captures.
  const cuda::RelaxedCapture relaxed;
  std::unique_lock lock(mutex_);
  const auto stops = [this] { return stops_; };
  const auto has_work = [this] { return stops_ || has_graphs_ || !begun_.empty(); };
  while (failure_.text.empty()) {
    changed_.wait(lock, has_work);
    if (changed_.wait_for(lock, std::chrono::milliseconds(100), stops)) return;
    Peers::Late found;
    try {
      const auto has_ended = [](const auto& b) { return b->recorded && b->end.query(); };
      for (auto b = begun_.begin(); b != begun_.end();) {
        const auto next = std::next(b);
        if (has_ended(*b)) ended_.splice(ended_.end(), begun_, b);
        b = next;
      }
      const std::shared_ptr<Begun> oldest = begun_.empty() ? nullptr : begun_.front();
      lock.unlock();
      found = look(oldest.get());
    } catch (const Error& error) {
      found = {error.what(), -1};
    }
    if (!lock.owns_lock()) lock.lock();
    failure_ = found;
  }
  peers_.fail(failure_.rank);
  lock.unlock();
  abort_();
}

Peers::Late Watchdog::look(const Begun* oldest) {
  if (!oldest && !has_graphs_) return {};
  const std::string text = oldest ? oldest->text : "a collective of a CUDA graph";
  if (const std::string error = broken_(); !error.empty()) return {cat(text, ": ", error), -1};
  // Seen twice, for what it had sent may still come.
  const Peers::Late lost = peers_.lost(oldest ? oldest->call : 0, /*unless_left=*/!oldest);
  if (std::exchange(one_is_lost_, !lost.text.empty()) && one_is_lost_) {
    return {cat(text, ": ", lost.text), lost.rank};
  }
  if (!oldest || timeout_ <= 0) return {};
  const std::chrono::duration<double> age = std::chrono::steady_clock::now() - oldest->since;
  if (age.count() <= timeout_) return {};
  const Peers::Late late = peers_.late_for(oldest->call);
  return {cat(text, ": not at its end within ", timeout_, " s; ", late.text), late.rank};
}

}  // namespace taper::inline v0::distributed
