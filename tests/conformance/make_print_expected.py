#!/usr/bin/env python3
"""Writes print_expected.txt in this folder: random tensors, and the text that PyTorch prints for them.

    python3 make_print_expected.py        works with any PyTorch; uses a GPU if there is one

Elements are computed by a formula without random numbers, which gives the same bits everywhere:
    r = ((i * 2654435761 + seed) mod m) - a           integers
    x = r * scales[(i + seed) mod count]              in double; times 1 exactly once rounded
x is rounded to float32, then to the dtype (float64 is not rounded). Integers are r * scale in int64. Then
each special "p:v", in order, sets the elements with (i + seed) mod p == 0 to v.

Lines "> " have the text for the CPU. The text for cuda:0 consists of the first N characters of that for
the CPU, where N is given by "cuda N", and of the lines "< ". Without a GPU it is computed by PyTorch's own
layout code with device='cuda:0' as the first suffix. "torch." before a dtype is left out.
"""

import pathlib
import random

import torch

COUNT = 240
FLOATS = [torch.float32] * 5 + [torch.float64, torch.float16, torch.bfloat16]
INTEGERS = {torch.int64: 62, torch.int32: 31, torch.int16: 15, torch.int8: 7, torch.uint8: 8}
SHAPES = [
    lambda r: (),
    lambda r: (r.randint(1, 12),),
    lambda r: (r.randint(13, 60),),
    lambda r: (r.randint(1001, 4000),),
    lambda r: (r.randint(1, 6), r.randint(1, 9)),
    lambda r: (r.randint(1, 5), r.randint(12, 30)),
    lambda r: (r.randint(33, 80), r.randint(33, 200)),
    lambda r: (r.randint(2, 5), r.randint(260, 900)),
    lambda r: tuple(r.randint(1, 4) for _ in range(3)),
    lambda r: (r.randint(8, 20), r.randint(1, 4), r.randint(33, 60)),
    lambda r: tuple(r.randint(1, 3) for _ in range(4)),
    lambda r: tuple(r.randint(1, 2) for _ in range(5)),
    lambda r: tuple(r.choice([0, 1, 2, 3]) for _ in range(r.randint(1, 4))),
]
TAPES = ["none", "none", "leaf", "view", "mul", "clone", "neg"]


def draw(r, index):
    """Returns the random parameters of one case."""
    shape = SHAPES[index % len(SHAPES)](r)
    case = {"shape": shape, "seed": r.randrange(1 << 20), "specials": [], "tape": "none"}
    if r.random() < 0.3:
        case["dtype"] = r.choice(list(INTEGERS) + [torch.bool])
        bits = INTEGERS.get(case["dtype"], 1)
        m = r.randint(2, 1 << r.randint(1, min(bits, 40)))
        a = 0 if case["dtype"] in (torch.uint8, torch.bool) or r.random() < 0.3 else m // 2
        scale = 1 << r.randint(0, bits - min(bits, m.bit_length()))
        return case | {"m": m, "a": a, "scales": [scale]}
    case["dtype"] = r.choice(FLOATS)
    m = r.choice([1, 2, 10, 100, 1000, 9973, 100003, 1 << 30])
    kind = r.random()
    if kind < 0.25:
        scales = [1.0]
    elif kind < 0.4:
        scales = [1 / m]
    elif kind < 0.6:
        scales = [r.uniform(1, 10) * 10.0 ** r.randint(-9, 6)]
    elif kind < 0.9:
        low = r.randint(-7, 3)
        scales = [r.uniform(1, 10) * 10.0 ** (low + r.randint(0, 5)) / m for _ in range(3)]
    else:
        scales = [10.0 ** r.choice([-300, -150, -45, -30, 30, 33, 150, 290])]
    if r.random() < 0.35:
        values = r.sample(["nan", "inf", "-inf", "0", "-0"], r.randint(1, 3))
        case["specials"] = [(r.choice([1, 2, 3, 7, 50]), v) for v in values]
    case["tape"] = r.choice(TAPES)
    return case | {"m": m, "a": r.choice([0, m // 2]), "scales": scales}


def make(case):
    """Returns the tensor of a case, on the CPU."""
    count, seed = 1, case["seed"]
    for size in case["shape"]:
        count *= size
    r = [(i * 2654435761 + seed) % case["m"] - case["a"] for i in range(count)]
    scales, dtype = case["scales"], case["dtype"]
    values = [v * scales[(i + seed) % len(scales)] for i, v in enumerate(r)]
    if not dtype.is_floating_point:
        return torch.tensor(values, dtype=torch.int64).to(dtype).reshape(case["shape"])
    for period, special in case["specials"]:
        for i in range(count):
            if (i + seed) % period == 0:
                values[i] = float(special)
    x = torch.tensor(values, dtype=torch.float64)
    if dtype != torch.float64:
        x = x.to(torch.float32).to(dtype)
    return x.reshape(case["shape"])


def text(x, tape):
    """Returns what PyTorch prints for x, or for the result of one recorded op."""
    x = x.detach()
    if tape != "none":
        x = x.clone().requires_grad_()
    if tape == "view":
        x = x.view(x.shape)
    elif tape == "mul":
        x = x * 1
    elif tape == "clone":
        x = x.clone()
    elif tape == "neg":
        x = -x
    return repr(x).replace("dtype=torch.", "dtype=")


def cuda_text(x, tape):
    if torch.cuda.is_available():
        return text(x.cuda(), tape)
    module = torch._tensor_str
    original = module._add_suffixes

    def with_device(tensor_str, suffixes, *args, **kwargs):
        return original(tensor_str, ["device='cuda:0'"] + suffixes, *args, **kwargs)

    module._add_suffixes = with_device
    try:
        return text(x, tape)
    finally:
        module._add_suffixes = original


def block(mark, lines):
    return "".join(f"{mark} {line}\n" for line in lines.split("\n"))


def written(case):
    x = make(case)
    on_cpu, on_cuda = text(x, case["tape"]), cuda_text(x, case["tape"])
    same = 0
    while on_cpu[same : same + 1] == on_cuda[same : same + 1]:
        same += 1
    specials = " ".join(f"{p}:{v}" for p, v in case["specials"])
    fields = [
        f"dtype {str(case['dtype']).removeprefix('torch.')}",
        "shape " + " ".join(map(str, case["shape"])),
        f"formula {case['m']} {case['a']} {case['seed']}",
        "scales " + " ".join(map(repr, case["scales"])),
        "specials " + specials,
        f"tape {case['tape']}",
    ]
    head = "\n".join(f.rstrip() for f in fields)
    return f"case\n{head}\n{block('>', on_cpu)}cuda {same}\n{block('<', on_cuda[same:])}"


def main():
    r = random.Random(211)
    gpu = torch.cuda.is_available()
    origin = torch.cuda.get_device_name(0) if gpu else "no GPU: device='cuda:0' given as a suffix"
    out = f"# Made by make_print_expected.py with PyTorch {torch.__version__.split('+')[0]}.\n"
    out += f"# The texts for cuda:0: {origin}.\n"
    out += "".join(written(draw(r, i)) for i in range(COUNT))
    pathlib.Path(__file__).with_name("print_expected.txt").write_text(out)


if __name__ == "__main__":
    main()
