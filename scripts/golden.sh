#!/usr/bin/env bash
# Compares trainings of this program with the goldens in tests/golden, which together exercise every
# component and every config that ships.
#   scripts/golden.sh check PROGRAM     compares the bits, once for each instruction set (see below)
#   scripts/golden.sh record PROGRAM    adds sections for this machine to the goldens
#   scripts/golden.sh bless PROGRAM REASON    replaces the sections of this machine
# PROGRAM is the path of `taper`. Each tests/golden/NAME.json belongs to tests/golden/NAME.yaml or to
# configs/NAME.yaml. Its data are written to a temporary folder (tests/golden/make_data.py): small
# stand-ins for those that a config reads.
# Trainings run on the CPU. oneDNN is limited to AVX2, and then to AVX-512 if the processor has it, so
# that all machines with these instructions give the same bits. GOLDEN_DEVICE=cuda in the environment
# uses the first GPU instead (scripts/gpu.sh golden). GOLDEN_FILTER selects names (a pattern of bash).
# Without a section for the platform, `check` compares the curves of several seeds by statistics.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
verb=${1:?check, record or bless} program=$(realpath "${2:?path of taper}") reason=${3:-}
device=${GOLDEN_DEVICE:-cpu} filter=${GOLDEN_FILTER:-*}
case $verb in
  check | record) ;;
  bless) [[ -n $reason ]] || { echo "bless needs a reason: scripts/golden.sh bless PROGRAM REASON" >&2; exit 2; } ;;
  *) echo "unknown verb '$verb': expected check, record or bless" >&2 && exit 2 ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 "$root/tests/golden/make_data.py" "$work"
cd "$work"
case $device in
  cpu)
    export CUDA_VISIBLE_DEVICES=
    levels=(AVX2)
    if grep -qw avx512f /proc/cpuinfo; then levels+=(AVX512_CORE); fi
    ;;
  cuda)
    levels=(AVX2)  # no bit of a training on a GPU depends on it
    if ! "$program" info | grep '^cuda:0' >/dev/null; then
      echo "GOLDEN_DEVICE=cuda, but \`taper info\` lists no GPU" >&2
      exit 1
    fi
    ;;
  *) echo "unknown GOLDEN_DEVICE '$device': expected cpu or cuda" >&2 && exit 2 ;;
esac

names() {
  local path
  for path in "$root"/configs/*.yaml "$root"/tests/golden/*.yaml; do basename "$path" .yaml; done | sort -u
}

config_of() {
  if [[ -f $root/tests/golden/$1.yaml ]]; then
    echo "$root/tests/golden/$1.yaml"
  else
    echo "$root/configs/$1.yaml"
  fi
}

run() { # NAME
  local golden=$root/tests/golden/$1.json config
  config=$(config_of "$1")
  case $verb in
    check) "$program" check "$config" --against "$golden" ;;
    record) "$program" record "$config" --to "$golden" --steps 12 --seeds 5 ;;
    bless) "$program" bless "$config" --against "$golden" --reason "$reason" ;;
  esac
}

failed=()
compared=0 by_statistics=0
for name in $(names); do
  # shellcheck disable=SC2053  # the filter is a pattern
  [[ $name == $filter ]] || continue
  for level in "${levels[@]}"; do
    echo "== $name, $device, $level"
    ONEDNN_MAX_CPU_ISA=$level run "$name" >"$work/log" 2>&1 || failed+=("$name with $level")
    compared=$((compared + 1))
    if grep -q '^the numbers differ from it' "$work/log"; then by_statistics=$((by_statistics + 1)); fi
    grep -v '^section ' "$work/log" || :
  done
done
if ((by_statistics)); then
  echo "$by_statistics of $compared have no section for this platform and were compared by statistics;" \
    "scripts/golden.sh record adds sections"
fi
if ((${#failed[@]})); then
  printf 'failed: %s\n' "${failed[@]}" >&2
  exit 1
fi
"$program" coverage "$root"/tests/golden/*.json | tee "$work/coverage" || :
if grep -q 'no recording has' "$work/coverage"; then exit 1; fi
