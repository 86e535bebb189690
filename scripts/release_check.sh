#!/usr/bin/env bash
# Runs the checks that CI has no time for and prints a table of their results.
#   scripts/release_check.sh                    all steps
#   scripts/release_check.sh cpu                the steps that need no GPU (gpu: those that need one)
#   scripts/release_check.sh asan clang         the named steps, in this order
# Steps that need no GPU:
#   tsan       all tests under the thread sanitizer
#   asan       all tests under the address and undefined behavior sanitizers
#   consumers  users' programs, built against an installation of the asan build
#   clang      all tests of a Release build by clang 19
#   opinfo     every operator, compared with PyTorch's operator database; PYTHON needs torch, safetensors
#   fuzz       each reader of files and the random programs for FUZZ_SECONDS
# Steps that need a GPU (scripts/gpu.sh, which installs nothing):
#   gpu_tests     all tests of a build with the CUDA part
#   gpu_golden    the trainings of tests/golden on the GPU
#   gpu_ranks     the tests of several ranks on 2, 3 and 4 GPUs
#   gpu_sanitize  the four tools of compute-sanitizer (or SANITIZE_TOOLS) on the test programs
# A step that cannot run on this machine is skipped, and the table says why. A step that passed on the
# same sources is not run again, unless AGAIN=1 is set. gpu_sanitize continues where it was interrupted.
# Results and logs: build/release_check/SOURCES, where SOURCES is a checksum of all source files.
# Environment: JOBS (processors to use: all), FUZZ_SECONDS (120), PYTHON (python3), STATE (the folder
# of results and logs), AGAIN, TAPER_INSTALL=0 (installs no packages), and what test.sh and gpu.sh read.
# The exit code is 0 if no step failed.
#
# shellcheck disable=SC2317  # the functions of steps are called by their names
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cpu_steps=(tsan asan consumers clang opinfo fuzz)
gpu_steps=(gpu_tests gpu_golden gpu_ranks gpu_sanitize)
export JOBS=${JOBS:-$(nproc)}
cannot_run=77 # the exit code of a step that this machine cannot run

wanted=()
for name in "$@"; do
  if [[ $name == cpu ]]; then
    wanted+=("${cpu_steps[@]}")
  elif [[ $name == gpu ]]; then
    wanted+=("${gpu_steps[@]}")
  elif [[ " ${cpu_steps[*]} ${gpu_steps[*]} " == *" $name "* ]]; then
    wanted+=("$name")
  else
    echo "unknown step '$name': expected cpu, gpu or one of ${cpu_steps[*]} ${gpu_steps[*]}" >&2
    exit 2
  fi
