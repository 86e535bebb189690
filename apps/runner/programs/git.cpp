#include "apps/runner/programs/git.h"

#include "apps/runner/base/string_utils.h"

namespace taper::v0::runner {

std::vector<std::string> git_variables() {
  return {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX"};
}

ProgramEnd Git::run(const std::vector<std::string>& words) const {
  // Hooks could change the user's files, or refuse the checkout.
  std::vector<std::string> all = {"git", "-c", "core.hooksPath=/dev/null"};
  all.insert(all.end(), words.begin(), words.end());
  const ProgramEnd end = run_program({.words = all,
                                      .log = scratch_ / "git.out",
                                      .errors = scratch_ / "git.err",
                                      .directory = directory_,
                                      .environment = {{"LC_ALL", "C"}},
                                      .unset = git_variables()});
  if (end.code == 127) throw InputError("cannot run git; install it, or add it to PATH");
  return end;
}

static std::string without_end(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

std::string Git::operator()(const std::vector<std::string>& words) const {
  const ProgramEnd end = run(words);
  if (end.code == kExitOk) return without_end(end.text);
  throw InputError(
      concat_to_string("git ", words.at(0), " failed in '", directory_.string(),
                       "': ", without_end(read_file(scratch_ / "git.err", "messages of git"))));
}

std::optional<std::string> Git::try_run(const std::vector<std::string>& words) const {
  const ProgramEnd end = run(words);
  if (end.code != kExitOk) return {};
  return without_end(end.text);
}

std::string advice_for_shallow(const Git& git) {
  const bool is_shallow = git.try_run({"rev-parse", "--is-shallow-repository"}) == "true";
  return is_shallow ? "; this is a shallow clone, `git fetch --unshallow` completes it" : "";
}

std::string commit_of(const Git& git, const std::string& revision) {
  const bool is_option = revision.starts_with('-');
  const auto found = is_option ? std::nullopt
                               : git.try_run({"rev-parse", "--verify", "--quiet",
                                              concat_to_string(revision, "^{commit}")});
  if (found) return *found;
  throw ConfigError(
      concat_to_string("unknown revision ", in_quotes(revision), advice_for_shallow(git)));
}

std::string commit_text(const Git& git, const std::string& commit) {
  return git({"show", "-s", "--format=%h \"%s\" (%an, %ad)", "--date=short", commit});
}

std::vector<std::string> commits_between(const Git& git, const std::vector<std::string>& good,
                                         const std::string& bad) {
  std::vector<std::string> words = {"rev-list", "--bisect-all", bad, "--not"};
  words.insert(words.end(), good.begin(), good.end());
  std::vector<std::string> out;
  // A line is "HASH (dist=N)", and may also name the commit's references.
  for (const std::string& line : lines_of(git(words)))
    out.push_back(line.substr(0, line.find(' ')));
  return out;
}

}  // namespace taper::v0::runner
