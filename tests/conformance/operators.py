#!/usr/bin/env python3
"""Stores what PyTorch prints and raises for operators, for rows_operators.cpp.

    python3 tests/conformance/operators.py

Replaces the rows "op.NAME" of pytorch-2.11.json in this folder. They need no GPU. A row is a Python expression
with `F` for torch.nn.functional; its value is printed, unless it is a text already.
"""

import json
import pathlib

import torch
import torch.nn.functional as F
from torch import tensor


def printed_with(**options):
    torch.set_printoptions(**options)
    text = str(tensor([1.0, 2.5, 1e-3]))
    torch.set_printoptions(profile="default")
    return text


X = tensor([[0.1, 0.2, 0.4, 0.8]])
SIGNS = tensor([[1.0, -1.0, 1.0, -1.0]])
MASK = tensor([True, False])
L = torch.linalg
M = tensor([[2.0, 1.0], [1.0, 3.0]])
TALL = tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
SINGULAR = torch.ones(2, 2)
BATCH = torch.stack([torch.eye(2), torch.zeros(2, 2)])
NANS = torch.full((2, 2), torch.nan)

ROWS = {
    "where.numbers": lambda: torch.where(MASK, 1.0, 2.0),
    "where.integers": lambda: torch.where(MASK, 1, 2),
    "where.integer_and_real": lambda: torch.where(MASK, 1, 2.5),
    "where.number_keeps_half": lambda: torch.where(MASK, torch.ones(2, dtype=torch.float16), 2.5),
    "where.number_promotes_integers": lambda: torch.where(MASK, tensor([1, 2]), 2.5),
    "where.condition_of_integers": lambda: torch.where(tensor([1, 0]), 1.0, 2.0),
    "where.shapes": lambda: torch.where(MASK, torch.ones(3), 2.0),
    "eye.wide": lambda: torch.eye(2, 3),
    "eye.tall": lambda: torch.eye(3, 2, dtype=torch.int64),
    "eye.empty": lambda: list(torch.eye(0, 3).shape),
    "eye.negative": lambda: torch.eye(-1, 2),
    "eye.negative_columns": lambda: torch.eye(2, -1),
    "one_hot.infers_classes": lambda: F.one_hot(tensor([2, 0])),
    "one_hot.classes": lambda: F.one_hot(tensor([[1], [0]]), 3),
    "one_hot.negative": lambda: F.one_hot(tensor([0, -1])),
    "one_hot.too_few_classes": lambda: F.one_hot(tensor([0, 3]), 3),
    "one_hot.of_reals": lambda: F.one_hot(tensor([0.0, 1.0])),
    "one_hot.of_nothing": lambda: F.one_hot(tensor([], dtype=torch.int64)),
    "one_hot.of_nothing_with_classes": lambda: list(F.one_hot(tensor([], dtype=torch.int64), 3).shape),
    "dot.reals": lambda: torch.dot(tensor([1.0, 2.0]), tensor([3.0, 4.0])),
    "dot.integers": lambda: torch.dot(tensor([1, 2]), tensor([3, 4])),
    "dot.empty": lambda: torch.dot(torch.ones(0), torch.ones(0)),
    "dot.matrices": lambda: torch.dot(torch.ones(2, 2), torch.ones(2, 2)),
    "dot.sizes": lambda: torch.dot(torch.ones(2), torch.ones(3)),
    "dot.dtypes": lambda: torch.dot(torch.ones(2), torch.ones(2, dtype=torch.float64)),
    "pairwise_distance.rows": lambda: F.pairwise_distance(X, 3 * X),
    "pairwise_distance.keepdim": lambda: F.pairwise_distance(X, 3 * X, p=1, keepdim=True),
    "pairwise_distance.broadcasts": lambda: F.pairwise_distance(torch.zeros(3, 4), X),
    "pairwise_distance.shapes": lambda: F.pairwise_distance(torch.zeros(3, 4), torch.zeros(2, 4)),
    "gumbel_softmax.hard_is_one_hot": lambda: F.gumbel_softmax(X.double(), hard=True).sum(-1),
    "gumbel_softmax.gradient_of_hard": lambda: gradient_of_gumbel(),
    "gumbel_softmax.dim": lambda: F.gumbel_softmax(X, dim=2),
    "clamp_min.integers": lambda: torch.clamp_min(tensor([1, 5]), 3),
    "clamp_min.real_promotes_integers": lambda: torch.clamp_min(tensor([1, 5]), 1.5),
    "clamp_min.nan": lambda: torch.clamp_min(tensor([float("nan"), 1.0]), 2),
    "clamp_min.tensor": lambda: torch.clamp_min(X, tensor(0.3)),
    "clamp_max.integers": lambda: torch.clamp_max(tensor([1, 5]), 3),
    "clamp_max.keeps_half": lambda: torch.clamp_max(torch.ones(2, dtype=torch.float16), 0.5),
    "clamp_max.of_bools": lambda: torch.clamp_max(MASK, True),
    "broadcast_tensors.shapes": lambda: [list(t.shape) for t in torch.broadcast_tensors(X, torch.ones(3, 1))],
    "broadcast_tensors.mismatch": lambda: torch.broadcast_tensors(torch.ones(2), torch.ones(3)),
    "triu_indices.wide": lambda: torch.triu_indices(2, 3),
    "triu_indices.offset": lambda: torch.triu_indices(3, 3, 1),
    "triu_indices.empty": lambda: list(torch.triu_indices(2, 2, 5).shape),
    "triu_indices.negative": lambda: torch.triu_indices(-1, 2),
    "tril_indices.offset": lambda: torch.tril_indices(3, 2, -1),
    "erfinv.reals": lambda: torch.erfinv(tensor([0.0, 0.5, 1.0, -1.0, 2.0])),
    "erfinv.integers": lambda: torch.erfinv(tensor([0, 1])),
    "erfinv.half": lambda: torch.erfinv(tensor([0.5], dtype=torch.float16)),
    "cross.vectors": lambda: torch.cross(tensor([1, 0, 0]), tensor([0, 1, 0]), dim=0),
    "cross.broadcasts": lambda: torch.linalg.cross(torch.ones(2, 3), tensor([0.0, 1.0, 2.0])),
    "cross.not_three": lambda: torch.linalg.cross(torch.ones(2, 4), torch.ones(2, 4)),
    "cross.no_dim_of_three": lambda: torch.cross(torch.ones(2, 4), torch.ones(2, 4)),
    "cross.shapes": lambda: torch.linalg.cross(torch.ones(2, 3), torch.ones(4, 3)),
    "diff.once": lambda: torch.diff(tensor([1, 4, 9, 16])),
    "diff.twice": lambda: torch.diff(tensor([1, 4, 9, 16]), n=2),
    "diff.more_often_than_elements": lambda: torch.diff(tensor([1, 4]), n=5),
    "diff.prepend": lambda: torch.diff(tensor([1, 4]), prepend=tensor([0]), append=tensor([9])),
    "diff.of_bools": lambda: torch.diff(tensor([True, False, False])),
    "diff.of_a_number": lambda: torch.diff(tensor(1.0)),
    "diff.negative": lambda: torch.diff(tensor([1, 4]), n=-1),
    "logcumsumexp.reals": lambda: torch.logcumsumexp(tensor([0.0, 0.0, 1000.0]), 0),
    "logcumsumexp.infinities": lambda: torch.logcumsumexp(tensor([-float("inf"), -float("inf"), 1.0]), 0),
    "logcumsumexp.integers": lambda: torch.logcumsumexp(tensor([1, 2]), 0),
    "logcumsumexp.dim": lambda: torch.logcumsumexp(X, 2),
    "multi_margin_loss.mean": lambda: F.multi_margin_loss(X, tensor([3])),
    "multi_margin_loss.squares": lambda: F.multi_margin_loss(X, tensor([0]), p=2, margin=0.5, weight=torch.arange(4.0) + 1),
    "multi_margin_loss.p": lambda: F.multi_margin_loss(X, tensor([3]), p=3),
    "multi_margin_loss.class_out_of_range": lambda: F.multi_margin_loss(X, tensor([4])),
    "multi_margin_loss.shapes": lambda: F.multi_margin_loss(X, tensor([3, 0])),
    "multilabel_margin_loss.mean": lambda: F.multilabel_margin_loss(X, tensor([[3, 0, -1, 1]])),
    "multilabel_margin_loss.class_out_of_range": lambda: F.multilabel_margin_loss(X, tensor([[4, -1, -1, -1]])),
    "multilabel_margin_loss.shapes": lambda: F.multilabel_margin_loss(X, tensor([[3, 0]])),
    "soft_margin_loss.sum": lambda: F.soft_margin_loss(X, SIGNS, reduction="sum"),
    "soft_margin_loss.reduction": lambda: F.soft_margin_loss(X, SIGNS, reduction="total"),
    "multilabel_soft_margin_loss.none": lambda: F.multilabel_soft_margin_loss(X, (SIGNS + 1) / 2, reduction="none"),
    "multilabel_soft_margin_loss.weight": lambda: F.multilabel_soft_margin_loss(X, (SIGNS + 1) / 2, weight=torch.arange(4.0)),
    "poisson_nll_loss.logarithms": lambda: F.poisson_nll_loss(X, tensor([[0.0, 1.0, 2.0, 3.0]])),
    "poisson_nll_loss.full": lambda: F.poisson_nll_loss(X, tensor([[0.0, 1.0, 2.0, 3.0]]), log_input=False, full=True, reduction="none"),
    "poisson_nll_loss.reduction": lambda: F.poisson_nll_loss(X, X, reduction="total"),
    "hinge_embedding_loss.none": lambda: F.hinge_embedding_loss(X, SIGNS, margin=0.5, reduction="none"),
    "hinge_embedding_loss.shapes": lambda: F.hinge_embedding_loss(X, torch.ones(3)),
    "linalg.solve.vector": lambda: L.solve(M, tensor([1.0, 2.0])),
    "linalg.solve.right": lambda: L.solve(M, M, left=False),
    "linalg.solve.empty": lambda: L.solve(torch.ones(0, 0), torch.ones(0, 2)),
    "linalg.solve_triangular.upper": lambda: L.solve_triangular(M, torch.eye(2), upper=True),
    "linalg.inv.value": lambda: L.inv(M),
    "linalg.det.value": lambda: L.det(M),
    "linalg.det.empty": lambda: L.det(torch.ones(0, 0)),
    "linalg.det.singular": lambda: L.det(SINGULAR),
    "linalg.slogdet.singular": lambda: L.slogdet(SINGULAR).logabsdet,
    "linalg.cholesky.upper": lambda: L.cholesky(M, upper=True),
    "linalg.eigh.values": lambda: L.eigh(M).eigenvalues,
    "linalg.eigh.upper_triangle": lambda: L.eigh(M, UPLO="U").eigenvalues,
    "linalg.svd.values": lambda: L.svd(M).S,
    "linalg.pinv.value": lambda: L.pinv(M),
    "linalg.pinv.singular": lambda: L.pinv(SINGULAR),
    "linalg.lstsq.solution": lambda: L.lstsq(TALL, tensor([[1.0], [2.0], [4.0]])).solution,
    "linalg.lstsq.rank": lambda: L.lstsq(SINGULAR, torch.ones(2, 1)).rank,
    "linalg.matrix_norm.nuc": lambda: L.matrix_norm(M, "nuc"),
    "linalg.matrix_norm.minus_one": lambda: L.matrix_norm(M, -1),
    "linalg.solve.singular": lambda: L.solve(SINGULAR, SINGULAR),
    "linalg.solve.singular_in_batch": lambda: L.solve(BATCH, BATCH),
    "linalg.solve.rectangle": lambda: L.solve(TALL, TALL),
    "linalg.solve.sizes": lambda: L.solve(M, torch.ones(3, 2)),
    "linalg.solve.dtypes": lambda: L.solve(M, M.double()),
    "linalg.inv.singular": lambda: L.inv(SINGULAR),
    "linalg.inv.singular_in_batch": lambda: L.inv(BATCH),
    "linalg.inv.rectangle": lambda: L.inv(TALL),
    "linalg.inv.vector": lambda: L.inv(torch.ones(3)),
    "linalg.inv.half": lambda: L.inv(M.half()),
    "linalg.inv.integers": lambda: L.inv(M.long()),
    "linalg.cholesky.indefinite": lambda: L.cholesky(SINGULAR - 2 * torch.eye(2)),
    "linalg.cholesky.indefinite_in_batch": lambda: L.cholesky(BATCH),
    "linalg.eigh.nan": lambda: L.eigh(NANS).eigenvalues,
    "linalg.svd.nan": lambda: L.svd(NANS).S,
    "linalg.qr.mode": lambda: L.qr(M, mode="full"),
    "linalg.eigh.uplo": lambda: L.eigh(M, UPLO="X").eigenvalues,
    "linalg.lstsq.rows": lambda: L.lstsq(TALL, torch.ones(2, 1)),
    "linalg.matrix_norm.order": lambda: L.matrix_norm(M, 3),
    "linalg.matrix_norm.word": lambda: L.matrix_norm(M, "max"),
    "linalg.matrix_norm.dims": lambda: L.matrix_norm(M, 1, (0, -2)),
    "set_printoptions.precision": lambda: printed_with(precision=2),
    "set_printoptions.scientific": lambda: printed_with(sci_mode=True),
    "set_printoptions.fixed": lambda: printed_with(sci_mode=False),
    "set_printoptions.profile": lambda: printed_with(profile="short"),
}


def gradient_of_gumbel():
    logits = X.double().requires_grad_()
    F.gumbel_softmax(logits, hard=True).sum().backward()
    return bool(logits.grad.abs().max() < 1e-12)


def answer(run):
    try:
        value = run()
    except Exception as error:
        return {"raises": type(error).__name__, "text": str(error)}
    return {"prints": value if isinstance(value, (str, list)) else str(value)}


if __name__ == "__main__":
    path = pathlib.Path(__file__).with_name("pytorch-2.11.json")
    rows = {k: v for k, v in json.loads(path.read_text()).items() if not k.startswith("op.")}
    rows |= {f"op.{name}": answer(run) for name, run in ROWS.items()}
    path.write_text(json.dumps(rows, indent=1) + "\n")
