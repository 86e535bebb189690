#!/usr/bin/env bash
# Compares trainings on different numbers of ranks.
#   scripts/ranks.sh [same] [kill] [setting=value ...]      default: same kill
#   scripts/ranks.sh kills=30 [seed=1] [ranks=4] [resume=2,4] [setting=value ...]
# same   trains on each number of ranks, with batches divided into as many shards as there are ranks at
#        most. metrics.jsonl and the weights must be equal, byte for byte
# kill   kills one rank of the largest number during a run. Within 30 s all other ranks must have ended,
#        naming the lost rank. Then half as many ranks continue from the newest checkpoint and must
#        write the bytes of an undisturbed run
# kills  kills or stops (SIGSTOP) random ranks at random steps, as often as said, with random numbers
#        from the seed. Runs begin on `ranks` ranks and continue on a random one of the numbers in
#        `resume`. Each fault must be named within 30 s, and each run must write the bytes of an
#        undisturbed run
# The ranks use the CPU and MPI or, with device=cuda, one GPU each. Settings are those of `taper train`.
# Without GPUs a small config takes a minute.
# Environment: TAPER (build/apps/taper), CONFIG (configs/digits.yaml), RANKS ("1 2 4 8"), OUT (an empty
# folder for the runs; by default a temporary one, which is removed if no step failed).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
taper=${TAPER:-$root/build/apps/taper}
config=${CONFIG:-$root/configs/digits.yaml}
read -ra ranks <<<"${RANKS:-1 2 4 8}"
lines_before_kill=40

wanted=()
kills=0 seed='' resume=()
settings=(data.train_size=2048 data.test_size=512 train.epochs=20 train.log_every=1
  train.eval_every=16 checkpoint.every=16)
for word in "$@"; do
  value=${word#*=}
  case $word in
    same | kill) wanted+=("$word") ;;
    kills=*) kills=$value wanted+=(kills) ;;
    seed=*) seed=$value ;;
    ranks=*) IFS=, read -ra ranks <<<"$value" ;;
    resume=*) IFS=, read -ra resume <<<"$value" ;;
    *=*) settings+=("$word") ;;
    *)
      echo "unknown step '$word': expected same, kill, kills=N or a setting" >&2
      exit 2
      ;;
  esac
done
for number in "$kills" "${seed:-1}" "${ranks[@]}" "${resume[@]}"; do
  if [[ ! $number =~ ^[0-9]+$ ]]; then
    echo "expected a number in kills, seed, ranks and resume, got '$number'" >&2
    exit 2
  fi
