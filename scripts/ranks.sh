#!/usr/bin/env bash
# Compares trainings on different numbers of ranks.
#   scripts/ranks.sh [same] [kill] [setting=value ...]      default: same kill
# same   trains on each number of ranks, with batches divided into as many shards as there are ranks at
#        most. metrics.jsonl and the weights must be equal, byte for byte
# kill   kills one rank of the largest number during a run. Within 30 s all other ranks must have ended,
#        naming the lost rank. Then half as many ranks continue from the newest checkpoint and must
#        write the bytes of an undisturbed run
# The ranks use the CPU and MPI or, with device=cuda, one GPU each. Settings are those of `taper train`.
# Without GPUs a small config takes a minute.
# Environment: TAPER (build/apps/taper), CONFIG (configs/digits.yaml), RANKS ("1 2 4 8"), OUT (an empty
# folder for the runs; by default a temporary one, which is removed if no step failed).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
taper=${TAPER:-$root/build/apps/taper}
config=${CONFIG:-$root/configs/digits.yaml}
read -ra ranks <<<"${RANKS:-1 2 4 8}"
most=${ranks[-1]}
lines_before_kill=40

wanted=()
settings=(data.train_size=2048 data.test_size=512 train.epochs=20 train.log_every=1
  train.eval_every=16 checkpoint.every=16 "train.shards=$most")
for word in "$@"; do
  case $word in
    same | kill) wanted+=("$word") ;;
    *=*) settings+=("$word") ;;
    *)
      echo "unknown step '$word': expected same, kill or a setting" >&2
      exit 2
      ;;
  esac
done
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

for name in "${wanted[@]}"; do
  case $name in
    same) step_same ;;
    kill) step_kill ;;
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
