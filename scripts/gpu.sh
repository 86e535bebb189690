#!/usr/bin/env bash
# Builds with CUDA on a machine with a GPU and checks everything there. Installs nothing.
#   scripts/gpu.sh [test] [sanitize] [train] [bench] [compare] [distributed] [ranks] [ops]
#                                                           default: test sanitize
# test      the whole suite
# sanitize  compute-sanitizer's memcheck, racecheck, initcheck and synccheck over the test programs,
#           whose bodies run on every device; the runner's tests work on the CPU and are left out
# train     one training on the CPU and on the GPU: the first 100 losses must agree within 1e-4.
#           MNIST when TAPER_MNIST names its directory, else the embedded digits
# bench     training steps, operators and host time: taper_bench
# compare   the same compared with PyTorch (tests/bench/compare.py; PYTHON names a Python with PyTorch)
# distributed   data parallel training on 1, 2, 4 and 8 GPUs compared with PyTorch's, collectives with
#           NCCL's own, start-up (tests/bench/distributed.py, which DISTRIBUTED gives arguments)
# ranks     runs on 1, 2, 4 and 8 GPUs write the same bytes, also after a rank was killed
#           (scripts/ranks.sh)
# ops       microseconds and GB/s or GFLOP/s of every operator of the op table
# Environment: BUILD_DIR (build-gpu), LOGS (BUILD_DIR/logs), CMAKE_ARGS (as
# -DCMAKE_PREFIX_PATH=DIR for packages in a place of their own), CTEST_PARALLEL_LEVEL (tests at a
# time: 4), SANITIZE_FILTER (a GoogleTest filter, *), SANITIZE_TOOLS (memcheck racecheck initcheck
# synccheck), SANITIZE_JOBS (parts at a time: one a core), SANITIZE_RESUME=1 (parts that an earlier
# call on the same build found clean are not run again).
# A step that fails does not stop the others; the exit code is that of the whole.
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
  [[ $name =~ ^(test|sanitize|train|bench|compare|distributed|ranks|ops)$ ]] && continue
  echo "unknown step '$name': expected test, sanitize, train, bench, compare, distributed, ranks or ops" >&2
  exit 2
