#!/usr/bin/env python3
"""Prints the measures that keep the sources readable, and fails when a limit is exceeded.

usage: scripts/measures.py [--list] [--compile-cost] [--check]
  --list           name every function, file and cycle behind a count
  --compile-cost   also compare the compile time of taper.h with that of its standard headers (20 s)
  --check          exit with 1 when a count exceeds the limit in LIMITS

Only sources outside tests/ are measured. Generated tables belong in tests/.
"""

import argparse
import collections
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
MOST_FUNCTION_LINES = 40
MOST_NESTING = 3
MOST_FILE_LINES = 500
MOST_FOLDER_FILES = 25
COMPILE_COST_GOAL = 1.5

# The largest counts that --check accepts. The goal is 0: lower a limit when its count falls.
LIMITS = {
    "functions over 40 lines": 36,
    "functions nested deeper than 3": 8,
    "files over 500 lines": 0,
    "folders over 25 sources": 0,
    "folders in include cycles": 0,
}


def sources():
    """Returns the paths of all tracked sources outside tests/, relative to the root."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True)
    paths = [pathlib.Path(line) for line in listed.stdout.splitlines()]
    return [p for p in paths if p.suffix in SUFFIXES and p.parts[0] != "tests" and (ROOT / p).exists()]


TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'|\#[^\n]*(?:\\\n[^\n]*)*""",
    re.S,
)


def without_text(code):
    """Replaces comments, literals and preprocessor lines by blanks, and keeps all line ends."""
    return TOKEN.sub(lambda match: "\n" * match.group(0).count("\n") or " ", code)


CONTROL = re.compile(r"\b(if|for|while|switch|do|else|try|catch)\b[^{}]*$")
SCOPE = re.compile(r"\b(namespace|struct|class|union|enum|extern)\b[^;{}()=]*(\([^{}]*\))?[^;{}()=]*$")
FUNCTION = re.compile(r"\)\s*(const|noexcept|override|final|mutable|&&?|->[^;{}]*|:[^;]*|requires[^;{}]*|\s)*$", re.S)

Function = collections.namedtuple("Function", "path line name lines nesting")


def name_in(head):
    match = re.search(r"([\w:~]+|operator\s*\S+)\s*\([^()]*(\([^()]*\)[^()]*)*\)[^()]*$", head, re.S)
    return match.group(1) if match else "lambda"


def functions_of(path, code):
    """Returns every outermost function body of a file with its length and its nesting."""
    found, stack, head_start = [], [], 0
    line, parentheses = 1, 0
    for i, c in enumerate(code):
        if c == "\n":
            line += 1
        elif c == "(":
            parentheses += 1
        elif c == ")":
            parentheses -= 1
        elif c == ";" and parentheses == 0:
            head_start = i + 1
        elif c == "{":
            head = code[head_start:i]
            inside = any(entry[0] == "function" for entry in stack)
            if inside:
                kind = "block" if CONTROL.search(head) else "other"
            elif FUNCTION.search(head) and "=" not in head.split("(")[0] and not CONTROL.search(head):
                kind = "function"
            elif SCOPE.search(head):
                kind = "scope"
            else:
                kind = "other"
            if kind == "function":
                found.append([name_in(head), line, 0])
            stack.append((kind, line, len(found) - 1, parentheses))
            parentheses = 0
            if inside and found:
                depth = sum(1 for entry in stack if entry[0] == "block")
                found[-1][2] = max(found[-1][2], depth)
            head_start = i + 1
        elif c == "}" and stack:
            kind, start, index, parentheses = stack.pop()
            if kind == "function":
                name, first, nesting = found[index]
                found[index] = [name, first, nesting, line - start + 1]
            head_start = i + 1
    return [Function(path, f[1], f[0], f[3], f[2]) for f in found if len(f) == 4]


def folder_of(path):
    """Returns the unit in which include cycles are counted: a folder, or a family of kernels or operators."""
    return str(pathlib.PurePosixPath(path).parent)


