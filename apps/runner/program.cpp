#include "apps/runner/program.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <sstream>

#include <CLI/CLI.hpp>

#include "apps/runner/base/errors.h"
#include "apps/runner/base/process.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/commands/commands.h"
#include "apps/runner/report/progress.h"
#include "apps/runner/run/host_state.h"
#include "apps/runner/run/log_sink.h"
#include "apps/runner/run/run_metadata.h"
#include "framework/base/log.h"

namespace taper::v0::runner {
namespace {

using Words = std::vector<std::string>;

// Returns the built-in commands in the order of `taper --help`.
std::vector<Command> own_commands() {
  return {train_command(),    eval_command(),      verify_command(),   predict_command(),
          generate_command(), inspect_command(),   info_command(),     sweep_command(),
          lr_find_command(),  list_command(),      record_command(),   check_command(),
          bless_command(),    diff_command(),      bisect_command(),   trace_command(),
          report_command(),   reproduce_command(), coverage_command(), export_command(),
          schema_command()};
}

CLI::Option* add_words(CLI::App& app, const Field& field) {
  const auto read = [value = std::get<Value>(field.target)](const Words& words) {
    const std::vector<Scalar> texts = value.scalars(words.size());
    for (size_t i = 0; i < words.size(); ++i) *std::get<std::string*>(texts[i]) = words[i];
  };
  CLI::Option* words = app.add_option_function<Words>(field.name, read, field.doc);
  return field.name.starts_with('-') ? words->allow_extra_args(false) : words;
}

// Adds an option for a text or number, which is read as in a config: numbers must be finite and
// within their range.
CLI::Option* add_word(CLI::App& app, const Field& field, bool is_text) {
  const auto read = [field](const std::string& word) { read_word(field, word); };
  const std::string doc = is_text ? field.doc : concat_to_string(field.doc, "; ", expected(field));
  return app.add_option_function<std::string>(field.name, read, doc)
      ->type_name(is_text ? "TEXT" : "NUMBER");
}

CLI::Option* add_argument(CLI::App& app, const Field& field) {
  const auto& value = std::get<Value>(field.target);
  if (value.takes_list) return add_words(app, field);
  if (std::holds_alternative<bool*>(value.like)) {
    return app.add_flag(field.name, *std::get<bool*>(value.scalars({})[0]), field.doc);
  }
  return add_word(app, field, std::holds_alternative<std::string*>(value.like));
}

// Options of every command.
struct ConsoleOptions {
  std::string level;
  bool is_quiet = false;

  void describe(Schema& v) {
    v("--log-level", level, {std::begin(LogLevel::kWords), std::end(LogLevel::kWords)},
      "lowest level of messages on stderr: trace, debug, info (the default), warn or error");
    v("--quiet", is_quiet, "print only warnings and errors, like --log-level warn");
  }
  void apply() const {
    if (!level.empty()) return set_console_level(level);
    if (is_quiet) set_console_level(LogLevel::kWarning);
  }
};

// Returns the message for a command line that CLI11 rejected.
std::string complaint(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<CLI::App*> begun = app.get_subcommands();
  const CLI::App& command = begun.empty() ? app : *begun[0];
  std::string text = error.what();
  if (const Words extra = app.remaining(true); !extra.empty()) {
    Words options;
    for (const CLI::Option* o : command.get_options()) options.push_back(o->get_name());
    std::string hint = did_you_mean(nearest(extra[0], options));
    if (hint.empty() && extra[0].starts_with("--") && command.get_option_no_throw("overrides")) {
      hint = "; write settings without dashes, such as train.epochs=3";
    }
    text = concat_to_string("unexpected argument ", in_quotes(extra[0]), hint);
  }
  const std::string verb = begun.empty() ? "" : concat_to_string(" ", command.get_name());
  return concat_to_string(text, "; see ", app.get_name(), verb, " --help");
}

}  // namespace

int main(int argc, char** argv, const std::vector<Command>& more) try {
  install_console();
  const OwnProcessGuard owned;
  const ReadingProgress reading;
  CLI::App app{"Taper trains models from YAML files.",
               fs::path(argc > 0 ? argv[0] : "taper").filename()};
  app.require_subcommand(1);
  const BuildInfo built = build_info();
  app.set_version_flag("--version",
                       concat_to_string("taper ", built.version,
                                        built.commit.empty() ? "" : ", commit ", built.commit));
  app.footer(
      "COMMAND --help describes the options of a command and shows examples.\n\nExit codes: 0 "
      "success; 1 numbers differ; 2 invalid command line or config; 3 a\ncomparison is "
      "inconclusive; 65 unusable data or a loss that is not finite; 66 an input is missing\nor "
      "damaged; 69 device not available; 70 a bug; 71 out of memory; 74 an output cannot be "
      "written;\n75 stopped by a signal after saving; 76 another rank failed.");
  std::vector<Command> commands = own_commands();
  std::ranges::copy(more, std::back_inserter(commands));
  const Command* chosen = nullptr;
  ConsoleOptions console;
  const Schema console_schema = schema_of(console);
  Words names;
  for (const Command& c : commands) {
    CLI::App* command = app.add_subcommand(c.name, c.doc);
    std::string examples = concat_to_string("\n", c.examples);
    for (size_t at = 0; (at = examples.find("\ntaper ", at)) != examples.npos; ++at) {
      examples.replace(at + 1, std::strlen("taper"), app.get_name());
    }
    command->footer("Examples:" + examples);
    for (const Field& field : c.arguments.fields) {
      add_argument(*command, field)->required(field.is_required);
    }
    for (const Field& field : console_schema.fields) {
      if (!command->get_option_no_throw(field.name)) add_argument(*command, field);
    }
    command->final_callback([&] { chosen = &c; });
    names.emplace_back(c.name);
  }
  const std::string verb = argc > 1 ? argv[1] : "";
  if (!verb.starts_with('-') && std::ranges::count(names, verb) == 0) {
    throw ConfigError(
        concat_to_string(verb.empty() ? "expected a command" : "unknown command ",
                         verb.empty() ? "" : in_quotes(verb), did_you_mean(nearest(verb, names)),
                         "; commands: ", joined(names), "; see ", app.get_name(), " --help"));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) throw ConfigError(complaint(app, error));
    std::ostringstream asked;  // the text of --help or --version
    app.exit(error, asked);
    return print(asked.str());
  }
  console.apply();
  const HostStateGuard host;
  return chosen->run();
} catch (const std::exception& error) {
  const ExitCode code = exit_code_of(error);
  if (*error.what() == '\0') return code;  // another rank reports the error
  log_message(LogLevel::kError, message_of(error));
  return code;
}

}  // namespace taper::v0::runner
