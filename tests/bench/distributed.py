"""Compares data parallel training with PyTorch's DistributedDataParallel: both run the same work
alternately on the GPUs of this machine.

    python3 tests/bench/distributed.py [--bench build/tests/taper_bench] [--ranks 1,2,4,8]
        [--rounds 5] [--modes best|all|none] [--settle 4] [--parts all|step]
        [--reduce bfloat16] [--bucket-mb 25] [--shards 8] [--tiny]
        [--python python3] [--json FILE] [NAME ...]

Names: start gpt2 resnet gptchar collectives, by default all; gpt2_b64 (batches of 64).
--tiny: runs tiny models through MPI on a machine without GPUs. This tests everything, but the times mean
nothing. --ranks: by default 1, 2, 4 and 8, up to the number of GPUs (with --tiny 1 and 2). --reduce,
--bucket-mb: dtype and size of the buckets of Taper's gradients. --shards: also times gradients that are
added in a fixed tree of this many parts (0: does not).

An idle GPU runs at a higher clock than its power limit allows under load, and for about a second after
the load begins at a lower one. Therefore each training, and each part of its step, runs for four seconds
(--settle) before it is timed. --parts step times whole steps only, which takes a third of the time.

The ranks of each side are processes with RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT in
their environment (on the CPU, mpirun starts Taper's). All sides for some numbers of ranks are warmed up
before any of them is timed. Then each round runs one repeat of each side, one after the other, together
with a training on a single GPU. The tables show medians:
  - milliseconds per step on the slowest rank; tokens or images per second; that rate relative to linear
    scaling of the same side's single GPU; the largest GiB of any GPU; also with sharded optimizer state,
    and with gradients in a fixed tree
  - the parts of a step's time
  - joules per step of all its GPUs, if only whole steps are timed (--parts step): the mean power from
    their counters, times a step's time
  - collectives, compared with NCCL called directly and with PyTorch
  - seconds from the start of the processes
PyTorch's mode is the best of eager, compile, compile-ro (reduce-overhead) and graph (of the whole step),
with gradients as views of buckets. By default only modes that were fast before are tried. --modes all
tries all modes, and copies of gradients (name a single training then, because all of them are in memory
at the same time). --modes none runs no training of PyTorch, to compare variants of Taper. The exit code is 1 if the losses of three steps, with other data on each rank, differ,
or if Taper's side fails. A failed side is named and left out.
tests/bench/scaling.py computes a model of the step from the JSON file.
"""
import argparse
import collections
import datetime
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time

from sides import READY, Sides, problems

HERE = os.path.dirname(os.path.abspath(__file__))
MODES = {"gpt2": ["compile"], "gpt2_b64": ["compile"], "resnet": ["eager", "graph"], "gptchar": ["compile-ro", "graph"],
         "tiny_gpt": ["eager"], "tiny_resnet": ["eager"]}
ALL_MODES = ["eager", "eager-copies", "compile", "compile-copies", "compile-ro", "graph"]
START = 60  # seconds to wait for a first step


