// Checkpoints of a run: RUN/checkpoints/step-00001234, and `best`, a symbolic link to one of them.
//
// A checkpoint is a directory. It is written under the name ".writing", synced, renamed, and read
// again to verify it. Its file CRC32 (apps/runner/base/files.h) lists all other files, so that
// damage to any file is found and reported by name.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "apps/runner/base/errors.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::runner {

// The contents of a checkpoint by file name. `tensors` holds files such as "model.safetensors",
// `texts` holds files such as "state.json".
struct Checkpoint {
  std::map<std::string, std::vector<NamedTensor>> tensors;
  std::map<std::string, std::string> texts;
  fs::path path{};  // the directory it was read from, for messages
};

// Writes the checkpoint of a step and returns its directory. Replaces an older checkpoint of the
// same step. After the new one is verified, keeps the newest `keep` checkpoints and the best one,
// and removes the others. is_best: marks it as the best. Throws DiskError, which states the bytes
// needed and the bytes free, if the checkpoint cannot be written. Other errors, such as
// OutOfMemoryError while tensors are copied from a GPU, are passed on unchanged. After an error no
// part of the new checkpoint remains, and older checkpoints are intact.
fs::path save_checkpoint(const fs::path& run, int64_t step, const Checkpoint& checkpoint,
                         int64_t keep, bool is_best = false);

// Returns whether `path` is the directory of a checkpoint, or a link to one.
bool is_checkpoint(const fs::path& path);
// Returns what is damaged in a checkpoint, with the name of the file. Returns "" if it is intact.
std::string damage_of(const fs::path& checkpoint);

// Reads a safetensors file. Throws InputError, with the name of the file, if it is missing or
// damaged.
std::vector<NamedTensor> tensors_of(const fs::path& file);
// Reads all files of a checkpoint. Throws InputError if it is damaged.
Checkpoint load_checkpoint(const fs::path& checkpoint);

// Returns the checkpoints of a run, newest first. Returns an empty vector if there are none.
std::vector<fs::path> list_checkpoints(const fs::path& run);
// Returns the newest undamaged checkpoint. Logs a warning for each newer one that is damaged.
std::optional<fs::path> newest_checkpoint(const fs::path& run);
fs::path best_checkpoint(const fs::path& run);
// Returns the path of the checkpoint of a step, whether or not it exists.
fs::path checkpoint_of_step(const fs::path& run, int64_t step);
// Makes `best` a link to the checkpoint of that step. Does nothing if there is no such checkpoint.
void mark_best(const fs::path& run, int64_t step);
// Returns the step in a checkpoint's name, following the link "best". Returns -1 for other names.
int64_t step_of(const fs::path& checkpoint);
// Removes the checkpoints of later steps, which a run that was rolled back will write again.
void drop_checkpoints_after(const fs::path& run, int64_t step);

}  // namespace taper::v0::runner
