// Who replaced the numbers of a golden, when and why.
#pragma once

#include <string>

#include "framework/gate/golden.h"

namespace taper::v0::golden {

// Returns whether the text has a character other than white space.
bool is_reason(const std::string& text);
// Returns GIT_AUTHOR_NAME from the environment, or `git config user.name`; empty if there is none.
std::string git_author();
// Returns the commit of the folder's git repository as `git describe --always --dirty` does; empty
// if there is none.
std::string git_commit(const std::filesystem::path& folder);

// Returns the date in UTC, as "2026-08-01".
std::string today();

// Returns an entry for the file's history with author, today's date, reason, platform, the first
// step that differs, and the last value of each metric before and after.
HistoryEntry history_entry(const GoldenSection& old, const GoldenSection& section,
                           const std::string& author, const std::string& reason);

}  // namespace taper::v0::golden
