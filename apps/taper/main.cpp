// The program: its commands are those of apps/runner/program.cpp, and `taper conformance`.
#include "apps/runner/program.h"
#include "testing/conformance/conformance.h"

int main(int argc, char** argv) {
  const auto conformance = [] {
    const taper::conformance::Report report = taper::conformance::run_all();
    return taper::runner::print(report.text, report.failed == 0);
  };
  return taper::runner::run_program(
      argc, argv,
      {{"conformance", "Compare what Taper prints and raises with PyTorch", "taper conformance",
        conformance}});
}
