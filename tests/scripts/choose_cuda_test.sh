#!/usr/bin/env bash
# scripts/choose_cuda.sh: the CUDA part is compiled if a GPU and nvcc are present or if it is requested. A
# build folder that has the CUDA part keeps it. This test of CTest uses stand-ins for nvidia-smi and nvcc.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/gpu" "$folder/no_gpu"
printf '#!/bin/sh\necho "GPU 0: a stand-in"\n' >"$folder/gpu/nvidia-smi"
printf '#!/bin/sh\nexit 9\n' >"$folder/no_gpu/nvidia-smi"
printf '#!/bin/sh\n' | tee "$folder/gpu/nvcc" >"$folder/no_gpu/nvcc"
chmod +x "$folder"/*/*

# choice MACHINE VALUE CACHED: prints the choice of choose_cuda on a machine with or without a GPU, with
# TAPER_CUDA=VALUE in the environment and TAPER_CUDA=CACHED in the build folder ("": not configured).
choice() {
  rm -rf "$folder/build"
  mkdir "$folder/build"
  if [[ -n $3 ]]; then echo "TAPER_CUDA:STRING=$3" >"$folder/build/CMakeCache.txt"; fi
  # shellcheck disable=SC2016  # the inner shell expands
  PATH=$folder/$1:$PATH TAPER_CUDA=$2 build=$folder/build bash -euc \
    'source "$0/scripts/choose_cuda.sh"; choose_cuda; echo "$cuda"' "$root" 2>&1 || echo "exit $?"
}

failed=0
expect() {
  local got
  got=$(choice "$1" "$2" "$3")
  if [[ $got == "$4" ]]; then return; fi
  echo "machine $1, TAPER_CUDA='$2', configured '$3': expected $4, got $got"
  failed=1
}
expect no_gpu '' '' OFF
expect no_gpu ON '' ON
expect no_gpu ON OFF ON
expect no_gpu '' ON ON
expect no_gpu '' AUTO AUTO
expect no_gpu OFF ON OFF
expect gpu '' '' ON
expect gpu '' OFF ON
expect gpu OFF '' OFF
expect gpu yes '' "TAPER_CUDA is 'yes': expected ON or OFF
exit 2"
exit "$failed"
