// Text in configs and messages; how it is read stands in framework/text.h.
#pragma once

#include <string>
#include <vector>

#include "framework/io/input_file.h"
#include "framework/text.h"

namespace taper::runner {

using namespace detail;  // of framework/text.h

// Lower case, '-' as '_': what does not count as a difference between two names.
std::string folded(std::string text);

// "a, b, c".
std::string joined(const std::vector<std::string>& words);

}  // namespace taper::runner
