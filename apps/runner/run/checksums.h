// CRC-32 of files, and lists of them in a directory, by which damage is found and named.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace taper::runner {

// The list in its directory: "0a1b2c3d 1234 state.json", a line for each file.
inline constexpr const char* kChecksums = "CRC32";

// zlib's CRC-32 of a file's bytes, of the first `most` of them, behind those of the sum `before`;
// InputError when it cannot be read or is no regular file. "0a1b2c3d".
uint32_t file_crc32(const std::filesystem::path& file, uint64_t most = UINT64_MAX,
                    uint32_t before = 0);
std::string hex_crc32(uint32_t sum);

// Lines for files of a directory, in the order of their names. InputError: one cannot be read.
std::string sums_of(const std::filesystem::path& dir, std::vector<std::string> names);
// The names in the lines of such a text.
std::vector<std::string> names_in(const std::string& sums);
// The first line that differs, in words; empty: none does.
std::string sums_difference(const std::string& listed, const std::string& found);

}  // namespace taper::runner
