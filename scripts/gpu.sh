#!/usr/bin/env bash
# Builds with CUDA on a machine with a GPU and checks everything there. Installs nothing.
#   scripts/gpu.sh [test] [golden] [sanitize] [train] [bench] [compare] [distributed] [ranks] [ops]
#                                                           default: test sanitize
# test      the whole suite
# golden    compares trainings on the GPU with tests/golden (scripts/golden.sh). GOLDEN=record adds
#           sections for this model of GPU, GOLDEN=bless with GOLDEN_REASON="..." replaces them
# sanitize  runs memcheck, racecheck, initcheck and synccheck of compute-sanitizer on the test
#           programs, which run on every device. The runner's tests use the CPU and are skipped
# train     trains on the CPU and on the GPU: the first 100 losses must agree within 1e-4. Uses MNIST
#           if TAPER_MNIST names its directory, otherwise the built-in digits
# bench     times training steps, operators and the host part of calls (taper_bench)
# compare   times the same in PyTorch, too (tests/bench/compare.py; PYTHON is a Python with PyTorch)
# distributed   compares data parallel training on 1, 2, 4 and 8 GPUs with PyTorch, and collectives
#           with NCCL; times the start (tests/bench/distributed.py; DISTRIBUTED: its arguments)
# ranks     runs on 1, 2, 4 and 8 GPUs must write the same bytes, also after a rank was killed
#           (scripts/ranks.sh)
# ops       prints microseconds and GB/s or GFLOP/s of every operator of the op table
# Environment: BUILD_DIR (build-gpu), LOGS (BUILD_DIR/logs), CMAKE_ARGS (for example
# -DCMAKE_PREFIX_PATH=DIR, if packages are installed in DIR), CTEST_PARALLEL_LEVEL (parallel tests: 4),
# SANITIZE_FILTER (a GoogleTest filter: *), SANITIZE_TOOLS (memcheck racecheck initcheck synccheck),
# SANITIZE_JOBS (parallel parts: one per core), SANITIZE_RESUME=1 (skips the parts that an earlier call
# on the same build found clean).
# A step that fails does not stop the others. The exit code is 0 if no step failed.
#
# shellcheck disable=SC2016,SC2317  # xargs' shell expands; the functions are reached through `step`
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export BUILD_DIR=${BUILD_DIR:-$root/build-gpu}
logs=${LOGS:-$BUILD_DIR/logs}
filter=${SANITIZE_FILTER:-*}
PATH=$PATH:/usr/local/cuda/bin
read -ra cmake_args <<<"${CMAKE_ARGS:-}"
read -ra tools <<<"${SANITIZE_TOOLS:-memcheck racecheck initcheck synccheck}"

