// Runs exported models in ONNX Runtime.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "framework/base/error.h"

namespace taper::v0::test {

// Runs tests/onnx/run_onnx.py on a folder of models and expects that it succeeds. Skips the test if
// there is no Python with ONNX Runtime.
inline void run_onnx(const std::filesystem::path& folder) {
  const char* given = std::getenv("TAPER_ONNX_PYTHON");
  const std::string python = given ? given : "python3";
  if (std::system((python + " -c 'import onnx, onnxruntime' 2>/dev/null").c_str()) != 0) {
    GTEST_SKIP() << python << " has no onnx and onnxruntime (pip install onnx onnxruntime); "
                 << "set TAPER_ONNX_PYTHON to another one. The models were exported and passed "
                 << "ONNX's checker in C++.";
  }
  const std::string script = concat_to_string(TAPER_SOURCE_DIR, "/tests/onnx/run_onnx.py");
  EXPECT_EQ(
      std::system(concat_to_string(python, " '", script, "' '", folder.string(), "'").c_str()), 0);
}

}  // namespace taper::v0::test
