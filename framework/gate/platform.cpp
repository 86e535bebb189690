#include "framework/gate/platform.h"

#include "framework/io/text_utils.h"

namespace taper::v0::golden {
namespace {

// The keys on which bits depend, in the order of messages.
constexpr const char* kPlatformKeys[] = {"device",   "gpu",           "cpu",    "isa",
                                         "compiler", "test compiler", "onednn", "cuda",
                                         "cublas",   "cudnn",         "taper"};

}  // namespace

MetadataMap platform_of(const MetadataMap& program) {
  MetadataMap out;
  for (const char* key : kPlatformKeys) {
    if (const auto found = program.find(key); found != program.end()) out.insert(*found);
  }
  // GPUs of the same model give the same bits.
  if (out.contains("device")) out["device"] = detail::lines_of(out["device"], ':').at(0);
  // Older versions recorded the processor's name, but not its instruction set. A training on a GPU
  // depends on neither.
  const bool is_on_gpu = out.contains("device") && out["device"] == "cuda";
  if (is_on_gpu || out.contains("isa")) out.erase("cpu");
  if (is_on_gpu) out.erase("isa");
  return out;
}

std::string platform_text(const MetadataMap& program) {
  const MetadataMap platform = platform_of(program);
  if (platform.empty()) return "an unknown platform";
  std::vector<std::string> words;
  for (const char* key : kPlatformKeys) {
    if (!platform.contains(key)) continue;
    const std::string prefix = key == std::string("device") ? "" : concat_to_string(key, " ");
    words.push_back(prefix + platform.at(key));
  }
  return detail::joined(words);
}

}  // namespace taper::v0::golden
