// The architecture, checked in the sources: which layer includes which, where headers of third
// parties may be included, how long a file may be.
#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/source_files.h"

namespace taper::v0::test {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLines = 500;

// framework <- autograd <- modules <- apps, framework <- optim <- apps, autograd <- data <- apps.
const std::map<std::string, std::set<std::string>> kMayInclude = {
    {"framework", {"framework"}},
    {"autograd", {"framework", "autograd"}},
    {"modules", {"framework", "autograd", "modules"}},
    {"optim", {"framework", "optim"}},
    {"data", {"framework", "autograd", "data"}},
    {"apps", {"framework", "autograd", "modules", "optim", "data", "apps"}},
    {"testing", {"framework", "autograd", "modules", "optim", "testing"}},
};

// The order of the folders within a folder: each may include those that are listed before it. "."
// means the files that are directly in the folder.
struct FolderOrder {
  std::string folder;
  std::vector<std::string> order;
};
const std::vector<FolderOrder> kOrders = {
    {"framework",
     {"base", "host", "cuda", "memory", "tensor", "profiler", "kernels", "factory", "io",
      "distributed", "gate"}},
    {"framework/kernels",
     {"common", "elementwise", "reduce", "matmul", "linalg", "index", "random", "loss", "norm",
      "pool", "rnn", "sparse", "conv", "attention", "optim"}},
    {"autograd", {".", "ops", "functional", "methods"}},
    {"autograd/ops", {".", "index", "linalg", "nn"}},
    {"modules", {".", "layers", "models", "distributions", "onnx"}},
    {"optim", {".", "algorithms"}},
    {"data", {"tokenizers", ".", "tables", "images", "series", "text"}},
    {"data/tables", {"reading", "."}},
    {"apps/runner",
     {"base", "config", "components", "settings", "encodings", "evaluation", "run", "memory",
      "report", "passes", "train", "many", "gate", "programs", "commands", "."}},
};

struct Include {
  std::string file;  // path from the root
  int line;
  std::string header;
};

struct Source {
  std::string path;
  std::vector<std::string> lines;
};

bool starts_with_any(const std::string& text, const std::vector<std::string>& starts) {
  for (const std::string& start : starts) {
    if (text.rfind(start, 0) == 0) return true;
  }
  return false;
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

bool is_source(const fs::path& path) {
  return std::set<std::string>{".h", ".cpp", ".cu", ".cuh"}.count(path.extension().string()) > 0;
}

std::vector<Source> sources() {
  std::vector<Source> out;
  for (const auto& [layer, allowed] : kMayInclude) {
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / layer)) {
      if (!entry.is_regular_file() || !is_source(entry.path())) continue;
      out.push_back({fs::relative(entry.path(), kRoot).generic_string(), lines_of(entry.path())});
    }
  }
  return out;
}

std::vector<Include> includes() {
  const std::regex directive("\\s*#\\s*include\\s*[<\"]([^>\"]+)[>\"].*");
  std::vector<Include> out;
  for (const Source& source : sources()) {
    for (size_t i = 0; i < source.lines.size(); ++i) {
      std::smatch match;
      if (!std::regex_match(source.lines[i], match, directive)) continue;
      out.push_back({source.path, int(i) + 1, match[1]});
    }
  }
  return out;
}

std::string layer_of(const std::string& path) { return path.substr(0, path.find('/')); }

std::string place(const Include& include) {
  return include.file + ":" + std::to_string(include.line) + " includes " + include.header;
}

TEST(Layers, TheSourcesAreFound) {
  EXPECT_GT(sources().size(), 80u) << kRoot;
  EXPECT_GT(includes().size(), 300u);
}

TEST(Layers, IncludesPointOneWay) {
  for (const Include& include : includes()) {
    const std::string to = layer_of(include.header);
    if (!kMayInclude.count(to)) continue;
    EXPECT_TRUE(kMayInclude.at(layer_of(include.file)).count(to)) << place(include);
  }
}

// Returns the subfolder of `folder` that the file is in, "." if it is directly in the folder, or ""
// if it is elsewhere.
std::string part_of(const std::string& folder, const std::string& file) {
  if (file.rfind(folder + "/", 0) != 0) return "";
  const std::string rest = file.substr(folder.size() + 1);
  const size_t end = rest.find('/');
  return end == std::string::npos ? "." : rest.substr(0, end);
}

TEST(Layers, FoldersWithinALayerIncludeThoseBeforeThem) {
  const std::vector<Include> all = includes();
  for (const auto& [folder, order] : kOrders) {
    const auto place_of = [&order = order](const std::string& part) {
      return std::find(order.begin(), order.end(), part) - order.begin();
    };
    for (const Include& include : all) {
      const std::string from = part_of(folder, include.file);
      const std::string to = part_of(folder, include.header);
      if (from.empty() || to.empty()) continue;
      EXPECT_LE(place_of(to), place_of(from))
          << place(include) << "; in " << folder << ", " << to << " comes after " << from;
    }
  }
}

