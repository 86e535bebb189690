// Models of the library sentencepiece (https://github.com/google/sentencepiece). Not a public
// header.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/namespace.h"

namespace taper::v0::data {

// A model: pieces of text with their ids, and the rules by which text is divided into them.
// Immutable, and may be used by several threads at a time.
class SentencePiece {
 public:
  // Reads the bytes of a model file. Throws ValueError if they are no model, and Error with the
  // package to install if Taper was built without the library.
  static std::shared_ptr<const SentencePiece> read(std::string_view model);
  virtual ~SentencePiece() = default;

  // Returns the pieces by id, as the model spells them: a blank is U+2581.
  virtual std::vector<std::string> pieces() const = 0;
  // Appends the ids of a text, the same as those of `spm_encode`. Throws ValueError if the library
  // refuses the text.
  virtual void encode(std::string_view text, std::vector<uint32_t>& out) const = 0;
  // Returns the text of the ids, without the blank that some models add at the beginning. Ids must
  // be below the number of pieces.
  virtual std::string decode(std::span<const int64_t> ids) const = 0;
  // Returns what a piece adds to a text that is continued: its blanks are kept. Control pieces,
  // such as "</s>", add nothing.
  virtual std::string continuation(int64_t id) const = 0;

  // Returns the id of a control piece, such as "</s>", or std::nullopt if the model has none of
  // that name.
  virtual std::optional<int64_t> control(std::string_view name) const = 0;
  // Return the ids of the pieces with these roles, or std::nullopt if the model has none.
  virtual std::optional<int64_t> unknown() const = 0;
  virtual std::optional<int64_t> padding() const = 0;
  virtual std::optional<int64_t> end() const = 0;
};

}  // namespace taper::v0::data
