#!/usr/bin/env bash
# Trains as a YAML file says. Installs missing packages and builds the program first.
#   scripts/train.sh configs/digits.yaml [a.b=v ...] [--out DIR]
#   TAPER_CUDA=ON scripts/train.sh ...     compiles the CUDA part on a machine without a GPU, too
# The CUDA part is compiled where a GPU and nvcc are present (scripts/choose_cuda.sh).
# A new build folder compiles several sources together (CMAKE_UNITY_BUILD), which halves the time of
# the first build. scripts/test.sh compiles each source separately; a build folder then stays so.
# Environment: BUILD_DIR (build), TAPER_CUDA (ON or OFF).
set -euo pipefail

if (($# == 0)); then
  echo "usage: scripts/train.sh CONFIG [a.b=v ...] [--out DIR], as in" >&2
  echo "       scripts/train.sh configs/digits.yaml train.epochs=3" >&2
  exit 2
fi
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${BUILD_DIR:-$root/build}
echo "== Training as $1 says, with the program in $build"
# shellcheck source=scripts/choose_cuda.sh
source "$root/scripts/choose_cuda.sh"
# shellcheck source=scripts/announce.sh
source "$root/scripts/announce.sh"
choose_cuda
echo "== CUDA part: $cuda ($cuda_reason)"

echo "== The next steps are to"
announce_install ''
if [[ -f $build/build.ninja && $(cached TAPER_CUDA) == "$cuda" ]]; then
  announce_steps 'build the program' taper_program
elif [[ $cuda == OFF ]]; then
  announce_build 'build the program' 250
else
  announce_build 'build the program' 900
fi
echo "==   train"

"$root/scripts/install.sh"
options=("${cuda_options[@]}")
# The tests need more packages. scripts/test.sh turns them on; then they stay on.
if [[ ! -f $build/build.ninja ]]; then options+=(-DTAPER_TESTS=OFF -DCMAKE_UNITY_BUILD=ON); fi
if [[ ! -f $build/build.ninja || $(cached TAPER_CUDA) != "$cuda" ]]; then
  echo "== Configuring $build"
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
      echo "== Built ${line%%]*}]"
    fi
  done
}
steps=$(build_steps taper_program)
if ((steps > 0)); then
  echo "== Building the program in $steps steps"
  if [[ -t 1 ]]; then
    ninja -C "$build" taper_program
  else
    NINJA_STATUS='[%f/%t] ' ninja -C "$build" taper_program | progress
  fi
fi
exec "$build/apps/taper" train "$@"