TEST(Layers, TheOrdersNameEveryFolder) {
  const std::vector<Source> all = sources();
  for (const auto& [folder, order] : kOrders) {
    for (const Source& source : all) {
      const std::string part = part_of(folder, source.path);
      EXPECT_TRUE(part.empty() || std::count(order.begin(), order.end(), part) == 1)
          << source.path << ": " << folder << " has no place for '" << part << "'";
    }
  }
}

TEST(Layers, NothingOutsideTheTestsIncludesFromThem) {
  for (const Include& include : includes())
    EXPECT_NE(layer_of(include.header), "tests") << place(include);
}

// A new top-level folder with sources would escape the rules above.
TEST(Layers, EveryFolderIsKnown) {
  for (const auto& entry : fs::directory_iterator(kRoot)) {
    const std::string name = entry.path().filename().string();
    const bool is_ours = entry.is_directory() && name[0] != '.' && name.rfind("build", 0) != 0;
    if (!is_ours || kMayInclude.count(name) || name == "tests") continue;
    for (const auto& file : fs::recursive_directory_iterator(entry.path())) {
      EXPECT_FALSE(is_source(file.path()))
          << file.path() << " is in no layer: add its folder to kMayInclude";
    }
  }
}

TEST(Layers, OwnHeadersAreIncludedByTheirFullPath) {
  for (const Include& include : includes()) {
    const fs::path sibling = fs::path(include.file).parent_path() / include.header;
    EXPECT_FALSE(include.header.find("..") != std::string::npos ||
                 fs::is_regular_file(kRoot / sibling))
        << place(include) << "; write the path from the root";
  }
}

// The files that may include a library's headers.
struct Home {
  const char* vendor;
  std::vector<std::string> headers;  // prefixes of their paths
  bool (*allowed)(const std::string& file);
};

bool in_apps(const std::string& file) { return starts_with_any(file, {"apps/"}); }
bool reads_or_writes_json(const std::string& file) {
  const bool is_below = starts_with_any(file, {"framework/io/", "framework/gate/"});
  return in_apps(file) || (is_below && ends_with(file, ".cpp"));
}
bool in_apps_or_data(const std::string& file) {
  return in_apps(file) || (starts_with_any(file, {"data/"}) && ends_with(file, ".cpp"));
}
bool in_cuda(const std::string& file) {
  if (file == "framework/cuda/cuda.h") return false;  // a header for users
  return ends_with(file, ".cu") || ends_with(file, ".cuh") || ends_with(file, "_cudnn.cpp") ||
         ends_with(file, "_cusolver.cpp") ||
         starts_with_any(
             file, {"framework/cuda/", "framework/memory/cuda_allocator",
                    "framework/memory/device_allocator", "framework/kernels/common/kernel_launch"});
}
bool in_cpu_kernels(const std::string& file) {
  return ends_with(file, "_cpu.cpp") || ends_with(file, "_cpu.h");
}

bool in_nccl(const std::string& file) { return file == "framework/distributed/nccl.cpp"; }
bool in_mpi_plugin(const std::string& file) {
  return file == "framework/distributed/mpi_plugin.cpp";
}

bool in_onnx(const std::string& file) { return file == "modules/onnx/onnx.cpp"; }
bool in_archive(const std::string& file) { return file == "framework/io/archive.cpp"; }
bool in_image_codecs(const std::string& file) { return file == "data/images/codecs.cpp"; }

bool in_log_sink(const std::string& file) { return file == "apps/runner/run/log_sink.cpp"; }

const Home kHomes[] = {
    {"yaml-cpp", {"yaml-cpp/"}, in_apps},
    {"CLI11", {"CLI/"}, in_apps},
    {"fmt", {"fmt/"}, in_apps},
    {"spdlog", {"spdlog/"}, in_log_sink},
    {"zlib", {"zlib.h"}, in_apps_or_data},
    {"nlohmann-json", {"nlohmann/"}, reads_or_writes_json},
    {"CUDA", {"cuda", "cublas", "cusolver", "curand", "cub/", "thrust/", "nvtx3/"}, in_cuda},
    {"cuDNN", {"cudnn"}, in_cuda},
    {"oneDNN", {"oneapi/", "dnnl"}, in_cpu_kernels},
    {"NCCL", {"nccl"}, in_nccl},
    {"MPI", {"mpi"}, in_mpi_plugin},
    {"libzip", {"zip.h"}, in_archive},
    {"libpng, libjpeg", {"png.h", "jpeglib.h", "jerror.h"}, in_image_codecs},
    {"ONNX", {"onnx/", "google/"}, in_onnx},
};

TEST(Layers, ThirdPartyHeadersStayAtHome) {
  for (const Include& include : includes()) {
    for (const Home& home : kHomes) {
      if (!starts_with_any(include.header, home.headers)) continue;
      EXPECT_TRUE(home.allowed(include.file)) << place(include) << " of " << home.vendor;
    }
  }
}