def cycles(includes):
    """Returns the strongly connected groups of folders that include each other (Tarjan)."""
    index, low, on_stack, stack, groups = {}, {}, set(), [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        on_stack.add(node)
        for other in sorted(includes.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in on_stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            group = []
            while True:
                member = stack.pop()
                on_stack.discard(member)
                group.append(member)
                if member == node:
                    break
            if len(group) > 1:
                groups.append(sorted(group))

    for node in sorted(includes):
        if node not in index:
            visit(node)
    return groups


def include_graph(paths, texts):
    known = {str(p) for p in paths}
    graph = collections.defaultdict(set)
    for path in paths:
        for header in re.findall(r'^\s*#\s*include\s*"([^"]+)"', texts[path], re.M):
            if header in known and folder_of(header) != folder_of(path):
                graph[folder_of(path)].add(folder_of(header))
    return graph


def compile_cost():
    """Returns the compile times of taper.h and of its standard headers, each the median of five."""
    seen, standard, todo = set(), set(), ["taper.h"]
    while todo:
        header = todo.pop()
        if header in seen or not (ROOT / header).exists():
            continue
        seen.add(header)
        text = (ROOT / header).read_text()
        todo += re.findall(r'^#include "([^"]+)"', text, re.M)
        standard |= set(re.findall(r"^#include <([^>.]+)>", text, re.M))

    def seconds(text):
        with tempfile.NamedTemporaryFile("w", suffix=".cpp") as file:
            file.write(text)
            file.flush()
            times = []
            for _ in range(5):
                start = time.monotonic()
                subprocess.run(["g++", "-std=c++20", "-fsyntax-only", f"-I{ROOT}", file.name], check=True)
                times.append(time.monotonic() - start)
            return statistics.median(times)

    return seconds('#include "taper.h"\n'), seconds("".join(f"#include <{h}>\n" for h in sorted(standard)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--compile-cost", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()

    paths = sources()
    texts = {p: (ROOT / p).read_text(errors="replace") for p in paths}
    functions = [f for p in paths for f in functions_of(p, without_text(texts[p]))]
    folders = collections.Counter(folder_of(p) for p in paths)
    groups = cycles(include_graph(paths, texts))
    found = {
        "functions over 40 lines": [f"{f.path}:{f.line} {f.name}: {f.lines} lines" for f in functions if f.lines > MOST_FUNCTION_LINES],
        "functions nested deeper than 3": [f"{f.path}:{f.line} {f.name}: {f.nesting} deep" for f in functions if f.nesting > MOST_NESTING],
        "files over 500 lines": [f"{p}: {texts[p].count(chr(10))} lines" for p in paths if texts[p].count("\n") > MOST_FILE_LINES],
        "folders over 25 sources": [f"{name}: {n} sources" for name, n in folders.items() if n > MOST_FOLDER_FILES],
        "folders in include cycles": [name for group in groups for name in group],
    }
    failed = False
    print(f"{'measure':32} {'now':>5} {'limit':>6} {'goal':>5}")
    for name, rows in found.items():
        failed |= len(rows) > LIMITS[name]
        print(f"{name:32} {len(rows):5} {LIMITS[name]:6} {0:5}")
        if options.list:
            for row in sorted(rows):
                print(f"    {row}")
    if options.list:
        for group in groups:
            print(f"    cycle: {' <-> '.join(group)}")
    parts = collections.Counter()
    for p in paths:
        parts[p.parts[0]] += texts[p].count("\n")
    print(f"\nlines: {sum(parts.values())} (" + ", ".join(f"{k} {v}" for k, v in parts.most_common()) + ")")
    print(f"functions: {len(functions)}, median length {statistics.median(f.lines for f in functions):.0f} lines")
    if options.compile_cost:
        ours, theirs = compile_cost()
        print(f"taper.h: {ours:.2f} s, its standard headers {theirs:.2f} s, ratio {ours / theirs:.2f} (goal {COMPILE_COST_GOAL})")
    return 1 if options.check and failed else 0


if __name__ == "__main__":
    sys.exit(main())
