#include "framework/distributed/watchdog.h"

#include <functional>
#include <memory>
#include <utility>

#include "framework/cuda/runtime.h"

namespace taper::v0::distributed {
namespace {

constexpr size_t kMany = 16;

bool has_ended(const WatchedCall& one) { return one.recorded && one.end.query(); }

}  // namespace

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

std::shared_ptr<WatchedCall> Watchdog::watch(const CollectiveCall& call, bool is_captured) {
  const std::lock_guard lock(mutex_);
  const uint64_t number = peers_.count_call();
  if (is_captured) {
    if (!has_graphs_.exchange(true)) start();
    return std::make_shared<WatchedCall>();
  }
  // The thread polls rarely. If the host issues calls quickly, this function itself reclaims
  // finished entries, many at a time.
  if (ended_.empty() && begun_.size() > kMany) {
    const cuda::RelaxedCaptureGuard relaxed;
    const auto last = std::next(begun_.begin(), kMany);
    if (has_ended(**std::prev(last))) ended_.splice(ended_.end(), begun_, begun_.begin(), last);
  }
  // An entry that a Work still holds is not reused.
  while (!ended_.empty() && ended_.front().use_count() > 1) ended_.pop_front();
  if (ended_.empty()) ended_.push_back(std::make_shared<WatchedCall>());
  const std::shared_ptr<WatchedCall>& next = ended_.front();
  static_cast<StartedCall&>(*next) = {call, number, std::chrono::steady_clock::now()};
  next->recorded = false;
  begun_.splice(begun_.end(), ended_, ended_.begin());
  if (begun_.size() == 1) start();
  return begun_.back();
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
  // Calls on this thread must not become part of a capture on another thread.
  const cuda::RelaxedCaptureGuard relaxed;
  std::unique_lock lock(mutex_);
  const auto stops = [this] { return stops_; };
  const auto has_work = [this] { return stops_ || has_graphs_ || !begun_.empty(); };
  while (failure_.text.empty()) {
    changed_.wait(lock, has_work);
    if (changed_.wait_for(lock, std::chrono::milliseconds(100), stops)) return;
    Peers::Late found;
    try {
      while (!begun_.empty() && has_ended(*begun_.front())) {
        ended_.splice(ended_.end(), begun_, begun_.begin());
      }
      std::optional<StartedCall> oldest;
      if (!begun_.empty()) oldest = *begun_.front();
      lock.unlock();
      found = look(oldest);
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

Peers::Late Watchdog::look(const std::optional<StartedCall>& oldest) {
  if (!oldest && !has_graphs_) return {};
  const std::string text = oldest ? to_string(oldest->call) : "a collective of a CUDA graph";
  if (const std::string error = broken_(); !error.empty())
    return {concat_to_string(text, ": ", error), -1};
  // A rank counts as lost only if it is found lost in two polls, because its last messages may
  // still arrive.
  const Peers::Late lost = peers_.lost(oldest ? oldest->number : 0, /*unless_left=*/!oldest);
  if (std::exchange(one_is_lost_, !lost.text.empty()) && one_is_lost_) {
    return {concat_to_string(text, ": ", lost.text), lost.rank};
  }
  if (!oldest || timeout_ <= 0) return {};
  const std::chrono::duration<double> age = std::chrono::steady_clock::now() - oldest->since;
  if (age.count() <= timeout_) return {};
  const Peers::Late late = peers_.late_for(oldest->number);
  return {concat_to_string(text, ": not at its end within ", timeout_, " s; ", late.text),
          late.rank};
}

}  // namespace taper::v0::distributed
