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
  echo "== building"
fi
quiet=()
if [[ ! -t 1 ]]; then quiet=(--quiet); fi
ninja -C "$build" "${quiet[@]}" taper_program
exec "$build/apps/taper" train "$@"
