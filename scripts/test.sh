#!/usr/bin/env bash
# Builds everything and runs all tests; installs what is missing first.
#   scripts/test.sh [arguments of ctest, as -R Tensor]
#   TAPER_SANITIZE=address,undefined scripts/test.sh     in a build folder of its own
# Where nvcc is found the GPU part is built, too; without a GPU its tests are skipped.
# Environment: BUILD_DIR, CMAKE_ARGS (added to CMake's), TAPER_INSTALL=0 (installs nothing),
# CTEST_PARALLEL_LEVEL (tests at a time: 3, some of which wait).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
sanitize=${TAPER_SANITIZE:-}
build=${BUILD_DIR:-$root/build${sanitize:+-${sanitize//,/-}}}
PATH=$PATH:/usr/local/cuda/bin

if [[ ${TAPER_INSTALL:-1} != 0 ]]; then "$root/scripts/install.sh" tests; fi

# The sanitizers know the CPU's memory only.
cuda=AUTO
if [[ -n $sanitize ]]; then
  cuda=OFF
elif command -v nvcc >/dev/null; then
  cuda=ON
fi
echo "== configuring $build (CUDA $cuda${sanitize:+, sanitizers $sanitize})"
mkdir -p "$build"
# -U: an nvcc that was not there last time is looked for again.
forget=()
if [[ $cuda == ON ]] && grep -qs '^CMAKE_CUDA_COMPILER:.*NOTFOUND' "$build/CMakeCache.txt"; then
  forget=(-U CMAKE_CUDA_COMPILER)
fi
read -ra extra <<<"${CMAKE_ARGS:-}"
# ccache, which keeps nothing of precompiled headers, has nothing to give on a fresh machine.
if [[ ${CI:-} == true ]]; then
  extra+=(-DTAPER_PRECOMPILE=ON)
  # Without a GPU nothing of its code runs: CI sees that it compiles, not how well, and has nvcc
  # (since 12.9) leave most optimisations out. Those of users' builds run in scripts/gpu.sh.
  if [[ $cuda == ON ]] && ! nvidia-smi -L >/dev/null 2>&1 && nvcc --help | grep Ofast-compile >/dev/null
  then extra+=("-DCMAKE_CUDA_FLAGS=-Ofc max"); fi
fi
cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTAPER_TESTS=ON \
  -DTAPER_CUDA="$cuda" -DTAPER_SANITIZE="$sanitize" "${forget[@]}" "${extra[@]}" \
  >"$build/configure.log" 2>&1 || { cat "$build/configure.log" >&2 && exit 1; }

echo "== building"
quiet=()
if [[ ! -t 1 ]]; then quiet=(--quiet); fi
ninja -C "$build" "${quiet[@]}"

echo "== testing"
# One thread a test: several run side by side, and threads that wait for each other spin.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export LSAN_OPTIONS=${LSAN_OPTIONS:-suppressions=$root/tests/lsan_suppressions.txt:print_suppressions=0}
export TSAN_OPTIONS=${TSAN_OPTIONS:-suppressions=$root/tests/tsan_suppressions.txt:allocator_may_return_null=1:ignore_noninstrumented_modules=1:die_after_fork=0}
report=$build/tests.xml
rm -f "$report"
status=0
ctest --test-dir "$build" --parallel "${CTEST_PARALLEL_LEVEL:-3}" --output-on-failure --no-tests=error --timeout 300 \
  --output-junit "$report" "$@" >"$build/ctest.log" 2>&1 || status=$?
if ((status != 0)); then
  # What failed and what it printed; the lines of the tests that passed would bury it.
  grep -vE '^ *[0-9]+/[0-9]+ Test +#.*( Passed|\*\*\*Skipped) |^ +Start +[0-9]+: ' \
    "$build/ctest.log" >&2 || :
fi
[[ -f $report ]] || exit 1

# Of each test case: its name, its status and what it printed when it was skipped.
awk '
  function attribute(name,  rest) {
    if (!match($0, " " name "=\"[^\"]*\"")) return ""
    rest = substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 4)
    gsub(/&quot;/, "\"", rest); gsub(/&lt;/, "<", rest); gsub(/&gt;/, ">", rest)
    gsub(/&amp;/, "\\&", rest)
    return rest
  }
  function close_case() {
    if (name == "") return
    if (state == "fail") failed[++n_failed] = name
    else if (state != "run" && wants_gpu) gpu[++n_gpu] = name
    else if (state != "run") other[++n_other] = name
    else ++n_passed
    name = ""
  }
  /<testcase / {
    name = attribute("name"); state = attribute("status"); wants_gpu = 0; reason = 0
    sub(/  # GetParam.*/, "", name)
  }
  /^\[  SKIPPED \]/ { reason = 0 }
  reason && /GPU|CUDA/ && !/has a GPU|there is a GPU/ { wants_gpu = 1 }
  /: Skipped$/      { reason = 1 }
  /<\/testcase>/    { close_case() }
  END {
    if (n_gpu) printf "Skipped for want of a GPU (%d):\n", n_gpu
    for (i = 1; i <= n_gpu; ++i) print "  " gpu[i]
    if (n_other) printf "Skipped for another reason (%d):\n", n_other
    for (i = 1; i <= n_other; ++i) print "  " other[i]
    if (n_failed) printf "Failed (%d):\n", n_failed
    for (i = 1; i <= n_failed; ++i) print "  " failed[i]
    printf "Tests that ran: %d\n", n_passed + n_failed
    printf "%d passed, %d failed, %d skipped\n", n_passed, n_failed, n_gpu + n_other
  }' "$report"
exit "$status"
