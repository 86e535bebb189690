#include "apps/runner/programs/bisect.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "apps/runner/base/files.h"
#include "apps/runner/base/process.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/gate/cause.h"
#include "apps/runner/programs/commit_tester.h"
#include "apps/runner/run/signals.h"
#include "framework/base/cancel.h"
#include "framework/base/log.h"
#include "framework/io/shell_word.h"

namespace taper::v0::runner {
namespace {

// Returns the text with each line after the first indented.
std::string as_detail(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 3)
    text.replace(at, 1, "\n  ");
  return text;
}

class Bisection {
 public:
  Bisection(BisectState state, const fs::path& dir)
      : state_(std::move(state)),
        dir_(dir),
        golden_(load_run_golden(golden_copy(dir))),
        tester_(state_, dir) {
    write_file(dir / "config.yaml", golden_.config);
  }
  Verdict run() {
    if (!state_.has_reference) find_reference();
    reference_ = reference();
    while (const auto next = next_commit()) test(*next);
    return result();
  }
  bool has_reference() const { return state_.has_reference; }
  void clean_up() const { tester_.remove_worktree(); }

 private:
  std::string text_of(const std::string& commit) const {
    return commit_text(tester_.git(), commit);
  }
  CommitRun run_to_end(const std::string& commit, int number) {
    return tester_.run(commit, number, golden_.steps, std::max<int64_t>(1, golden_.state_every));
  }
  Recording run_of(const TestedCommit& tested) {
    return tester_.run(tested.commit, tested.run, 0, 1).recording.value_or(Recording());
  }
  BisectReference reference();
  void find_reference();
  int64_t section_for(const CommitRun& probe) const;
  TestedCommit test(const std::string& commit);
  std::vector<std::string> candidates() const;
  std::optional<std::string> next_commit() const;
  std::string nearest_good(const std::string& bad) const;
  std::string difference(const std::string& good, const std::string& bad);
  std::string remarks() const;
  Verdict result();

