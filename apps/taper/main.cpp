// The program: its commands are those of apps/runner/program.cpp, and `taper conformance`.
#include <cstdio>

#include "apps/runner/program.h"
#include "apps/runner/run/errors.h"
#include "testing/conformance/conformance.h"

int main(int argc, char** argv) {
  const auto conformance = [] {
    const taper::conformance::Report report = taper::conformance::run_all();
    std::fputs(report.text.c_str(), stdout);
    return report.failed > 0 ? taper::runner::kExitGate : taper::runner::kExitOk;
  };
  return taper::runner::run_program(
      argc, argv,
      {{"conformance", "Compare what Taper prints and raises with PyTorch", "taper conformance",
        conformance}});
}
