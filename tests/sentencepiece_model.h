// A small model of sentencepiece, trained by the library's own program.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "framework/base/error.h"

namespace taper::v0::test {

// Returns whether the programs of Debian's package sentencepiece are installed.
inline bool has_sentencepiece_programs() {
  return std::system("command -v spm_train spm_encode > /dev/null") == 0;
}

// Writes NAME.model into a folder, and the text that it was trained on to NAME.txt. Returns its
// path. `options` are those of spm_train, as "--model_type=bpe".
inline std::string train_sentencepiece(const std::filesystem::path& folder, const std::string& name,
                                       const std::string& options) {
  const std::filesystem::path text = folder / (name + ".txt");
  std::ofstream out(text);
  for (int i = 0; i < 300; ++i) {
    out << "the cat number " << i << " sat on the mat, and the dog ran to caf\xc3\xa9 " << i * 7
        << (i % 2 ? " slowly.\n" : " quickly!\n");
  }
  out.close();
  const std::string command = concat_to_string(
      "cd '", folder.string(), "' && spm_train --input='", text.string(), "' --model_prefix=", name,
      " --num_threads=1 ", options, " > spm_train.log 2>&1");
  require(std::system(command.c_str()) == 0, "spm_train failed");
  return (folder / (name + ".model")).string();
}

}  // namespace taper::v0::test
