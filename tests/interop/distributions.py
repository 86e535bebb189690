"""Stores results of PyTorch's distributions for distributions_test.cpp.

  python tests/interop/distributions.py    writes distributions.safetensors in this folder

Needs torch, safetensors and mpmath (a dependency of torch). For each row it stores, in float64, the parameters p.*
of a distribution and q.* of another one, values, PyTorch's results for them, and the gradients of sum(log_prob),
sum(entropy) and sum(kl) by p.*. "gamma" is the derivative of a draw by the concentration, computed by mpmath with
40 digits, because PyTorch's derivative is an approximation.
"""

import pathlib

import mpmath
import torch
from safetensors.torch import save_file
from torch import distributions as d

torch.manual_seed(3)
F64 = torch.float64


def positive(*shape):
    return torch.rand(shape, dtype=F64) * 3 + 0.2


def normal(*shape):
    return torch.randn(shape, dtype=F64)


def odds(name):
    return lambda x: {name: x}


# Name, class, how parameters are passed, parameters of two distributions, values.
ROWS = [
    ("Normal", d.Normal, None, [(normal(2, 3), positive(3)), (normal(3), positive(2, 1))], normal(4, 2, 3)),
    ("Uniform", d.Uniform, None, [(torch.tensor([-1.0, 0.5], dtype=F64), torch.tensor([2.0, 3.5], dtype=F64)),
                                  (torch.tensor([-2.0, 1.0], dtype=F64), torch.tensor([2.5, 3.5], dtype=F64))],
     torch.tensor([[0.5, 1.5], [-1.0, 0.75], [1.9, 3.4]], dtype=F64)),
    ("Bernoulli", d.Bernoulli, odds("probs"), [(torch.rand(2, 3, dtype=F64),), (torch.rand(2, 3, dtype=F64),)],
     torch.tensor([[0, 1, 1], [1, 0, 0.0]], dtype=F64)),
    ("Bernoulli logits", d.Bernoulli, odds("logits"), [(normal(2, 3),), (normal(2, 3),)],
     torch.tensor([[0, 1, 1], [1, 0, 0.0]], dtype=F64)),
    ("Categorical", d.Categorical, odds("probs"), [(positive(2, 4),), (positive(2, 4),)],
     torch.tensor([[0, 3], [2, 1], [1, 1]])),
    ("Categorical logits", d.Categorical, odds("logits"), [(normal(2, 4),), (normal(2, 4),)],
     torch.tensor([[0, 3], [2, 1], [1, 1]])),
    ("Gamma", d.Gamma, None, [(positive(2, 3), positive(3)), (positive(2, 3), positive(2, 1))], positive(4, 2, 3)),
    ("Dirichlet", d.Dirichlet, None, [(positive(2, 4),), (positive(2, 4),)],
     torch.softmax(normal(3, 2, 4), -1)),
    ("Beta", d.Beta, None, [(positive(2, 3), positive(3)), (positive(2, 3), positive(2, 1))],
     torch.rand(4, 2, 3, dtype=F64)),
]


def gamma_gradients():
    """Computes dx / da at a fixed P(a, x): -(dP / da) / density."""
    mpmath.mp.dps = 40
    a, x, out = [], [], []
    for alpha in (0.05, 0.3, 0.9, 1.0, 2.5, 7.0, 20.0, 100.0, 1000.0):
        for sigmas in (-2.0, -0.5, 0.0, 0.7, 2.0, 4.0):
            at = alpha * (1 - 1 / (9 * alpha) + sigmas / (3 * alpha**0.5)) ** 3 if alpha >= 1 else alpha * 4.0**sigmas
            if at <= 0:
                continue
            density = mpmath.exp((alpha - 1) * mpmath.log(at) - at - mpmath.loggamma(alpha))
            slope = -mpmath.diff(lambda s: mpmath.gammainc(s, at, mpmath.inf, regularized=True), alpha)
            a.append(alpha)
            x.append(float(at))
            out.append(float(-slope / density))
    return {"gamma.a": a, "gamma.x": x, "gamma.dx": out}


def main():
    stored = {name: torch.tensor(v, dtype=F64) for name, v in gamma_gradients().items()}
    for name, make, given, (p, q), value in ROWS:
        p = [t.requires_grad_() for t in p]
        one, other = (make(**given(*args)) if given else make(*args) for args in (p, q))
        results = {"log_prob": one.log_prob(value), "entropy": one.entropy(), "kl": d.kl_divergence(one, other),
                   "mean": one.mean, "variance": one.variance}
        for key, y in results.items():
            stored[f"{name}.{key}"] = y.detach().clone()
            if key in ("log_prob", "entropy", "kl"):
                for i, g in enumerate(torch.autograd.grad(y.sum(), p, retain_graph=True, allow_unused=True)):
                    stored[f"{name}.{key}.d{i}"] = torch.zeros_like(p[i]) if g is None else g
        for key, args in (("p", p), ("q", q)):
            for i, t in enumerate(args):
                stored[f"{name}.{key}{i}"] = t.detach().clone()
        stored[f"{name}.value"] = value
    path = pathlib.Path(__file__).with_suffix(".safetensors")
    save_file({k: v.contiguous() for k, v in stored.items()}, path)
    print(path, len(stored), path.stat().st_size)


if __name__ == "__main__":
    main()