class Bench:
    def __init__(self, args):
        self.args, self.rounds = args, args.rounds
        self.by_mpi = args.tiny
        self.env = {"TORCHINDUCTOR_COMPILE_THREADS": "4", "OMP_NUM_THREADS": "8", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                    "OMPI_MCA_btl_vader_single_copy_mechanism": "none", **os.environ}
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "NCCL_COMM_ID"):
            self.env.pop(name, None)
        if args.tiny:
            self.env |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}

    def taper(self, sides, label, ranks, *words):
        sides.add(label, [self.args.bench, "--ranks", *words], ranks, self.env, by_mpi=self.by_mpi)

    def torch(self, sides, label, ranks, *words):
        command = [self.args.python, os.path.join(HERE, "torch_ranks.py"), *words]
        sides.add(label, command, ranks, self.env)

    def modes(self, name):
        return {"best": MODES[name], "all": ALL_MODES, "none": []}[self.args.modes]

    def starts(self, ranks, model, directory, torch_too):
        """Times from the start of the processes until all ranks have connected, and to the first step.

        Taper starts three times, of which the best counts. PyTorch starts once, because it takes long.
        """
        found = {"ranks": ranks}
        for label in ["taper"] * 3 + ["torch"] * torch_too:
            sides = Sides()
            if label == "taper":
                self.taper(sides, f"{label} start on {ranks}", ranks, "--first-step",
                           "--inputs", f"{directory}/{model}.safetensors", model)
            else:
                self.torch(sides, f"{label} start on {ranks}", ranks, model, "eager", directory,
                           "--first-step")

            def events(side):
                met = side.read("at", START)[1] if ranks > 1 else None
                step = side.read("at", START)[1]
                best = found.get(label)
                if best is None or step < best["step"]:
                    found[label] = {"communicator": met, "step": step}
            sides.drop_failed(events)
            sides.finish()
        return found

    def start_group(self, names, counts, reference, directory):
        """Starts the sides of all names for these numbers of ranks, and Taper on one GPU if `reference`."""
        group = {}
        for name in names:
            group[name] = sides = Sides()
            settle = ["--settle", str(self.args.settle)]
            only = ["--only", "step"] if self.args.parts == "step" else []
            file = [*settle, *only, "--inputs", f"{directory}/{name}.safetensors"]
            for n in counts:
                reduce = []
                if n > 1 and self.args.reduce:
                    reduce += ["--reduce", self.args.reduce]
                if n > 1 and self.args.bucket_mb:
                    reduce += ["--bucket-mb", str(self.args.bucket_mb)]
                self.taper(sides, f"{n} taper", n, *reduce, *file, name)
                if n > 1:
                    self.taper(sides, f"{n} sharded", n, "--sharded", *reduce, *file, name)
                if n > 1 and self.args.shards:
                    self.taper(sides, f"{n} tree", n, "--shards", str(self.args.shards), *reduce, *file, name)
                for mode in self.modes(name):
                    if n > 1 or not mode.endswith("-copies"):
                        self.torch(sides, f"{n} torch {mode}", n, name, mode, directory, *settle)
            if reference:
                self.taper(sides, "1 taper", 1, *file, name)
        return group

    def collectives(self, ranks):
        sides = Sides()
        name = "tiny_collectives" if self.args.tiny else "collectives"
        self.taper(sides, f"{ranks} taper", ranks, name)
        if not self.args.tiny:
            self.taper(sides, f"{ranks} nccl", ranks, "--direct", name)
        self.torch(sides, f"{ranks} torch", ranks, "collectives", str(2**20 if self.args.tiny else 2**30))
        return sides


def check_losses(name, found):
    """Checks that all sides with the same number of ranks, and therefore the same data, have the same losses."""
    tolerance = 1e-4 if name.startswith("tiny") else 2e-2  # the others are in bfloat16
    by_ranks = collections.defaultdict(dict)
    for label, said in found.items():
        by_ranks[said["ranks"]][label] = said["losses"]
    for losses in by_ranks.values():
        first = next(iter(losses.values()))
        if not all(len(other) == len(first) == 3 and
                   all(math.isclose(a or math.nan, b or math.nan, rel_tol=tolerance)
                       for a, b in zip(first, other))
                   for other in losses.values()):
            problems.append(f"{name}: losses differ: {losses}")


