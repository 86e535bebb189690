#!/usr/bin/env bash
# Installs from apt what a build needs and is not here yet; does nothing when all is here.
#   scripts/install.sh          what the program needs
#   scripts/install.sh onnx     what writing ONNX files needs, too
#   scripts/install.sh tests    what the tests need, too, and that
#   scripts/install.sh browser  Chromium, in which the tests look at the report, too
#   scripts/install.sh docs     what scripts/docs.sh needs, too
#   scripts/install.sh package  what scripts/package.sh needs, too
#   scripts/install.sh fuzz     what scripts/fuzz.sh needs, too
#   scripts/install.sh lint     clang-format and clang-tidy, too
#   scripts/install.sh compilers     clang 19 and GCC 14, by which the tests compile a consumer, too.
#                               Where Debian has no GCC 14, the next Debian's goes to /opt/gcc-14,
#                               and nothing of it elsewhere but the command g++-14 in /usr/local/bin
#   scripts/install.sh distributed   MPI, for runs on several ranks, too. Debian has no NCCL, which GPUs
#                               need: libnccl2 and libnccl-dev are in NVIDIA's repository of CUDA.
#   scripts/install.sh --list [KIND]     prints the packages that are missing and installs nothing
set -euo pipefail

only_list=0
if [[ ${1:-} == --list ]]; then only_list=1 && shift; fi

# Debian's oneDNN names OpenCL in its CMake files, though Taper does not use it.
packages=(libdnnl-dev ocl-icd-opencl-dev libyaml-cpp-dev libfmt-dev libspdlog-dev
  libcli11-dev nlohmann-json3-dev zlib1g-dev libutf8proc-dev libzip-dev libzstd-dev libsentencepiece-dev libdlpack-dev libpng-dev libjpeg-dev
  libcpp-httplib-dev)
# Any LAPACK serves. OpenBLAS is the fast one (docs/decisions/013-lapack.md).
if ! PATH=$PATH:/usr/sbin:/sbin ldconfig -p 2>/dev/null | grep -E 'lib(lapack\.so\.3|openblas\.so\.0)' >/dev/null; then
  packages+=(libopenblas0-pthread)
fi
if [[ ${1:-} == tests ]]; then packages+=(libgtest-dev pkgconf make sentencepiece); fi
if [[ ${1:-} == package ]]; then packages+=(dpkg-dev file gzip); fi
if [[ ${1:-} == tests || ${1:-} == onnx ]]; then packages+=(libonnx-dev libprotobuf-dev); fi

if [[ ${1:-} == tests || ${1:-} == distributed ]]; then packages+=(libopenmpi-dev openmpi-bin); fi

if [[ ${1:-} == browser ]]; then packages+=(chromium fonts-dejavu-core); fi

if [[ ${1:-} == docs ]]; then packages+=(doxygen); fi

if [[ ${1:-} == lint ]]; then packages+=(clang-format-14 clang-tidy-14); fi

if [[ ${1:-} =~ ^(fuzz|compilers)$ ]] && ! command -v clang++-19 >/dev/null; then
  packages+=(clang-19 libclang-rt-19-dev libomp-19-dev)
fi

wants_gcc=0
if [[ ${1:-} == compilers && $(uname -m) == x86_64 ]] && ! command -v g++-14 >/dev/null; then
  wants_gcc=1
  packages+=(mmdebstrap)
fi

missing=()
# Tools count wherever they come from. Each is a command and its package.
for tool in g++:g++ cmake:cmake ninja:ninja-build ccache:ccache; do
  command -v "${tool%%:*}" >/dev/null || missing+=("${tool##*:}")
done

if ((only_list)) && ! command -v apt-get >/dev/null; then exit 0; fi
if ! command -v apt-get >/dev/null; then
  if ((${#missing[@]} == 0)); then exit 0; fi # CMake says which library it misses
  echo "Not a Debian system. Install what these packages of Debian's hold, then try again:" >&2
  echo "  ${missing[*]} ${packages[*]}" >&2
  exit 1
fi

installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null ||:)
for package in "${packages[@]}"; do
  grep -qx "installed $package" <<<"$installed" || missing+=("$package")
done
if ((only_list)); then
  printf '%s\n' "${missing[@]}"
  exit 0
fi
if ((${#missing[@]} + wants_gcc == 0)); then exit 0; fi

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "These packages are missing, and there is neither root nor sudo to install them:" >&2
    echo "  apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
if ((${#missing[@]} > 0)); then
  echo "== installing ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y \
    --no-install-recommends -o Dpkg::Use-Pty=0 "${missing[@]}" >/dev/null
fi

# Its own libc, headers and loader: the system's are older. -wrapper starts what g++ starts by that
# loader, too; so it compiles, and links nothing.
if ((wants_gcc)); then
  root=/opt/gcc-14
  echo "== installing GCC 14 into $root"
  "${as_root[@]}" rm -rf $root
  "${as_root[@]}" mmdebstrap --quiet --mode=root --variant=extract --include=g++-14 trixie $root
  libs=$root/usr/lib/x86_64-linux-gnu
  loader="$root/usr/lib64/ld-linux-x86-64.so.2 --library-path $libs"
  printf '#!/bin/sh\nexec %s %s --sysroot=%s -B%s/usr/bin/ -wrapper %s "$@"\n' "$loader" \
    $root/usr/bin/x86_64-linux-gnu-g++-14 $root $root "${loader// /,}" |
    "${as_root[@]}" tee /usr/local/bin/g++-14 >/dev/null
  "${as_root[@]}" chmod +x /usr/local/bin/g++-14
fi
