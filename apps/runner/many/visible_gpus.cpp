#include "apps/runner/many/visible_gpus.h"

#include <algorithm>
#include <cstdlib>

#include "apps/runner/base/string_utils.h"
#include "framework/base/device.h"
#include "framework/cuda/cuda.h"

namespace taper::v0::runner {

std::vector<std::string> visible_gpus(const std::string& device) {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  std::vector<std::string> out;
  for (int i = 0; i < cuda::device_count(); ++i) out.push_back(concat_to_string(i));
  if (visible != nullptr) {
    const std::vector<std::string> names = lines_of(visible, ',');
    for (size_t i = 0; i < std::min(out.size(), names.size()); ++i) out[i] = names[i];
  }
  const Device chosen(device == "auto" ? "cuda" : device);
  return chosen.has_index() ? std::vector{out.at(size_t(chosen.index()))} : out;
}

}  // namespace taper::v0::runner
