"""Compares the speed of Taper and PyTorch: both run the same work alternately on this machine.

    python3 tests/bench/compare.py [--bench build/tests/taper_bench] [--taper build/apps/taper] [--rounds 7]
                                   [--python python3] [--threads N] [--only TEXT] [--json FILE] [NAME ...]

Names: first_step overhead mlp cnn resnet gptchar gpt2 ops on a machine with a GPU, and first_step
overhead cpu_mlp cpu_cnn cpu_gpt ops without one. By default all names for the machine. On a GPU also, if
named: gpt2_b64 (batches of 64), gpt2_50257 (the tokenizer's own vocabulary), gpt2_350m (24 layers,
1,024 wide), resnet50 (pictures of 224 x 224 pixels), train (gpt2_50257 by `taper train`)
and generate (a token of GPT-2, beside transformers' generate(); needs transformers).

Each mode of each side is a separate process. All processes are warmed up before anything is timed. Then
each round runs one repeat of every process, one after the other. The table shows medians, minima and
maxima in microseconds. "GiB" is the largest memory that tensors took on the GPU, for Taper and for
PyTorch's best mode. "ratio" is the median of PyTorch's best mode divided by that of Taper's best mode.
"limit" is, for an op, the time in which a plain copy moves as many bytes (Taper's copy, measured in the
same run), and for a training step the time of its arithmetic (docs/internals/performance_notes.md). Both
sides start the trainings from the same parameters and batch. The exit code is 1 if the losses of their
first three steps (without dropout) differ, or if a process fails. Needs PyTorch and safetensors for
Python.
"""
import argparse
import array
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

GPU = {"mlp": ["eager", "compile", "compile-ro", "graph"],
       "cnn": ["eager", "compile", "compile-ro", "graph"],
       "resnet": ["eager", "compile", "graph"],
       "resnet50": ["compile", "graph"],
       "gptchar": ["eager", "compile", "compile-ro", "graph"],
       "gpt2": ["eager", "compile"],
       "gpt2_b64": ["compile"],
       "gpt2_50257": ["compile"],
       "gpt2_350m": ["compile"]}
# Named trainings that a call without names leaves out, because they take minutes or 60 GiB.
LARGE = {"resnet50", "gpt2_b64", "gpt2_50257", "gpt2_350m"}
CPU = {"cpu_mlp": ["eager"], "cpu_cnn": ["eager"], "cpu_gpt": ["eager"]}
LIMITS_US = {"mlp_b128_fp32": 17.5, "resnet18_b512_bf16": 5800, "gptchar_b64_bf16": 3500,
             "gpt2_124m_b16_bf16": 24900, "gpt2_124m_b16_v50257_bf16": 24900,
             "gpt2_124m_b64_bf16": 99600}
HALF_TOLERANCE, TOLERANCE = 2e-2, 1e-4  # relative tolerances of losses
failures = []  # messages; the exit code is 1 if there are any
HERE = os.path.dirname(os.path.abspath(__file__))


class Side:
    """A process that announces items, and times one repeat of the current item on request."""

    def __init__(self, label, command, env):
        self.label = label
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, env=env)
        self.first = None

    def warm_up(self):
        """Waits until the first item is ready."""
        self.first = self.read("ready")

    def item(self):
        """Returns the current item, or None if the process has ended."""
        said, self.first = self.first or self.read("ready"), None
        if said is None and (code := self.process.wait()) != 0:
            failures.append(f"{self.label}: ended with {code}: {' '.join(self.process.args)}")
        return said

    def read(self, key):
        """Returns the next line with a key, or None if the process has ended."""
        for line in self.process.stdout:
            if line.startswith("{") and key in (said := json.loads(line)):
                return said
        return None

    def tell(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def repeat(self):
        self.tell("go")
        return self.read("us")["us"]


def summary(times):
    times = sorted(times)
    return {"median": statistics.median(times), "low": times[0], "high": times[-1]}


def check_losses(name, losses):
    tolerance = HALF_TOLERANCE if "bf16" in name else TOLERANCE
    first = next(iter(losses.values()))
    fine = all(len(other) == len(first) and
               all(math.isclose(a, b, rel_tol=tolerance) for a, b in zip(first, other))
               for other in losses.values())
    if not fine:
        failures.append(f"{name}: losses differ: {losses}")


def compare(sides, rounds):
    """Yields a result for each item. All sides must announce the same items in the same order."""
    while True:
        said = [side.item() for side in sides]
        alive = [(side, s) for side, s in zip(sides, said) if s]
        if not alive:
            return
        name = alive[0][1]["ready"]
        if any(s["ready"] != name for _, s in alive):
            sys.exit(f"the sides are at different items: {[s['ready'] for _, s in alive]}")
        times = {side.label: [] for side, _ in alive}
        for _ in range(rounds):
            for side, _ in alive:
                times[side.label].append(side.repeat())
        finals = {}
        for side, _ in alive:
            side.tell("next")
            if side.label.startswith("taper"):
                finals = side.read("w") or {}
        yield {"name": name, "times": {k: summary(v) for k, v in times.items()},
               "gbps": finals.get("gbps"), "tflops": finals.get("tflops"),
               "peaks": {side.label: s.get("peak_bytes", 0) for side, s in alive},
               "losses": {side.label: s["losses"] for side, s in alive if s["losses"]}}
        sides = [side for side, _ in alive]


def first_steps(bench, torch_side, rounds, env):
    """Times processes from their start to the end of their first training step."""
    commands = {"taper eager": [bench, "first_step"], "torch eager": [*torch_side, "first_step"]}
    times = {label: [] for label in commands}
    for _ in range(rounds):
        for label, command in commands.items():
            start = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=env)
            times[label].append((time.perf_counter() - start) * 1e6)
    return {"name": "first_step", "times": {k: summary(v) for k, v in times.items()}, "losses": {}}


