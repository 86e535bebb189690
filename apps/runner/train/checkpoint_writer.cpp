#include "apps/runner/train/checkpoint_writer.h"

#include <chrono>
#include <system_error>

namespace taper::v0::runner {

void CheckpointWriter::start(const Write& write, bool in_background) try {
  message_ = std::async(in_background ? std::launch::async : std::launch::deferred, write);
} catch (const std::system_error&) {  // no thread; the run is only slower
  message_ = std::async(std::launch::deferred, write);
}

bool CheckpointWriter::is_due() const {
  return is_busy() && message_.wait_for(std::chrono::seconds(0)) != std::future_status::timeout;
}

}  // namespace taper::v0::runner
