// Tokens of texts of any size, in about the memory that the tokens take. Not a public header.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::data {

// Returns the smallest dtype for tokens below `vocabulary`: uint8, int16 with the bits of unsigned
// numbers, or int32 (WindowDataset).
DType token_dtype(int64_t vocabulary);

// The bytes [begin, end) of a file of texts. Of JSON lines, all lines that begin there belong to
// it.
struct TextSpan {
  std::filesystem::path file;
  uint64_t begin = 0, end = 0;
};

// How texts are found in files.
struct TextLayout {
  std::string field = "text";  // the key of the text in JSON lines
  // Words that are found in the text (GPT-2's) are not cut between two parts of it.
  bool keeps_words = false;
};

// Returns whether the file has JSON lines, by its name.
bool is_json_lines(const std::filesystem::path& file);

// Calls f with the parts of the texts in a span, in order, about a MiB each. `ends` says whether a
// document ends after the part: a line of JSON lines, or the whole of another file. Throws
// InputError "FILE:LINE: ..." for a text with a zero byte, a line that is not valid JSON or has no
// text in the key, and a line of more than 16 MiB. Errors of f that are ValueErrors become
// InputErrors with file and line.
void each_text_part(const TextSpan& span, const TextLayout& layout,
                    const std::function<void(std::string_view part, bool ends)>& f);

// Returns the tokens [N] of the spans in the dtype token_dtype(tokenizer.size()). If `separated`,
// the special token kEnd follows each document.
Tensor encode_spans(const std::vector<TextSpan>& spans, const TextLayout& layout,
                    const Tokenizer& tokenizer, bool separated);

// Returns the tokens [N] of files in which each token is an unsigned number of `width` bytes, 2 or
// 4, in little-endian order. A single file is mapped into memory; several are read. Throws
// InputError with the file for another size, and for a token that is not below `vocabulary`.
Tensor read_token_files(const std::vector<std::filesystem::path>& files, int64_t width,
                        int64_t vocabulary);

}  // namespace taper::v0::data