def training_of(ranks, found, one_torch):
    """Returns the results of a training on this many ranks, or None if Taper's side failed."""
    taper, one = found.get(f"{ranks} taper"), found.get("1 taper")
    if not taper or not one:
        return None
    modes = {label.split(" ", 2)[2]: said for label, said in found.items()
             if label.startswith(f"{ranks} torch")}
    items = taper["items"]

    def rate(said, n=ranks):
        return items * n / said["us"]["step"]["median"] * 1e6

    def side(said, one_rate):
        return {"us": said["us"], "rate": rate(said), "peak_bytes": said["peak_bytes"],
                "joules": said["watts"] and said["watts"] * said["us"]["step"]["median"] * 1e-6,
                "of_linear": rate(said) / ranks / one_rate if one_rate else None}
    result = {"name": taper["ready"], "ranks": ranks, "items": items, "buckets": taper["buckets"],
              "no_graph": taper["no_graph"], "taper": side(taper, rate(one, 1)), "torch": {}}
    for label in ("sharded", "tree"):
        if said := found.get(f"{ranks} {label}"):
            result[label] = side(said, rate(one, 1))
    if modes:
        if ranks == 1:
            one_torch[taper["ready"]] = max(map(rate, modes.values()))
        result["torch"] = {m: side(said, one_torch.get(taper["ready"])) for m, said in modes.items()}
    return result


def share(said):
    return f"{said['of_linear']:.3f}" if said["of_linear"] else "-"


def gib(said):
    return f"{said['peak_bytes'] / 2**30:.2f}" if said and said["peak_bytes"] else "-"


def print_trainings(trainings):
    print("\n| work | ranks | Taper ms | a second | of linear | GiB | in shards: ms | GiB | in a tree: ms "
          "| PyTorch ms | mode | of linear | GiB | ratio |\n" + "|---" * 14 + "|")
    for t in trainings:
        ours, sharded, tree = t["taper"], t.get("sharded"), t.get("tree")
        us = ours["us"]["step"]
        line = (f"| {t['name']} | {t['ranks']} | {us['median'] / 1e3:.3f} ({us['low'] / 1e3:.3f}-"
                f"{us['high'] / 1e3:.3f}) | {ours['rate']:,.0f} | {share(ours)} | {gib(ours)} | ")
        line += f"{sharded['us']['step']['median'] / 1e3:.3f} | {gib(sharded)} | " if sharded else "- | - | "
        line += f"{tree['us']['step']['median'] / 1e3:.3f} | " if tree else "- | "
        if t["torch"]:
            mode, best = max(t["torch"].items(), key=lambda m: m[1]["rate"])
            line += (f"{best['us']['step']['median'] / 1e3:.3f} | {mode} | {share(best)} | "
                     f"{gib(best)} | **{ours['rate'] / best['rate']:.2f}** |")
        else:
            line += "- | - | - | - | - |"
        print(line)
        if t["no_graph"]:
            print(f"| | | no graph: {t['no_graph']} |")


def print_joules(trainings):
    print("\nJoules per step, all GPUs\n\n| work | ranks | Taper | in shards | in a tree | PyTorch | mode |\n"
          "|---|---|---|---|---|---|---|")
    for t in trainings:
        mode, best = max(t["torch"].items(), key=lambda m: m[1]["rate"], default=("-", None))
        sides = [t["taper"], t.get("sharded"), t.get("tree"), best]
        cells = [f"{side['joules']:.2f}" if side and side["joules"] else "-" for side in sides]
        print(f"| {t['name']} | {t['ranks']} | {' | '.join(cells)} | {mode} |")


def breakdown(t):
    """Returns the milliseconds of a step's parts, from runs with and without communication."""
    us = {k: v["median"] / 1e3 for k, v in t["taper"]["us"].items()}
    without = us.get("no_sync", us["step"])
    return {"step": us["step"], "compute": without - us["optimizer"], "optimizer": us["optimizer"],
            "exposed": us["step"] - without, "reduce": us.get("reduce")}


