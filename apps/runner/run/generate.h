// Text that a language model generates.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/runner/components/components.h"
#include "framework/base/device.h"

namespace taper::v0::runner {

struct GenerateOptions {
  std::string prompt;
  int64_t tokens = 200;    // most tokens of a sample
  double temperature = 1;  // 0: always the most likely token
  int64_t top_k = 0;       // draw from the k most likely tokens; 0: from all
  uint64_t seed = 0;
  double top_p = 1;  // draw from the most likely tokens that have this probability together
  std::vector<std::string> stop{};  // a sample ends before any of these texts
  int64_t samples = 1;
  // The token before the prompt, as a text; it is not part of the result. Empty: the end of a
  // document or, if the vocabulary lacks that, a newline, unless there is a prompt.
  std::string start{};
};

// A language model that continues texts.
struct TextModel {
  Module& model;  // in evaluation mode
  const Component& config;
  const DataInfo& data;
  Device device;
};

// Passes the prompt and the text that follows it to `write`, in pieces as they are generated. Each
// piece is complete UTF-8 if the text is. A sample ends with a newline; of several samples, each
// begins with a line such as "sample 2:". Calls check() before each token. Throws ConfigError if
// the vocabulary cannot encode the prompt or the start, and DataError if the model returns nan.
void generate_text(const TextModel& model, const GenerateOptions& options,
                   const std::function<void(std::string_view)>& write,
                   const std::function<void()>& check);

}  // namespace taper::v0::runner
