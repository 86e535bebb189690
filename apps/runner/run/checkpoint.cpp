#include "apps/runner/run/checkpoint.h"

#include <algorithm>
#include <functional>
#include <system_error>

#include <fmt/format.h>

#include "apps/runner/base/files.h"
#include "apps/runner/base/process.h"
#include "apps/runner/base/string_utils.h"
#include "framework/base/log.h"
#include "framework/io/safetensors.h"

namespace taper::v0::runner {
namespace {

constexpr const char* kPrefix = "step-";

fs::path directory_of(const fs::path& run) { return run / "checkpoints"; }

std::string name_of(int64_t step) { return fmt::format("{}{:08}", kPrefix, step); }

// Returns the checksums of all files but the list itself.
std::string sums_of_all(const fs::path& checkpoint) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(checkpoint)) {
    if (entry.path().filename() != kChecksums) names.push_back(entry.path().filename());
  }
  return sums_of(checkpoint, std::move(names));
}

uint64_t bytes_of(const Checkpoint& checkpoint) {
  uint64_t bytes = 0;
  for (const auto& [name, tensors] : checkpoint.tensors) {
    for (const NamedTensor& t : tensors) bytes += t.tensor.nbytes() + t.name.size() + 64;
  }
  return bytes;
}

void write_files(const fs::path& dir, const Checkpoint& checkpoint) {
  fs::remove_all(dir);  // left by a process that was killed
  fs::create_directories(dir);
  for (const auto& [name, tensors] : checkpoint.tensors) save_safetensors(dir / name, tensors);
  for (const auto& [name, text] : checkpoint.texts) write_file(dir / name, text);
  write_file(dir / kChecksums, sums_of_all(dir));
  sync(dir);
}

// Renames the checkpoint before deleting it, so that a crash cannot leave half a checkpoint behind.
void remove_checkpoint(const fs::path& checkpoint) {
  const fs::path gone = checkpoint.parent_path() / ".removed";
  fs::remove_all(gone);
  if (!fs::exists(fs::symlink_status(checkpoint))) return;
  fs::rename(checkpoint, gone);
  fs::remove_all(gone);
}

void prune(const fs::path& run, int64_t keep) {
  const int64_t best = step_of(best_checkpoint(run));
  const std::vector<fs::path> all = list_checkpoints(run);
  for (size_t i = size_t(keep); i < all.size(); ++i) {
    if (step_of(all[i]) != best) remove_checkpoint(all[i]);
  }
}

}  // namespace

fs::path save_checkpoint(const fs::path& run, int64_t step, const Checkpoint& checkpoint,
                         int64_t keep, bool is_best) {
  const fs::path all = directory_of(run), unfinished = all / ".writing",
                 final = checkpoint_of_step(run, step);
  try {
    write_files(unfinished, checkpoint);
    remove_checkpoint(final);  // damaged, or written before a rollback
    fs::rename(unfinished, final);
    sync(all);
    sync(run);  // the folder `checkpoints` may be new
    if (const std::string damage = damage_of(final); !damage.empty()) throw DiskError(damage);
    if (is_best) mark_best(run, step);
    prune(run, keep);
  } catch (const std::exception& error) {
    std::error_code ignored;
    fs::remove_all(unfinished, ignored);
    // If memory runs out or the GPU fails while tensors are copied, the disk is not the cause.
    if (!is_any<DiskError, OutputError, InputError, fs::filesystem_error>(error)) throw;
    const fs::space_info space = fs::space(run, ignored);
    throw DiskError(concat_to_string(
        "cannot save the checkpoint '", final.string(), "': ", error.what(), "; it needs about ",
        bytes_of(checkpoint), " bytes, and ", space.available,
        " are free. Older checkpoints are intact: free some space, then resume with ",
        resume_auto()));
  }
  return final;
}

bool is_checkpoint(const fs::path& path) {
  return fs::exists(path / "state.json") || (step_of(path) >= 0 && fs::is_directory(path));
}

std::string damage_of(const fs::path& checkpoint) try {
  return sums_difference(read_file(checkpoint / kChecksums, "list of checksums"),
                         sums_of_all(checkpoint));
} catch (const std::exception& error) {
  if (is_any<OutOfMemoryError, std::bad_alloc>(error)) throw;  // says nothing about the files
  return error.what();
}

std::vector<NamedTensor> tensors_of(const fs::path& file) {
  return failing_as<InputError>("", [&] { return load_safetensors(file).tensors; });
}

Checkpoint load_checkpoint(const fs::path& dir) {
  if (const std::string damage = damage_of(dir); !damage.empty()) {
    throw InputError(
        concat_to_string("the checkpoint '", dir.string(), "' cannot be used: ", damage));
  }
  Checkpoint out;
  out.path = dir;
  for (const auto& entry : fs::directory_iterator(dir)) {
    const std::string name = entry.path().filename();
    if (name.ends_with(".safetensors")) {
      out.tensors[name] = tensors_of(entry.path());
    } else if (name != kChecksums) {
      out.texts[name] = read_file(entry.path(), "file of a checkpoint");
    }
  }
  return out;
}

std::vector<fs::path> list_checkpoints(const fs::path& run) {
  std::vector<fs::path> out;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(directory_of(run), none)) {
    if (!entry.is_symlink() && step_of(entry.path()) >= 0) out.push_back(entry.path());
  }
  std::ranges::sort(out, std::greater(), step_of);
  return out;
}

std::optional<fs::path> newest_checkpoint(const fs::path& run) {
  for (const fs::path& checkpoint : list_checkpoints(run)) {
    const std::string damage = damage_of(checkpoint);
    if (damage.empty()) return checkpoint;
    warn(concat_to_string("the checkpoint '", checkpoint.string(),
                          "' is damaged and was skipped: ", damage));
  }
  return std::nullopt;
}

fs::path best_checkpoint(const fs::path& run) { return directory_of(run) / "best"; }
fs::path checkpoint_of_step(const fs::path& run, int64_t step) {
  return directory_of(run) / name_of(step);
}

void mark_best(const fs::path& run, int64_t step) {
  const fs::path all = directory_of(run), unfinished = all / ".best";
  if (step_of(all / "best") == step || !fs::exists(all / name_of(step))) return;
  // rename() replaces the link atomically, so `best` exists at any time.
  fs::remove(unfinished);
  fs::create_directory_symlink(name_of(step), unfinished);
  fs::rename(unfinished, all / "best");
}

int64_t step_of(const fs::path& checkpoint) {
  std::error_code none;
  const fs::path target = fs::read_symlink(checkpoint, none);
  const std::string name = (none ? checkpoint : target).filename();
  int64_t step = -1;
  if (!name.starts_with(kPrefix)) return -1;
  return parse_number(std::string_view(name).substr(5), step) == std::errc() ? step : -1;
}

void drop_checkpoints_after(const fs::path& run, int64_t step) {
  if (step_of(best_checkpoint(run)) > step) fs::remove(best_checkpoint(run));
  for (const fs::path& checkpoint : list_checkpoints(run)) {
    if (step_of(checkpoint) > step) remove_checkpoint(checkpoint);
  }
}

}  // namespace taper::v0::runner
