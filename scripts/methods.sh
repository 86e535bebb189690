#!/usr/bin/env bash
# Writes the methods of Tensor that are operators: one for each function of autograd/ops/ whose first
# argument is a tensor, declared between two marks of framework/tensor.h and defined in a file that
# the build makes. As in PyTorch, what belongs to nn.functional (ops/nn/) is none.
#
#   scripts/methods.sh                 after a declaration changed
#   scripts/methods.sh --check         says what would change, and fails where something would
#   scripts/methods.sh --define FILE   writes the definitions
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

headers=$(find autograd/ops -name '*.h' ! -path '*/nn/*' | awk -F/ '{ print $NF, $0 }' |
  LC_ALL=C sort | cut -d' ' -f2 | grep -vE '/(formulas|random|rows|sparse)\.h$')
# What takes another place among the arguments, or is no operator of PyTorch's.
export NO_METHOD=" embedding linear masked one_hot sum_to to_copy where "
awk -v declared="$out/declared" -v defined="$out/defined" '
  # Parts of a list, split where no bracket is open.
  function split_list(text, parts,    i, c, depth, n) {
    n = 0; depth = 0; parts[0] = ""
    for (i = 1; i <= length(text); i++) {
      c = substr(text, i, 1)
      if (c ~ /[<({]/) depth++
      if (c ~ /[>)}]/) depth--
      if (c == "," && !depth) { n++; parts[n] = ""; continue }
      parts[n] = parts[n] c
    }
    return n + 1
  }
  function method(text,    name, type, list, n, i, k, parts) {
    gsub(/\[\[nodiscard\]\] |inline /, "", text); gsub(/ +/, " ", text); gsub(/^ | $/, "", text)
    if (text !~ /^[A-Za-z_:<>, ]+ [a-z][a-z0-9_]*\(const Tensor& [a-z_]+[,)]/) return
    name = text; sub(/\(.*/, "", name)
    type = name; sub(/ [a-z0-9_]+$/, "", type); sub(/.* /, "", name)
    if (index(ENVIRON["NO_METHOD"], " " name " ") || name ~ /^operator/) return
    list = text; sub(/^[^(]*\(/, "", list); sub(/\)[^)]*$/, "", list)
    n = split_list(list, parts)
    # Values of an enumeration are not known where the methods are declared: one without it, then.
    for (i = 1; i < n; i++) {
      sub(/^ /, "", parts[i])
      if (parts[i] ~ / = [A-Z][A-Za-z]*::/) {
        emit(name, type, parts, i)
        for (k = 1; k < n; k++) sub(/ = .*/, "", parts[k])
      }
    }
    emit(name, type, parts, n)
  }
  function emit(name, type, parts, n,    i, part, shown, given, passed, word) {
    shown = given = ""; passed = "*this"
    for (i = 1; i < n; i++) {
      part = parts[i]
      sub(/^ /, "", part)
      shown = shown (i > 1 ? ", " : "") part
      sub(/ = .*/, "", part)
      given = given (i > 1 ? ", " : "") part
      sub(/.*[ &*]/, "", part); passed = passed ", " part
    }
    word = type ~ /^[A-Z]/ && type != "Tensor" ? "struct " : ""
    printf "  %s%s%s %s(%s) const;\n", name ~ /_$/ ? "" : "[[nodiscard]] ", word, type, name, shown > declared
    printf "%s Tensor::%s(%s) const { return taper::%s(%s); }\n", type, name, given, name, passed > defined
  }
  { sub(/[ \t]*\/\/.*/, "") }
  /^#/ { next }
  FNR == 1 { text = ""; depth = 0; keep = 1 }
  {
    for (i = 1; i <= length($0) + 1; i++) {
      c = i > length($0) ? " " : substr($0, i, 1)
      if (c == "{" && text !~ /\([^)]*$/) {
        if (text ~ /namespace/) { text = ""; continue }
        if (!depth++) head = text
        text = ""
      } else if (c == "}" && depth) {
        if (!--depth && head ~ /\)/) method(head)
        text = ""
      } else if (c == ";") {
        if (!depth) method(text)
        text = ""
      } else if (c != "}" || text ~ /\([^)]*$/) {
        text = text c
      }
    }
  }' $headers

if [[ ${1:-} == --define ]]; then
  {
    echo "// Made by scripts/methods.sh of the functions declared in autograd/ops/."
    printf '#include "%s"\n' $headers
    printf 'namespace taper::inline v0 {\n'
    cat "$out/defined"
    printf '}  // namespace taper::inline v0\n'
  } >"$2"
  exit
fi
awk -v made="$out/declared" '
  /--- end of the methods made ---/ { skip = 0 }
  !skip { print }
  /--- operators, made by/ { skip = 1; while ((getline line < made) > 0) print line }
  ' framework/tensor.h >"$out/tensor.h"
if command -v clang-format >/dev/null; then
  clang-format -i --style=file:.clang-format "$out/tensor.h"
fi
if [[ ${1:-} == --check ]]; then
  # Layout is clang-format's, which need not be here.
  diff <(tr -d ' \n' <framework/tensor.h | sed 's/;/;\n/g') \
    <(tr -d ' \n' <"$out/tensor.h" | sed 's/;/;\n/g') ||
    { echo "run scripts/methods.sh: declarations of autograd/ops/ changed"; exit 1; }
elif ! cmp -s "$out/tensor.h" framework/tensor.h; then
  cp "$out/tensor.h" framework/tensor.h
fi
