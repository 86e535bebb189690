#include "data/tokenizers/sentence_piece.h"

#include <cstdio>
#include <new>
#ifdef TAPER_WITH_SENTENCEPIECE
#include <dlfcn.h>
#include <sentencepiece_processor.h>
#endif

#include "framework/base/cancel.h"
#include "framework/base/error.h"

namespace taper::v0::data {

#ifdef TAPER_WITH_SENTENCEPIECE
namespace {

using sentencepiece::SentencePieceProcessor;
using sentencepiece::util::Status;

constexpr std::string_view kBlank = "\xe2\x96\x81";  // U+2581

#if defined(__SANITIZE_ADDRESS__) || defined(TAPER_SANITIZED)
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif

// The library, loaded at run time. Debian's libsentencepiece.so.0 exports the symbols of its own
// protobuf 3.14. If it were linked, they would be mixed up with those of the protobuf that ONNX
// uses, and the process would crash. RTLD_DEEPBIND binds each library to its own symbols. The
// sanitizers forbid it, so that they allow only one of the two libraries.
class SentencePieceLibrary {
 public:
  // Throws Error if the library cannot be loaded.
  static const SentencePieceLibrary& get() {
    static const SentencePieceLibrary library;
    return library;
  }

  std::unique_ptr<SentencePieceProcessor> make() const {
    void* const memory = ::operator new(sizeof(SentencePieceProcessor));
    construct_(memory);
    return std::unique_ptr<SentencePieceProcessor>(static_cast<SentencePieceProcessor*>(memory));
  }

  // Makes a call that returns a Status. Returns its message, which is empty for success. The
  // library throws where its trie refuses a piece, for instance one with a null character.
  // Throws what the call throws if memory is short.
  template <class Call> std::string error_of(const Call& call) const try {
    const std::string message = status_of(call);
    return message.substr(0, message.find('\n'));
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    const std::string_view message = error.what();
    return message.empty() ? "the library gives no reason" : std::string(message);
  }

 private:
  // The members of Status are functions of the library, too.
  template <class Call> std::string status_of(const Call& call) const {
    union Held {
      Status status;
      Held() {}
      ~Held() {}
    } held;
    new (&held.status) Status(call());
    std::string message;
    if (!held.status.ok()) message = message_(&held.status);
    destroy_status_(&held.status);
    return message;
  }

  SentencePieceLibrary() {
    constexpr const char *kName = "libsentencepiece.so.0", *kProtobuf = "libprotobuf.so.32";
    const bool is_mixed = kIsSanitized && ::dlopen(kProtobuf, RTLD_LAZY | RTLD_NOLOAD) != nullptr;
    require(!is_mixed, "a program with sanitizers and ONNX cannot load ", kName);
    const int own_symbols = kIsSanitized ? 0 : RTLD_DEEPBIND;
    handle_ = ::dlopen(kName, RTLD_NOW | RTLD_LOCAL | own_symbols);
    require(handle_ != nullptr, "the library sentencepiece cannot be loaded (", ::dlerror(),
            "): install Debian's libsentencepiece0");
    find("_ZN13sentencepiece22SentencePieceProcessorC1Ev", construct_);
    find("_ZN13sentencepiece4util6StatusD1Ev", destroy_status_);
    find("_ZNK13sentencepiece4util6Status8ToStringB5cxx11Ev", message_);
  }
  template <class F> void find(const char* symbol, F& function) const {
    function = reinterpret_cast<F>(::dlsym(handle_, symbol));
    require(function != nullptr,
            "the library sentencepiece has another version than its header: ", "it lacks ", symbol);
  }

  void* handle_ = nullptr;  // never closed
  void (*construct_)(void*) = nullptr;
  void (*destroy_status_)(Status*) = nullptr;
  std::string (*message_)(const Status*) = nullptr;
};

// Reads the fields of a message in protobuf's encoding
// (https://protobuf.dev/programming-guides/encoding). Throws ValueError if it is damaged.
class MessageReader {
 public:
  explicit MessageReader(std::string_view bytes) : rest_(bytes) {}

  // Moves to the next field. Returns false at the end.
  bool next() {
    if (rest_.empty()) return false;
    const uint64_t tag = number();
    field_ = tag / 8;
    content_ = {};
    switch (tag % 8) {
      case 0: (void)number(); break;
      case 1: (void)take(8); break;
      case 2: content_ = take(number()); break;
      case 5: (void)take(4); break;
      default: refuse();
    }
    return true;
  }
  uint64_t field() const { return field_; }
  // Returns the bytes of a field that is a text or a message.
  std::string_view content() const { return content_; }

 private:
  [[noreturn]] static void refuse() {
    throw ValueError("not a model of sentencepiece, or truncated");
  }
  std::string_view take(uint64_t count) {
    if (count > rest_.size()) refuse();
    const std::string_view out = rest_.substr(0, size_t(count));
    rest_.remove_prefix(size_t(count));
    return out;
  }
  uint64_t number() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= uint64_t(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    refuse();
  }

