#include "apps/runner/run/checksums.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include <zlib.h>

#include "apps/runner/run/errors.h"
#include "apps/runner/run/text.h"

namespace taper::runner {

namespace fs = std::filesystem;

uint32_t file_crc32(const fs::path& file, uint64_t most, uint32_t before) {
  std::error_code none;
  const bool is_file = fs::is_regular_file(file, none);
  std::ifstream in;
  if (is_file) in.open(file, std::ios::binary);
  if (!is_file || !in) throw InputError(cat("cannot read '", file.string(), "'"));
  uLong sum = before;
  std::vector<char> part(1 << 20);
  while (in && most > 0) {
    in.read(part.data(), std::streamsize(std::min<uint64_t>(part.size(), most)));
    sum = crc32(sum, reinterpret_cast<const Bytef*>(part.data()), uInt(in.gcount()));
    most -= uint64_t(in.gcount());
  }
  if (in.bad()) throw InputError(cat("cannot read '", file.string(), "'"));
  return uint32_t(sum);
}

std::string hex_crc32(uint32_t sum) {
  std::string out(8, '0');
  for (size_t i = 8; i-- > 0; sum >>= 4) out[i] = "0123456789abcdef"[sum & 15];
  return out;
}

std::string sums_of(const fs::path& dir, std::vector<std::string> names) {
  std::ranges::sort(names);
  std::string out;
  for (const std::string& name : names) {
    const fs::path file = dir / name;
    out += cat(hex_crc32(file_crc32(file)), " ", fs::file_size(file), " ", name, "\n");
  }
  return out;
}

std::vector<std::string> names_in(const std::string& sums) {
  std::vector<std::string> out;
  std::istringstream lines(sums);
  for (std::string line; std::getline(lines, line);) {
    const size_t second = line.find(' ', std::min(line.find(' '), line.size() - 1) + 1);
    out.push_back(second == std::string::npos ? line : line.substr(second + 1));
  }
  return out;
}

std::string sums_difference(const std::string& listed, const std::string& found) {
  const auto [line, before, now] = first_difference(listed, found);
  if (line == 0) return "";
  const auto shown = [](const std::string& text) { return text.empty() ? "nothing" : text; };
  return cat(kChecksums, " lists '", shown(before), "', but there is '", shown(now), "'");
}

}  // namespace taper::runner