  BisectState state_;
  const fs::path dir_;
  const Golden golden_;
  CommitTester tester_;
  BisectReference reference_{};
};

// --- the reference ---

BisectReference Bisection::reference() {
  if (state_.section > 0) {
    const GoldenSection& section = golden_.sections.at(size_t(state_.section - 1));
    return reference_up_to(
        recording_of(golden_, {section, section.metadata.program, state_.section, true}),
        state_.step);
  }
  const CommitRun good = run_to_end(state_.good, 1);
  require<InputError>(good.recording.has_value(), "the good revision ", text_of(state_.good),
                      " cannot be tested: ", failure_of(good));
  Recording out = *good.recording;
  out.steps = golden_.steps;
  out.tolerances = choose_section(golden_, out.metadata).section.tolerances;
  return reference_up_to(std::move(out), state_.step);
}

int64_t Bisection::section_for(const CommitRun& probe) const {
  const ChosenSection chosen = choose_section(golden_, probe.recording->metadata);
  const std::string platform = platform_text(probe.recording->metadata.program);
  log_info(chosen.matches
               ? concat_to_string("reference: section ", chosen.number, " of the recording, for ",
                                  platform)
               : concat_to_string("reference: the numbers of the good revision, because the "
                                  "recording has no section for ",
                                  platform));
  return chosen.matches ? chosen.number : 0;
}

// Trains `bad` before `good`, so that each of them is built once: the section is known only after
// `good` has run, and the last step to compare only after `bad` was compared with the section.
void Bisection::find_reference() {
  log_info(concat_to_string("building the bad revision ", text_of(state_.bad)));
  for (const int number : {1, 2}) {
    const CommitRun bad = run_to_end(state_.bad, number);
    require<InputError>(bad.code != CommitRun::kNotBuilt, "the bad revision ", text_of(state_.bad),
                        " cannot be tested: ", failure_of(bad));
  }
  log_info(concat_to_string("building the good revision ", text_of(state_.good)));
  const CommitRun probe = tester_.probe(state_.good);
  require<InputError>(probe.recording.has_value(), "the good revision ", text_of(state_.good),
                      " cannot be tested: ", failure_of(probe));
  state_.section = section_for(probe);
  reference_ = reference();
  const TestedCommit bad = tester_.test(state_.bad, reference_);
  require<InputError>(bad.verdict != kIsSkipped, "the bad revision ", text_of(state_.bad),
                      " cannot be tested: ", bad.why);
  require<ConfigError>(bad.verdict == kIsBad, "the bad revision ", text_of(state_.bad),
                       " is good: its numbers are those of the reference");
  state_.step = bad.step;
  reference_ = reference();
  const TestedCommit good = tester_.test(state_.good, reference_);
  require<InputError>(good.verdict != kIsSkipped, "the good revision ", text_of(state_.good),
                      " cannot be tested: ", good.why);
  require<ConfigError>(good.verdict == kIsGood, "the good revision ", text_of(state_.good),
                       " is bad: ", as_detail(good.why));
  state_.tested = {good, bad};
  state_.has_reference = true;
  save_state(state_, dir_);
  log_info(concat_to_string("the bad revision differs ",
                            bad.step.empty() ? "at the end" : "in step " + bad.step,
                            "; other commits are trained up to there"));
}

// --- the search ---

// The commits that may be the first bad one, the best ones to test first. The last known bad commit
// is one of them.
std::vector<std::string> Bisection::candidates() const {
  return commits_between(tester_.git(), state_.commits(kIsGood), state_.commits(kIsBad).back());
}

std::optional<std::string> Bisection::next_commit() const {
  std::vector<std::string> untested = candidates();
  const auto is_tested = [&](const std::string& commit) { return state_.find(commit) != nullptr; };
  const auto skipped = std::ranges::count_if(untested, [&](const std::string& commit) {
    const TestedCommit* tested = state_.find(commit);
    return tested && tested->verdict == kIsSkipped;
  });
  std::erase_if(untested, is_tested);
  if (untested.empty()) return {};
  // The neighbors of a commit that does not build often do not build either. Each one that was
  // skipped doubles the distance to the commit that would halve the rest.
  const size_t distance = (size_t(1) << std::min<int64_t>(skipped, 20)) - 1;
  const std::string& next = untested[std::min(distance, (untested.size() - 1) / 2)];
  log_info(concat_to_string("testing ", text_of(next), "; ", untested.size(),
                            untested.size() == 1 ? " commit is" : " commits are", " left, about ",
                            std::ceil(std::log2(double(untested.size()) + 1)), " tests"));
  return next;
}

TestedCommit Bisection::test(const std::string& commit) {
  TestedCommit out = tester_.test(commit, reference_);
  state_.tested.push_back(out);
  save_state(state_, dir_);
  log_info(concat_to_string(commit.substr(0, 12), " is ", out.verdict, out.why.empty() ? "" : ": ",
                            as_detail(out.why),
                            out.flaky.empty() ? "" : concat_to_string("; flaky: ", out.flaky)));
  return out;
}

// --- the result ---

// Returns the parent of the bad commit if it is known to be good, otherwise the good commit from
// which the fewest commits lead to it.
std::string Bisection::nearest_good(const std::string& bad) const {
  const std::vector<std::string> good = state_.commits(kIsGood);
  const auto parent = tester_.git().try_run({"rev-parse", concat_to_string(bad, "^1")});
  if (parent && std::ranges::count(good, *parent) > 0) return *parent;
  const auto distance = [&](const std::string& commit) {
    return std::stoll(tester_.git()({"rev-list", "--count", concat_to_string(commit, "..", bad)}));
  };
  return *std::ranges::min_element(good, {}, distance);
}

// Returns the first tensor in which the programs of two tested commits differ.
std::string Bisection::difference(const std::string& good, const std::string& bad) try {
  const Recording old = run_of(*state_.find(good)), now = run_of(*state_.find(bad));
  const std::string step = movement_of(now.rows, old.rows).step;
  if (step.empty()) return "";
  // If the bad commit is built already, trace it before the good one replaces its build.
  std::optional<ProgramTrace> after;
  if (tester_.has_built(bad)) after = tester_.trace(bad, step);
  const ProgramTrace before = tester_.trace(good, step);
  if (!after) after = tester_.trace(bad, step);
  return concat_to_string(program_difference(before, *after, old.rows, now.rows, step),
                          "compared with the good commit ", text_of(good), "\n");
} catch (const RunError& error) {
  if (error.code == kExitInterrupted || error.code == kExitDisk) throw;
  return concat_to_string("the first tensor is not known: ", error.what(), "\n");
} catch (const InputError& error) {
  return concat_to_string("the first tensor is not known: ", error.what(), "\n");
}

std::string Bisection::remarks() const {
  std::string out;
  for (const TestedCommit& t : state_.tested) {
    if (t.verdict == kIsSkipped)
      out += concat_to_string("skipped: ", text_of(t.commit), ": ", as_detail(t.why), "\n");
    if (!t.flaky.empty())
      out += concat_to_string("flaky: ", text_of(t.commit), ": ", as_detail(t.flaky), "\n");
  }
  return out;
}

Verdict Bisection::result() {
  const std::vector<std::string> left = candidates();
  const std::string bad = state_.commits(kIsBad).back();
  Verdict out;
  out.passed = left.size() == 1;
  out.is_inconclusive = !out.passed;
  if (out.passed) {
    out.text = concat_to_string("first bad commit: ", text_of(bad), "\n");
  } else {
    out.text = "the first bad commit is one of these, because some of them cannot be tested:\n";
    for (const std::string& commit : left)
      out.text += concat_to_string("  ", text_of(commit), "\n");
    out.text += concat_to_string("the last of them that is known to be bad: ", text_of(bad), "\n");
  }
  const TestedCommit& tested = *state_.find(bad);
  out.step = tested.step;
  out.text += tested.why;
  if (!out.text.ends_with('\n')) out.text += "\n";
  out.text += difference(nearest_good(bad), bad);
  out.text += remarks();
  return out;
}

// --- the folder of a search ---

// Returns a new folder for the worktree and the state.
fs::path new_folder(const std::string& dir) {
  if (!dir.empty()) {
    require<ConfigError>(!fs::exists(dir) || (fs::is_directory(dir) && fs::is_empty(dir)), "'", dir,
                         "' is not empty; --dir needs an empty or a new folder, and --resume "
                         "continues a search");
    std::error_code error;
    fs::create_directories(dir, error);
    require<DiskError>(!error, "cannot create the directory ", in_quotes(dir), ": ",
                       error.message());
    return fs::canonical(dir);
  }
  std::string name = (fs::temp_directory_path() / "taper-bisect-XXXXXX").string();
  require<InputError>(::mkdtemp(name.data()), "cannot create the temporary directory '", name,
                      "': set TMPDIR to a writable directory, or give --dir");
  return fs::canonical(name);
}

// Locks the folder and stores the number of this process in it. Child processes inherit the lock,
// so that a search is resumed only after the processes of a killed one have ended.
Descriptor locked(const fs::path& dir) {
  const fs::path path = dir / "lock";
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT, 0666));
  if (file < 0) cannot_write(path);
  constexpr int kTries = 100;
  for (int i = 0; ::flock(file, LOCK_EX | LOCK_NB) != 0; ++i) {
    const int owner = std::atoi(read_file(path, "lock").c_str());
    require<InputError>(owner <= 0 || ::kill(owner, 0) != 0, "'", dir.string(),
                        "' is used by another `taper bisect`, process ", owner);
    require<InputError>(i < kTries, "'", dir.string(),
                        "' is used by a process that a build has started (`fuser ", path.string(),
                        "` names it); end it, or wait for it");
    check_stop();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  const std::string own = concat_to_string(::getpid(), "\n");
  const bool is_written =
      ::ftruncate(file, 0) == 0 && ::pwrite(file, own.data(), own.size(), 0) == std::ssize(own);
  if (!is_written) cannot_write(path);
  return file;
}

