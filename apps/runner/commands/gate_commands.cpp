// `taper record`, `taper check`, `taper bless`, `taper reproduce` and `taper diff`.
#include <cstdlib>
#include <exception>
#include <fstream>

#include "apps/runner/base/files.h"
#include "apps/runner/base/writable.h"
#include "apps/runner/commands/commands.h"
#include "apps/runner/gate/ci_report.h"
#include "apps/runner/gate/coverage.h"
#include "apps/runner/gate/gate.h"
#include "apps/runner/gate/trace.h"
#include "apps/runner/programs/bisect.h"
#include "apps/runner/programs/diff_programs.h"
#include "apps/runner/programs/speed.h"
#include "apps/runner/report/progress.h"
#include "framework/base/log.h"

namespace taper::v0::runner {

namespace {

int print_verdict(const Verdict& verdict) {
  const int code = print(verdict.text, verdict.passed);
  return verdict.is_inconclusive ? kExitInconclusive : code;
}

// The tolerances of record and check, as given on the command line.
struct ToleranceWords {
  std::vector<std::string> words{};
  void describe(Schema& v, const char* doc) { v("--tolerance,--rtol", words, doc); }
  // Returns the tolerances; none for "auto".
  Tolerances parsed() const {
    const bool is_auto = words.size() == 1 && words[0] == "auto";
    return is_auto ? Tolerances() : parse_tolerances(words);
  }
};

void describe_jobs(Schema& v, int64_t& jobs) {
  v("--jobs", jobs, Range{1, 1024},
    "number of seeds to train at the same time, which does not change the numbers; default: one "
    "for "
    "each core, or for each GPU");
}

// The arguments of `record --time` and `check --time`.
struct SpeedArguments {
  SpeedOptions options{};
  bool is_on = false;
  std::vector<std::string> programs{};

