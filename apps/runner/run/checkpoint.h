// Checkpoints of a run: RUN/checkpoints/step-00001234, and `best`, a link to one of them.
//
// Each is a directory that is written under another name (".writing"), synced, renamed and read
// again; its file CRC32 (checksums.h) lists all others, so that any damage is found and named.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "apps/runner/base/errors.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::runner {

// By file name: "model.safetensors" and the like, "state.json" and the like.
struct Checkpoint {
  std::map<std::string, std::vector<NamedTensor>> tensors;
  std::map<std::string, std::string> texts;
  fs::path path{};  // where it was read, for messages
};

// Writes the checkpoint of a step, which takes the place of an older one of the same step, and
// returns its directory. Once it is found whole, the newest `keep` and the best one stay; others
// are removed. Throws DiskError, with the bytes needed and free, when it cannot be written. Other
// errors, such as OutOfMemoryError while tensors are copied from a GPU, keep their type. After an
// error nothing of the new checkpoint remains, and older ones are whole.
fs::path save_checkpoint(const fs::path& run, int64_t step, const Checkpoint& checkpoint,
                         int64_t keep, bool is_best = false);

// Whether that is the directory of a checkpoint, or a link to one.
bool is_checkpoint(const fs::path& path);
// What is wrong with a checkpoint, naming the file; empty when it is whole.
std::string damage_of(const fs::path& checkpoint);

// Reads a safetensors file; InputError naming it.
std::vector<NamedTensor> tensors_of(const fs::path& file);
// Reads a whole checkpoint; InputError naming the damage of another.
Checkpoint load_checkpoint(const fs::path& checkpoint);

// Of a run, the newest first; none where it has none.
std::vector<fs::path> list_checkpoints(const fs::path& run);
// The newest that is whole; those before it in the list are named in warnings.
std::optional<fs::path> newest_checkpoint(const fs::path& run);
fs::path best_checkpoint(const fs::path& run);
// Where the checkpoint of that step is, or would be.
fs::path checkpoint_of_step(const fs::path& run, int64_t step);
// `best` becomes the checkpoint of that step, where there is one.
void mark_best(const fs::path& run, int64_t step);
// The step in a checkpoint's name, also of "best"; -1 where there is none.
int64_t step_of(const fs::path& checkpoint);
// Removes those of later steps: a run that goes back will write them anew.
void drop_checkpoints_after(const fs::path& run, int64_t step);

}  // namespace taper::v0::runner
