# Sourced by train.sh and test.sh, which build in the folder $build. Decides whether the CUDA part of
# Taper is compiled, which takes longer than all the rest, and sets $cuda, $cuda_reason and
# $cuda_options (for CMake). TAPER_CUDA=ON or TAPER_CUDA=OFF in the environment decides. Otherwise a
# build folder that has the CUDA part keeps it, and another one gets it where both a GPU and nvcc are
# present.
# shellcheck shell=bash disable=SC2034,SC2154  # variables of the caller
PATH=$PATH:/usr/local/cuda/bin

# Prints the value of a CMake option in the build folder, or nothing.
cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt" 2>/dev/null || :; }

choose_cuda() {
  if [[ ${TAPER_CUDA:-} =~ ^(ON|OFF)$ ]]; then
    cuda=$TAPER_CUDA cuda_reason="TAPER_CUDA=$TAPER_CUDA is set"
  elif [[ -n ${TAPER_CUDA:-} ]]; then
    echo "TAPER_CUDA is '$TAPER_CUDA': expected ON or OFF" >&2
    exit 2
  elif [[ $(cached TAPER_CUDA) =~ ^(ON|AUTO)$ ]]; then
    cuda=$(cached TAPER_CUDA) cuda_reason="the build folder is configured so"
  elif ! nvidia-smi -L >/dev/null 2>&1; then
    cuda=OFF cuda_reason="no GPU was found; TAPER_CUDA=ON compiles it all the same"
  elif ! command -v nvcc >/dev/null; then
    cuda=OFF cuda_reason="there is a GPU, but no nvcc; install the CUDA Toolkit to use the GPU"
  else
    cuda=ON cuda_reason="a GPU and nvcc were found"
  fi
  cuda_options=("-DTAPER_CUDA=$cuda")
  # -U makes CMake look again for an nvcc that was missing last time.
  if [[ $cuda == ON && $(cached CMAKE_CUDA_COMPILER) == *NOTFOUND ]]; then
    cuda_options+=(-U CMAKE_CUDA_COMPILER)
  fi
}
