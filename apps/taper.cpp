// The program: `taper train CONFIG [a.b=v ...] [--out DIR]`, `taper info` and `taper conformance`.
#include <cstdio>
#include <ctime>

#include <CLI/CLI.hpp>
#include <spdlog/fmt/chrono.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "apps/runner/config.h"
#include "apps/runner/errors.h"
#include "apps/runner/info.h"
#include "apps/runner/train.h"
#include "tests/conformance/conformance.h"

namespace taper::runner {
namespace {

// runs/NAME-20260131-235959
std::string default_directory(const std::string& name) {
  return fmt::format("runs/{}-{:%Y%m%d-%H%M%S}", name, fmt::gmtime(std::time(nullptr)));
}

int run_train(const std::string& file, const std::vector<std::string>& overrides, std::string dir) {
  const RunConfig config = load_config(file, overrides);
  if (dir.empty()) dir = default_directory(config.name);
  const TrainResult result = train(config, dir);
  fmt::print("run:           {}\nsteps:         {}\ntest loss:     {:.4f}\n", dir, result.steps,
             result.test_loss);
  if (result.test_accuracy >= 0) {
    fmt::print("test accuracy: {:.2f} %\n", 100 * result.test_accuracy);
  }
  return kExitOk;
}

// 1 when a row fails.
int run_conformance() {
  const conformance::Report report = conformance::run_all();
  std::fputs(report.text.c_str(), stdout);
  return report.failed > 0 ? 1 : kExitOk;
}

int fail(ExitCode code, const std::exception& error) {
  std::fprintf(stderr, "taper: %s\n", error.what());
  return code;
}

// Runs f, which gives an exit code; what it throws ends as one message and its own code.
template <class F> int guarded(F f) try { return f(); } catch (const RunError& error) {
  return fail(error.code, error);
} catch (const OutOfMemoryError& error) {
  return fail(kExitMemory, error);
} catch (const std::bad_alloc& error) {
  return fail(kExitMemory, error);
} catch (const std::exception& error) {
  return fail(kExitBug, error);
}

int main(int argc, char** argv) {
  spdlog::set_default_logger(spdlog::stderr_color_mt("taper"));
  spdlog::set_pattern("%v");

  CLI::App app{"Taper trains models from YAML files."};
  app.require_subcommand(1);
  std::string config, out;
  std::vector<std::string> overrides;
  CLI::App* run = app.add_subcommand("train", "Train as a YAML file says");
  run->add_option("config", config, "the YAML file, as configs/digits.yaml")->required();
  run->add_option("overrides", overrides, "settings over the file's, as train.epochs=3");
  run->add_option("--out", out, "directory of the run (default: runs/NAME-DATE)");
  app.add_subcommand("info", "Show versions and devices");
  CLI::App* conform =
      app.add_subcommand("conformance", "Compare what Taper prints and raises with PyTorch");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitConfig;
  }
  return guarded([&]() -> int {
    if (conform->parsed()) return run_conformance();
    if (run->parsed()) return run_train(config, overrides, out);
    return std::fputs(system_info().c_str(), stdout) < 0 ? kExitBug : kExitOk;
  });
}

}  // namespace
}  // namespace taper::runner

int main(int argc, char** argv) { return taper::runner::main(argc, argv); }