done
most=$(printf '%s\n' "${ranks[@]}" "${resume[@]}" | sort -n | tail -n 1)
if ((${#resume[@]} == 0)); then resume=($((most / 2)) "$most"); fi
settings=("train.shards=$most" "${settings[@]}")
# Without random faults, the seed is that of the config.
if ((kills == 0)) && [[ -n $seed ]]; then settings+=("seed=$seed"); fi
# A stopped rank is noticed after the timeout.
if ((kills > 0)); then settings=(distributed.timeout=15 "${settings[@]}"); fi
if ((${#wanted[@]} == 0)); then wanted=(same kill); fi
if [[ ! -x $taper ]]; then
  echo "no program at $taper: build it, or name it in TAPER" >&2
  exit 1
fi
out=${OUT:-$(mktemp -d)}
mkdir -p "$out"
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}

table=()
failed=0

# row NAME RESULT SECONDS NOTE: adds a row to the table.
row() {
  table+=("$(printf '%-12s %-7s %7d  %s' "$@")")
  if [[ $2 != ok ]]; then failed=1; fi
}

# train N NAME WORD...: trains into $out/NAME on N ranks.
train() {
  local n=$1 name=$2 launch=()
  shift 2
  if ((n > 1)); then launch=(--ranks "$n"); fi
  "$taper" train "$config" "${settings[@]}" --out "$out/$name" "${launch[@]}" "$@" \
    >>"$out/$name.log" 2>&1
}

checksums() {
  (cd "$out/$1" && sha256sum metrics.jsonl model.safetensors)
}

# same_as NAME REFERENCE: prints whether the two runs have the same bytes, and fails if not.
same_as() {
  local lines
  lines=$(wc -l <"$out/$1/metrics.jsonl")
  if cmp -s <(checksums "$1") <(checksums "$2"); then
    echo "$lines lines of metrics and the weights are those of $2"
    return 0
  fi
  echo "differs from $2: $(cmp "$out/$1/metrics.jsonl" "$out/$2/metrics.jsonl" 2>&1 | cut -c 1-200)"
  return 1
}

step_same() {
  local n first=ranks-${ranks[0]} start result note
  for n in "${ranks[@]}"; do
    start=$SECONDS result=ok
    rm -rf "$out/ranks-$n"
    if ! train "$n" "ranks-$n"; then
      result=FAILED note=$(tail -n 1 "$out/ranks-$n.log")
    else
      note=$(same_as "ranks-$n" "$first") || result=FAILED
    fi
    row "$n ranks" "$result" $((SECONDS - start)) "$note"
  done
}

descendants() {
  local child
  for child in $(ps -o pid= --ppid "$1"); do
    echo "$child"
    descendants "$child"
  done
}

# pid_of LAUNCHER RANK: prints the process id of a rank that the launcher started.
pid_of() {
  local pid
  for pid in $(descendants "$1"); do
    if [[ $(readlink "/proc/$pid/exe") == "$(readlink -f "$taper")" ]] &&
      tr '\0' '\n' <"/proc/$pid/environ" | grep -qxE "(OMPI_COMM_WORLD_RANK|PMI_RANK)=$2"; then
      echo "$pid"
      return 0
    fi
  done
  return 1
}

step_kill() {
  local victim=$((most - 1)) start=$SECONDS launcher pid='' status=0 result=ok note killed
  rm -rf "$out/killed" "$out/killed.log"
  train "$most" killed &
  launcher=$!
  until [[ -n $pid || $SECONDS -gt $((start + 60)) ]]; do pid=$(pid_of "$launcher" "$victim" || :); done
  until [[ -f $out/killed/metrics.jsonl ]] &&
    (($(wc -l <"$out/killed/metrics.jsonl") >= lines_before_kill)); do
    if ! kill -0 "$launcher" 2>/dev/null || ((SECONDS - start > 120)); then break; fi
    sleep 0.01
  done
  if [[ -z $pid ]] || ! kill -KILL "$pid" 2>/dev/null; then
    # shellcheck disable=SC2046  # several process ids
    kill $(descendants "$launcher") "$launcher" 2>/dev/null || :
    row kill FAILED $((SECONDS - start)) "the run ended before rank $victim could be killed"
    return
  fi
  killed=$SECONDS
  wait "$launcher" || status=$?
  # A rank of Taper must name the lost one; a message of mpirun does not count.
  note=$(grep -m 1 "step [0-9].*rank $victim (" "$out/killed.log" || echo "no rank named the lost one")
  if ((status == 0 || SECONDS - killed > 30)) || [[ $note == no\ * ]]; then result=FAILED; fi
  note="code $status after $((SECONDS - killed)) s: $note"
  row kill "$result" $((SECONDS - start)) "$note"

  start=$SECONDS result=ok
  local half=$((most / 2))
  if ! train "$half" killed --resume auto; then
    row resume FAILED $((SECONDS - start)) "$(tail -n 1 "$out/killed.log")"
    return
  fi
  if [[ ! -f $out/alone/model.safetensors ]]; then train 1 alone || :; fi
  note=$(same_as killed alone) || result=FAILED
  row resume "$result" $((SECONDS - start)) "$half ranks: $note"
}

# --- random faults ---

lines_of() { if [[ -f $out/$1/metrics.jsonl ]]; then wc -l <"$out/$1/metrics.jsonl"; else echo 0; fi; }

# wait_for_lines LAUNCHER NAME LINES: waits until the run has so many lines of metrics. Fails if it ends.
wait_for_lines() {
  until (($(lines_of "$2") >= $3)); do
    kill -0 "$1" 2>/dev/null || return 1
    sleep 0.01
  done
}

# end_launcher LAUNCHER: waits up to 30 s for the launcher, ends what is left, and returns its exit code.
end_launcher() {
  local begin=$SECONDS left
  while kill -0 "$1" 2>/dev/null && ((SECONDS - begin < 30)); do sleep 0.1; done
  left=$(descendants "$1")
  # shellcheck disable=SC2086  # several process ids
  if [[ -n $left ]]; then kill -KILL $left 2>/dev/null || :; fi
  local status=0
  wait "$1" || status=$?
  return "$status"
}

# strike NAME NUMBER RANKS: starts or continues the run, and kills or stops a random rank at a random step.
# Fails if the run ends before that.
strike() {
  local name=$1 number=$2 n=$3 launcher pid victim signal lines start note result=ok status=0
  victim=$((RANDOM % n)) lines=$(($(lines_of "$name") + 1 + RANDOM % 60))
  signal=KILL
  if ((RANDOM % 2)); then signal=STOP; fi
  : >"$out/$name.log"
  train "$n" "$name" --resume auto &
  launcher=$!
  if ! wait_for_lines "$launcher" "$name" "$lines" || ! pid=$(pid_of "$launcher" "$victim") ||
    ! kill "-$signal" "$pid" 2>/dev/null; then
    wait "$launcher"
    return 1
  fi
  start=$SECONDS
  # A rank of Taper must name the lost one; a message of mpirun does not count.
  until note=$(grep -m 1 "step [0-9].*rank $victim (" "$out/$name.log"); do
    if ((n == 1 || SECONDS - start > 30)); then
      note="no rank named the lost one" result=FAILED
      break
    fi
    sleep 0.1
  done
  if ((n == 1)); then note="a single rank, which no other can name" result=ok; fi
  note="SIG$signal to rank $victim of $n, named after $((SECONDS - start)) s: $note"
  end_launcher "$launcher" || status=$?
  if ((status == 0)); then result=FAILED note="code 0: $note"; fi
  row "fault $number" "$result" $((SECONDS - start)) "${note:0:160}"
}

step_kills() {
  local number=0 run=0 n start result note
  RANDOM=${seed:-1}
  if ! train 1 alone; then
    row alone FAILED 0 "$(tail -n 1 "$out/alone.log")"
    return
  fi
  while ((number < kills)); do
    start=$SECONDS result=ok
    rm -rf "$out/run-$run"
    n=${ranks[-1]}
    while ((number < kills)) && strike "run-$run" $((number + 1)) "$n"; do
      number=$((number + 1))
      n=${resume[$((RANDOM % ${#resume[@]}))]}
    done
    # The last fault was the last one that was wanted, or the run has ended by itself.
    if ! train "$n" "run-$run" --resume auto; then
      row "run $run" FAILED $((SECONDS - start)) "$(tail -n 1 "$out/run-$run.log")"
      return
    fi
    note=$(same_as "run-$run" alone) || result=FAILED
    row "run $run" "$result" $((SECONDS - start)) "$note"
    run=$((run + 1))
  done
}

for name in "${wanted[@]}"; do
  case $name in
    same) step_same ;;
    kill) step_kill ;;
    kills) step_kills ;;
  esac
done

printf '%-12s %-7s %7s\n' step result seconds
printf '%s\n' "${table[@]}"
if ((failed == 0)) && [[ -z ${OUT:-} ]]; then
  rm -rf "$out"
else
  echo "runs and logs: $out"
fi
exit "$failed"
