#!/usr/bin/env bash
# Writes the methods of Tensor that are operators, one for each function of autograd/ops/ whose first
# argument is a tensor: DIR/framework/tensor/tensor_methods.h declares them, DIR/methods.cpp defines them. As
# in PyTorch, what belongs to nn.functional (ops/nn/) is none. The build runs it.
#
#   scripts/methods.sh DIR
set -euo pipefail
mkdir -p "$1/framework/tensor"
made=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

headers=$(find autograd/ops -name '*.h' ! -path '*/nn/*' | awk -F/ '{ print $NF, $0 }' |
  LC_ALL=C sort | cut -d' ' -f2 | grep -vE '/(op_helpers|random_ops|rows|sparse_ops)\.h$')
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
  function wrapped(line,    head, at) {
    while (length(line) > 100) {
      for (at = 100; substr(line, at, 2) != ", "; at--);
      head = head substr(line, 1, at) "\n"
      line = "      " substr(line, at + 2)
    }
    return head line
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
    print wrapped(sprintf("  %s%s%s %s(%s) const;", name ~ /_$/ ? "" : "[[nodiscard]] ", word, type, name, shown)) > declared
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

{
  printf '#include "%s"\n' $headers
  printf 'namespace taper::v0 {\n'
  cat "$out/defined"
  printf '}  // namespace taper::v0\n'
} >"$out/methods.cpp"

# What is as it was is left alone, so that nothing is compiled again for it.
keep() { cmp -s "$1" "$2" || cp "$1" "$2"; }
keep "$out/declared" "$made/framework/tensor/tensor_methods.h"
keep "$out/methods.cpp" "$made/methods.cpp"
