// Writes event files for TensorBoard
// (https://github.com/tensorflow/tensorboard/blob/master/tensorboard/compat/proto/event.proto).
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

#include "apps/runner/base/errors.h"

namespace taper::v0::runner {

// Writes scalars to a file DIR/events.out.tfevents.SECONDS.taper.
class EventWriter {
 public:
  // Creates a file for this start of the run; TensorBoard joins the files of all starts by step.
  // Like the other functions, throws DiskError if the file cannot be written.
  explicit EventWriter(const fs::path& dir);
  // Adds a value. TensorBoard groups tags with a '/', such as "train/loss".
  void scalar(const std::string& tag, int64_t step, double value);
  void flush() { out_.flush(); }

 private:
  void write(std::string_view event);

  fs::path file_;
  std::ofstream out_;
};

}  // namespace taper::v0::runner
