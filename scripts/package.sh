#!/usr/bin/env bash
# Builds the packages: build/package/*.deb, which installs shared libraries into /usr, and *.tar.gz,
# which may be unpacked anywhere.
#   scripts/package.sh [CMake arguments, for example -DTAPER_CUDA=ON]
# Without arguments, the package is for the CPU. With CUDA it is called taper-cuda and supports the GPUs
# in -DCMAKE_CUDA_ARCHITECTURES. Environment: BUILD_DIR, TAPER_INSTALL=0 (installs nothing).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${BUILD_DIR:-$root/build/package}
PATH=$PATH:/usr/local/cuda/bin
if [[ ${TAPER_INSTALL:-1} != 0 ]]; then "$root/scripts/install.sh" package; fi

configure() {
  cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON \
    -DTAPER_TESTS=OFF -DTAPER_CUDA=OFF -DCMAKE_INSTALL_PREFIX=/usr "$@" >"$build/configure.log" 2>&1 ||
    { cat "$build/configure.log" >&2 && exit 1; }
}
mkdir -p "$build"
# Programs of the .deb find libraries in /usr without a run path. Those of the archive find them relative
# to the program.
configure "$@" -DCMAKE_SKIP_INSTALL_RPATH=ON
ninja -C "$build" --quiet
(cd "$build" && cpack -G DEB >/dev/null)
configure "$@" -DCMAKE_SKIP_INSTALL_RPATH=OFF
ninja -C "$build" --quiet  # links again
(cd "$build" && cpack -G TGZ >/dev/null)
ls "$build"/*.deb "$build"/*.tar.gz