done
missing=()
for tool in cmake ninja c++ nvcc; do command -v "$tool" >/dev/null || missing+=("$tool"); done
if ((${#missing[@]} > 0)); then
  echo "not found on PATH: ${missing[*]}" >&2
  exit 1
fi
mkdir -p "$logs"
# Benchmarks alone need no tests.
targets=()
if [[ ! ${wanted[*]} =~ test|sanitize|ops ]]; then targets=(taper_bench taper_program); fi

table=()
failed=0

# step NAME COMMAND...: runs it into a log of that name; its last line goes into the table.
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

# Fails when the program that was built does not see a GPU.
gpu_is_seen() {
  "$BUILD_DIR/apps/taper" info && "$BUILD_DIR/apps/taper" info | grep '^cuda:0'
}

run_tests() {
  TAPER_INSTALL=0 CTEST_PARALLEL_LEVEL=${CTEST_PARALLEL_LEVEL:-4} "$root/scripts/test.sh"
}

# sanitize_part TOOL PROGRAM FILTER PART PARTS: some of a program's tests; of the op table's driver
# all tests for some of the rows.
sanitize_part() {
  local name log status=ok start=$SECONDS
  name=$(basename "$2")
  log=$logs/$1-$name-$4.log
  if [[ $name == test_ops ]]; then
    export TAPER_ROWS=$4/$5
  else
    export GTEST_SHARD_INDEX=$4 GTEST_TOTAL_SHARDS=$5
  fi
  # Neighbouring parts go to different GPUs.
  if ((gpus > 1)); then export CUDA_VISIBLE_DEVICES=$(($4 % gpus)); fi
  local options=() only=$3
  # Of the op table's driver the test that launches each kernel.
  if [[ $name == test_ops && $3 == '*' ]]; then only=OpTable.CudaEqualsTheCpu; fi
  # A test that takes the threads away takes the tool's, too; others want a process of their own.
  # What runs on the CPU launches nothing.
  if [[ $only == '*' ]]; then only='-ThreadPool.*:Missing.*:*Faults.*:*/cpu*'; fi
  # racecheck slows a launch a hundredfold, and synccheck breaks cuDNN's attention ("overflow of
  # tracked cuda::barrier structures"): these look at Taper's own kernels (their names hold "taper").
  if [[ $1 == racecheck || $1 == synccheck ]]; then
    options=(--kernel-name kns=taper)
    if [[ $1 == racecheck && $only == -* ]]; then
      # A hundred steps launch again and again what others launch once.
      only+=':*Differences*:*AHundredStepsKeepToPyTorchsLosses*'
    fi
  elif [[ $1 == initcheck && $only == -* ]]; then
    # On Hopper cuBLAS's products of half types and cuDNN's attention store through TMA, which
    # initcheck does not see: their results, read by a kernel of ours, pass for uninitialised.
    only+=':Attention.Cudnn*:Matmul.OddRowsOfHalfTypes:StepGraph.ReplaysTheBitsOfTheStepItself'
    only+=':TransformerEncoderLayer.ComputesInTheHalfTypeUnderAutocast'
    only+=':Autocast.IsTheSameWhenACheckpointRunsAgain'
    # A graph's copies are looked at when it is launched, before its kernels have written their source.
    only+=':OwnOptimizer.ACapturedStepHasTheBitsOfTheStepItself'
  fi
  # Memory that is cut from segments has no end that memcheck knows.
  if [[ $1 == memcheck ]]; then export TAPER_ALLOCATOR=plain; fi
  sanitized "$1" "$2" "$only" "${options[@]}" >"$log" 2>&1 || status=FAILED
  if ((${#options[@]} > 0)) && grep -q 'Internal Sanitizer Error' "$log"; then
    # The filter's own death, where kernels of libraries run between ours. Without it every kernel
    # is looked at; what libraries do in theirs (cuDNN's attention is reported) is not our finding.
    status=FAILED
    sanitized "$1" "$2" "$only" >"$log" 2>&1 || :
    if grep -q '^\[  PASSED  \]' "$log" && ! grep -q 'access at .*taper' "$log"; then status=ok; fi
  fi
  echo "$status $name part $4, $((SECONDS - start)) s: $(grep -E 'SUMMARY' "$log" | tail -n 1)"
  if [[ $status == FAILED ]]; then tail -n 30 "$log"; fi
}

# sanitized TOOL PROGRAM FILTER OPTION...: tests provoke refusals by the driver on purpose; those
# are no findings.
sanitized() {
  compute-sanitizer --tool "$1" --error-exitcode 1 --report-api-errors no --print-limit 20 \
    --require-cuda-init no "${@:4}" "$2" --gtest_brief=1 --gtest_filter="$3"
}

# Every tool over every test program with tests that the filter names, in parts that run side by side,
# one on each core.
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
      # No pipe into grep -q: it would close early, which pipefail takes for a failure.
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

# found_by TOOL: fails where a part did not end clean. Of a part that ran again its last line counts.
found_by() {
  local out=$logs/$1-parts.txt parts bad
  grep -v '^ok' "$out" || :
  parts=$(grep -oP '^(ok|FAILED) \K\S+ part \d+' "$out" | sort -u | grep -c . || :)
  bad=$(grep -oP '^(ok|FAILED) \S+ part \d+' "$out" | tac | sort -su -k2,2 -k4,4n | grep -c '^FAILED' || :)
  echo "$parts parts, $bad with findings or failures"
  ((parts > 0 && bad == 0))
}

# train_on DEVICE SETTING...: a training into $logs/train-DEVICE.
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

# The largest relative difference of the first 100 losses; fails above 1e-4.
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

# The tables go to the terminal as well: they are what is asked for.
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
