// The program: `taper train CONFIG [a.b=v ...] [--out DIR]`, `taper info` and `taper conformance`.
#include <cstdio>
#include <ctime>

#include <CLI/CLI.hpp>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "apps/runner/config.h"
#include "apps/runner/errors.h"
#include "apps/runner/info.h"
#include "apps/runner/train.h"
#include "tests/conformance/conformance.h"

namespace taper::runner {
namespace {

struct Arguments {
  std::string config;
  std::vector<std::string> overrides;
  std::string out;
};

// runs/NAME-20260131-235959
std::string default_directory(const std::string& name) {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char stamp[32];
  std::strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &utc);
  return cat("runs/", name, "-", stamp);
}

void run_train(const Arguments& args) {
  const RunConfig config = load_config(args.config, args.overrides);
  const std::string dir = args.out.empty() ? default_directory(config.name) : args.out;
  const TrainResult result = train(config, dir);
  std::printf("run:           %s\nsteps:         %lld\ntest loss:     %.4f\n", dir.c_str(),
              static_cast<long long>(result.steps), result.test_loss);
  if (result.test_accuracy >= 0) {
    std::printf("test accuracy: %.2f %%\n", 100 * result.test_accuracy);
  }
}

int fail(ExitCode code, const std::exception& error) {
  std::fprintf(stderr, "taper: %s\n", error.what());
  return code;
}

// Runs f; what it throws ends as one message and an exit code.
template <class F> int guarded(F f) try {
  f();
  return kExitOk;
} catch (const ConfigError& error) {
  return fail(kExitConfig, error);
} catch (const InputError& error) {
  return fail(kExitInput, error);
} catch (const DeviceUnavailable& error) {
  return fail(kExitDevice, error);
} catch (const Diverged& error) {
  return fail(kExitData, error);
} catch (const OutOfMemoryError& error) {
  return fail(kExitMemory, error);
} catch (const std::bad_alloc& error) {
  return fail(kExitMemory, error);
} catch (const std::exception& error) {
  return fail(kExitBug, error);
}

// Prints the table; 1 when a row fails.
int run_conformance() {
  int failed = 0;
  const int code = guarded([&] {
    const conformance::Report report = conformance::run_all();
    std::fputs(report.text.c_str(), stdout);
    failed = report.failed;
  });
  return code == kExitOk && failed > 0 ? 1 : code;
}

int main(int argc, char** argv) {
  spdlog::set_default_logger(spdlog::stderr_color_mt("taper"));
  spdlog::set_pattern("%v");

  CLI::App app{"Taper trains models from YAML files."};
  app.require_subcommand(1);
  Arguments args;
  CLI::App* train = app.add_subcommand("train", "Train as a YAML file says");
  train->add_option("config", args.config, "the YAML file, as configs/digits.yaml")->required();
  train->add_option("overrides", args.overrides, "settings over the file's, as train.epochs=3");
  train->add_option("--out", args.out, "directory of the run (default: runs/NAME-DATE)");
  CLI::App* info = app.add_subcommand("info", "Show versions and devices");
  CLI::App* conform =
      app.add_subcommand("conformance", "Compare what Taper prints and raises with PyTorch");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitConfig;
  }
  if (info->parsed()) return guarded([] { std::fputs(system_info().c_str(), stdout); });
  if (conform->parsed()) return run_conformance();
  return guarded([&] { run_train(args); });
}

}  // namespace
}  // namespace taper::runner

int main(int argc, char** argv) { return taper::runner::main(argc, argv); }
