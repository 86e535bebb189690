"""Stores the type in which PyTorch's autocast for CUDA runs each op, for autocast_test.cpp.

Writes autocast.txt in this folder, with one line per op: `name: low|float32|as_given`. The tensors are
fake ones: PyTorch computes their dtypes without data, so that no GPU is needed.
python3 tests/interop/autocast.py
"""
import pathlib

import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode


def classes(*shape):
    return torch.zeros(shape, dtype=torch.int64, device="cuda")


OPS = {
    "linear": lambda x: F.linear(x, x, x[0]),
    "mm": lambda x: torch.mm(x, x),
    "bmm": lambda x: torch.bmm(x[None], x[None]),
    "matmul": lambda x: torch.matmul(x, x[0]),
    "addmm": lambda x: torch.addmm(x, x, x),
    "conv1d": lambda x: F.conv1d(x[None], x[:, :, None]),
    "conv2d": lambda x: F.conv2d(x[None, None], x[None, None]),
    "conv3d": lambda x: F.conv3d(x[None, None, None], x[None, None, None]),
    "conv_transpose1d": lambda x: F.conv_transpose1d(x[None], x[:, :, None]),
    "conv_transpose2d": lambda x: F.conv_transpose2d(x[None, None], x[None, None]),
    "conv_transpose3d": lambda x: F.conv_transpose3d(x[None, None, None], x[None, None, None]),
    "scaled_dot_product_attention": lambda x: F.scaled_dot_product_attention(
        x[None], x[None], x[None]
    ),
    "pow": lambda x: torch.pow(x, 2),
    "pow of tensors": lambda x: torch.pow(x, x),
    "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal,
    "exp": torch.exp,
    "expm1": torch.expm1,
    "log": torch.log,
    "log2": torch.log2,
    "log1p": torch.log1p,
    "log10": torch.log10,
    "tan": torch.tan,
    "asin": torch.asin,
    "acos": torch.acos,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "softplus": F.softplus,
    "softmax": lambda x: torch.softmax(x, 1),
    "log_softmax": lambda x: torch.log_softmax(x, 1),
    "sum": torch.sum,
    "mean": torch.mean,
    "prod": lambda x: torch.prod(x, 0),
    "cumsum": lambda x: torch.cumsum(x, 0),
    "norm": torch.norm,
    "logsumexp": lambda x: torch.logsumexp(x, 0),
    "var": torch.var,
    "std": torch.std,
    "amax": lambda x: torch.amax(x, 0),
    "layer_norm": lambda x: F.layer_norm(x, (4,)),
    "rms_norm": lambda x: F.rms_norm(x, (4,)),
    "group_norm": lambda x: F.group_norm(x, 2),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "cross_entropy": lambda x: F.cross_entropy(x, classes(4)),
    "nll_loss": lambda x: F.nll_loss(x, classes(4)),
    "mse_loss": lambda x: F.mse_loss(x, x),
    "l1_loss": lambda x: F.l1_loss(x, x),
    "huber_loss": lambda x: F.huber_loss(x, x),
    "smooth_l1_loss": lambda x: F.smooth_l1_loss(x, x),
    "binary_cross_entropy_with_logits": lambda x: F.binary_cross_entropy_with_logits(x, x),
    "kl_div": lambda x: F.kl_div(x, x, reduction="batchmean"),
    "cosine_similarity": lambda x: F.cosine_similarity(x, x),
    "cosine_embedding_loss": lambda x: F.cosine_embedding_loss(x, x, x[0]),
    "margin_ranking_loss": lambda x: F.margin_ranking_loss(x, x, x),
    "triplet_margin_loss": lambda x: F.triplet_margin_loss(x, x, x),
    "prelu": lambda x: F.prelu(x, x[0]),
    "add": lambda x: x + x,
    "sub": lambda x: x - x,
    "mul": lambda x: x * x,
    "div": lambda x: x / x,
    "neg": torch.neg,
    "abs": torch.abs,
    "sqrt": torch.sqrt,
    "square": torch.square,
    "sin": torch.sin,
    "cos": torch.cos,
    "tanh": torch.tanh,
    "atan": torch.atan,
    "exp2": torch.exp2,
    "lgamma": torch.lgamma,
    "digamma": torch.digamma,
    "trunc": torch.trunc,
    "selu": F.selu,
    "mish": F.mish,
    "hardswish": F.hardswish,
    "logsigmoid": F.logsigmoid,
    "glu": F.glu,
    "atan2": lambda x: torch.atan2(x, x),
    "addcmul": lambda x: torch.addcmul(x, x, x),
    "lerp": lambda x: torch.lerp(x, x, 0.5),
    "sigmoid": torch.sigmoid,
    "relu": F.relu,
    "leaky_relu": F.leaky_relu,
    "elu": F.elu,
    "gelu": F.gelu,
    "silu": F.silu,
    "erf": torch.erf,
    "maximum": lambda x: torch.maximum(x, x),
    "outer": lambda x: torch.outer(x[0], x[0]),
    "avg_pool2d": lambda x: F.avg_pool2d(x[None], 2),
    "max_pool2d": lambda x: F.max_pool2d(x[None], 2),
    "avg_pool3d": lambda x: F.avg_pool3d(x[None, None], (1, 2, 2)),
    "max_pool3d": lambda x: F.max_pool3d(x[None, None], (1, 2, 2)),
    "interpolate": lambda x: F.interpolate(x[None, None], scale_factor=2),
    "interpolate of areas": lambda x: F.interpolate(x[None, None], scale_factor=2, mode="area"),
    "interpolate of volumes": lambda x: F.interpolate(x[None, None, None], scale_factor=2, mode="trilinear"),
    "dropout": lambda x: F.dropout(x, 0.5),
    "where": lambda x: torch.where(x > 1, x, 0.0),
    "dot": lambda x: torch.dot(x[0], x[0]),
    "cross": lambda x: torch.cross(x[:, :3], x[:, :3], dim=1),
    "diff": torch.diff,
    "logcumsumexp": lambda x: torch.logcumsumexp(x, 0),
    "erfinv": torch.erfinv,
    "clamp_min": lambda x: torch.clamp_min(x, 1),
    "clamp_max": lambda x: torch.clamp_max(x, 1),
    "broadcast_tensors": lambda x: torch.broadcast_tensors(x, x[0])[1],
    "gumbel_softmax": F.gumbel_softmax,
    "pairwise_distance": lambda x: F.pairwise_distance(x, x),
    "cdist": lambda x: torch.cdist(x, x),
    "matrix_norm": torch.linalg.matrix_norm,
    "cumprod": lambda x: torch.cumprod(x, 0),
    "normalize": F.normalize,
    "median": torch.median,
    "multi_margin_loss": lambda x: F.multi_margin_loss(x, classes(4)),
    "multilabel_margin_loss": lambda x: F.multilabel_margin_loss(x, classes(4, 4)),
    "soft_margin_loss": lambda x: F.soft_margin_loss(x, x),
    "multilabel_soft_margin_loss": lambda x: F.multilabel_soft_margin_loss(x, x),
    "poisson_nll_loss": lambda x: F.poisson_nll_loss(x, x),
    "poisson_nll_loss of counts": lambda x: F.poisson_nll_loss(x, x, log_input=False, full=True),
    "hinge_embedding_loss": lambda x: F.hinge_embedding_loss(x, x),
    # PyTorch computes these two by several functions.
    "linear_cross_entropy": lambda x: F.cross_entropy(F.linear(x, x), classes(4)),
    "feed_forward": lambda x: F.linear(F.gelu(F.linear(x, x, x[0])), x, x[0]),
}


def type_of(op):
    half = torch.float16
    x = torch.arange(16, device="cuda").view(4, 4) / 16 + 0.5
    made = [op(x).dtype, op(x.to(half)).dtype]
    return {
        (half, half): "low",
        (torch.float32, torch.float32): "float32",
        (torch.float32, half): "as_given",
    }[tuple(made)]


if __name__ == "__main__":
    with FakeTensorMode():
        # torch.autocast("cuda") would do nothing without a GPU.
        torch.set_autocast_dtype("cuda", torch.float16)
        torch.set_autocast_enabled("cuda", True)
        lines = [f"{name}: {type_of(op)}\n" for name, op in OPS.items()]
    pathlib.Path(__file__).with_name("autocast.txt").write_text("".join(lines))
