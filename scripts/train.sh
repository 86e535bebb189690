#!/usr/bin/env bash
# Trains as a YAML file says. Installs missing packages and builds the program first.
#   scripts/train.sh configs/digits.yaml [a.b=v ...] [--out DIR]
#   TAPER_CUDA=ON scripts/train.sh ...     compiles the CUDA part on a machine without a GPU, too
# The CUDA part is compiled where a GPU and nvcc are present (scripts/choose_cuda.sh).
# Environment: BUILD_DIR (build), TAPER_CUDA (ON or OFF).
set -euo pipefail

if (($# == 0)); then
  echo "usage: scripts/train.sh CONFIG [a.b=v ...] [--out DIR], as in" >&2
  echo "       scripts/train.sh configs/digits.yaml train.epochs=3" >&2
  exit 2
fi
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${BUILD_DIR:-$root/build}
echo "== training as $1 says, with the program in $build"
# shellcheck source=scripts/choose_cuda.sh
source "$root/scripts/choose_cuda.sh"
choose_cuda
echo "== CUDA part: $cuda ($cuda_reason)"

"$root/scripts/install.sh"
options=("${cuda_options[@]}")
# The tests need more packages. scripts/test.sh turns them on; then they stay on.
if [[ ! -f $build/build.ninja ]]; then options+=(-DTAPER_TESTS=OFF); fi
if [[ ! -f $build/build.ninja || $(cached TAPER_CUDA) != "$cuda" ]]; then
  echo "== configuring $build"
  mkdir -p "$build"
  cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release "${options[@]}" \
    >"$build/configure.log" 2>&1 || { cat "$build/configure.log" >&2 && exit 1; }
fi

# Prints one line every ten seconds, where ninja cannot show its progress on a terminal.
progress() {
  local line last=$SECONDS
  while IFS= read -r line; do
    if [[ $line != \[* ]]; then
      printf '%s\n' "$line"
    elif ((SECONDS - last >= 10)); then
      last=$SECONDS
      echo "== built ${line%%]*}]"
    fi
  done
}
steps=$(ninja -C "$build" -n taper_program | grep -c '^\[' || :)
if ((steps > 0)); then
  echo "== building the program: $steps steps; the first build takes minutes"
  if [[ -t 1 ]]; then
    ninja -C "$build" taper_program
  else
    NINJA_STATUS='[%f/%t] ' ninja -C "$build" taper_program | progress
  fi
fi
exec "$build/apps/taper" train "$@"
