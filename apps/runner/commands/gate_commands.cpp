// `taper record`, `taper check`, `taper reproduce` and `taper diff`.
#include "apps/runner/commands/commands.h"
#include "apps/runner/gate/gate.h"

namespace taper::v0::runner {

namespace {

int print_verdict(const Verdict& verdict) { return print(verdict.text, verdict.passed); }

// The tolerances of record and check, as given on the command line.
struct ToleranceWords {
  std::vector<std::string> words{};
  void describe(Schema& v) {
    v("--tolerance,--rtol", words,
      "relative tolerance of all metrics (1e-5) or of one (loss=1e-4); can be repeated; default: "
      "0, which requires identical bits");
  }
};

}  // namespace

Command record_command() {
  struct Record : RecordOptions {
    std::string run, to;
    ToleranceWords rtol;
    void describe(Schema& v) {
      v("run", run, "directory of the run").required();
      v("--to", to, "JSON file for the recording").required();
      v("--steps", steps, Range{1}, "number of steps to record; default: all");
      v("--state-every", state_every, Range{1},
        "steps between two checksums of the weights; default: 1");
      rtol.describe(v);
    }
    int operator()() {
      tolerances = parse_tolerances(rtol.words);
      return print_verdict(record(run, to, *this));
    }
  };
  return command_of<Record>("record", "Run again and record the metrics of every step",
                            "taper record runs/d --to golden.json --tolerance loss=1e-5");
}
Command check_command() {
  struct Check {
    std::string run, golden;
    ToleranceWords rtol;
    void describe(Schema& v) {
      v("run", run, "directory of the run, or another recording of it").required();
      v("--against", golden, "recording to compare with").required();
      rtol.describe(v);
    }
    int operator()() const {
      return print_verdict(check(run, golden, parse_tolerances(rtol.words)));
    }
  };
  return command_of<Check>("check",
                           "Run again and compare with a recording; exit code 1 if they differ",
                           "taper check runs/d --against golden.json");
}
Command reproduce_command() {
  struct Reproduce {
    std::string run;
    void describe(Schema& v) { v("run", run, "directory of the run").required(); }
    int operator()() const { return print_verdict(reproduce(run)); }
  };
  return command_of<Reproduce>(
      "reproduce", "Repeat a run from its directory and compare the results byte for byte",
      "taper reproduce runs/d");
}

Command diff_command() {
  struct Diff {
    std::string run, other;
    void describe(Schema& v) {
      v("run", run, "directory of the run").required();
      v("other", other, "directory of another run").required();
    }
    int operator()() const { return print_verdict(diff(run, other)); }
  };
  return command_of<Diff>("diff",
                          "Find the first step, module and element in which two runs differ",
                          "taper diff runs/a runs/b");
}

}  // namespace taper::v0::runner
