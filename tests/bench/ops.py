"""Compares the speed of rows of the op table with PyTorch, alternating between both sides.

    python3 tests/bench/ops.py [--ops build/tests/test_ops] [--device cpu] [--dtype float32] [--threads 2]
                               [--processor-time] [--rounds 1] [TITLE ...]

Times functions of [1024, 1024] (on a GPU [4096, 4096]), of images [16, 64, 112, 112], or of the shapes in the
table, forward, and forward with backward. Prints medians in microseconds, and PyTorch's time divided by Taper's.
Needs PyTorch for Python.
"""
import argparse
import os
import statistics
import subprocess
import time

NUMBER, UNIT, POSITIVE, MASK, IMAGE = (-2, 2), (-0.9, 0.9), (0.1, 3), "mask", "image"
GAMMA = (0.3, 6)  # the op table's interval, which decides on the formulas of lgamma


def rows(torch):
    F = torch.nn.functional
    unary = {UNIT: "asin acos",
             POSITIVE: "sqrt rsqrt reciprocal log log2 log10 log1p",
             GAMMA: "lgamma digamma",
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
    out["tril (diagonal 0)"] = (torch.tril, [NUMBER])
    out["layer_norm (1d)"] = (lambda x: F.layer_norm(x, x.shape[-1:]), [NUMBER])
    out["cumsum (dim 0)"] = (lambda x: x.cumsum(0), [NUMBER])
    out["topk (dim -1 down values)"] = (lambda x: x.topk(2, -1)[0], [NUMBER])
    out["quantile (linear, dim 1, keepdim)"] = (lambda x: x.quantile(0.3, 1, keepdim=True), [NUMBER])
    out["unique (counts)"] = (lambda x: x.unique(return_inverse=True, return_counts=True)[2], [NUMBER])
    out["multinomial"] = (lambda x: torch.multinomial(x, 3), [POSITIVE])
    for dim in (0, -1):
        out[f"sort (dim {dim} up values)"] = (lambda x, d=dim: x.sort(dim=d, stable=True)[0], [NUMBER])
        out[f"argsort (dim {dim} up)"] = (lambda x, d=dim: x.argsort(dim=d, stable=True), [NUMBER])
        out[f"median (dim {dim})"] = (lambda x, d=dim: x.median(d)[0], [NUMBER])
    images = {"max_pool2d (2": lambda x: F.max_pool2d(x, 2),
              "max_pool2d (3, stride 2, padding 1": lambda x: F.max_pool2d(x, 3, 2, 1),
              "avg_pool2d (2": lambda x: F.avg_pool2d(x, 2),
              "avg_pool2d (3, stride 2, padding 1": lambda x: F.avg_pool2d(x, 3, 2, 1),
              "adaptive_avg_pool2d (to 1x1": lambda x: F.adaptive_avg_pool2d(x, 1),
              "adaptive_avg_pool2d (to 7x2": lambda x: F.adaptive_avg_pool2d(x, (7, 2)),
              "interpolate (nearest x2": lambda x: F.interpolate(x, scale_factor=2),
              "interpolate (bilinear x2.5": lambda x: F.interpolate(x, scale_factor=2.5, mode="bilinear"),
              "interpolate (bicubic x1.7": lambda x: F.interpolate(x, scale_factor=1.7, mode="bicubic")}
    volume = torch.Size((2, 64, 32, 56, 56))
    volumes = {"max_pool3d (2": lambda x: F.max_pool3d(x, 2),
               "max_pool3d (3, stride 2, padding 1": lambda x: F.max_pool3d(x, 3, 2, 1),
               "avg_pool3d (2": lambda x: F.avg_pool3d(x, 2),
               "avg_pool3d (3, stride 2, padding 1": lambda x: F.avg_pool3d(x, 3, 2, 1),
               "adaptive_avg_pool3d (to 1": lambda x: F.adaptive_avg_pool3d(x, 1),
               "adaptive_avg_pool3d (to 5x4x1": lambda x: F.adaptive_avg_pool3d(x, (5, 4, 1)),
               "interpolate (volumes, nearest x2": lambda x: F.interpolate(x, scale_factor=2),
               "interpolate (trilinear x2": lambda x: F.interpolate(x, scale_factor=2, mode="trilinear")}
    for name, f in volumes.items():
        out[f"{name})"] = (f, [volume])
        out[f"{name}, channels-last)"] = (
            lambda x, f=f: f(x.contiguous(memory_format=torch.channels_last_3d)), [volume])
    for name, f in images.items():  # both sides first convert a contiguous image to the other format
        out[f"{name})"] = (f, [IMAGE])
        out[f"{name}, channels-last)"] = (
            lambda x, f=f: f(x.contiguous(memory_format=torch.channels_last)), [IMAGE])
    for d, image, kernel in ((2, (32, 64, 28, 28), (64, 64, 3, 3)), (3, (4, 32, 16, 28, 28), (32, 32, 3, 3, 3))):
        out[f"conv{d}d"] = (getattr(F, f"conv{d}d"), [torch.Size(s) for s in (image, kernel, kernel[:1])])
    return out


def tensors(torch, domains, device, dtype):
    made, side = [], 4096 if device == "cuda" else 1024
    for domain in domains:
        shape = (16, 64, 112, 112) if domain == IMAGE else domain if isinstance(domain, torch.Size) else (side, side)
        x = torch.rand(shape, device=device)
        low, high = domain if type(domain) is tuple else NUMBER
        made.append(x > 0.5 if domain == MASK else (x * (high - low) + low).to(dtype))
    return made


def microseconds(f, wait, clock):
    f()
    wait()
    calls, times = 1, []
    while len(times) < 9:
        start = clock()
        for _ in range(calls):
            f()
        wait()
        seconds = clock() - start
        if seconds < 0.02:
            calls *= 2
        else:
            times.append(seconds / calls * 1e6)
    return statistics.median(times)


def of_torch(torch, f, domains, device, dtype, clock):
    x = tensors(torch, domains, device, getattr(torch, dtype))
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    with torch.no_grad():
        forward = microseconds(lambda: f(*x), wait, clock)
    leaves = [t.requires_grad_() for t in x if t.is_floating_point()]
    y = f(*x)
    if not y.requires_grad:
        return forward, 0
    dy = torch.rand_like(y)
    try:
        torch.autograd.grad(f(*x), leaves, dy)
    except RuntimeError:  # not differentiable
        return forward, 0
    return forward, microseconds(lambda: torch.autograd.grad(f(*x), leaves, dy), wait, clock)


def of_taper(program, title, device, dtype, clock):
    command = [program, "--bench", title, device] + (["processor"] if clock == time.process_time else [])
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for line in out.splitlines()[1:]:
        cells = line[max(44, len(title)):].split()
        if line.startswith(title + " ") and cells[0].startswith(device) and cells[1] == dtype:
            unit = next(i for i, cell in enumerate(cells) if cell in ("GB/s", "GFLOP/s"))
            numbers = cells[unit - 3:]
            return float(numbers[0]), float(numbers[1])
    raise SystemExit(f"ops.py: {program} has no row '{title}'")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--ops", default="build/tests/test_ops")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--processor-time", action="store_true",
                        help="measure processor time, which other programs disturb less (CPU only)")
    parser.add_argument("--rounds", type=int, default=1, help="measure both sides in turn and print medians")
    parser.add_argument("titles", nargs="*")
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    import torch
    torch.set_num_threads(args.threads)
    torch.backends.cudnn.allow_tf32 = False  # both sides compute float32 in float32
    table = rows(torch)
    print("| row | Taper | PyTorch | ratio | with backward: Taper | PyTorch | ratio |\n|---|---|---|---|---|---|---|")
    for title in args.titles or table:
        on = args.device, args.dtype, time.process_time if args.processor_time else time.perf_counter
        sides = zip(*((of_taper(args.ops, title, *on), of_torch(torch, *table[title], *on))
                      for _ in range(args.rounds)))
        ours, theirs = ([statistics.median(times) for times in zip(*rounds)] for rounds in sides)
        cells = [title]
        for a, b in zip(ours, theirs):
            cells += [f"{a:,.0f}", f"{b:,.0f}", f"**{b / a:.2f}**"] if a and b else ["-"] * 3
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
