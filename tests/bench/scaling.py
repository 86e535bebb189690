"""A model of a data parallel step, which predicts the time of a step on more GPUs than were measured.

    python3 tests/bench/scaling.py fit RESULTS.json [FILE]   computes the constants from the output of
                                                             distributed.py --json
    python3 tests/bench/scaling.py [FILE]                    prints the tables of docs/internals/scaling_model.md
    python3 tests/bench/scaling.py write                     writes them to that page
    python3 tests/bench/scaling.py check                     checks that the page has them

FILE: by default scaling.json in this folder.

A collective of S bytes (the sum over all ranks' parts) on n GPUs of a host takes
alpha(n) + S f(n) / beta(n). f is the volume that passes a GPU's links: 2 (n - 1) / n for all_reduce, and
half of that for reduce_scatter and all_gather. alpha and beta are fitted to the measured times from 64 KB
on, with the least squares of relative errors. On h hosts of 8 GPUs, beta is at most the bandwidth of the
host's network links. A ring adds 2 (h - 1) network latencies; a tree adds 2 log2(h) at a tenth less
bandwidth. NCCL uses the faster one.

A step consists of forward, backward and optimizer. Their times are measured, except that the backward
pass is assumed to take two thirds of forward and backward together. A bucket of gradients is ready when
the backward pass has computed the bucket's fraction of all gradients. The last bucket, with the tied
embedding of a GPT, is ready at the end of the pass. Buckets are reduced one after the other.
Communication after the end of the backward pass is exposed. Hidden communication slows down the kernels
that run at the same time (and small gradients are first copied into buckets). The slowdown is a fraction
of the hidden time, fitted to the measured step on the smallest number of GPUs above one.
"""
import json
import math
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
CONSTANTS = os.path.join(HERE, "scaling.json")
PAGE = os.path.join(HERE, "..", "..", "docs", "internals", "scaling_model.md")
BEGIN, END = "<!-- made by tests/bench/scaling.py write -->", "<!-- end -->"
# Constants that cannot be measured on one host. A 400 Gb/s link carries 50 GB/s, of which NCCL reaches
# nine tenths. Latencies are those of NCCL's own model (src/graph/tuning.cc: NET, Simple).
LINK_GBPS, LINK_SHARE, NET_LATENCY_US, TREE_SHARE = 50.0, 0.9, 14.0, 0.9
HOST = 8  # GPUs per host
BACKWARD = 2 / 3


def volume(op, n):
    return (n - 1) / n * (2 if op == "all_reduce" else 1)


# --- constants from measurements ---

def fitted(points):
    """Returns alpha and slope of t = alpha + slope x with the least squares of (t - model) / t."""
    a = b = c = d = e = 0.0
    for x, t in points:
        w = 1 / t**2
        a, b, c, d, e = a + w, b + w * x, c + w * x * x, d + w * t, e + w * x * t
    slope = (a * e - b * d) / (a * c - b * b)
    alpha = (d - slope * b) / a
    if alpha < 0:
        alpha, slope = 0.0, e / c
    return alpha, slope


def fit(results):
    links = {}
    for ranks, sides in results["collectives"].items():
        n, by_op = int(ranks), {}
        for name, t in sides["taper"]["us"].items():
            op, size = name.split()
            if int(size) >= 2**16:
                by_op.setdefault(op, []).append((int(size) * volume(op, n), t["median"]))
        for op, points in by_op.items():
            alpha, slope = fitted(points)
            worst = max(abs(alpha + slope * x - t) / t for x, t in points)
            links.setdefault(op, {})[n] = {"alpha_us": round(alpha, 2), "beta_gbps": round(1e-3 / slope, 2),
                                           "worst_error": round(worst, 3)}
    works = {}
    for t in results["trainings"]:
        us = {k: v["median"] for k, v in t["taper"]["us"].items()}
        work = works.setdefault(t["name"], {"items": t["items"], "buckets": [], "measured": {}})
        work["buckets"] = t["buckets"] or work["buckets"]
        work["measured"][t["ranks"]] = {k: round(v, 1) for k, v in us.items()}
        if "sharded" in t:
            work["measured"][t["ranks"]]["sharded"] = round(t["sharded"]["us"]["step"]["median"], 1)
    machine = results["machine"]
    return {"machine": f"{len(machine['gpus'])} x {machine['gpus'][0].split(',')[0] if machine['gpus'] else 'CPU'}",
            "date": machine["date"], "links": links, "works": works}


# --- the model ---