def print_breakdown(trainings):
    print("\nWhere the time of a step goes, ms. Exposed: what communication adds to a step. Collectives: "
          "the same ones alone.\n\n| work | ranks | step | forward and backward | optimizer | exposed | "
          "collectives | hidden |\n|---|---|---|---|---|---|---|---|")
    for t in trainings:
        b = breakdown(t)
        hidden = f"{1 - max(b['exposed'], 0) / b['reduce']:.0%}" if b["reduce"] else "-"
        reduce = f"{b['reduce']:.3f}" if b["reduce"] else "-"
        print(f"| {t['name']} | {t['ranks']} | {b['step']:.3f} | {b['compute']:.3f} | {b['optimizer']:.3f} | "
              f"{b['exposed']:.3f} | {reduce} | {hidden} |")


def print_collectives(ranks, found):
    """Bytes are the sum over all ranks' parts. The bus bandwidth is defined as in NCCL's tests."""
    print(f"\nCollectives of float32 on {ranks} ranks, us\n\n| op | bytes | Taper | GB/s of the bus | NCCL | "
          "ratio | PyTorch | ratio |\n|---|---|---|---|---|---|---|---|")
    ours = found["taper"]["us"]
    for name, t in sorted(((k, v["median"]) for k, v in ours.items()),
                          key=lambda x: (x[0].split()[0], int(x[0].split()[1]))):
        op, size = name.split()
        bus = int(size) / t / 1e3 * (ranks - 1) / ranks * (2 if op == "all_reduce" else 1)
        others = [found.get(side, {}).get("us", {}).get(name) for side in ("nccl", "torch")]
        cells = " | ".join(f"{o['median']:.1f} | {o['median'] / t:.2f}" if o else "- | -" for o in others)
        print(f"| {op} | {int(size):,} | {t:.1f} | {bus:.3g} | {cells} |")


def print_starts(starts):
    print("\nSeconds from the processes' start until all ranks have met, and until the first step has been"
          "\n\n| ranks | Taper met | Taper step | PyTorch met | PyTorch step |\n|---|---|---|---|---|")
    for s in starts:
        cells = [f"{s[side][k]:.2f}" if side in s and s[side][k] is not None else "-"
                 for side in ("taper", "torch") for k in ("communicator", "step")]
        print(f"| {s['ranks']} | {' | '.join(cells)} |")


