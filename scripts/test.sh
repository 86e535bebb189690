#!/usr/bin/env bash
# Builds everything and runs all tests. Installs missing packages first.
#   scripts/test.sh [arguments of ctest, as -R Tensor]
#   TAPER_CUDA=ON scripts/test.sh     compiles the CUDA part on a machine without a GPU, too
#   TAPER_SANITIZE=address,undefined scripts/test.sh     in a build folder of its own, without CUDA
# Each source is compiled separately, unlike in a build folder that scripts/train.sh made, so that a
# missing include is found. The CUDA part is compiled where a GPU and nvcc are present
# (scripts/choose_cuda.sh). Tests that need a GPU are skipped where there is none.
# Environment: BUILD_DIR (build), TAPER_CUDA (ON or OFF), CMAKE_ARGS (added to CMake's arguments),
# TAPER_INSTALL=0 (installs nothing), JOBS (compilers at a time), CTEST_PARALLEL_LEVEL (tests at a
# time: 3, because some tests wait), TARGETS (builds only these, as test_ops; name their tests by -R).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
sanitize=${TAPER_SANITIZE:-}
build=${BUILD_DIR:-$root/build${sanitize:+-${sanitize//,/-}}}
echo "== Building and testing in $build${sanitize:+ with sanitizers $sanitize}"
# shellcheck source=scripts/choose_cuda.sh
source "$root/scripts/choose_cuda.sh"
# shellcheck source=scripts/announce.sh
source "$root/scripts/announce.sh"
choose_cuda
if [[ -n $sanitize ]]; then
  cuda=OFF cuda_reason="the sanitizers see the memory of the CPU only" cuda_options=(-DTAPER_CUDA=OFF)
fi
echo "== CUDA part: $cuda ($cuda_reason)"

echo "== The next steps are to"
if [[ ${TAPER_INSTALL:-1} != 0 ]]; then announce_install tests; fi
if [[ -f $build/build.ninja && $(cached TAPER_CUDA) == "$cuda" && $(cached TAPER_TESTS) == ON &&
  $(cached CMAKE_UNITY_BUILD) != ON ]]; then
  announce_steps 'build everything' all
elif [[ $cuda == OFF ]]; then
  announce_build 'build everything, each source separately' 900
else
  announce_build 'build everything, each source separately' 1800
fi
if [[ -z $sanitize && $# == 0 ]]; then how_long=": about 4 minutes"; fi
echo "==   run the tests${how_long:-}"

if [[ ${TAPER_INSTALL:-1} != 0 ]]; then "$root/scripts/install.sh" tests; fi

echo "== Configuring"
mkdir -p "$build"
read -ra extra <<<"${CMAKE_ARGS:-}"
cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTAPER_TESTS=ON \
  -DCMAKE_UNITY_BUILD=OFF -DTAPER_SANITIZE="$sanitize" "${cuda_options[@]}" "${extra[@]}" \
  >"$build/configure.log" 2>&1 || { cat "$build/configure.log" >&2 && exit 1; }

echo "== Building"
quiet=()
if [[ ! -t 1 ]]; then quiet=(--quiet); fi
read -ra targets <<<"${TARGETS:-all}"
ninja -C "$build" ${JOBS:+-j "$JOBS"} "${quiet[@]}" "${targets[@]}"

echo "== Testing"
# One thread for each test, because several tests run side by side and waiting threads spin.
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
  # Print what failed and what it printed, without the lines of the tests that passed.
  grep -vE '^ *[0-9]+/[0-9]+ Test +#.*( Passed|\*\*\*Skipped) |^ +Start +[0-9]+: ' \
    "$build/ctest.log" >&2 || :
fi
[[ -f $report ]] || exit 1

# Summarizes the report: names the tests that were skipped, and why, and those that failed.
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
