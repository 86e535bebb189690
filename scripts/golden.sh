#!/usr/bin/env bash
# Compares trainings of this program with the goldens in tests/golden, which together exercise every
# component that ships.
#   scripts/golden.sh check PROGRAM     compares the bits, once for each instruction set (see below)
#   scripts/golden.sh record PROGRAM    adds sections for this machine to the goldens
#   scripts/golden.sh bless PROGRAM REASON    replaces the sections of this machine
# PROGRAM is the path of `taper`. Each tests/golden/NAME.json belongs to tests/golden/NAME.yaml or to
# configs/NAME.yaml. The data are written to a temporary folder (tests/golden/make_data.py).
# oneDNN is limited to AVX2, and then to AVX-512, so that all machines with these instructions give the
# same bits. Trainings run on the CPU.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
verb=${1:?check, record or bless} program=$(realpath "${2:?path of taper}") reason=${3:-}
shipped=(digits digits_cnn)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 "$root/tests/golden/make_data.py" "$work"
cd "$work"
export CUDA_VISIBLE_DEVICES=

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
    *) echo "unknown verb '$verb': expected check, record or bless" >&2 && exit 2 ;;
  esac
}

failed=()
for config in "$root"/tests/golden/*.yaml "${shipped[@]/#/$root/configs/}"; do
  name=$(basename "$config" .yaml)
  for isa in AVX2 AVX512_CORE; do
    echo "== $name, $isa"
    ONEDNN_MAX_CPU_ISA=$isa run "$name" >"$work/log" 2>&1 || failed+=("$name with $isa")
    grep -v '^section ' "$work/log" || :
  done
done
if ((${#failed[@]})); then
  printf 'failed: %s\n' "${failed[@]}" >&2
  exit 1
fi
# No type of data that ships has sequences with a class, which lstm_classifier needs.
"$program" coverage "$root"/tests/golden/*.json | tee "$work/coverage" || :
if grep 'no recording has' "$work/coverage" | grep -qv 'no recording has lstm_classifier$'; then
  exit 1
fi
