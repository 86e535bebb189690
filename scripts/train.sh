#!/usr/bin/env bash
# Trains as a YAML file says; installs and builds what is missing first.
#   scripts/train.sh configs/digits.yaml [a.b=v ...] [--out DIR]
set -euo pipefail

if (($# == 0)); then
  echo "usage: scripts/train.sh CONFIG [a.b=v ...] [--out DIR], as in" >&2
  echo "       scripts/train.sh configs/digits.yaml train.epochs=3" >&2
  exit 2
fi
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${BUILD_DIR:-$root/build}
PATH=$PATH:/usr/local/cuda/bin

"$root/scripts/install.sh"
if [[ ! -f $build/build.ninja ]]; then
  echo "== configuring $build"
  mkdir -p "$build"
  # Without tests, which need a package more; scripts/test.sh turns them on.
  cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTAPER_TESTS=OFF \
    >"$build/configure.log" 2>&1 || { cat "$build/configure.log" >&2 && exit 1; }
fi

# On a terminal ninja shows how far it is; elsewhere a line every ten seconds does.
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