std::string how_to_resume(const fs::path& dir) {
  return concat_to_string("taper bisect --resume ", detail::shell_word(dir.string()));
}

// Removes the folder at the end, but keeps results that an error would lose.
Verdict search_in(const fs::path& dir, BisectState state, bool is_resumed) {
  std::optional<Bisection> search;
  const auto clean_up = [&] {
    if (search) search->clean_up();
    std::error_code none;
    fs::remove_all(dir, none);
  };
  try {
    search.emplace(std::move(state), dir);
    Verdict out = search->run();
    clean_up();
    return out;
  } catch (const Interrupted&) {
    const std::string signal = SignalGuard::received();
    throw Interrupted(concat_to_string("the bisection was interrupted",
                                       signal.empty() ? "" : " by ", signal, "; continue it with ",
                                       how_to_resume(dir)));
  } catch (const Error&) {
    const bool keeps = search ? search->has_reference() : is_resumed;
    if (keeps) log_info(concat_to_string("the state is kept; continue with ", how_to_resume(dir)));
    if (!keeps) clean_up();
    throw;
  }
}

void require_options(const BisectOptions& o) {
  const auto needs = [](bool is_given, const char* what) {
    require<ConfigError>(is_given, "bisect needs ", what);
  };
  needs(!o.good.empty(), "--good, a revision with the recorded numbers");
  needs(!o.bad.empty(), "--bad, a revision with other numbers");
  needs(!o.golden.empty(), "--against, a recording");
  needs(!o.build.empty() && !o.build[0].empty(),
        "a build command at the end: -- cmake --build build");
  const fs::path program = fs::path(o.program).lexically_normal();
  require<ConfigError>(program.is_relative() && !program.empty() && *program.begin() != "..",
                       "--program ", in_quotes(o.program),
                       ": expected a path within the repository, such as build/apps/taper");
}

