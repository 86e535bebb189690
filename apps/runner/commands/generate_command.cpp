// `taper generate`.
#include <algorithm>

#include "apps/runner/commands/commands.h"
#include "apps/runner/components/components.h"
#include "autograd/node.h"
#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/random_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "framework/base/cancel.h"
#include "framework/base/describe.h"
#include "framework/factory/factories.h"

namespace taper::v0::runner {
namespace {

// Draws the next token after `context`. If the context is longer than the model's input, the model
// receives only its last tokens.
int64_t next_token(const SavedRun& run, std::span<const int64_t> context, const GenerateOptions& o,
                   Generator& generator) {
  const size_t seen = std::min(context.size(), size_t(run.info.input_shape[0]));
  const Tensor tokens =
      tensor_of(context.last(seen).data(), {1, int64_t(seen)}, {.device = run.device});
  Tensor logits = run_model(*run.model, run.config.model, run.info, tokens)
                      .select(1, -1)
                      .squeeze(0)
                      .to(kFloat32);
  if (!all(lt(logits, kInfinity)).item<bool>()) {
    throw DataError(run.dir.string(),
                    ": the model returns nan or inf for the next token, because its training "
                    "diverged; train again with a smaller learning rate");
  }
  if (o.temperature == 0) return argmax(logits).item<int64_t>();
  logits = logits / o.temperature;
  if (o.top_k > 0 && o.top_k < logits.numel()) {
    const Tensor least = amin(topk(logits, o.top_k).values);
    logits = masked_fill(logits, lt(logits, least), -kInfinity);
  }
  return multinomial(softmax(logits, -1), 1, false, &generator).item<int64_t>();
}

std::vector<int64_t> encode(const data::Tokenizer& tokenizer, const std::string& prompt) {
  return failing_as<ConfigError>("the prompt: ", [&] { return tokenizer.encode(prompt); });
}

// Returns the token that precedes the first generated one: a newline, or the first token if the
// vocabulary has no newline.
int64_t first_token(const data::Tokenizer& tokenizer) try {
  return tokenizer.encode("\n").at(0);
} catch (const Error&) {
  return 0;
}

}  // namespace

std::string generate(const SavedRun& run, const GenerateOptions& o) {
  if (!run.info.tokenizer)
    throw ConfigError("the model of this run is not a language model, so it cannot generate text");
  const NoGradGuard no_grad;
  const data::Tokenizer& tokenizer = *run.info.tokenizer;
  Generator generator(o.seed);
  std::vector<int64_t> written = encode(tokenizer, o.prompt), context = written;
  // A model that was trained on separate lines saw a newline before each line.
  const int64_t start = first_token(tokenizer);
  if (run.info.lines || context.empty()) context.insert(context.begin(), start);
  for (int64_t i = 0; i < o.tokens; ++i) {
    check_stop();
    const int64_t token = next_token(run, context, o, generator);
    written.push_back(token);
    if (run.info.lines && token == start) context.clear();
    context.push_back(token);
  }
  const std::string text = tokenizer.decode(written);
  return text.ends_with('\n') ? text : text + "\n";
}

Command generate_command() {
  struct Generate : RunArguments, GenerateOptions {
    void describe(Schema& v) {
      describe_run(v);
      describe_overrides(v);
      v("--prompt", prompt,
        "beginning of the text; default: a newline, or the first token of the vocabulary");
      v("--tokens", tokens, Range{1, 1'000'000}, "number of tokens to generate; default: 200");
      v("--temperature", temperature, kNonNegative,
        "1: sample from the model's probabilities (the default); 0: always the most likely token");
      v("--top-k", top_k, kNonNegative,
        "sample from the k most likely tokens only; 0: from all (the default)");
      v("--seed", seed, "seed of the sampling; default: 0");
    }
    int operator()() const { return print(generate(open(), *this)); }
  };
  return command_of<Generate>(
      "generate", "Generate text with a language model",
      "taper generate runs/gpt --prompt 'ROMEO:' --tokens 200 --temperature 0.8");
}

}  // namespace taper::v0::runner
