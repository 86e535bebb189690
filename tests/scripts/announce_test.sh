#!/usr/bin/env bash
# scripts/train.sh and scripts/test.sh first announce what they will do and how long it will take. This test
# of CTest runs them with stand-ins for the programs that install, configure and build.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/programs" "$folder/built"
# The stand-in for ninja reports 30 files that are out of date.
# shellcheck disable=SC2016  # the stand-in expands
printf '#!/bin/sh\nfor i in $(seq 30); do echo "[$i/30] Building"; done\n' >"$folder/programs/ninja"
printf '#!/bin/sh\necho 4\n' >"$folder/programs/nproc"
printf '#!/bin/sh\nexit 1\n' | tee "$folder/programs"/{cmake,apt-get,sudo} >/dev/null
chmod +x "$folder/programs"/*
touch "$folder/built/build.ninja"
printf '%s\n' TAPER_CUDA:STRING=OFF TAPER_TESTS:BOOL=ON CMAKE_UNITY_BUILD:BOOL=OFF >"$folder/built/CMakeCache.txt"

failed=0
# expect BUILD_FOLDER LINE SCRIPT ARGUMENT...: expects the line in the output of the script.
expect() {
  local output
  output=$(PATH=$folder/programs:$PATH TAPER_CUDA=OFF BUILD_DIR=$folder/$1 "$root/scripts/$3" "${@:4}" 2>&1 || :)
  if grep -qxF -- "$2" <<<"$output"; then return; fi
  printf '%s\n' "$3 does not announce '$2':" "$output"
  failed=1
}
expect new '==   build the program: about a minute on 4 processors' train.sh missing.yaml
expect new '==   train' train.sh missing.yaml
expect built '==   build the program (30 steps): about 20 seconds on 4 processors' train.sh missing.yaml
expect new '==   build everything, each source separately: about 4 minutes on 4 processors' test.sh
expect new '==   run the tests: about 4 minutes' test.sh
expect built '==   build everything (30 steps): about 20 seconds on 4 processors' test.sh -R Tensor
expect built '==   run the tests' test.sh -R Tensor
exit "$failed"
