// TensorBoard's event files
// (https://github.com/tensorflow/tensorboard/blob/master/tensorboard/compat/proto/event.proto).
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

#include "apps/runner/base/errors.h"

namespace taper::v0::runner {

// One file of scalars, DIR/events.out.tfevents.SECONDS.taper.
class EventWriter {
 public:
  // A file of its own for every start of a run: TensorBoard joins them by step. Throws DiskError
  // when it cannot be written, as do the others.
  explicit EventWriter(const fs::path& dir);
  // Tags with a '/' are shown in groups: "train/loss".
  void scalar(const std::string& tag, int64_t step, double value);
  void flush() { out_.flush(); }

 private:
  void write(std::string_view event);

  fs::path file_;
  std::ofstream out_;
};

}  // namespace taper::v0::runner
