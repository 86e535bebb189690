"""Stores ten steps of PyTorch's optimizers, and their state after five, for optimizer_test.cpp.

  python3 tests/interop/optimizers.py make             writes optimizers.safetensors in this folder
  TAPER_INTEROP_OUT=/tmp/out build/tests/test_interop --gtest_filter='PyTorchOptimizers.*'
  python3 tests/interop/optimizers.py check /tmp/out   continues in PyTorch from the states that Taper saved

"grad.I" [10, shape] and "start.I" [shape] are the gradients and initial values of parameter I for all optimizers.
"NAME/DTYPE" [10, n] has the values of all parameters after each step. "NAME/state.N.KEY" and
"NAME/param_groups.N.KEY" are the state of NAME after five steps in float64, as optimizer_state.py converts it.
"""
import inspect
import math
import pathlib
import sys

import torch
import torch.optim._muon as module
from optimizer_state import from_torch, load, save, to_torch

STEPS, HALF_WAY = 10, 5
SHAPES = [(3, 2), (2, 4), (3, 2), (5,), (), (2, 1, 3)]
MATRICES = 3


class Lion(torch.optim.Optimizer):
    """The Lion optimizer (Chen et al., 2023, algorithm 2)."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0, maximize=False):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay, maximize=maximize))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            lr, (beta1, beta2) = group["lr"], group["betas"]
            for p in group["params"]:
                g = -p.grad if group["maximize"] else p.grad
                state = self.state[p]
                m = state.setdefault("exp_avg", torch.zeros_like(p))
                update = (beta1 * m + (1 - beta1) * g).sign()
                p.sub_(lr * (update + group["weight_decay"] * p))
                m.mul_(beta2).add_(g, alpha=1 - beta2)


def muon_in_its_dtype():
    """Returns torch.optim.Muon without the rounding to bfloat16 in its Newton-Schulz iteration."""
    source = inspect.getsource(module._zeropower_via_newtonschulz)
    assert "grad.bfloat16()" in source
    exec(source.replace("grad.bfloat16()", "grad.clone()"), module.__dict__)
    return torch.optim.Muon


O, Muon = torch.optim, muon_in_its_dtype()
CASES = {
    "sgd": (O.SGD, dict(lr=0.1)),
    "sgd decay": (O.SGD, dict(lr=0.1, weight_decay=0.3)),
    "sgd momentum": (O.SGD, dict(lr=0.1, momentum=0.9)),
    "sgd dampening": (O.SGD, dict(lr=0.1, momentum=0.9, dampening=0.4, weight_decay=0.1)),
    "sgd nesterov": (O.SGD, dict(lr=0.1, momentum=0.8, weight_decay=0.1, nesterov=True)),
    "sgd maximize": (O.SGD, dict(lr=0.1, momentum=0.8, weight_decay=0.1, maximize=True)),
    "adam": (O.Adam, dict(lr=0.05)),
    "adam decay": (O.Adam, dict(lr=0.05, betas=(0.8, 0.95), weight_decay=0.2)),
    "adam amsgrad": (O.Adam, dict(lr=0.05, betas=(0.7, 0.5), amsgrad=True, maximize=True)),
    "adamw": (O.AdamW, dict(lr=0.05)),
    "adamw decay": (O.AdamW, dict(lr=0.05, eps=1e-3, weight_decay=0.5)),
    "adamw amsgrad": (O.AdamW, dict(lr=0.05, betas=(0.7, 0.5), amsgrad=True)),
    "adamax": (O.Adamax, dict()),
    "adamax all": (O.Adamax, dict(lr=0.05, betas=(0.7, 0.6), eps=1e-3, weight_decay=0.2, maximize=True)),
    "nadam": (O.NAdam, dict(lr=0.05)),
    "nadam decay": (O.NAdam, dict(lr=0.05, betas=(0.8, 0.9), weight_decay=0.2, momentum_decay=0.3, maximize=True)),
    "nadam decoupled": (O.NAdam, dict(eps=1e-3, weight_decay=0.3, decoupled_weight_decay=True)),
    "radam": (O.RAdam, dict(lr=0.05)),
    "radam decay": (O.RAdam, dict(lr=0.05, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.2, maximize=True)),
    "radam decoupled": (O.RAdam, dict(lr=0.02, betas=(0.7, 0.9), weight_decay=0.3, decoupled_weight_decay=True)),
    "adagrad": (O.Adagrad, dict(lr=0.1)),
    "adagrad all": (O.Adagrad, dict(lr=0.1, lr_decay=0.2, weight_decay=0.1, initial_accumulator_value=0.3, eps=1e-4, maximize=True)),
    "adadelta": (O.Adadelta, dict()),
    "adadelta all": (O.Adadelta, dict(lr=0.7, rho=0.6, eps=1e-3, weight_decay=0.2, maximize=True)),
    "rmsprop": (O.RMSprop, dict()),
    "rmsprop momentum": (O.RMSprop, dict(lr=0.02, alpha=0.8, momentum=0.7, weight_decay=0.1)),
    "rmsprop centered": (O.RMSprop, dict(alpha=0.9, eps=1e-4, centered=True, maximize=True)),
    "rmsprop all": (O.RMSprop, dict(lr=0.02, momentum=0.5, centered=True, weight_decay=0.1)),
    "lion": (Lion, dict(lr=0.01)),
    "lion all": (Lion, dict(lr=0.01, betas=(0.8, 0.7), weight_decay=0.3, maximize=True)),
    "muon": (Muon, dict(lr=0.02)),
    "muon all": (Muon, dict(lr=0.02, weight_decay=0.3, momentum=0.7, nesterov=False, ns_coefficients=(2.0, -1.5, 0.5), ns_steps=3, adjust_lr_fn="match_rms_adamw")),
}


# Optimizers that minimize Rosenbrock's function of all parameters in sequence.
CLOSURES = {
    "lbfgs": dict(lr=0.01, max_iter=4),
    "lbfgs history": dict(lr=0.01, max_iter=6, history_size=3, tolerance_change=1e-12),
    "lbfgs wolfe": dict(max_iter=5, line_search_fn="strong_wolfe"),
    "lbfgs wolfe few": dict(lr=0.5, max_iter=8, max_eval=6, history_size=4, line_search_fn="strong_wolfe"),
    "lbfgs wolfe tolerant": dict(max_iter=30, tolerance_grad=40.0, tolerance_change=0.5, line_search_fn="strong_wolfe"),
}


def rosenbrock(params):
    x = torch.cat([p.flatten() for p in params])
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def climb_down(params, optimizer, steps):
    """Returns the loss before each step and the parameters after it."""
    def closure():
        optimizer.zero_grad()
        loss = rosenbrock(params)
        loss.backward()
        return loss

    return torch.stack([torch.cat([optimizer.step(closure).detach().reshape(1), *[p.detach().flatten() for p in params]])
                        for _ in range(steps)])


def tensors():
    torch.manual_seed(0)
    start = [torch.randn(s, dtype=torch.float64) for s in SHAPES]
    grad = [torch.randn((STEPS, *s), dtype=torch.float64) for s in SHAPES]
    return start, grad


def make_optimizer(name, values):
    """Returns parameters and an optimizer with two groups, the second with another learning rate."""
    kind, options = CASES[name]
    # NAdam multiplies its momentum factors in the default dtype.
    torch.set_default_dtype(values[0].dtype)
    params = [x.clone().requires_grad_() for x in values]
    groups = [{"params": params[:2]}, {"params": params[2:], "lr": 0.03}]
    return params, kind(groups, **options)


def count(name):
    return MATRICES if name.startswith("muon") else len(SHAPES)


def advance(params, optimizer, grads, steps):
    """Returns the values of all parameters after each step."""
    values = []
    for t in steps:
        for p, g in zip(params, grads):
            p.grad = g[t].to(p.dtype)
        optimizer.step()
        values.append(torch.cat([p.detach().flatten() for p in params]))
    return torch.stack(values)


def make(path):
    start, grad = tensors()
    out = {f"start.{i}": x for i, x in enumerate(start)}
    out |= {f"grad.{i}": x for i, x in enumerate(grad)}
    for name in CASES:
        n = count(name)
        for dtype, text in (torch.float64, "float64"), (torch.float32, "float32"):
            params, optimizer = make_optimizer(name, [x.to(dtype) for x in start[:n]])
            values = advance(params, optimizer, grad, range(HALF_WAY))
            if dtype == torch.float64:
                out |= {f"{name}/{key}": x.clone() for key, x in from_torch(optimizer).items()}
            rest = advance(params, optimizer, grad, range(HALF_WAY, STEPS))
            out[f"{name}/{text}"] = torch.cat([values, rest])
    for name, options in CLOSURES.items():
        params = [x.clone().requires_grad_() for x in start]
        optimizer = O.LBFGS(params, **options)
        out[f"{name}/float64"] = climb_down(params, optimizer, HALF_WAY)
        out |= {f"{name}/{key}": x.clone() for key, x in from_torch(optimizer).items()}
        out[f"{name}/float64"] = torch.cat([out[f"{name}/float64"], climb_down(params, optimizer, STEPS - HALF_WAY)])
    save(path, out)


def check(path, folder):
    """Loads the states that Taper saved after five steps, and runs the other five."""
    stored, (_, grad) = load(path), tensors()
    for name, options in CLOSURES.items():
        want = stored[f"{name}/float64"]
        parts = want[HALF_WAY - 1, 1:].split([math.prod(shape) for shape in SHAPES])
        params = [x.reshape(s).clone().requires_grad_() for x, s in zip(parts, SHAPES)]
        optimizer = O.LBFGS(params, **{**options, "lr": 123.0})
        optimizer.load_state_dict(to_torch(load(pathlib.Path(folder) / f"{name}.safetensors"), optimizer))
        got = climb_down(params, optimizer, STEPS - HALF_WAY)
        torch.testing.assert_close(got, want[HALF_WAY:], rtol=1e-8, atol=1e-8)
    for name in CASES:
        want = stored[f"{name}/float64"]
        shapes = SHAPES[: count(name)]
        parts = want[HALF_WAY - 1].split([math.prod(shape) for shape in shapes])
        params, optimizer = make_optimizer(name, [x.reshape(s) for x, s in zip(parts, shapes)])
        for group in optimizer.param_groups:
            group["lr"] = 123.0  # the loaded state replaces it
        state = load(pathlib.Path(folder) / f"{name}.safetensors")
        optimizer.load_state_dict(to_torch(state, optimizer))
        got = advance(params, optimizer, grad, range(HALF_WAY, STEPS))
        torch.testing.assert_close(got, want[HALF_WAY:], rtol=1e-10, atol=1e-10)
    print(f"{len(CASES) + len(CLOSURES)} states of Taper continue in PyTorch with the same results")


if __name__ == "__main__":
    stored = pathlib.Path(__file__).with_suffix(".safetensors")
    make(stored) if sys.argv[1] == "make" else check(stored, sys.argv[2])