// Throws ConfigError if the commit `good` is not an ancestor of `bad`.
void require_ancestor(const Git& git, const std::string& good, const std::string& bad) {
  const auto leads_to = [&](const std::string& a, const std::string& b) {
    return git.try_run({"merge-base", "--is-ancestor", a, b}).has_value();
  };
  if (leads_to(good, bad)) return;
  throw ConfigError(concat_to_string("the good revision ", commit_text(git, good),
                                     " is not an ancestor of the bad one, ", commit_text(git, bad),
                                     leads_to(bad, good) ? "; exchange --good and --bad" : "",
                                     advice_for_shallow(git)));
}

// Returns the state of a new search. Throws the errors of bisect() that need no build.
BisectState checked_state(const BisectOptions& o) {
  require_options(o);
  (void)load_run_golden(o.golden);
  BisectState out{
      .started_in = fs::current_path().string(), .program = o.program, .build = o.build};
  const TemporaryDirectory scratch;
  const Git git(out.started_in, scratch.path());
  require<InputError>(git.try_run({"rev-parse", "--git-dir"}).has_value(), "'", out.started_in,
                      "' is not in a git repository");
  out.good = commit_of(git, o.good);
  out.bad = commit_of(git, o.bad);
  require<ConfigError>(out.good != out.bad,
                       "--good and --bad are the same commit: ", commit_text(git, out.good));
  require_ancestor(git, out.good, out.bad);
  return out;
}

// Handles signals, unless a host program does.
std::unique_ptr<SignalGuard> own_signals() {
  return owns_process() ? std::make_unique<SignalGuard>() : nullptr;
}

}  // namespace

Verdict bisect(const BisectOptions& options) {
  const auto signals = own_signals();
  const BisectState state = checked_state(options);
  const fs::path dir = new_folder(options.dir);
  const Descriptor lock = locked(dir);
  fs::copy_file(options.golden, golden_copy(dir));
  save_state(state, dir);
  log_info(concat_to_string("if the search is interrupted, continue it with ", how_to_resume(dir)));
  return search_in(dir, state, false);
}

Verdict resume_bisect(const fs::path& dir) {
  const auto signals = own_signals();
  if (!fs::exists(state_file(dir))) (void)load_state(dir);  // reports that there is none
  const fs::path folder = fs::canonical(dir);
  const Descriptor lock = locked(folder);
  return search_in(folder, load_state(folder), true);
}

}  // namespace taper::v0::runner