wanted=("$@")
if (($# == 0)); then wanted=(test sanitize); fi
for name in "${wanted[@]}"; do
  [[ $name =~ ^(test|golden|sanitize|train|bench|compare|distributed|ranks|ops)$ ]] && continue
  echo "unknown step '$name': expected test, golden, sanitize, train, bench, compare, distributed, ranks or ops" >&2
  exit 2
done
missing=()
for tool in cmake ninja c++ nvcc; do command -v "$tool" >/dev/null || missing+=("$tool"); done
if ((${#missing[@]} > 0)); then
  echo "not found on PATH: ${missing[*]}" >&2
  exit 1
fi
mkdir -p "$logs"
# The tests are built only if a step needs them.
targets=()
if [[ ! ${wanted[*]} =~ test|sanitize|ops ]]; then targets=(taper_bench taper_program); fi

table=()
failed=0

# step NAME COMMAND...: runs the command. Its output goes to the log NAME.log, the last line to the table.
step() {
  local name=$1 start=$SECONDS result=ok note
  shift
  printf '== %s\n' "$name"
  "$@" >"$logs/$name.log" 2>&1 || result=FAILED
  note=$(grep -v '^ *$' "$logs/$name.log" | tail -n 1 | cut -c 1-90 || :)
  table+=("$(printf '%-14s %-7s %7d  %s' "$name" "$result" $((SECONDS - start)) "$note")")
  if [[ $result == ok ]]; then return 0; fi
  failed=1
  tail -n 40 "$logs/$name.log"
  return 1
}

build() {
  cmake -S "$root" -B "$BUILD_DIR" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTAPER_CUDA=ON \
    -DTAPER_TESTS=ON "${cmake_args[@]}" && ninja -k 0 -C "$BUILD_DIR" --quiet "${targets[@]}" &&
    echo "$BUILD_DIR"
}

# Fails if the program of this build finds no GPU.
gpu_is_seen() {
  "$BUILD_DIR/apps/taper" info && "$BUILD_DIR/apps/taper" info | grep '^cuda:0'
}

run_tests() {
  TAPER_INSTALL=0 CTEST_PARALLEL_LEVEL=${CTEST_PARALLEL_LEVEL:-4} "$root/scripts/test.sh"
}

# sanitize_part TOOL PROGRAM FILTER PART PARTS: runs one part of a program's tests. For the op table's
# driver, a part has all tests for some of the rows.
sanitize_part() {
  local name log status=ok start=$SECONDS
  name=$(basename "$2")
  log=$logs/$1-$name-$4.log
  if [[ $name == test_ops ]]; then
    export TAPER_ROWS=$4/$5
  else
    export GTEST_SHARD_INDEX=$4 GTEST_TOTAL_SHARDS=$5
  fi
  # Neighboring parts use different GPUs.
  if ((gpus > 1)); then export CUDA_VISIBLE_DEVICES=$(($4 % gpus)); fi
  local options=() only=$3
  # In the op table's driver, this test alone launches every kernel.
  if [[ $name == test_ops && $3 == '*' ]]; then only=OpTable.CudaEqualsTheCpu; fi
  # Tests that stop the threads also stop those of the tool, and some tests need a process of their
  # own. Tests on the CPU launch no kernels.
  if [[ $only == '*' ]]; then only='-ThreadPool.*:Missing.*:*Faults.*:*/cpu*'; fi
  # racecheck makes a launch a hundred times slower, and synccheck breaks cuDNN's attention ("overflow
  # of tracked cuda::barrier structures"). Both check only Taper's kernels (with "taper" in their names).
  if [[ $1 == racecheck || $1 == synccheck ]]; then
    options=(--kernel-name kns=taper)
    if [[ $1 == racecheck && $only == -* ]]; then
      # A hundred steps repeatedly launch kernels that other tests launch once.
      only+=':*Differences*:*AHundredStepsKeepToPyTorchsLosses*'
    fi
  elif [[ $1 == initcheck && $only == -* ]]; then
    # On Hopper, cuBLAS's products of half types and cuDNN's attention store through TMA, which
    # initcheck does not track. It reports their results as uninitialized when our kernels read them.
    only+=':Attention.Cudnn*:Matmul.OddRowsOfHalfTypes:StepGraph.ReplaysTheBitsOfTheStepItself'
    only+=':TransformerEncoderLayer.ComputesInTheHalfTypeUnderAutocast'
    only+=':Autocast.IsTheSameWhenACheckpointRunsAgain'
    # initcheck checks the copies of a graph at its launch, before its kernels have written the sources.
    only+=':OwnOptimizer.ACapturedStepHasTheBitsOfTheStepItself'
  fi
  # memcheck cannot see the ends of blocks that the caching allocator cuts from segments.
  if [[ $1 == memcheck ]]; then export TAPER_ALLOCATOR=plain; fi
  sanitized "$1" "$2" "$only" "${options[@]}" >"$log" 2>&1 || status=FAILED
  if ((${#options[@]} > 0)) && grep -q 'Internal Sanitizer Error' "$log"; then
    # The tool's filter of kernels crashes if kernels of libraries run between ours. Without the filter
    # it checks every kernel. Reports about kernels of libraries (cuDNN's attention has some) are ignored.
    status=FAILED
    sanitized "$1" "$2" "$only" >"$log" 2>&1 || :
    if grep -q '^\[  PASSED  \]' "$log" && ! grep -q 'access at .*taper' "$log"; then status=ok; fi
  fi
  echo "$status $name part $4, $((SECONDS - start)) s: $(grep -E 'SUMMARY' "$log" | tail -n 1)"
  if [[ $status == FAILED ]]; then tail -n 30 "$log"; fi
}

# sanitized TOOL PROGRAM FILTER OPTION...: runs tests under a tool. Errors of API calls are not
# reported, because tests cause some intentionally.
sanitized() {
  compute-sanitizer --tool "$1" --error-exitcode 1 --report-api-errors no --print-limit 20 \
    --require-cuda-init no "${@:4}" "$2" --gtest_brief=1 --gtest_filter="$3"
}

# Runs every tool on every test program that has tests selected by the filter, in parallel parts, one
# per core.
sanitize() {
  local only=$filter tool program part parts
  gpus=$(nvidia-smi -L | grep -c '^GPU')
  export -f sanitize_part sanitized
  export logs gpus
  for tool in "${tools[@]}"; do
    if [[ ${SANITIZE_RESUME:-0} == 0 ]]; then rm -f "$logs/$tool-parts.txt"; fi
    touch "$logs/$tool-parts.txt"
    find "$BUILD_DIR/tests" -maxdepth 1 -type f -executable -name 'test_*' \
      ! -name test_runner ! -name test_layers | sort -r | while IFS= read -r program; do
      # grep -q is not used, because it would close the pipe early, which counts as a failure with pipefail.
      if [[ $("$program" --gtest_list_tests --gtest_filter="$only" 2>/dev/null | grep -c '^  ') == 0 ]]; then
        continue
      fi
      parts=8
      if [[ $(basename "$program") == test_ops ]]; then parts=32; fi
      for ((part = 0; part < parts; ++part)); do
        if grep -q "^ok $(basename "$program") part $part," "$logs/$tool-parts.txt"; then continue; fi
        printf '%s\0' "$tool" "$program" "$only" "$part" "$parts"
      done
    done
  done | xargs -0 -P "${SANITIZE_JOBS:-$(nproc)}" -n 5 \
    bash -c 'sanitize_part "$@" | tee -a "$logs/$1-parts.txt"' sanitize
}

# found_by TOOL: fails if a part was not clean. If a part ran several times, its last result counts.
found_by() {
  local out=$logs/$1-parts.txt parts bad
  grep -v '^ok' "$out" || :
  parts=$(grep -oP '^(ok|FAILED) \K\S+ part \d+' "$out" | sort -u | grep -c . || :)
  bad=$(grep -oP '^(ok|FAILED) \S+ part \d+' "$out" | tac | sort -su -k2,2 -k4,4n | grep -c '^FAILED' || :)
  echo "$parts parts, $bad with findings or failures"
  ((parts > 0 && bad == 0))
}

# train_on DEVICE SETTING...: trains into the directory $logs/train-DEVICE.
train_on() {
  local device=$1 out=$logs/train-$1
  shift
  rm -rf "$out"
  "$BUILD_DIR/apps/taper" train "$@" device="$device" --out "$out"
}

train_and_report() {
  train_on "$@" || return 1
  local out=$logs/train-$1
  awk -F '[:,}]' '/"seconds"/ { for (i = 1; i < NF; ++i) if ($i == "\"seconds\"") s = $(i + 1)
      if (best == "" || s < best) best = s }
    /"accuracy"/ { for (i = 1; i < NF; ++i) if ($i == "\"accuracy\"") accuracy = $(i + 1) }
    END { printf "accuracy %.4f, best epoch %.3f s\n", accuracy, best }' \
    "$out/timing.jsonl" "$out/metrics.jsonl"
}

first_losses() {
  sed -n 's/.*"kind":"train".*"loss":\([^,}]*\).*/\1/p' "$1" | head -n 100
}

# Prints the largest relative difference of the first 100 losses, and fails if it exceeds 1e-4.
compare_losses() {
  paste <(first_losses "$logs/train-cpu/metrics.jsonl") \
    <(first_losses "$logs/train-cuda/metrics.jsonl") | awk '
    { d = $1 - $2; d = d < 0 ? -d : d; d /= ($1 < 0 ? -$1 : $1) + 1e-30; if (d > worst) worst = d }
    END { printf "%d losses, largest relative difference %.2e\n", NR, worst
          exit !(NR >= 100 && worst <= 1e-4) }'
}

train_step() {
  local run=("$root/configs/digits.yaml")
  if [[ -n ${TAPER_MNIST:-} ]]; then
    run=("$root/configs/mnist.yaml" "data.root=$TAPER_MNIST")
  fi
  step train-cpu train_and_report cpu "${run[@]}" || :
  step train-cuda train_and_report cuda "${run[@]}" || :
  step losses compare_losses || :
}

# Compares, records or blesses the sections of this model of GPU.
golden_step() {
  GOLDEN_DEVICE=cuda step golden "$root/scripts/golden.sh" "${GOLDEN:-check}" "$BUILD_DIR/apps/taper" \
    "${GOLDEN_REASON:-}" || :
  grep -E 'no section|by statistics|^failed' "$logs/golden.log" | sort | uniq -c || :
}

# The tables are also printed on the terminal, because they are the purpose of these steps.
bench_step() {
  step bench "$BUILD_DIR/tests/taper_bench" || :
  cat "$logs/bench.log"
}

compare_step() {
  step compare "${PYTHON:-python3}" "$root/tests/bench/compare.py" \
    --bench "$BUILD_DIR/tests/taper_bench" --json "$logs/compare.json" || :
  cat "$logs/compare.log"
}

distributed_step() {
  local words
  read -ra words <<<"${DISTRIBUTED:-}"
  step distributed "${PYTHON:-python3}" "$root/tests/bench/distributed.py" \
    --bench "$BUILD_DIR/tests/taper_bench" --json "$logs/distributed.json" "${words[@]}" || :
  cat "$logs/distributed.log"
}

ranks_step() {
  local counts=() n gpus
  gpus=$(nvidia-smi -L | grep -c '^GPU')
  for n in 1 2 4 8; do ((n > gpus)) || counts+=("$n"); done
  TAPER=$BUILD_DIR/apps/taper RANKS="${counts[*]}" OUT=$logs/ranks \
    step ranks "$root/scripts/ranks.sh" device=cuda train.epochs=100 || :
  cat "$logs/ranks.log"
}

if step build build; then
  step gpu gpu_is_seen || :
  for name in "${wanted[@]}"; do
    case $name in
      test) step test run_tests || : ;;
      sanitize)
        step sanitize sanitize || :
        for tool in "${tools[@]}"; do step "$tool" found_by "$tool" || :; done
        ;;
      golden) golden_step ;;
      train) train_step ;;
      bench) bench_step ;;
      compare) compare_step ;;
      distributed) distributed_step ;;
      ranks) ranks_step ;;
      ops) step ops "$BUILD_DIR/tests/test_ops" --bench || : ;;
    esac
  done
fi

printf '\n%-14s %-7s %7s\n' step result seconds
printf '%s\n' "${table[@]}"
echo "logs: $logs"
exit "$failed"
