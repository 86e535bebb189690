// `taper generate`.
#include "apps/runner/commands/commands.h"
#include "framework/base/cancel.h"
#include "framework/base/describe.h"

namespace taper::v0::runner {

// Writes the text in pieces as it is generated.
static void generate_pieces(const SavedRun& run, const GenerateOptions& options,
                            const std::function<void(std::string_view)>& write) {
  if (run.info.task != Task::kLanguage)
    throw ConfigError("the model of this run is not a language model, so it cannot generate text");
  try {
    generate_text({*run.model, run.config.model, run.info, run.device}, options, write, check_stop);
  } catch (DataError& error) {
    error.add_prefix(concat_to_string(run.dir.string(), ": "));
    throw;
  }
}

std::string generate(const SavedRun& run, const GenerateOptions& options) {
  std::string out;
  generate_pieces(run, options, [&](std::string_view piece) { out += piece; });
  return out;
}

Command generate_command() {
  struct Generate : RunArguments, GenerateOptions {
    void describe(Schema& v) {
      describe_run(v);
      describe_overrides(v);
      v("--prompt", prompt,
        "beginning of the text; default: the end of a document, a newline, or the first token of "
        "the vocabulary, which is not printed");
      v("--start", start, "token before the prompt, such as <|endoftext|>; it is not printed");
      v("--tokens", tokens, Range{1, 1'000'000}, "number of tokens to generate; default: 200");
      v("--samples", samples, Range{1, 1'000'000}, "number of texts to generate; default: 1");
      v("--stop", stop, "end the text before this one; can be repeated");
      v("--temperature", temperature, kNonNegative,
        "1: sample from the model's probabilities (the default); 0: always the most likely token");
      v("--top-k", top_k, kNonNegative,
        "sample from the k most likely tokens only; 0: from all (the default)");
      v("--top-p", top_p, Range{0, 1, true, false},
        "sample from the most likely tokens that have this probability together; default: 1");
      v("--seed", seed, "seed of the sampling; default: 0");
    }
    int operator()() const {
      generate_pieces(open(), *this, [](std::string_view piece) { print(std::string(piece)); });
      return kExitOk;
    }
  };
  return command_of<Generate>(
      "generate", "Generate text with a language model",
      "taper generate runs/gpt --prompt 'ROMEO:' --tokens 200 --temperature 0.8\n"
      "taper generate runs/gpt --top-p 0.9 --samples 3 --stop '\\n\\n'");
}

}  // namespace taper::v0::runner
