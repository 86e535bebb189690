"""Stores results of PyTorch's gradient clipping, loss scaling and averaging for gradients_test.cpp.

  python3 tests/interop/gradients.py     writes gradients.safetensors in this folder, in float64

Needs torch and safetensors.
"""
import pathlib

import torch
from safetensors.torch import save_file
from torch.nn.utils import clip_grad_norm_, clip_grad_value_
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

SHAPES = [(3, 4), (1,), (), (5, 1, 2), (500,)]
NORMS = [0.5, 1.0, 2.0, 3.0, float("inf")]
STEPS = 30
out = {}


def params():
    torch.manual_seed(5)
    made = [torch.randn(s, dtype=torch.float64).requires_grad_() for s in SHAPES]
    for p in made:
        p.grad = torch.randn(p.shape, dtype=torch.float64)
    return made


def keep(name, tensors):
    out[name] = torch.cat([t.detach().reshape(-1) for t in tensors])


def clipping():
    keep("grads", [p.grad for p in params()])
    for norm in NORMS:
        for max_norm in [0.25, 1e6]:
            ps = params()
            total = clip_grad_norm_(ps, max_norm, norm)
            keep(f"norm {norm:g} max {max_norm:g}", [total] + [p.grad for p in ps])
    ps = params()
    clip_grad_value_(ps, 0.5)
    keep("value 0.5", [p.grad for p in ps])


def scaling():
    """Minimizes w . x, with inf or nan in x at some steps. Every second step clips after unscale_."""
    w = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64, requires_grad=True)
    opt = torch.optim.SGD([w], lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_factor=4.0, backoff_factor=0.25, growth_interval=3)
    rows = []
    for t in range(STEPS):
        x = torch.tensor([0.5, t * 0.1, -1.0], dtype=torch.float64)
        if t in (4, 5, 13, 14, 15):
            x[t % 3] = float("inf") if t % 2 else float("nan")
        opt.zero_grad()
        scaler.scale((w * x).sum()).backward()
        if t % 2:
            scaler.unscale_(opt)
            clip_grad_norm_([w], 0.7)
        scaler.step(opt)
        scaler.update()
        rows.append(w.detach().tolist() + [scaler.get_scale(), scaler._get_growth_tracker()])
    out["scaler"] = torch.tensor(rows, dtype=torch.float64)


def averaging():
    model = torch.nn.Linear(3, 2).double()
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    rows = []
    with torch.no_grad():
        for t in range(STEPS):
            for i, p in enumerate(model.parameters()):
                p.copy_(torch.arange(p.numel(), dtype=torch.float64).reshape(p.shape).add(t + i).sin())
            ema.update_parameters(model)
            rows.append(torch.cat([p.reshape(-1) for p in ema.module.parameters()]))
    out["ema"] = torch.stack(rows)


if __name__ == "__main__":
    clipping()
    scaling()
    averaging()
    save_file(out, pathlib.Path(__file__).with_suffix(".safetensors"))
