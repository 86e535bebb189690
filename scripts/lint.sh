#!/usr/bin/env bash
# Checks the layout of all sources with clang-format 14, and the changed sources with clang-tidy 14.
#   scripts/lint.sh          sources that differ from origin/main or main, or else from the last commit
#   scripts/lint.sh COMMIT   sources that differ from COMMIT
# clang-tidy reads $BUILD_DIR/compile_commands.json (build/ by default), which cmake writes. It checks at
# most LINT_FILES sources (24) and starts none after LINT_SECONDS (300); the output says what it left out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${BUILD_DIR:-build}
most=${LINT_FILES:-24} seconds=${LINT_SECONDS:-300}
scripts/install.sh lint

# Prints the commit to compare with. A shallow clone may have no commit but HEAD: prints nothing then.
base_commit() {
  local branch base
  for branch in origin/main main; do
    base=$(git merge-base HEAD "$branch" 2>/dev/null) || continue
    if [[ $base != "$(git rev-parse HEAD)" ]]; then
      echo "$base"
      return
    fi
  done
  git rev-parse --verify --quiet HEAD~1 ||:
}

# Prints the changed sources that a build compiles. A header stands for the source of the same name.
# The examples keep the names of PyTorch's programs and are left out.
changed_sources() {
  git diff --name-only --diff-filter=d "$1" -- '*.cpp' '*.h' ':!apps/examples' | sed 's/\.h$/.cpp/' | sort -u |
    while read -r source; do
      if grep -qF "/$source\"" "$build/compile_commands.json"; then echo "$source"; fi
    done
}

git ls-files -z '*.h' '*.cpp' '*.cu' '*.cuh' | xargs -0 clang-format-14 --dry-run -Werror
echo "== clang-format: all sources are clean"

base=${1:-$(base_commit)}
if [[ -z $base ]]; then
  echo "== clang-tidy: skipped, the clone has no commit to compare with"
  exit 0
fi
if [[ ! -f $build/compile_commands.json ]]; then
  echo "$build/compile_commands.json is missing: run cmake -B $build, or set BUILD_DIR" >&2
  exit 2
fi
if grep -q '/unity_[0-9]*_cxx' "$build/compile_commands.json"; then
  echo "$build compiles several sources together, which clang-tidy cannot check: run scripts/test.sh" >&2
  exit 2
fi
# clang does not know these options of GCC.
mkdir -p "$build/lint"
sed 's/ -fno-gnu-unique//g; s/ -fno-thread-jumps//g' "$build/compile_commands.json" >"$build/lint/compile_commands.json"
mapfile -t sources < <(changed_sources "$base")
checked=0 failed=0
for source in "${sources[@]}"; do
  if ((checked == most || SECONDS > seconds)); then break; fi
  status=0
  found=$(clang-tidy-14 -p "$build/lint" --quiet --warnings-as-errors='*' "$source" 2>/dev/null) || status=1
  if [[ $found == *clang-diagnostic-error* ]]; then
    echo "== clang-tidy: clang 14 cannot compile $source, which is left to the compilers"
  elif ((status)); then
    echo "$found"
    failed=1
  fi
  checked=$((checked + 1))
done
echo "== clang-tidy: checked $checked of ${#sources[@]} sources changed since ${base:0:10}"
if ((checked < ${#sources[@]})); then
  echo "   Not checked: ${sources[*]:checked}. Raise LINT_FILES and LINT_SECONDS to check them."
fi
exit $failed
