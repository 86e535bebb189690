#include "apps/runner/run/generate.h"

#include <algorithm>
#include <optional>
#include <span>

#include "apps/runner/base/errors.h"
#include "autograd/node.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/random_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "data/tokenizer.h"
#include "framework/base/describe.h"
#include "framework/factory/factories.h"
#include "framework/io/text_utils.h"
#include "modules/models/gpt_decoder.h"

namespace taper::v0::runner {
namespace {

using data::Tokenizer;
using detail::is_continuation;

// Draws a token from the most likely ones that have the probability top_p together.
int64_t draw_nucleus(const Tensor& logits, double top_p, Generator& generator) {
  const auto [sorted, order] = sort(logits, -1, true);
  const Tensor p = softmax(sorted, -1);
  const Tensor before = cumsum(p, -1) - p;  // the most likely token always remains
  const Tensor kept = masked_fill(sorted, ge(before, top_p), -kInfinity);
  const Tensor place = multinomial(softmax(kept, -1), 1, false, &generator);
  return order[place.item<int64_t>()].item<int64_t>();
}

// Draws a token by its logits.
int64_t draw(Tensor logits, const GenerateOptions& o, Generator& generator) {
  if (!all(lt(logits, kInfinity)).item<bool>()) {
    throw DataError(
        "the model returns nan or inf for the next token, because its training diverged; train "
        "again with a smaller learning rate");
  }
  if (o.temperature == 0) return argmax(logits).item<int64_t>();
  logits = logits / o.temperature;
  if (o.top_k > 0 && o.top_k < logits.numel()) {
    const Tensor least = amin(topk(logits, o.top_k).values);
    logits = masked_fill(logits, lt(logits, least), -kInfinity);
  }
  if (o.top_p < 1) return draw_nucleus(logits, o.top_p, generator);
  return multinomial(softmax(logits, -1), 1, false, &generator).item<int64_t>();
}

// A text and the model's logits of its next token. The keys and values of a GPT are kept, so that
// only new tokens pass through the network. Once the text is longer than the model's input, the
// model receives its last tokens, all of which have new positions then.
class Context {
 public:
  explicit Context(const TextModel& m) : m_(m) {
    auto* gpt = dynamic_cast<GPT*>(&m.model);
    if (gpt && GPTDecoder::reason_against(*gpt).empty()) decoder_.emplace(*gpt);
  }

  std::vector<int64_t>& tokens() { return tokens_; }
  void clear() {
    tokens_.clear();
    if (decoder_) decoder_->clear();
  }

  // Returns the logits of the next token, [vocab_size] in float32.
  Tensor next_logits() {
    const size_t most = size_t(m_.data.input_shape[0]);
    if (decoder_ && tokens_.size() <= most) {
      return (*decoder_)(last(tokens_.size() - size_t(decoder_->size()))).squeeze(0).to(kFloat32);
    }
    const Tensor tokens = last(std::min(tokens_.size(), most));
    return run_model(m_.model, m_.config, m_.data, tokens).select(1, -1).squeeze(0).to(kFloat32);
  }

 private:
  Tensor last(size_t count) const {
    return tensor_of(std::span(tokens_).last(count).data(), {1, int64_t(count)},
                     {.device = m_.device});
  }

  const TextModel& m_;
  std::vector<int64_t> tokens_;
  std::optional<GPTDecoder> decoder_;
};

std::vector<int64_t> encode(const Tokenizer& tokenizer, const std::string& text, const char* what) {
  return failing_as<ConfigError>(what, [&] { return tokenizer.encode(text); });
}

// Returns the token from which a text is generated: `given`, else the end of a document, else a
// newline. Returns the first token if the vocabulary has none of them.
int64_t start_token(const Tokenizer& tokenizer, const std::string& given) {
  if (!given.empty()) {
    if (const auto special = tokenizer.special_id(given)) return *special;
    const std::vector<int64_t> ids = encode(tokenizer, given, "the start: ");
    require<ConfigError>(ids.size() == 1, "the start: expected one token of the vocabulary, but ",
                         detail::in_quotes(given), " has ", ids.size());
    return ids[0];
  }
  // GPT-2's vocabulary always has the end of a document, also if the training text had none.
  const bool has_ends = std::ranges::count(tokenizer.parts().special, Tokenizer::kEnd) > 0;
  const bool has_pieces = tokenizer.parts().kind == Tokenizer::TokenKind::kSentencepiece;
  const auto end = tokenizer.special_id(Tokenizer::kEnd);
  if (end && (has_ends || has_pieces)) return *end;
  try {
    const std::vector<int64_t> ids = tokenizer.encode("\n");
    if (!ids.empty()) return ids[0];
  } catch (const Error&) {  // a vocabulary of characters may have none
  }
  return 0;
}

// Writes a text piece by piece, and holds back what may be part of a stop text or of a character.
class PieceWriter {
 public:
  PieceWriter(const std::vector<std::string>& stops,
              const std::function<void(std::string_view)>& write)
      : stops_(stops), write_(write) {}