class Model:
    def __init__(self, constants):
        self.links = {op: {int(n): v for n, v in by_n.items()} for op, by_n in constants["links"].items()}
        self.works = constants["works"]
        for work in self.works.values():
            work["measured"] = {int(n): v for n, v in work["measured"].items()}

    def on_host(self, op, n):
        """Returns alpha in us and beta in GB/s for n GPUs of a host.

        They are those of the next larger number that was measured, or of the largest. Within a host,
        the number of GPUs does not change them: four H200 have the latency of two.
        """
        known = self.links.get(op) or self.links["all_reduce"]
        at = min((k for k in known if k >= n), default=max(known))
        return known[at]["alpha_us"], known[at]["beta_gbps"]

    def collective(self, op, size, n, links=HOST):
        """Returns the us of a collective. links: number of 400 Gb/s links per host."""
        if n == 1:
            return 0.0
        alpha, beta = self.on_host(op, min(n, HOST))
        hosts = math.ceil(n / HOST)
        if hosts == 1:
            return alpha + size * volume(op, n) / beta * 1e-3
        beta = min(beta, links * LINK_GBPS * LINK_SHARE)
        rounds = 2 if op == "all_reduce" else 1
        ring = alpha + rounds * (hosts - 1) * NET_LATENCY_US + size * volume(op, n) / beta * 1e-3
        if op != "all_reduce":
            return ring
        tree = alpha + rounds * math.log2(hosts) * NET_LATENCY_US + size * 2 / beta / TREE_SHARE * 1e-3
        return min(ring, tree)

    def parts(self, name):
        """Returns the us of forward, backward and optimizer, measured on the fewest GPUs above one."""
        measured = self.works[name]["measured"]
        several = [m for n, m in sorted(measured.items()) if n > 1 and "no_sync" in m]
        step, optimizer = measured[1]["step"], measured[1]["optimizer"]
        if several:
            step, optimizer = several[0]["no_sync"], several[0]["optimizer"]
        return (step - optimizer) * (1 - BACKWARD), (step - optimizer) * BACKWARD, optimizer

    def communication(self, name, n, links=HOST, half=False, early=False):
        """Returns the hidden and the exposed us of a step's reductions."""
        _, backward, _ = self.parts(name)
        *body, last = [b / (2 if half else 1) for b in self.works[name]["buckets"]]
        ready, done = [], 0.0
        for size in body:
            done += size
            ready.append((backward * done / sum(body), size))
        ready.insert(0 if early else len(ready), (0 if early else backward, last))
        now, busy = 0.0, 0.0
        for at, size in ready:
            took = self.collective("all_reduce", size, n, links)
            now, busy = max(now, at) + took, busy + took
        exposed = max(now - backward, 0)
        return busy - exposed, exposed

    def slowdown(self, name):
        """Returns the time that concurrent kernels lose, as a fraction of the hidden communication."""
        for n, m in sorted(self.works[name]["measured"].items()):
            if n > 1 and "no_sync" in m:
                hidden, exposed = self.communication(name, n)
                return max((m["step"] - m["no_sync"] - exposed) / hidden, 0.0) if hidden > 0 else 0.0
        return 0.0

    def step(self, name, n, links=HOST, accumulate=1, sharded=False, **how):
        """Returns the us of a step with `accumulate` backward passes."""
        forward, backward, optimizer = self.parts(name)
        hidden, exposed = self.communication(name, n, links, **how)
        if sharded and n > 1:
            size = sum(self.works[name]["buckets"])
            optimizer = optimizer / n + self.collective("all_gather", size, n, links)
        return (accumulate * (forward + backward) + hidden * self.slowdown(name) + exposed) + optimizer

    def of_linear(self, name, n, accumulate=1, **how):
        forward, backward, optimizer = self.parts(name)
        one = self.works[name]["measured"][1]["step"]
        alone = one + (accumulate - 1) * (forward + backward)
        return alone / self.step(name, n, accumulate=accumulate, **how)


# --- tables ---

def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(c) for c in line) + " |" for line in lines)


