"""Rows of the op table beside PyTorch, one row of both sides after the other, on this machine.

    python3 tests/bench/ops.py [--ops build/tests/test_ops] [--device cpu] [--threads 2] [TITLE ...]

Element-wise functions and reductions of [1024, 1024] float32 (on a GPU [4096, 4096]), forward and forward with backward:
medians in microseconds, and PyTorch's time over Taper's. Needs PyTorch for Python.
"""
import argparse
import os
import statistics
import subprocess
import time

NUMBER, UNIT, POSITIVE, MASK = (-2, 2), (-0.9, 0.9), (0.1, 3), "mask"


def rows(torch):
    F = torch.nn.functional
    unary = {UNIT: "asin acos",
             POSITIVE: "sqrt rsqrt reciprocal log log2 log10 log1p lgamma digamma",
             NUMBER: "neg abs sign square exp exp2 expm1 sin cos tan atan sinh cosh tanh sigmoid erf floor "
                     "ceil round trunc frac nan_to_num"}
    out = {name: (getattr(torch, name), [domain])
           for domain, names in unary.items() for name in names.split()}
    for name in ("relu elu gelu silu softplus selu celu hardsigmoid hardswish mish logsigmoid softsign "
                 "tanhshrink hardshrink softshrink relu6 hardtanh glu").split():
        out[name] = (getattr(F, name), [NUMBER])
    for name in "add sub mul maximum minimum eq lt atan2 logaddexp isclose".split():
        out[name] = (getattr(torch, name), [NUMBER, NUMBER])
    for name in "div floor_divide remainder fmod xlogy".split():
        out[name] = (getattr(torch, name), [NUMBER, POSITIVE])
    out["pow"] = (torch.pow, [POSITIVE, NUMBER])
    out["div (trunc)"] = (lambda x, y: torch.div(x, y, rounding_mode="trunc"), [NUMBER, POSITIVE])
    out["clamp"] = (lambda x: torch.clamp(x, -1, 1), [NUMBER])
    out["clamp (tensors)"] = (torch.clamp, [NUMBER, UNIT, POSITIVE])
    out["lerp"] = (torch.lerp, [NUMBER, NUMBER, POSITIVE])
    out["addcmul"] = (torch.addcmul, [NUMBER, NUMBER, NUMBER])
    out["addcdiv"] = (torch.addcdiv, [NUMBER, NUMBER, POSITIVE])
    out["where"] = (torch.where, [MASK, NUMBER, NUMBER])
    out["flip (dims [1])"] = (lambda x: x.flip(1), [NUMBER])
    for name in "sum mean prod amax amin var std argmax argmin".split():
        method = getattr(torch, name)
        out[f"{name} (all)"] = (method, [NUMBER])
        for dim in (0, -1):
            out[f"{name} (dim {dim})"] = (lambda x, f=method, d=dim: f(x, dim=d), [NUMBER])
    for name in "cumsum cumprod logsumexp softmax log_softmax".split():
        out[f"{name} (dim -1)"] = (lambda x, f=getattr(torch, name): f(x, -1), [NUMBER])
    return out


def tensors(torch, domains, device):
    made = []
    for domain in domains:
        x = torch.rand(side := 4096 if device == "cuda" else 1024, side, device=device)
        made.append(x > 0.5 if domain == MASK else x * (domain[1] - domain[0]) + domain[0])
    return made


def microseconds(f, wait):
    f()
    wait()
    calls, times = 1, []
    while len(times) < 9:
        start = time.perf_counter()
        for _ in range(calls):
            f()
        wait()
        seconds = time.perf_counter() - start
        if seconds < 0.02:
            calls *= 2
        else:
            times.append(seconds / calls * 1e6)
    return statistics.median(times)


def of_torch(torch, f, domains, device):
    x = tensors(torch, domains, device)
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    with torch.no_grad():
        forward = microseconds(lambda: f(*x), wait)
    leaves = [t.requires_grad_() for t in x if t.is_floating_point()]
    y = f(*x)
    if not y.requires_grad:
        return forward, 0
    dy = torch.rand_like(y)
    try:
        torch.autograd.grad(f(*x), leaves, dy)
    except RuntimeError:  # no derivative
        return forward, 0
    return forward, microseconds(lambda: torch.autograd.grad(f(*x), leaves, dy), wait)


def of_taper(program, title, device):
    out = subprocess.run([program, "--bench", title, device], capture_output=True, text=True, check=True).stdout
    for line in out.splitlines()[1:]:
        name, rest = line[:44].strip(), line[44:].split()
        if name == title and rest[0].startswith(device) and rest[1] == "float32":
            numbers = rest[rest.index("GB/s") - 3:]
            return float(numbers[0]), float(numbers[1])
    raise SystemExit(f"ops.py: {program} has no row '{title}'")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--ops", default="build/tests/test_ops")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("titles", nargs="*")
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    import torch
    torch.set_num_threads(args.threads)
    table = rows(torch)
    print("| row | Taper | PyTorch | ratio | with backward: Taper | PyTorch | ratio |\n|---|---|---|---|---|---|---|")
    for title in args.titles or table:
        ours, theirs = of_taper(args.ops, title, args.device), of_torch(torch, *table[title], args.device)
        cells = [title]
        for a, b in zip(ours, theirs):
            cells += [f"{a:,.0f}", f"{b:,.0f}", f"**{b / a:.2f}**"] if a and b else ["-"] * 3
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
