#!/usr/bin/env python3
"""Measures how long each command of `taper` takes to print its first line, and how long it runs.

  python3 tests/bench/first_output.py build/apps/taper [--rows 500000] [--pictures 1500] [--runs 500]
      [--only NAME] [--repeats 3]

Writes a large table, a folder of pictures, a text, series, and many runs to a temporary folder, and calls each
command there on a terminal, as a person would. Prints the smallest of some repetitions, and marks commands that
take longer than 0.2 s to print their first line. It only measures: the exit code is 0.
"""
import argparse
import os
import pathlib
import pty
import select
import shutil
import struct
import subprocess
import tempfile
import time
import zlib

GOAL = 0.2


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())


def png(side, seed):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes((seed * 7 + x * y) % 256 for x in range(3 * side)) for y in range(side))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def make_data(args):
    lines = ["id,age,city,date,score,answer"]
    for i in range(args.rows):
        lines.append("%d,%d,city%d,2024-%02d-%02d,%.3f,%s" % (
            i, 18 + i * 7 % 60, i % 40, 1 + i % 12, 1 + i % 28, i * 13 % 997 / 10, "yes" if i * 7 % 60 > 30 else "no"))
    write(pathlib.Path("large.csv"), "\n".join(lines) + "\n")
    write(pathlib.Path("small.csv"), "\n".join(lines[:400]) + "\n")
    for i in range(args.pictures):
        write(pathlib.Path("pictures/%s/%d.png" % ("abc"[i % 3], i)), png(96, i))
    write(pathlib.Path("text.txt"), "the quick brown fox jumps over the lazy dog.\n" * 40000)
    sales = ["date,store,sales"]
    for store in range(20):
        sales += ["2024-%02d-%02d,s%d,%d" % (1 + d // 28, 1 + d % 28, store, d * 7 % 50) for d in range(300)]
    write(pathlib.Path("sales.csv"), "\n".join(sales) + "\n")
    write(pathlib.Path("digits.yaml"), "data: {type: digits, train_size: 20000, test_size: 4000}\n"
          "model: {type: mlp, hidden: [64]}\ntrain: {epochs: 1, batch_size: 128}\n")
    write(pathlib.Path("gpt.yaml"), "data: {type: text, path: text.txt, tokenizer: chars, block_size: 32}\n"
          "model: {type: gpt, n_layer: 1, n_head: 1, n_embd: 16}\ntrain: {steps: 10, batch_size: 8}\n")


def make_runs(program, args):
    def quietly(*words):
        subprocess.run([program, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    quietly("train", "digits.yaml", "data.train_size=256", "data.test_size=64", "--out", "runs/one")
    quietly("train", "small.csv", "target=answer", "train.epochs=2", "--out", "runs/table")
    quietly("train", "pictures", "data.size=16", "model.width=4", "train.epochs=1", "--out", "runs/pictures")
    quietly("train", "gpt.yaml", "--out", "runs/gpt")
    for i in range(args.runs):
        shutil.copytree("runs/one", "many/%03d" % i)


COMMANDS = [
    ("help", ["--help"]),
    ("version", ["--version"]),
    ("info", ["info"]),
    ("schema", ["schema"]),
    ("schema, reference", ["schema", "--markdown"]),
    ("train --help", ["train", "--help"]),
    ("train, digits", ["train", "digits.yaml", "train.steps=5", "train.epochs=null"]),
    ("train, large table", ["train", "large.csv", "target=answer", "train.steps=5", "train.epochs=null"]),
    ("train, pictures", ["train", "pictures", "data.size=16", "model.width=4", "train.steps=5", "train.epochs=null"]),
    ("train, text", ["train", "gpt.yaml"]),
    ("train, series", ["train", "sales.csv", "time=date", "series=store", "target=sales", "horizon=7",
                       "train.epochs=1"]),
    ("train --print-config", ["train", "large.csv", "target=answer", "--print-config"]),
    ("train --validate, large table", ["train", "large.csv", "target=answer", "--validate"]),
    ("train --validate, pictures", ["train", "pictures", "--validate"]),
    ("train --dry-run, large table", ["train", "large.csv", "target=answer", "--dry-run"]),
    ("train --seeds", ["train", "small.csv", "target=answer", "train.epochs=1", "--seeds", "2"]),
    ("sweep", ["sweep", "small.csv", "target=answer", "optimizer.lr=1e-3|1e-2", "train.epochs=1", "--trials", "2"]),
    ("lr-find", ["lr-find", "digits.yaml", "--steps", "20"]),
    ("inspect, large table", ["inspect", "large.csv", "--target", "answer"]),
    ("list, many runs", ["list", "many"]),
    ("eval, digits", ["eval", "runs/one"]),
    ("eval, large table", ["eval", "runs/table", "--data", "large.csv"]),
    ("eval, pictures", ["eval", "runs/pictures", "--data", "pictures"]),
    ("predict, large table", ["predict", "runs/table", "large.csv"]),
    ("predict, pictures", ["predict", "runs/pictures", "pictures"]),
    ("generate", ["generate", "runs/gpt", "--prompt", "the", "--tokens", "50"]),
    ("export, ONNX", ["export", "runs/one", "--to", "onnx"]),
    ("export, weights", ["export", "runs/one", "--to", "pt"]),
    ("verify", ["verify", "runs/one"]),
    ("report", ["report", "runs/one"]),
    ("report, 76 runs", ["report", *["many/%03d" % i for i in range(76)]]),
    ("record", ["record", "runs/one", "--to", "golden.json", "--steps", "5"]),
    ("check", ["check", "runs/one", "--against", "golden.json"]),
    ("reproduce", ["reproduce", "runs/one"]),
    ("diff", ["diff", "runs/one", "runs/table"]),
    ("coverage", ["coverage", "golden.json"]),
    ("error", ["train", "missing.yaml"]),
]


def measure(program, words):
    """Returns the seconds until the first output, until the end, the exit code, and the first line."""
    start = time.perf_counter()
    child, terminal = pty.fork()
    if child == 0:
        os.execv(program, [program, *words])
    first, text = None, b""
    while True:
        ready, _, _ = select.select([terminal], [], [], 120)
        try:
            part = os.read(terminal, 1 << 16) if ready else b""
        except OSError:  # the terminal is closed
            part = b""
        if not part:
            break
        if first is None and part.strip():
            first = time.perf_counter() - start
        if len(text) < 4096:
            text += part
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    shown = text.decode(errors="replace").strip().splitlines()
    return first, time.perf_counter() - start, os.waitstatus_to_exitcode(status), shown[0] if shown else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--rows", type=int, default=500000)
    parser.add_argument("--pictures", type=int, default=1500)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="commands whose name contains this")
    args = parser.parse_args()
    program = str(args.program.resolve())
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        make_data(args)
        make_runs(program, args)
        print("%-30s %8s %8s %5s  %s" % ("command", "first, s", "whole, s", "exit", "first line"))
        for name, words in COMMANDS:
            if args.only not in name:
                continue
            first, whole, code, line = min(
                (measure(program, words) for _ in range(args.repeats)),
                key=lambda result: result[1] if result[0] is None else result[0])
            mark = "" if first is not None and first <= GOAL else "  <-- late"
            print("%-30s %8.3f %8.2f %5d  %s%s" % (name, first or whole, whole, code, line[:60], mark), flush=True)
        os.chdir("/")


if __name__ == "__main__":
    main()