done
if (($# == 0)); then wanted=("${cpu_steps[@]}" "${gpu_steps[@]}"); fi

# Prints the names of all source files, each ended by a zero byte, below the current folder.
source_files() {
  git ls-files -z --cached --others --exclude-standard 2>/dev/null ||
    find . -type f -not -path './build*' -not -path './.git/*' -not -path './runs/*' -print0
}
# A tracked file that was deleted has no checksum.
checksums() { source_files | sort -z | xargs -0 sha256sum 2>/dev/null || :; }
sources=$(cd "$root" && checksums | sha256sum | cut -c 1-12)
state=${STATE:-$root/build/release_check}/$sources
mkdir -p "$state"
echo "== checking ${wanted[*]} with $JOBS processors; logs are in $state"

has_gpu() { nvidia-smi -L >/dev/null 2>&1; }
need_gpu() {
  if has_gpu; then return 0; fi
  echo "this machine has no GPU"
  return "$cannot_run"
}

# suite SANITIZERS FOLDER ARGUMENT...: builds into FOLDER and runs the tests that ctest's arguments name.
suite() {
  TAPER_CUDA=OFF TAPER_SANITIZE=$1 BUILD_DIR=$root/$2 \
    CTEST_PARALLEL_LEVEL=${CTEST_PARALLEL_LEVEL:-$((JOBS + 1))} "$root/scripts/test.sh" "${@:3}"
}
step_tsan() { suite thread build-thread -E '^Consumers[.]'; }
step_asan() { suite address,undefined build-address-undefined -E '^Consumers[.]'; }
step_consumers() { suite address,undefined build-address-undefined -R '^Consumers[.]'; }

step_clang() {
  if [[ ${TAPER_INSTALL:-1} != 0 ]]; then "$root/scripts/install.sh" compilers; fi
  if ! command -v clang++-19 >/dev/null; then
    echo "clang++-19 is not installed (scripts/install.sh compilers)"
    return "$cannot_run"
  fi
  CMAKE_ARGS="${CMAKE_ARGS:-} -DCMAKE_CXX_COMPILER=clang++-19" suite "" build-clang
}

step_opinfo() {
  local python=${PYTHON:-python3}
  if ! "$python" -c 'import numpy, safetensors, torch'; then
    echo "$python has no torch, numpy or safetensors; PYTHON names another one"
    return "$cannot_run"
  fi
  local options
  read -ra options <<<"${CMAKE_ARGS:-}"
  cmake -S "$root" -B "$root/build-opinfo" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTAPER_TESTS=ON \
    -DTAPER_CUDA=OFF "${options[@]}" && ninja -C "$root/build-opinfo" -j "$JOBS" --quiet test_interop &&
    "$python" "$root/tests/interop/opinfo.py" --taper "$root/build-opinfo/tests/test_interop"
}

step_fuzz() {
  local seconds=${FUZZ_SECONDS:-120}
  "$root/scripts/fuzz.sh" "$seconds" && "$root/scripts/fuzz.sh" "$seconds" programs
}

step_gpu_tests() {
  need_gpu && LOGS=$state/gpu "$root/scripts/gpu.sh" test
}

step_gpu_golden() {
  need_gpu && LOGS=$state/gpu "$root/scripts/gpu.sh" golden
}

step_gpu_sanitize() {
  need_gpu && LOGS=$state/gpu SANITIZE_RESUME=1 SANITIZE_JOBS=$JOBS "$root/scripts/gpu.sh" sanitize
}

# on_gpus N: runs the tests of several ranks without a launcher, each rank on a GPU of its own.
on_gpus() {
  local rank pids=() failed=0
  for ((rank = 0; rank < $1; ++rank)); do
    RANK=$rank WORLD_SIZE=$1 LOCAL_RANK=$rank MASTER_ADDR=127.0.0.1 MASTER_PORT=29511 \
      TAPER_TEST_DEVICE=cuda timeout 500 "$root/build-gpu/tests/test_distributed" \
      --gtest_filter='-Missing.*:*Faults.*' >"$state/gpu_ranks-$1-$rank.log" 2>&1 &
    pids+=($!)
  done
  for rank in "${!pids[@]}"; do
    if wait "${pids[rank]}"; then continue; fi
    failed=1
    echo "$1 GPUs: rank $rank failed"
    tail -n 40 "$state/gpu_ranks-$1-$rank.log"
  done
  if ((failed == 0)); then echo "$1 GPUs: $(tail -n 1 "$state/gpu_ranks-$1-0.log")"; fi
  return "$failed"
}

step_gpu_ranks() {
  need_gpu || return
  local count failed=0 gpus
  gpus=$(nvidia-smi -L | grep -c '^GPU')
  if ((gpus < 2)); then
    echo "this machine has one GPU"
    return "$cannot_run"
  fi
  cmake -S "$root" -B "$root/build-gpu" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTAPER_CUDA=ON \
    -DTAPER_TESTS=ON && ninja -C "$root/build-gpu" -j "$JOBS" --quiet test_distributed || return 1
  for count in 2 3 4; do
    if ((count > gpus)); then break; fi
    on_gpus "$count" || failed=1
  done
  return "$failed"
}

table=()
failed=0

# run_step NAME: runs a step with its output in NAME.log, and adds a row to the table. The row's note is
# the last line of the output.
run_step() {
  local name=$1 log=$state/$1.log passed=$state/$1.passed start=$SECONDS status=0 result=ok
  if [[ -f $passed && ${AGAIN:-0} != 1 ]]; then
    table+=("$(cat "$passed") (before)")
    echo "== $name passed before"
    return
  fi
  rm -f "$passed"
  echo "== $name"
  ("step_$name") >"$log" 2>&1 || status=$?
  if ((status == cannot_run)); then
    result=skipped
  elif ((status != 0)); then
    result=FAILED failed=1
    tail -n 40 "$log"
  fi
  local note row
  note=$(grep -v '^ *$' "$log" | tail -n 1 | cut -c 1-90 || :)
  row=$(printf '%-12s %-8s %7d  %s' "$name" "$result" $((SECONDS - start)) "$note")
  table+=("$row")
  if [[ $result == ok ]]; then echo "$row" >"$passed"; fi
}

for name in "${wanted[@]}"; do run_step "$name"; done
printf '\n%-12s %-8s %7s\n' step result seconds
printf '%s\n' "${table[@]}"
echo "sources $sources, commit $(git -C "$root" rev-parse --short HEAD 2>/dev/null || echo unknown); logs: $state"
exit "$failed"