def output_of(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    except OSError:
        return ""


def machine():
    gpus = output_of("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader").splitlines()
    return {"gpus": gpus, "cores": os.cpu_count(),
            "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat()}


def prepare(args, directory, models, env):
    """Writes the files from which trainings start, and returns PyTorch's versions."""
    command = [args.python, os.path.join(HERE, "torch_ranks.py"), "prepare", directory, *models]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode:
        sys.exit(f"PyTorch's side cannot start ({args.python}; --python selects another one):\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def numbers(text):
    return [int(n) for n in text.split(",")]


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bench", default="build/tests/taper_bench")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ranks", type=numbers)
    parser.add_argument("--modes", choices=["best", "all", "none"], default="best")
    parser.add_argument("--settle", type=float, default=4)
    parser.add_argument("--parts", choices=["all", "step"], default="all")
    parser.add_argument("--reduce", choices=["float32", "bfloat16"])
    parser.add_argument("--bucket-mb", type=int)
    parser.add_argument("--shards", type=int)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--json", help="file for all results")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    models = ["tiny_gpt", "tiny_resnet"] if args.tiny else ["gpt2", "resnet", "gptchar"]
    args.names = args.names or ["start", *models, "collectives"]
    if not args.tiny:
        models.insert(0, "gpt2_b64")
    if unknown := set(args.names) - {"start", *models, "collectives"}:
        sys.exit(f"unknown names: {', '.join(sorted(unknown))}; known: start, {', '.join(models)}, collectives")
    gpus = len(output_of("nvidia-smi", "-L").splitlines())
    if not args.tiny and gpus == 0:
        sys.exit("no GPU found; --tiny runs on the CPU")
    args.ranks = sorted(set(args.ranks or ([1, 2] if args.tiny else [n for n in (1, 2, 4, 8) if n <= gpus])))
    if args.shards is None:
        args.shards = 4 if args.tiny else 8
    if args.shards and any(args.shards % n for n in args.ranks):
        sys.exit(f"--shards {args.shards} is not a multiple of each of {args.ranks}")
    if args.ranks[0] < 1 or args.rounds < 1:
        sys.exit("--ranks and --rounds must be at least 1")
    if not args.tiny and args.ranks[-1] > gpus:
        sys.exit(f"{args.ranks[-1]} ranks need as many GPUs; this machine has {gpus}")
    if not os.access(args.bench, os.X_OK):
        sys.exit(f"no program at {args.bench}: build it, or give its path with --bench")
    if args.tiny and not shutil.which("mpirun"):
        sys.exit("--tiny needs mpirun to start ranks: scripts/install.sh distributed")
    return args, [m for m in models if m in args.names]


def batches(ranks, names):
    """Returns groups (numbers of ranks, names) whose sides are warmed up together.

    To save time, one GPU shares a group with the next larger number of ranks. The largest model then has
    a group of its own, because otherwise the memory of the first GPU would not suffice.
    """
    first = ranks[:2] if ranks[0] == 1 else ranks[:1]
    parts = [names[:1], names[1:]] if len(first) == 2 else [names]
    return [(first, part) for part in parts if part] + [([n], names) for n in ranks[len(first):]]


def main():
    args, models = parsed()
    collectives = ["collectives"] if "collectives" in args.names else []
    bench = Bench(args)
    begun = time.perf_counter()

    def note(what):
        print(f"{time.perf_counter() - begun:5.0f} s  {what}", file=sys.stderr, flush=True)
    result = {"machine": machine(), "reduce": args.reduce or "float32",
              "starts": [], "trainings": [], "collectives": {}}
    start_model = "tiny_gpt" if args.tiny else "gpt2"
    with tempfile.TemporaryDirectory() as directory:
        note("parameters and batches")
        needed = sorted({*models, *([start_model] if "start" in args.names else [])})
        result["machine"] |= prepare(args, directory, needed, bench.env)
        if "start" in args.names:
            for n in args.ranks:
                note(f"start on {n}")
                result["starts"].append(bench.starts(n, start_model, directory, n == args.ranks[-1]))
        one_torch = {}
        for counts, names in batches(args.ranks, [*models, *collectives]):
            note(f"warming up {', '.join(names)} on {counts}")
            here = [m for m in models if m in names]
            group = bench.start_group(here, counts, 1 not in counts, directory)
            several = [(n, bench.collectives(n)) for n in counts if n > 1 and "collectives" in names]
            end = time.perf_counter() + READY
            for sides in [*group.values(), *(sides for _, sides in several)]:
                sides.warm_up(end)
            for name, sides in group.items():
                note(f"{name} on {counts}")
                found = sides.run(args.rounds)
                check_losses(name, found)
                result["trainings"] += [t for n in counts if (t := training_of(n, found, one_torch))]
            for n, sides in several:
                note(f"collectives on {n}")
                result["collectives"][n] = {k.split()[1]: v for k, v in sides.run(args.rounds).items()}
            if args.json:
                with open(args.json, "w") as out:
                    json.dump(result, out, indent=1)
    note("done")
    order = [t["name"] for t in result["trainings"]]
    result["trainings"].sort(key=lambda t: (order.index(t["name"]), t["ranks"]))
    print(json.dumps(result["machine"]))
    if result["trainings"]:
        print_trainings(result["trainings"])
        if args.parts == "all":
            print_breakdown(result["trainings"])
        else:
            print_joules(result["trainings"])
    for n, found in result["collectives"].items():
        if "taper" in found:
            print_collectives(n, found)
    if result["starts"]:
        print_starts(result["starts"])
    print(*problems, sep="\n", end="\n" if problems else "")
    return 1 if any("losses differ" in p or "torch" not in p.splitlines()[0] for p in problems) else 0


if __name__ == "__main__":
    sys.exit(main())