def tables(constants):
    model = Model(constants)
    text = [f"Constants of {constants['machine']}, {constants['date']}; {constants.get('source', 'tests/bench/distributed.py')}.",
            table(["collective", "GPUs", "alpha, us", "beta, GB/s", "largest error of the fit"],
                  [[op, n, v["alpha_us"], v["beta_gbps"], f"{v['worst_error']:.0%}"]
                   for op, by_n in sorted(model.links.items()) for n, v in sorted(by_n.items())])]
    rows = []
    for name, work in model.works.items():
        forward, backward, optimizer = (x / 1e3 for x in model.parts(name))
        rows.append([name, f"{forward:.2f}", f"{backward:.2f}", f"{optimizer:.2f}",
                     f"{sum(work['buckets']) / 2**20:.0f}", len(work["buckets"]),
                     f"{work['buckets'][-1] / 2**20:.0f}", f"{model.slowdown(name):.2f}"])
    text += ["A step's parts in ms, its gradients in MiB, and the share of hidden communication by which "
             "kernels slow down:",
             table(["work", "forward", "backward", "optimizer", "gradients", "buckets", "the last",
                    "slowdown"], rows)]
    rows = []
    for name, work in model.works.items():
        for n, m in sorted(work["measured"].items()):
            if n > 1:
                took = model.step(name, n)
                rows.append([name, n, f"{m['step'] / 1e3:.2f}", f"{took / 1e3:.2f}",
                             f"{took / m['step'] - 1:+.1%}", f"{work['measured'][1]['step'] / m['step']:.3f}"])
                if "reduce" in m:
                    took = sum(model.collective("all_reduce", size, n) for size in work["buckets"])
                    rows.append([f"{name}, collectives alone", n, f"{m['reduce'] / 1e3:.2f}",
                                 f"{took / 1e3:.2f}", f"{took / m['reduce'] - 1:+.1%}", "-"])
                if "sharded" in m:
                    took = model.step(name, n, sharded=True)
                    rows.append([f"{name}, state in shards", n, f"{m['sharded'] / 1e3:.2f}",
                                 f"{took / 1e3:.2f}", f"{took / m['sharded'] - 1:+.1%}",
                                 f"{work['measured'][1]['step'] / m['sharded']:.3f}"])
    if rows:
        text += ["Measured and modelled (the fewest GPUs gave the slowdown):",
                 table(["work", "GPUs", "ms", "model", "error", "of linear"], rows)]
    text += predictions(model, constants.get("checks", []))
    sizes = (8, 64, 512)
    ways = [("as it is, a link for each GPU", {}), ("a link for each host", {"links": 1}),
            ("the same, gradients in bfloat16", {"links": 1, "half": True}),
            ("the same, the last bucket first",
             {"links": 1, "half": True, "early": True}),
            ("the same, 4 backward passes a step",
             {"links": 1, "half": True, "early": True, "accumulate": 4}),
            ("state in shards, a link for each GPU", {"sharded": True})]
    for name, work in model.works.items():
        if not work["buckets"]:
            continue
        rows = []
        for way, how in ways:
            messages = {k: v for k, v in how.items() if k in ("links", "half", "early")}
            exposed = model.communication(name, sizes[-1], **messages)[1]
            rows.append([way, *(f"{model.of_linear(name, n, **how):.3f}" for n in sizes),
                         f"{exposed / 1e3:.2f}"])
        text += [f"{name}, share of linear, predicted:",
                 table(["400 Gb/s links", *(f"{n} GPUs" for n in sizes), f"exposed on {sizes[-1]}, ms"], rows)]
    return "\n\n".join(text) + "\n"


def predictions(model, checks):
    """Returns a table of measurements to which nothing was fitted.

    They are of another day, and so are their steps on one GPU, so that shares of linear are compared.
    """
    rows = []
    for check in checks:
        name, n, measured = check["work"], check["gpus"], check["one"] / check["step"]
        predicted = model.of_linear(name, n)
        rows.append([name, n, check["date"], f"{check['step'] / 1e3:.1f}", f"{measured:.3f}",
                     f"{predicted:.3f}", f"{predicted / measured - 1:+.1%}"])
        hidden, exposed = model.communication(name, n)
        for what, took in (("collectives alone", hidden + exposed),
                           ("cost of communication", hidden * model.slowdown(name) + exposed)):
            rows.append([f"{name}, {what}", n, check["date"], f"{check[what] / 1e3:.2f}", "-",
                         f"{took / 1e3:.2f} ms", f"{took / check[what] - 1:+.1%}"])
    if not rows:
        return []
    return ["Predicted from the constants above, and measured later:",
            table(["work", "GPUs", "date", "ms", "of linear", "predicted", "error"], rows)]


def load(path):
    try:
        with open(path) as file:
            return json.load(file)
    except FileNotFoundError:
        sys.exit(f"there is no {path}")


def main():
    words = sys.argv[1:]
    if words and words[0] in ("-h", "--help"):
        print(__doc__)
    elif words and words[0] == "fit" and len(words) in (2, 3):
        constants = fit(load(words[1]))
        path = words[2] if len(words) == 3 else CONSTANTS
        if os.path.exists(path):
            constants["checks"] = load(path).get("checks", [])
        with open(path, "w") as out:
            json.dump(constants, out, indent=1)
            out.write("\n")
    elif words in (["write"], ["check"]):
        with open(PAGE) as file:
            page = file.read()
        before, rest = page.split(BEGIN, 1)
        after = rest.split(END, 1)[1]
        new = f"{before}{BEGIN}\n\n{tables(load(CONSTANTS))}\n{END}{after}"
        if words == ["write"]:
            with open(PAGE, "w") as file:
                file.write(new)
        elif new != page:
            sys.exit("docs/internals/scaling_model.md differs from tests/bench/scaling.json: run scaling.py write")
    elif len(words) < 2:
        print(tables(load(words[0] if words else CONSTANTS)), end="")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