  // Returns false if the text has reached a stop text.
  bool add(const std::string& piece) {
    text_ += piece;
    size_t first = std::string::npos;
    for (const std::string& stop : stops_) {
      if (!stop.empty()) first = std::min(first, text_.find(stop));
    }
    if (first != std::string::npos) {
      text_.resize(first);
      return false;
    }
    write_first(text_.size() - held_back());
    return true;
  }
  void end() {
    write_first(text_.size());
    if (last_ != '\n') write_("\n");
  }

 private:
  // Returns the number of bytes at the end that may belong to a stop text or to an incomplete
  // character.
  size_t held_back() const {
    size_t out = 0;
    for (const std::string& stop : stops_) {
      for (size_t n = std::min(stop.size(), text_.size()); n > out; --n) {
        if (std::string_view(stop).starts_with(std::string_view(text_).substr(text_.size() - n))) {
          out = n;
        }
      }
    }
    size_t begin = text_.size() - std::min<size_t>(text_.size(), 1);
    for (int k = 0; k < 3 && begin > 0 && is_continuation(text_[begin]); ++k) --begin;
    const std::string_view last = std::string_view(text_).substr(begin);
    const bool is_whole = last.empty() || detail::first_invalid(last) == last.size();
    return is_whole || last.size() >= 4 ? out : std::max(out, last.size());
  }
  void write_first(size_t count) {
    if (count == 0) return;
    last_ = text_[count - 1];
    write_(std::string_view(text_).substr(0, count));
    text_.erase(0, count);
  }

  const std::vector<std::string>& stops_;
  const std::function<void(std::string_view)>& write_;
  std::string text_;  // not written yet
  char last_ = 0;     // the last byte that was written
};

void generate_sample(const TextModel& m, Context& context, const GenerateOptions& o,
                     Generator& generator, const std::function<void(std::string_view)>& write,
                     const std::function<void()>& check) {
  const Tokenizer& tokenizer = *m.data.tokenizer;
  const bool lines = m.data.lines;
  const int64_t start = start_token(tokenizer, o.start);
  const auto document_end = tokenizer.special_id(Tokenizer::kEnd);
  context.clear();
  std::vector<int64_t>& tokens = context.tokens();
  tokens = encode(tokenizer, o.prompt, "the prompt: ");
  // A model that was trained on separate lines saw a newline before each line.
  if (lines || tokens.empty() || !o.start.empty()) tokens.insert(tokens.begin(), start);
  PieceWriter writer(o.stop, write);
  bool goes_on = writer.add(o.prompt);
  for (int64_t i = 0; goes_on && i < o.tokens; ++i) {
    check();
    const int64_t token = draw(context.next_logits(), o, generator);
    if (!lines && document_end == token) break;
    goes_on = writer.add(tokenizer.continuation(token));
    if (lines && token == start) context.clear();
    tokens.push_back(token);
  }
  writer.end();
}

}  // namespace

void generate_text(const TextModel& m, const GenerateOptions& o,
                   const std::function<void(std::string_view)>& write,
                   const std::function<void()>& check) {
  const NoGradGuard no_grad;
  Generator generator(o.seed);
  Context context(m);
  for (int64_t i = 0; i < o.samples; ++i) {
    if (o.samples > 1) write(concat_to_string("sample ", i + 1, ":\n"));
    generate_sample(m, context, o, generator, write, check);
  }
}

}  // namespace taper::v0::runner
