#!/usr/bin/env bash
# Builds the fuzz targets of all readers with clang and runs them. Installs missing packages first.
# The target "programs", random programs of tensor operations, runs only when it is named, because it
# compiles the whole library with sanitizers. (The tests run such programs in every build.)
#   scripts/fuzz.sh [SECONDS] [TARGET...]     runs each target for SECONDS (10); without names, all
#                                             targets except "programs"
# The targets start from tests/fuzz/corpus/TARGET. An input that fails is stored in BUILD/found/TARGET,
# and the script fails. BUILD/corpus/TARGET keeps the new inputs of longer runs.
# Environment: BUILD_DIR (build-fuzz), CXX (clang++), CMAKE_ARGS (added to CMake's arguments), JOBS
# (processors to use: 2 for targets, all for compilers), TAPER_INSTALL=0 (installs nothing), SEED (1: a
# tree tries the same inputs again; 0 tries others each time).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${BUILD_DIR:-$root/build-fuzz}
seconds=${1:-10}
seed=${SEED:-1}
shift || :
if [[ ${TAPER_INSTALL:-1} != 0 ]]; then "$root/scripts/install.sh" fuzz; fi
cxx=${CXX:-$(command -v clang++-19 || command -v clang++)}

mkdir -p "$build"
read -ra extra <<<"${CMAKE_ARGS:-}"
cmake -S "$root" -B "$build" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_BUILD_TYPE=None \
  -DTAPER_FUZZ=ON -DTAPER_CUDA=OFF -DTAPER_TESTS=OFF "${extra[@]}" >"$build/configure.log" 2>&1 ||
  { cat "$build/configure.log" >&2 && exit 1; }

targets=("$@")
if ((${#targets[@]} == 0)); then
  for folder in "$root"/tests/fuzz/corpus/*/; do targets+=("$(basename "$folder")"); done
fi

program_of() { # TARGET
  if [[ $1 == programs ]]; then echo fuzz_programs; else echo fuzz_readers; fi
}
mapfile -t programs < <(for target in "${targets[@]}"; do program_of "$target"; done | sort -u)
ninja -C "$build" ${JOBS:+-j "$JOBS"} --quiet "${programs[@]}"

fuzz() { # TARGET
  local corpus=$build/corpus/$1 found=$build/found/$1 seeds=$root/tests/fuzz/corpus/$1
  mkdir -p "$corpus" "$found"
  if [[ ! -d $seeds ]]; then seeds=$corpus; fi
  if TAPER_FUZZ_TARGET=$1 "$build/tests/fuzz/$(program_of "$1")" "$corpus" "$seeds" \
    -seed="$seed" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=16384 \
    -artifact_prefix="$found/" -print_final_stats=1 >"$found/log.txt" 2>&1; then
    echo "$1: $(grep -oP 'number_of_executed_units: +\K\d+' "$found/log.txt") inputs, nothing found"
  else
    echo "$1: FOUND something, see $found" >&2
    tail -n 40 "$found/log.txt" >&2
    return 1
  fi
}
export -f fuzz program_of
export root build seconds seed
printf '%s\n' "${targets[@]}" | xargs -P "${JOBS:-2}" -I TARGET bash -c 'fuzz TARGET'