  std::string_view rest_, content_;
  uint64_t field_ = 0;
};

// Throws ValueError if the rules of a normalization lead out of their memory, which the library
// does not check. They are the size of a trie, the trie (a double array of darts-clone,
// https://github.com/s-yata/darts-clone), and the texts to which its values are offsets.
void require_safe_rules(std::string_view rules) {
  const auto number = [&](size_t at) {
    uint32_t value = 0;
    for (size_t i = 4; i-- > 0;) value = value << 8 | static_cast<unsigned char>(rules[at + i]);
    return value;
  };
  if (rules.empty()) return;
  const size_t size = rules.size() < 4 ? 0 : number(0), count = size / 4;
  bool is_safe = rules.size() > 4 && size < rules.size() - 4 && size % 4 == 0 && rules.back() == 0;
  const size_t texts = is_safe ? rules.size() - 4 - size : 0;
  for (size_t i = 0; i < count && is_safe; ++i) {
    constexpr uint32_t kIsLeaf = uint32_t(1) << 31, kHasLeaf = 1 << 8, kIsLarge = 1 << 9;
    const uint32_t unit = number(4 + 4 * i);
    if (unit & kIsLeaf) continue;
    const size_t next = i ^ (size_t(unit >> 10) << (unit & kIsLarge ? 8 : 0));
    is_safe = (next | 0xFF) < count;  // the next byte of a text chooses one of 256 units
    if (is_safe && unit & kHasLeaf) is_safe = (number(4 + 4 * next) & ~kIsLeaf) < texts;
  }
  require<ValueError>(is_safe, "not a model of sentencepiece, or damaged: its normalization");
}

// Throws ValueError if the bytes are not those of a whole model: pieces, how they were trained, and
// how texts are normalized, which is last. The library accepts files that were cut after a piece.
void require_whole_model(std::string_view bytes) {
  constexpr uint64_t kPieces = 1, kTraining = 2, kNormalization = 3, kDenormalization = 5,
                     kRules = 2;
  bool has_pieces = false, has_training = false, has_normalization = false;
  for (MessageReader model(bytes); model.next();) {
    const uint64_t field = model.field();
    has_pieces = has_pieces || field == kPieces;
    has_training = has_training || field == kTraining;
    has_normalization = has_normalization || field == kNormalization;
    if (field != kNormalization && field != kDenormalization) continue;
    for (MessageReader spec(model.content()); spec.next();) {
      if (spec.field() == kRules) require_safe_rules(spec.content());
    }
  }
  require<ValueError>(has_pieces && has_training && has_normalization,
                      "not a model of sentencepiece, or truncated: it lacks ",
                      has_pieces ? "the settings at its end" : "pieces");
}

class SentencePieceModel final : public SentencePiece {
 public:
  explicit SentencePieceModel(std::string_view model)
      : library_(SentencePieceLibrary::get()), processor_(library_.make()) {
    require_whole_model(model);
    const std::string error =
        library_.error_of([&] { return processor_->LoadFromSerializedProto(model); });
    require<ValueError>(error.empty(), "not a model of sentencepiece, or damaged: ", error);
    require<ValueError>(processor_->GetPieceSize() > 0, "a model of sentencepiece without pieces");
  }

  std::vector<std::string> pieces() const override {
    std::vector<std::string> out;
    for (int id = 0; id < processor_->GetPieceSize(); ++id) {
      out.push_back(processor_->IdToPiece(id));
    }
    return out;
  }

  void encode(std::string_view text, std::vector<uint32_t>& out) const override {
    check_stop();
    std::vector<int> ids;
    const std::string error = library_.error_of([&] { return processor_->Encode(text, &ids); });
    require<ValueError>(error.empty(), "sentencepiece cannot encode the text: ", error);
    for (const int id : ids) out.push_back(uint32_t(id));
  }

  std::string decode(std::span<const int64_t> ids) const override {
    std::string out;
    std::vector<int> numbers;
    for (const int64_t id : ids) numbers.push_back(int(id));
    const std::string error = library_.error_of([&] { return processor_->Decode(numbers, &out); });
    require<ValueError>(error.empty(), "sentencepiece cannot decode the tokens: ", error);
    return out;
  }

  std::string continuation(int64_t id) const override {
    const int piece = int(id);
    if (processor_->IsControl(piece)) return "";
    if (processor_->IsUnknown(piece)) return decode({&id, 1});
    std::string text = processor_->IdToPiece(piece);
    if (processor_->IsByte(piece)) return byte_of(text);
    for (size_t at = text.find(kBlank); at != std::string::npos; at = text.find(kBlank, at + 1)) {
      text.replace(at, kBlank.size(), " ");
    }
    return text;
  }

  std::optional<int64_t> control(std::string_view name) const override {
    const int id = processor_->PieceToId(name);
    const bool is_found = id >= 0 && processor_->IsControl(id) && processor_->IdToPiece(id) == name;
    return is_found ? std::optional<int64_t>(id) : std::nullopt;
  }
  std::optional<int64_t> unknown() const override { return if_any(processor_->unk_id()); }
  std::optional<int64_t> padding() const override { return if_any(processor_->pad_id()); }
  std::optional<int64_t> end() const override { return if_any(processor_->eos_id()); }

 private:
  static std::optional<int64_t> if_any(int id) {
    return id >= 0 ? std::optional<int64_t>(id) : std::nullopt;
  }
  // Returns the byte of a piece such as "<0x0A>".
  static std::string byte_of(const std::string& piece) {
    unsigned byte = 0;
    const bool is_byte = std::sscanf(piece.c_str(), "<0x%2X>", &byte) == 1;
    return is_byte ? std::string(1, char(byte)) : "";
  }

  const SentencePieceLibrary& library_;
  const std::unique_ptr<SentencePieceProcessor> processor_;
};

}  // namespace

std::shared_ptr<const SentencePiece> SentencePiece::read(std::string_view model) {
  return std::make_shared<SentencePieceModel>(model);
}
#else
std::shared_ptr<const SentencePiece> SentencePiece::read(std::string_view) {
  throw Error(
      "Taper was built without sentencepiece; install libsentencepiece-dev and build again ",
      "with TAPER_SENTENCEPIECE=ON, or take `tokenizer: bpe`");
}
#endif

}  // namespace taper::v0::data
