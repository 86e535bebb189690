#!/usr/bin/env bash
# check.sh COMPILER INCLUDE WORK: compiles each block of cases.cpp in the folder WORK. Compilation must fail
# with the block's sentence in the first error line, and with at most 30 lines of output in total.
# INCLUDE: the folder of <taper/taper.h>.
set -euo pipefail
compiler=$1 include=$2 work=$3
here=$(cd "$(dirname "$0")" && pwd)
max_lines=30

rm -rf "$work"
mkdir -p "$work"
# Writes one file per case. Messages refer to lines of cases.cpp.
awk -v work="$work" '
  /^\/\/! / {
    name = $2
    sub(/:$/, "", name)
    sentence = $0
    sub(/^\/\/! [^:]*: /, "", sentence)
    print sentence > (work "/" name ".expected")
    file = work "/" name ".cpp"
    printf "#include \"prelude.h\"\n#line %d \"cases.cpp\"\n", NR + 1 > file
    next
  }
  file { print > file }' "$here/cases.cpp"
cat > "$work/prelude.h" <<'END'
#pragma once
#include <iostream>
#include <memory>
#include <optional>
#include <utility>
#include <vector>
#include <taper/taper.h>
using namespace taper;
END

flags=(-std=c++20 -I"$include" -I"$work")
# The prelude is a precompiled header for both compilers. It must compile alone.
case $("$compiler" --version) in
  *clang*)
    # clang only warns about options in the wrong order, which GCC refuses.
    flags+=(-Wno-everything -Werror=reorder-init-list)
    "$compiler" "${flags[@]}" -x c++-header "$work/prelude.h" -o "$work/prelude.h.pch"
    flags+=(-include-pch "$work/prelude.h.pch" -fno-caret-diagnostics) ;;
  *)
    flags+=(-w)
    "$compiler" "${flags[@]}" -x c++-header "$work/prelude.h" -o "$work/prelude.h.gch"
    flags+=(-fno-diagnostics-show-caret) ;;
esac

failed=0 count=0
for source in "$work"/*.cpp; do
  name=$(basename "$source" .cpp)
  sentence=$(cat "$work/$name.expected")
  output=$work/$name.output
  count=$((count + 1))
  problem=
  if "$compiler" "${flags[@]}" -fsyntax-only "$source" > "$output" 2>&1; then
    problem="compiles"
  elif ! grep -m 1 -E 'error: ' "$output" | grep -qE -- "$sentence"; then
    problem="fails without \"$sentence\" in its first error"
  elif [ "$(wc -l < "$output")" -gt $max_lines ]; then
    problem="fails with $(wc -l < "$output") lines of output, more than $max_lines"
  fi
  if [ -n "$problem" ]; then
    failed=1
    printf '%s %s:\n' "$name" "$problem"
    head -n $max_lines "$output"
  fi
done
[ $count -gt 0 ] || { echo "no cases found in $here/cases.cpp"; exit 1; }
[ $failed -eq 0 ] && echo "$count programs are refused as expected"
exit $failed
