#include "apps/runner/program.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <random>

#include <CLI/CLI.hpp>
#include <spdlog/fmt/chrono.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "apps/runner/config/config.h"
#include "apps/runner/config/schema.h"
#include "apps/runner/gate/gate.h"
#include "apps/runner/report/report.h"
#include "apps/runner/run/errors.h"
#include "apps/runner/run/info.h"
#include "apps/runner/run/run_directory.h"
#include "apps/runner/run/text.h"
#include "apps/runner/train/metrics.h"
#include "apps/runner/train/predict.h"
#include "apps/runner/train/train.h"
#include "apps/runner/train/validate.h"
#include "framework/hooks.h"

namespace taper::runner {
namespace {

using Action = std::function<int()>;
using Words = std::vector<std::string>;

int print(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return kExitOk;
  throw DiskError("cannot write to stdout");
}
int print(const Verdict& verdict) {
  print(verdict.text);
  return verdict.passed ? kExitOk : kExitGate;
}

// What the commands are told; each uses some of it.
struct Arguments {
  std::string run, other, out, data, resume = "no", page = "report.html";
  Words overrides, tolerances;
  std::vector<std::filesystem::path> runs;
  bool allow_changed_data = false, print_config = false, validate = false, dry_run = false,
       markdown = false;
  GenerateOptions generate;
  RecordOptions record;
};

// runs/NAME/20260131-235959-1a2b
std::string default_directory(const std::string& name) {
  return fmt::format("runs/{}/{:%Y%m%d-%H%M%S}-{:04x}", name, fmt::gmtime(std::time(nullptr)),
                     std::random_device()() & 0xffff);
}

// What a model of text writes, for the report of its run; nothing where its vocabulary has no
// line's end to begin with.
void write_samples(const std::filesystem::path& dir) try {
  write_file(dir / "samples.txt", generate(load_run(dir, {}), {}));
} catch (const ConfigError&) {
  return;
} catch (const OutOfMemoryError& error) {  // the run itself is whole
  spdlog::warn("no samples were written: {}", error.what());
}

int run_train(const Arguments& a) {
  const RunConfig config = load_run_config(a.run, a.overrides);
  if (a.print_config) return print(to_yaml_with_origins(config));
  if (a.validate) return print(validate(config));
  if (a.dry_run) return print(dry_run(config));
  if (a.resume != "no" && a.out.empty()) {
    throw ConfigError("--resume goes on in a run's directory: name it with --out");
  }
  const std::string dir = a.out.empty() ? default_directory(config.name) : a.out;
  const TrainResult result =
      train(config, dir, {.resume = a.resume, .allow_changed_data = a.allow_changed_data});
  if (task_of(config.data) == data::Task::kLanguage) write_samples(dir);
  std::string out = cat("run:             ", dir, "\nsteps:           ", result.steps, "\n");
  if (!result.reason.empty()) out += cat("ended by:        ", result.reason, "\n");
  const bool has_last = result.saved_step == result.steps;
  out += cat("saved weights:   of step ", result.saved_step,
             has_last ? ", the last\n" : ", the best\n");
  if (result.best_step > 0 && result.best_step != result.steps) {
    out += cat("best:            test ", config.train.best.metric, " ", float(result.best),
               " at step ", result.best_step, ", in checkpoints/best\n");
  }
  return print(out + to_text(result.metrics, {}));
}

Action train_command(CLI::App& app, Arguments& a) {
  app.add_option("config", a.run, "the YAML file, as configs/digits.yaml")->required();
  app.add_option("overrides", a.overrides, "settings over the file's, as train.epochs=3");
  app.add_option("--out", a.out, "directory of the run (default: runs/NAME/DATE-ID)");
  app.add_option("--resume", a.resume,
                 "go on in --out: auto (where it can), last, best, a checkpoint's path; or no");
  app.add_flag("--allow-changed-data", a.allow_changed_data,
               "with --resume: go on though the data files are not those of the run");
  app.add_flag("--print-config", a.print_config, "print every setting and where it comes from");
  app.add_flag("--validate", a.validate,
               "print shapes, parameters, memory and steps; needs no GPU");
  app.add_flag("--dry-run", a.dry_run, "two steps, an evaluation, a save, a reload, a comparison");
  return [&a] { return run_train(a); };
}

void add_run(CLI::App& app, Arguments& a) {
  app.add_option("run", a.run, "the run's directory")->required();
}
void add_overrides(CLI::App& app, Arguments& a) {
  app.add_option("overrides", a.overrides, "settings over the run's, as device=cpu");
}

Action eval_command(CLI::App& app, Arguments& a) {
  add_run(app, a);
  add_overrides(app, a);
  app.add_option("--data", a.data, "a CSV file with labels, in place of the run's test data");
  return [&a] { return print(evaluate_run(load_run(a.run, a.overrides), a.data)); };
}

Action verify_command(CLI::App& app, Arguments& a) {
  app.add_option("run", a.run, "the run's directory, or a checkpoint's")->required();
  return [&a] { return print(verify(a.run)); };
}

Action predict_command(CLI::App& app, Arguments& a) {
  add_run(app, a);
  app.add_option("file", a.data, "a CSV file of rows, or an IDX file of images")->required();
  add_overrides(app, a);
  return [&a] { return print(predict(load_run(a.run, a.overrides), a.data)); };
}

// A number is read as one of a config: strictly, finite, within its range.
template <class T>
void add_number(CLI::App& app, const char* name, T& target, const char* doc, Range range = {}) {
  const Field field{name, &target, doc, range};
  const auto read = [field](const std::string& word) {
    if (const std::string wrong = read_word(field, word); !wrong.empty()) throw ConfigError(wrong);
  };
  app.add_option_function<std::string>(name, read, cat(doc, "; ", expected(field)))
      ->type_name("NUMBER");
}

Action generate_command(CLI::App& app, Arguments& a) {
  GenerateOptions& o = a.generate;
  add_run(app, a);
  add_overrides(app, a);
  app.add_option("--prompt", o.prompt, "what the text begins with");
  add_number(app, "--tokens", o.tokens, "how many to add (200)", {1, 1'000'000});
  add_number(app, "--temperature", o.temperature, "1: as learned (the default), 0: the likeliest",
             kNonNegative);
  add_number(app, "--top-k", o.top_k, "draw from the k likeliest, 0: from all (the default)",
             kNonNegative);
  add_number(app, "--seed", o.seed, "another one writes another text (0)");
  return [&a] { return print(generate(load_run(a.run, a.overrides), a.generate)); };
}

void add_tolerances(CLI::App& app, Arguments& a) {
  app.add_option("--tolerance,--rtol", a.tolerances,
                 "how far off numbers may be, as a part of them: all metrics (1e-5) or one "
                 "(loss=1e-4); may be repeated; 0 without it: the same bits")
      ->allow_extra_args(false);
}

Action record_command(CLI::App& app, Arguments& a) {
  add_run(app, a);
  app.add_option("--to", a.out, "the recording, a JSON file")->required();
  add_number(app, "--steps", a.record.steps, "the first steps alone, not all", {1});
  add_number(app, "--state-every", a.record.state_every,
             "steps between two checksums of the weights (1)", {1});
  add_tolerances(app, a);
  return [&a] {
    a.record.tolerances = parse_tolerances(a.tolerances);
    return print(record(a.run, a.out, a.record));
  };
}

Action check_command(CLI::App& app, Arguments& a) {
  app.add_option("run", a.run, "the run's directory, or another recording of it")->required();
  app.add_option("--against", a.other, "the recording")->required();
  add_tolerances(app, a);
  return [&a] { return print(check(a.run, a.other, parse_tolerances(a.tolerances))); };
}

Action diff_command(CLI::App& app, Arguments& a) {
  add_run(app, a);
  app.add_option("other", a.other, "another run's directory")->required();
  return [&a] { return print(diff(a.run, a.other)); };
}

Action report_command(CLI::App& app, Arguments& a) {
  app.add_option("runs", a.runs, "directories of runs")->required();
  app.add_option("-o,--to", a.page, "the HTML file (report.html)");
  return [&a] {
    write_report(a.runs, a.page);
    return print(a.page + "\n");
  };
}

Action reproduce_command(CLI::App& app, Arguments& a) {
  add_run(app, a);
  return [&a] { return print(reproduce(a.run)); };
}

Action schema_command(CLI::App& app, Arguments& a) {
  app.add_flag("--markdown", a.markdown, "the reference page of the documentation");
  return [&a] { return print(a.markdown ? config_reference() : json_schema()); };
}

Action info_command(CLI::App&, Arguments&) {
  return [] { return print(system_info()); };
}

struct OwnCommand {
  const char *name, *doc, *examples;
  Action (*setup)(CLI::App& app, Arguments& a);
};
constexpr OwnCommand kCommands[] = {
    {"train", "Train as a YAML file says",
     "taper train configs/digits.yaml\n"
     "taper train configs/digits.yaml train.epochs=3 optimizer.lr=0.05 --out runs/d\n"
     "taper train configs/digits.yaml --out runs/d --resume auto\n"
     "taper train configs/digits.yaml --validate",
     train_command},
    {"eval", "Measure a run's model on its test data, or on other data",
     "taper eval runs/d\ntaper eval runs/iris device=cpu --data more.csv", eval_command},
    {"verify", "Compare a run's files and its checkpoints with their checksums",
     "taper verify runs/d", verify_command},
    {"predict", "Predict rows or images: CSV on stdout",
     "taper predict runs/iris new.csv > predictions.csv\n"
     "taper predict runs/mnist t10k-images-idx3-ubyte.gz",
     predict_command},
    {"generate", "Let a model of text write",
     "taper generate runs/gpt --prompt 'ROMEO:' --tokens 200 --temperature 0.8", generate_command},
    {"info", "Show versions and devices", "taper info", info_command},
    {"record", "Run again and record the numbers of every step",
     "taper record runs/d --to golden.json --tolerance loss=1e-5", record_command},
    {"check", "Run again and compare with a recording; exit code 1 where they differ",
     "taper check runs/d --against golden.json", check_command},
    {"diff", "Find the first step, module and element in which two runs differ",
     "taper diff runs/a runs/b", diff_command},
    {"report", "Write runs as one HTML file", "taper report runs/a runs/b --to report.html",
     report_command},
    {"reproduce", "Run again from the directory of a run and compare byte for byte",
     "taper reproduce runs/d", reproduce_command},
    {"schema", "Print what a YAML file may say, as JSON Schema for editors",
     "taper schema > taper.schema.json\ntaper schema --markdown > configuration.md",
     schema_command},
};

// What is wrong with a command line that the parser gave up on.
std::string complaint(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<CLI::App*> begun = app.get_subcommands();
  const CLI::App& command = begun.empty() ? app : *begun[0];
  std::string text = error.what();
  if (const Words extra = app.remaining(true); !extra.empty()) {
    Words options;
    for (const CLI::Option* o : command.get_options()) options.push_back(o->get_name());
    text = cat("unexpected argument ", in_quotes(extra[0]), did_you_mean(extra[0], options));
  }
  const std::string verb = begun.empty() ? "" : cat(" ", command.get_name());
  return cat(text, "; see taper", verb, " --help");
}

}  // namespace

int run_program(int argc, char** argv, const std::vector<Command>& more) try {
  if (!spdlog::get("taper")) spdlog::set_default_logger(spdlog::stderr_color_mt("taper"));
  spdlog::set_pattern("%v");
  set_warning_handler([](const std::string& message) { spdlog::warn(message); });
  CLI::App app{"Taper trains models from YAML files.",
               std::filesystem::path(argc > 0 ? argv[0] : "taper").filename()};
  app.require_subcommand(1);
  const BuildFacts built = build_facts();
  app.set_version_flag("--version", cat("taper ", built.version,
                                        built.commit.empty() ? "" : ", commit ", built.commit));
  app.footer(
      "Each command has a --help with examples. Exit codes: 0 done, 1 numbers differ, 2 the "
      "command\nline or the config is wrong; docs/exit_codes.md has the others.");
  Arguments arguments;
  Action action;
  Words names;
  const auto add = [&](const char* name, const char* doc, const char* examples) {
    CLI::App* command = app.add_subcommand(name, doc);
    names.emplace_back(name);
    command->footer(cat("Examples:\n", examples));
    return command;
  };
  for (const OwnCommand& c : kCommands) {
    CLI::App* command = add(c.name, c.doc, c.examples);
    command->final_callback([&, run = c.setup(*command, arguments)] { action = run; });
  }
  for (const Command& c : more) {
    add(c.name, c.doc, c.examples)->final_callback([&, &run = c.run] { action = run; });
  }
  const std::string verb = argc > 1 ? argv[1] : "";
  if (!verb.starts_with('-') && std::ranges::count(names, verb) == 0) {
    throw ConfigError(cat(verb.empty() ? "expected a command" : "unknown command ",
                          verb.empty() ? "" : in_quotes(verb), did_you_mean(verb, names),
                          "; commands: ", joined(names), "; see taper --help"));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    throw ConfigError(complaint(app, error));
  }
  return action();
} catch (const std::exception& error) {
  const ExitCode code = exit_code_of(error);
  std::fprintf(stderr, "taper: %s%s\n", code == kExitBug ? "a bug of the program: " : "",
               error.what());
  return code;
}

}  // namespace taper::runner