def write_words(folder):
    """Writes a vocabulary in the files of GPT-2's, with as many tokens: bytes, and pairs of them."""
    printed = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    letters = [chr(byte if byte in printed else next(others)) for byte in range(256)]
    pairs = [(a, b) for a in letters for b in letters][:50000]
    words = [*letters, *(a + b for a, b in pairs), "<|endoftext|>"]
    with open(f"{folder}/encoder.json", "w") as out:
        json.dump({word: i for i, word in enumerate(words)}, out)
    with open(f"{folder}/vocab.bpe", "w") as out:
        out.write("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in pairs))


def whole_runs(program, torch_side, rounds, env, directory):
    """Times a step within `taper train` with its log, and the same step in PyTorch as a function.

    A run has three epochs of 20 steps, of which the last is measured.
    """
    batch, length, steps = 16, 1024, 20
    write_words(directory)
    with open(f"{directory}/tokens.bin", "wb") as out:
        held_out = batch * length
        count = batch * length * steps + held_out + 2
        array.array("H", random.Random(0).choices(range(50257), k=count)).tofile(out)
    with open(f"{directory}/run.yaml", "w") as out:
        out.write(f"data: {{type: text, path: {directory}/tokens.bin, token_bytes: 2, tokenizer: gpt2, "
                  f"vocabulary: {directory}, block_size: {length}, validation_fraction: {held_out / count}}}\n"
                  "model: {type: gpt, gelu: tanh, dropout: 0}\noptimizer: {type: adamw, lr: 1e-3}\n"
                  f"train: {{epochs: 3, batch_size: {batch}, precision: bf16}}\ndevice: cuda\n")
    theirs = Side("torch compile", [*torch_side, "gpt2_50257", "compile", directory], env)
    theirs.warm_up()
    times = {"taper graph": [], "torch compile": []}
    peak = 0
    for i in range(rounds):
        run = f"{directory}/run-{i}"
        subprocess.run([program, "train", f"{directory}/run.yaml", "--out", run], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
        with open(f"{run}/timing.jsonl") as lines:
            said = [json.loads(line) for line in lines]
        rates = [line["samples_per_second"] for line in said if line["kind"] == "epoch"]
        peak = max(line.get("peak_bytes", 0) for line in said)
        times["taper graph"].append(batch / rates[-1] * 1e6)
        times["torch compile"].append(theirs.repeat())
    theirs.tell("end")
    return {"name": "taper_train_gpt2_124m_b16_v50257_bf16", "losses": {},
            "times": {k: summary(v) for k, v in times.items()},
            "peaks": {"taper graph": peak, "torch compile": theirs.first["peak_bytes"]}}


def number(x):
    return f"{x:,.0f}" if x >= 1000 else f"{x:.3g}"


def cell(time_of):
    if not time_of:
        return "-"
    return f"{number(time_of['median'])} ({number(time_of['low'])} to {number(time_of['high'])})"


def row(result, copy_gbps):
    times = result["times"]
    best = {side: min((t["median"], label) for label, t in times.items() if label.startswith(side))
            for side in ("taper", "torch") if any(label.startswith(side) for label in times)}
    limit = LIMITS_US.get(result["name"])
    if result.get("gbps") and copy_gbps:
        limit = times["taper eager"]["median"] * result["gbps"] / copy_gbps
    ours = best["taper"][0]
    torch = best.get("torch")
    return (f"| {result['name']} | {cell(times.get('taper eager'))} | {cell(times.get('taper graph'))} | "
            f"{cell(times.get('torch eager'))} | "
            + (f"{cell(times[torch[1]])} {torch[1].removeprefix('torch ')} | **{torch[0] / ours:.2f}** | "
               if torch else "- | - | ")
            + (f"{number(limit)} | {limit / ours:.0%} | " if limit else "- | - | ") + memory(result, torch))


def memory(result, torch):
    """Returns the cell with both sides' peaks in GiB."""
    peaks = result.get("peaks", {})
    ours = max((b for label, b in peaks.items() if label.startswith("taper")), default=0)
    theirs = peaks.get(torch[1], 0) if torch else 0
    return f"{ours / 2**30:.1f} / {theirs / 2**30:.1f} |" if ours and "taper graph" in result["times"] else "- |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bench", default="build/tests/taper_bench")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--taper", default="build/apps/taper", help="for train")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, help="threads of each side on the CPU")
    parser.add_argument("--only", default="", help="of ops and overhead, those whose name contains this")
    parser.add_argument("--json", help="a file for all figures")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    env = {"TORCHINDUCTOR_COMPILE_THREADS": "4", **os.environ}
    if args.threads:
        env["OMP_NUM_THREADS"] = str(args.threads)
    gpu = shutil.which("nvidia-smi") is not None
    trainings = {**(GPU if gpu else {}), **CPU}
    names = args.names or ["first_step", "overhead", *(n for n in (GPU if gpu else CPU) if n not in LARGE), "ops"]
    if unknown := set(names) - {"first_step", "overhead", "ops", "generate", *trainings, *(["train"] if gpu else [])}:
        sys.exit(f"unknown here: {', '.join(sorted(unknown))}")
    if not os.access(args.bench, os.X_OK):
        sys.exit(f"no program at {args.bench}: build it, or say where it is with --bench")
    if subprocess.run([args.python, "-c", "import torch, safetensors"], env=env,
                      stderr=subprocess.DEVNULL).returncode:
        sys.exit(f"{args.python} has no torch or no safetensors: name another with --python")
    torch_side = [args.python, os.path.join(HERE, "torch_side.py")]
    print("| work | Taper eager | Taper graph | PyTorch eager | PyTorch best | ratio | limit | share | GiB |\n"
          "|---|---|---|---|---|---|---|---|---|", flush=True)
    results, copy_gbps = [], None
    with tempfile.TemporaryDirectory() as directory:
        asked = [n for n in names if n in trainings] + ["gpt2_50257"] * ("train" in names)
        if asked:
            subprocess.run([*torch_side, "prepare", directory, *asked], check=True, env=env)

        def taper(*words):
            return [args.bench, "--json", "--paced", *words]

        def sides_of(name):
            if name == "generate":
                return [Side("taper eager", taper(name), env)] + [
                    Side(f"torch {m}", [*torch_side, name, m], env) for m in ("eager", "static")]
            if name not in trainings:
                return [Side("taper eager", taper(name, "--only", args.only), env),
                        Side("torch eager", [*torch_side, name, args.only], env)]
            file = ["--inputs", f"{directory}/{name}.safetensors"]
            ours = ["eager"] if name in CPU else ["eager", "graph"]
            return ([Side(f"taper {m}", taper(name, "--mode", m, *file), env) for m in ours] +
                    [Side(f"torch {m}", [*torch_side, name, m, directory], env) for m in trainings[name]])

        first = ([first_steps(args.bench, torch_side, min(args.rounds, 5), env)]
                 if "first_step" in names else [])
        if "train" in names:
            first.append(whole_runs(args.taper, torch_side, args.rounds, env, directory))
        all_sides = [sides_of(name) for name in names if name not in ("first_step", "train")]
        for side in (side for sides in all_sides for side in sides):
            side.warm_up()
        for found in [first, *(compare(sides, args.rounds) for sides in all_sides)]:
            for result in found:
                if result["name"] == "copy":
                    copy_gbps = result["gbps"]
                if result["losses"]:
                    check_losses(result["name"], result["losses"])
                results.append(result)
                if any(label.startswith("taper") for label in result["times"]):  # otherwise it has failed
                    print(row(result, copy_gbps), flush=True)
    if args.json:
        with open(args.json, "w") as out:
            json.dump(results, out, indent=1)
    print(*failures, sep="\n", end="\n" if failures else "")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
