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

// The bytes [begin, end) of a file of texts, which may be compressed by gzip or zstd: they are
// bytes of the decompressed text. Of JSON lines, all lines that begin there belong to the span.
struct TextSpan {
  std::filesystem::path file;
  uint64_t begin = 0, end = 0;
};

// How texts are found in files.
struct TextLayout {
  std::string field = "text";  // the key of the text in JSON lines
  // Words that are found in the text (GPT-2's) are not cut between two parts of it.
  bool keeps_words = false;
  // Parts of a text end where lines do, unless a line has more than 4 MiB: a model of sentencepiece
  // takes each part for a text of its own.
  bool keeps_lines = false;
};

// Returns the extension of a file in lower case, without one of compression: ".txt" for "A.TXT.gz".
std::string text_extension(const std::filesystem::path& file);
// Returns whether the file is compressed, by its name.
bool is_compressed_text(const std::filesystem::path& file);
// Returns whether the file has JSON lines, by its name.
bool is_json_lines(const std::filesystem::path& file);

// Returns the size of a text in bytes. A compressed one is decompressed for that, in parts. Throws
// InputError with the file if that is truncated or damaged, or expands without end.
uint64_t text_size(const std::filesystem::path& file);
// Returns the text of a file, which may be compressed, or something longer than `most` bytes if the
// text is. Throws InputError as text_size() does.
std::string read_text_file(const std::filesystem::path& file, size_t most = std::string::npos);

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