TEST(Layers, NoPublicHeaderNeedsAThirdParty) {
  for (const Include& include : includes()) {
    const bool is_public = ends_with(include.file, ".h") && !in_cuda(include.file);
    if (!is_public) continue;
    for (const Home& home : kHomes) {
      EXPECT_FALSE(starts_with_any(include.header, home.headers))
          << place(include) << " of " << home.vendor;
    }
  }
}

// Returns the headers that `file` reaches through the project's own headers.
void add_reached(const std::string& file, const std::multimap<std::string, std::string>& headers,
                 std::set<std::string>& reached) {
  const auto [first, last] = headers.equal_range(file);
  for (auto at = first; at != last; ++at) {
    if (reached.insert(at->second).second) add_reached(at->second, headers, reached);
  }
}

// Some versions of the standard library declare int64_t in other headers, too, and some do not.
TEST(Layers, HeadersWithIntegersOfFixedSizeReachTheirHeader) {
  std::multimap<std::string, std::string> headers;
  for (const Include& include : includes()) headers.emplace(include.file, include.header);
  const std::regex fixed_size(R"(^(?!\s*//).*\bu?int(8|16|32|64)_t\b.*)");
  for (const Source& source : sources()) {
    // The file of the methods is a part of tensor.h.
    const bool is_header = ends_with(source.path, ".h") || ends_with(source.path, ".cuh");
    if (!is_header || ends_with(source.path, "tensor_methods.h")) continue;
    const bool uses = std::ranges::any_of(
        source.lines, [&](const std::string& line) { return std::regex_match(line, fixed_size); });
    std::set<std::string> reached;
    if (uses) add_reached(source.path, headers, reached);
    EXPECT_TRUE(!uses || reached.contains("cstdint")) << source.path << " needs <cstdint>";
  }
}

// A test calls the functions that tests share and defines none of the same name.
TEST(Layers, NoTestHidesWhatAllTestsShare) {
  const std::regex function(R"(^(?:template <.*> |inline )*[\w:<>]+[ &*]+(\w+)\(.*)");
  std::set<std::string> shared;
  std::smatch found;
  for (const char* header : {"testing/verdict.h", "tests/testing.h", "tests/text.h"}) {
    for (const std::string& line : lines_of(kRoot / header)) {
      if (std::regex_match(line, found, function)) shared.insert(found[1]);
    }
  }
  EXPECT_TRUE(shared.count("same_bits") && shared.count("close"));
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "tests")) {
    if (entry.path().extension() != ".cpp" || entry.path() == kRoot / "tests/testing.cpp") continue;
    for (const std::string& line : lines_of(entry.path())) {
      const bool hides = std::regex_match(line, found, function) && shared.count(found[1]);
      EXPECT_FALSE(hides) << entry.path() << " defines a function that tests share: " << line;
    }
  }
}

// A kernel may start before the one before it has ended (framework/kernels/common/kernel_launch.h).
TEST(Layers, EveryKernelWaitsForTheOneBefore) {
  const std::regex comment("\\s*//.*"), opens(".*\\{"), begins("  begin_(long_)?kernel\\(\\);");
  int kernels = 0;
  for (const Source& source : sources()) {
    if (!ends_with(source.path, ".cu") && !ends_with(source.path, ".cuh")) continue;
    for (size_t i = 0; i < source.lines.size(); ++i) {
      if (std::regex_match(source.lines[i], comment)) continue;
      EXPECT_FALSE(source.lines[i].find("<<<") != std::string::npos)
          << source.path << ":" << i + 1 << " launches a kernel without Launch::run()";
      if (source.lines[i].find("__global__") == std::string::npos) continue;
      ++kernels;
      size_t body = i;
      while (body + 1 < source.lines.size() && !std::regex_match(source.lines[body], opens)) ++body;
      EXPECT_TRUE(std::regex_match(source.lines.at(body + 1), begins))
          << source.path << ":" << body + 2 << ": a kernel must begin with begin_kernel()";
    }
  }
  EXPECT_GT(kernels, 30);
}

TEST(Layers, NoFileIsLongerThanCanBeRead) {
  for (const Source& source : sources()) {
    EXPECT_LE(source.lines.size(), size_t(kMostLines)) << source.path;
  }
}

TEST(Layers, HeadersBeginWithACommentAndAreIncludedOnce) {
  for (const Source& source : sources()) {
    if (!ends_with(source.path, ".h")) continue;
    ASSERT_FALSE(source.lines.empty()) << source.path;
    EXPECT_EQ(source.lines[0].rfind("//", 0), 0u) << source.path;
    EXPECT_EQ(std::count(source.lines.begin(), source.lines.end(), "#pragma once"), 1)
        << source.path;
  }
}

}  // namespace
}  // namespace taper::v0::test
