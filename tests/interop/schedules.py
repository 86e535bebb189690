"""Stores the rates of torch.optim.lr_scheduler for schedules_test.cpp: 61 steps of two groups.

  python3 tests/interop/schedules.py     writes schedules.safetensors in this folder

Needs torch and safetensors.
"""
import pathlib
import warnings

import torch
from safetensors.torch import save_file
from torch.optim import lr_scheduler as L, swa_utils as W

warnings.simplefilter("ignore")
STEPS = 60
BASE = [0.5, 0.02]


def metric(t):
    """Returns a metric that decreases, stays constant, and decreases again."""
    return max(1.0 / (1 + t), 0.05) if t < 40 else 0.01 / (t - 39)


def seq(first, then, at):
    return lambda o: L.SequentialLR(o, [first(o), then(o)], [at])


def one_cycle(*args, **kwargs):
    return lambda o: L.OneCycleLR(o, *args, cycle_momentum=False, **kwargs)


def cyclic(*args, **kwargs):
    return lambda o: L.CyclicLR(o, *args, cycle_momentum=False, **kwargs)


def plateau(**kwargs):
    return lambda o: L.ReduceLROnPlateau(o, **kwargs)


CASES = {
    "constant": lambda o: L.ConstantLR(o),
    "constant 0.25 for 20": lambda o: L.ConstantLR(o, 0.25, 20),
    "constant for 0": lambda o: L.ConstantLR(o, 0.25, 0),
    "linear": lambda o: L.LinearLR(o),
    "linear 0.1 to 0.7 in 30": lambda o: L.LinearLR(o, 0.1, 0.7, 30),
    "linear 1 to 0.01 in 45": lambda o: L.LinearLR(o, 1, 0.01, 45),
    "step 10": lambda o: L.StepLR(o, 10),
    "step 7 gamma 0.5": lambda o: L.StepLR(o, 7, 0.5),
    "multi_step": lambda o: L.MultiStepLR(o, [5, 30, 31, 50]),
    "multi_step twice": lambda o: L.MultiStepLR(o, [40, 20, 20], 0.3),
    "exponential": lambda o: L.ExponentialLR(o, 0.9),
    "polynomial": lambda o: L.PolynomialLR(o),
    "polynomial 50 power 2.5": lambda o: L.PolynomialLR(o, 50, 2.5),
    "cosine 60": lambda o: L.CosineAnnealingLR(o, 60),
    "cosine 13 eta_min": lambda o: L.CosineAnnealingLR(o, 13, 0.001),
    "restarts 10": lambda o: L.CosineAnnealingWarmRestarts(o, 10),
    "restarts 5 times 2": lambda o: L.CosineAnnealingWarmRestarts(o, 5, 2, 0.001),
    "one_cycle": one_cycle(0.7, STEPS),
    "one_cycle linear": one_cycle([0.7, 0.1], STEPS, pct_start=0.43, anneal_strategy="linear"),
    "one_cycle three phases": one_cycle(0.7, 80, div_factor=10.0, three_phase=True),
    "warm_up cosine": seq(lambda o: L.LinearLR(o, 0.01, 1, 10), lambda o: L.CosineAnnealingLR(o, 50), 10),
    "warm_up step": seq(lambda o: L.LinearLR(o, total_iters=4), lambda o: L.StepLR(o, 9), 4),
    "warm_up restarts": seq(lambda o: L.LinearLR(o, total_iters=4), lambda o: L.CosineAnnealingWarmRestarts(o, 9, 2), 4),
    "warm_up one_cycle": seq(lambda o: L.LinearLR(o, total_iters=6), one_cycle(0.7, 70), 6),
    "sequential": seq(lambda o: L.ExponentialLR(o, 0.8), lambda o: L.PolynomialLR(o, 30, 2), 20),
    "lambda": lambda o: L.LambdaLR(o, [lambda t: 0.9**t, lambda t: 1 / (1 + t)]),
    "multiplicative": lambda o: L.MultiplicativeLR(o, lambda t: 1 - 0.1 / t),
    "swa": lambda o: W.SWALR(o, 0.05),
    "swa linear": lambda o: W.SWALR(o, [0.05, 0.3], anneal_epochs=33, anneal_strategy="linear"),
    "swa at once": lambda o: W.SWALR(o, 0.05, anneal_epochs=0),
    "cyclic": cyclic(0.01, 0.7, 7),
    "cyclic halves": cyclic(0.01, 0.7, 5, 9, mode="triangular2"),
    "cyclic power": cyclic([0.01, 0.1], [0.7, 0.9], 8, 3, mode="exp_range", gamma=0.97),
    "chained": lambda o: L.ChainedScheduler([L.ConstantLR(o, 0.1, 20), L.ExponentialLR(o, 0.9), L.StepLR(o, 15)]),
    "plateau": plateau(),
    "plateau 3": plateau(factor=0.5, patience=3, cooldown=2, min_lr=[0.01, 0.002]),
    "plateau max": plateau(mode="max", patience=5, threshold=0.1, threshold_mode="abs"),
    "plateau abs": plateau(factor=0.3, patience=2, threshold=0.02, threshold_mode="abs", min_lr=1e-4),
}


def rates(make):
    params = [torch.nn.Parameter(torch.zeros(1)) for _ in BASE]
    opt = torch.optim.SGD([{"params": [p], "lr": lr} for p, lr in zip(params, BASE)])
    scheduler = make(opt)
    out = []
    for t in range(STEPS + 1):
        out.append([g["lr"] for g in opt.param_groups])
        if t == STEPS:
            break
        opt.step()
        scheduler.step(metric(t)) if isinstance(scheduler, L.ReduceLROnPlateau) else scheduler.step()
    return torch.tensor(out, dtype=torch.float64)


if __name__ == "__main__":
    path = pathlib.Path(__file__).with_suffix(".safetensors")
    save_file({name: rates(make) for name, make in CASES.items()}, path)
