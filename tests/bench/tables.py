#!/usr/bin/env python3
"""Compares the reading of tables by Taper and by polars, each on one thread, in alternating processes.

  tests/bench/tables.py PROGRAM [--rows N] [--rounds N]

PROGRAM is taper_table_bench (ninja taper_table_bench). "First" is the first reading in a process, which is what a
training run does; "again" is the median of four further ones, for which memory is at hand. Times are processor time,
which on a busy machine varies less than time on a clock. Each number is the median over the processes. "Memory" is
Taper's peak, divided by eight bytes for each cell. Needs numpy and polars.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

TIMES = 5

POLARS = """
import os, sys, time
os.environ["POLARS_MAX_THREADS"] = "1"
import polars
with open(sys.argv[2], "w") as tiny:
    tiny.write("a,b\\n1,2\\n")
polars.read_csv(sys.argv[2])  # loads what is loaded at the first use
for _ in range(int(sys.argv[3])):
    start = time.process_time()
    table = polars.read_csv(sys.argv[1])
    print(time.process_time() - start, end=" ")
    del table
"""


def write_tables(folder, rows):
    """Writes a table of numbers, one of numbers, words and dates, and one of words; returns {path: cells}."""
    import numpy

    random = numpy.random.default_rng(0)
    out = {}

    numbers = folder / "numbers.csv"
    scales = 10.0 ** random.integers(-1, 4, size=20)
    with open(numbers, "w") as file:
        file.write(",".join(f"x{i}" for i in range(20)) + "\n")
        for at in range(0, rows, 50_000):
            block = random.normal(size=(min(50_000, rows - at), 20)) * scales
            file.writelines(",".join(f"{x:.6g}" for x in row) + "\n" for row in block.tolist())
    out[numbers] = 20 * rows

    cities = ["alpha", "beta", "gamma", "delta", "Sacramento", "New York", "blue", "red"]
    mixed = folder / "mixed.csv"
    days = numpy.datetime64("2020-01-01") + random.integers(0, 1500, rows)
    columns = [
        range(rows),
        [cities[i] for i in random.integers(0, 8, rows)],
        [cities[i] for i in random.integers(0, 4, rows)],
        numpy.round(random.lognormal(3, 1, rows), 2).tolist(),
        random.integers(0, 100, rows).tolist(),
        numpy.datetime_as_string(days).tolist(),
        [("yes", "no", "")[i] for i in random.integers(0, 3, rows)],
        random.random(rows).tolist(),
    ]
    with open(mixed, "w") as file:
        file.write("id,city,kind,price,quantity,date,flag,score\n")
        file.writelines(",".join(map(str, row)) + "\n" for row in zip(*columns))
    out[mixed] = 8 * rows

    words = folder / "words.csv"
    with open(words, "w") as file:
        file.write("name,city,note,n\n")
        for i, a, b in zip(range(rows), random.integers(0, 8, rows), random.integers(0, 1000, rows)):
            file.write(f'person {i},{cities[a]},"said ""{cities[a]}"", {b}",{b}\n')
    out[words] = 4 * rows
    return out


def seconds_of(command):
    environment = dict(os.environ, OMP_NUM_THREADS="1", POLARS_MAX_THREADS="1")
    text = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    return [float(word) for word in text.split()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    pin = ["taskset", "-c", "0"]
    print("| table | MB | Taper first | polars first | ratio | Taper again | polars again | ratio | memory |")
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for path, cells in write_tables(folder, options.rows).items():
            ours, theirs = [], []
            for _ in range(options.rounds):
                ours.append(seconds_of([*pin, options.program, path, str(TIMES)])[:-1])
                theirs.append(seconds_of([*pin, sys.executable, "-c", POLARS, path, folder / "tiny.csv", str(TIMES)]))
            peak = seconds_of([*pin, options.program, path, "1"])[-1]
            row = [path.name, f"{path.stat().st_size / 1e6:.0f}"]
            for pick in (lambda times: times[0], lambda times: statistics.median(times[1:])):
                a, b = (statistics.median(map(pick, side)) for side in (ours, theirs))
                row += [f"{1e3 * a:.0f} ms", f"{1e3 * b:.0f} ms", f"**{b / a:.2f}**"]
            row.append(f"{peak / (8 * cells):.2f}")
            print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