  void describe(Schema& v, const char* doc, const char* program_doc) {
    v("--time", is_on, doc);
    v("--program", programs, program_doc);
    v("--pairs", options.pairs, Range{double(kFewestPairs), 10'000},
      "with --time: pairs of runs; default: 15");
  }
  void describe_limits(Schema& v) {
    v("--slower", options.slower, Range{0, 1e6},
      "with --time: slowdown that is allowed, as a fraction; default: 0.05");
    v("--more-memory", options.more_memory, Range{0, 1e6},
      "with --time: growth of the peak memory that is allowed on the CPU, as a fraction; on GPUs "
      "it "
      "must not grow; default: 0.05");
  }
  void refuse_without_time() const {
    require<ConfigError>(programs.empty() || is_on, "--program needs --time");
  }
};

// The arguments of `check`, and the reports that it writes.
struct CheckCommand : CheckOptions {
  std::string run, golden;
  ToleranceWords rtol;
  SpeedArguments speed;
  void describe(Schema& v) {
    v("run", run, "directory of the run, a YAML config, or another recording of it").required();
    v("--against", golden,
      "recording to compare with; required, but with --time two programs may be given instead");
    rtol.describe(v,
                  "relative tolerance of all metrics (1e-5) or of one (loss=1e-4); can be "
                  "repeated; default: auto, those of the recording");
    v("--seeds", seeds, Range{0, 1000},
      "compare the curves of this many seeds by statistics, at least 3; default: only if the "
      "recording has no section for this machine");
    v("--alpha", alpha, Range{1e-6, 0.5},
      "probability at which a metric counts as worse; default: 0.01");
    v("--detect", detect, Range{0.01, 1000},
      "shift in standard deviations that must be detectable; default: 2");
    describe_jobs(v, jobs);
    v("--json", json, "file for the verdict as JSON");
    v("--junit", junit, "file for the verdict as a JUnit report");
    v("--github", github,
      "print an annotation for GitHub Actions, and append to $GITHUB_STEP_SUMMARY");
    speed.describe(v,
                   "compare times and peak memory of two programs, not numbers; exit code 1 if the "
                   "new one is slower or needs more memory",
                   "with --time: a program to measure. Give the old and the new one, or with "
                   "--against only the new one; default: this program");
    speed.describe_limits(v);
    v("--steps", speed.options.steps, Range{1},
      "with --time: training steps of each run; default: those of the recording or the config");
  }
  int operator()() {
    speed.refuse_without_time();
    require<ConfigError>(speed.is_on || !golden.empty(), "--against is required; see check --help");
    require<ConfigError>(!speed.is_on || (seeds == 0 && rtol.words.empty()),
                         "--time compares times, so it takes neither --seeds nor --tolerance");
    for (const std::string& file : {json, junit}) {
      if (!file.empty()) check_writable(file);
    }
    const Clock::time_point begin = Clock::now();
    Verdict verdict;
    try {
      verdict = compared();
    } catch (const std::exception& error) {
      // CI systems show the reports, where that of an earlier check must not remain.
      write_reports({{.text = message_of(error) + "\n", .is_error = true},
                     run,
                     golden,
                     seconds_since(begin)});
      throw;
    }
    const int code = print_verdict(verdict);
    write_reports({verdict, run, golden, seconds_since(begin)});
    return code;
  }
  Verdict compared() {
    speed.options.alpha = alpha;
    return speed.is_on ? check_speed(run, golden, speed.programs, speed.options)
                       : check(run, golden, rtol.parsed(), *this);
  }
  void write_reports(const CheckReport& report) const {
    if (!json.empty()) write_file(json, json_report(report));
    if (!junit.empty()) write_file(junit, junit_report(report));
    if (!github) return;
    print(github_annotation(report));
    if (const char* summary = std::getenv("GITHUB_STEP_SUMMARY")) {
      std::ofstream out(summary, std::ios::app);
      out << github_summary(report);
      if (!out.flush()) warn(concat_to_string("cannot write to $GITHUB_STEP_SUMMARY, ", summary));
    }
  }
  std::string json, junit;
  bool github = false;
};

// The arguments of `record`.
struct RecordCommand : RecordOptions {
  RecordCommand() { seeds = 8; }
  std::string run, to;
  ToleranceWords rtol;
  std::vector<std::string> covered;
  SpeedArguments speed;
  void describe(Schema& v) {
    v("run", run, "directory of the run, or a YAML config").required();
    v("--to", to, "JSON file for the recording; if it exists, a section for this machine is added")
        .required();
    v("--steps", steps, Range{1}, "number of steps to record; default: all");
    v("--state-every", state_every, Range{1},
      "steps between two checksums of the weights; default: 1");
    v("--seeds", seeds, Range{0, 1000},
      "number of seeds whose curves are recorded for statistics, at least 3; 0: none; default: "
      "8");
    v("--cover", covered,
      "what tolerances are derived from: threads, device, precision, seeds; can be repeated");
    describe_jobs(v, jobs);
    rtol.describe(v,
                  "relative tolerance of all metrics (1e-5) or of one (loss=1e-4); can be "
                  "repeated; default: auto, which derives them from --cover; without --cover "
                  "bits must be identical");
    speed.describe(v,
                   "store a program for `check --time`, not numbers, and measure how precisely "
                   "this machine compares times",
                   "with --time: the program to store; default: this one");
  }
  int operator()() {
    speed.refuse_without_time();
    if (speed.is_on) return print_verdict(record_time());
    tolerances = rtol.parsed();
    cover = parse_covers(covered);
    return print_verdict(record(run, to, *this));
  }
  Verdict record_time() {
    require<ConfigError>(speed.programs.size() <= 1, "record --time stores one program; ",
                         "check --time compares two");
    speed.options.steps = steps;
    return record_speed(run, to, speed.programs.empty() ? "" : speed.programs[0], speed.options);
  }
};

}  // namespace

Command record_command() {
  return command_of<RecordCommand>(
      "record", "Run again and record the metrics of every step",
      "taper record runs/d --to golden.json\n"
      "taper record runs/d --to golden.json --seeds 0 --tolerance loss=1e-5\n"
      "taper record digits.yaml --time --to speed.json");
}
Command check_command() {
  return command_of<CheckCommand>(
      "check",
      "Run again and compare with a recording; exit code 1 if the run is "
      "worse or different, 3 if the comparison is inconclusive",
      "taper check runs/d --against golden.json\n"
      "taper check runs/d --against golden.json --seeds 5\n"
      "taper check digits.yaml --time --program old/taper --program new/taper");
}
Command bless_command() {
  struct Bless : BlessOptions {
    std::string run, golden;
    void describe(Schema& v) {
      v("run", run, "directory of the run, or a YAML config").required();
      v("--against", golden, "recording whose section for this machine is replaced").required();
      v("--reason", reason, "why the new numbers are right; kept in the file").required();
      v("--author", author, "who says so; default: `git config user.name`");
    }
    int operator()() const { return print_verdict(bless(run, golden, *this)); }
  };
  return command_of<Bless>(
      "bless", "Replace the numbers of a recording after an intended change",
      "taper bless runs/d --against golden.json --reason \"the schedule now starts at step 1\"");
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
    std::vector<std::string> programs;
    void describe(Schema& v) {
      v("run", run, "directory of the run; with --program, a run or a YAML config").required();
      v("other", other, "directory of another run");
      v("--program", programs,
        "give this twice to compare two programs, which both train the run's config");
    }
    int operator()() const {
      if (programs.empty()) {
        require<ConfigError>(!other.empty(), "diff needs another run, or --program OLD --program ",
                             "NEW");
        return print_verdict(diff(run, other));
      }
      require<ConfigError>(programs.size() == 2 && other.empty(), "diff --program compares two ",
                           "programs on one config: taper diff CONFIG --program OLD --program NEW");
      return print_verdict(diff_programs(run, programs[0], programs[1]));
    }
  };
  return command_of<Diff>("diff",
                          "Find the first step, module and element in which two runs or two "
                          "programs differ",
                          "taper diff runs/a runs/b\n"
                          "taper diff digits.yaml --program old/taper --program new/taper");
}

Command bisect_command() {
  struct Bisect : BisectOptions {
    std::string resumed;
    void describe(Schema& v) {
      v("build", build,
        "command that builds a commit, after --; it runs in the worktree. A single word is a line "
        "for /bin/sh");
      v("--good", good, "revision with the recorded numbers, an ancestor of --bad");
      v("--bad", bad, "revision with other numbers");
      v("--against", golden, "recording that says which numbers are right");
      v("--program", program,
        "program that the command builds, relative to the worktree; default: build/apps/taper");
      v("--dir", dir,
        "empty or new folder for the worktree and the state; default: a temporary one");
      v("--resume", resumed, "folder of an interrupted search, which is continued");
    }
    int operator()() const {
      if (resumed.empty()) return print_verdict(bisect(*this));
      require<ConfigError>(good.empty() && bad.empty() && golden.empty() && build.empty(),
                           "bisect --resume takes no other arguments: the folder has them");
      return print_verdict(resume_bisect(resumed));
    }
  };
  return command_of<Bisect>(
      "bisect",
      "Find the commit that changed the numbers, and its first step, module and tensor; exit code "
      "3 if several commits are left, because some cannot be tested",
      "taper bisect --good v1.2 --bad HEAD --against golden.json -- \\\n"
      "    sh -c 'cmake -S . -B build -G Ninja && ninja -C build taper_program'\n"
      "taper bisect --resume /tmp/taper-bisect-Ab12Cd");
}

Command trace_command() {
  struct Trace {
    std::string run, to;
    int64_t step = 1;
    void describe(Schema& v) {
      v("run", run, "directory of the run, or a YAML config").required();
      v("--to", to, "safetensors file for the tensors").required();
      v("--step", step, Range{1}, "step, counted from 1; default: 1");
    }
    int operator()() const {
      const std::vector<NamedTensor> tensors = trace_step(phases_of_run(run), step);
      require<ConfigError>(!tensors.empty(), "the run has no step ", step);
      save_trace(tensors, to);
      return print(concat_to_string("wrote the ", tensors.size(), " tensors of step ", step, "\n"));
    }
  };
  return command_of<Trace>("trace", "Write all tensors that one training step computes",
                           "taper trace runs/d --step 17 --to step.safetensors");
}

Command coverage_command() {
  struct Coverage {
    std::vector<std::string> goldens;
    void describe(Schema& v) { v("goldens", goldens, "recordings").required(); }
    int operator()() const { return print_verdict(coverage(goldens)); }
  };
  return command_of<Coverage>("coverage",
                              "List the layers, losses, optimizers, schedules and types of data "
                              "that no recording exercises; exit code 1 if there are any",
                              "taper coverage tests/golden/*.json");
}

}  // namespace taper::v0::runner
