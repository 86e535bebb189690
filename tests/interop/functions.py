"""Stores results of PyTorch's activations, and of losses of several tensors, for functions_test.cpp.

  python tests/interop/functions.py     writes functions.safetensors in this folder

Hardsigmoid is omitted, because the gradient in PyTorch uses a 1/6 in float32.
"""

import pathlib
import warnings

import torch
from torch import nn

from layers import Row, integers, probabilities, store


def function_rows():
    line, rows = (2, 4, 7), (3, 4)
    signs = torch.tensor([1, -1, 1])
    lengths = [torch.tensor([9, 6, 8]), torch.tensor([3, 2, 0])]
    labels = torch.tensor([[3, 0, -1, 1], [-1, 0, 1, 2], [2, 1, 0, 3]])
    counts = torch.tensor([[0, 1, 2, 3], [7, 0, 1, 5], [2, 2, 11, 0]]).double()
    words = torch.tensor([[1, 1, 4], [2, 3, 0], [0, 0, 0]])

    def ctc(m, x, *rest):
        return m(x.log_softmax(2), *rest)

    return [
        *[Row(type(m).__name__, lambda m=m: m, [line])
          for m in (nn.SELU(), nn.CELU(), nn.Hardswish(), nn.Mish(), nn.LogSigmoid(), nn.Softsign(),
                    nn.Tanhshrink(), nn.Hardshrink(), nn.Softshrink(), nn.PReLU())],
        Row("CELU alpha", lambda: nn.CELU(0.5), [rows]),
        Row("Hardshrink lambd", lambda: nn.Hardshrink(0.25), [rows]),
        Row("Softshrink lambd", lambda: nn.Softshrink(1.0), [rows]),
        Row("PReLU channels", lambda: nn.PReLU(4, 0.1), [line]),
        Row("GLU", lambda: nn.GLU(), [rows]),
        Row("GLU dim", lambda: nn.GLU(1), [line]),
        Row("BCELoss", lambda: nn.BCELoss(), [rows, probabilities(*rows)], call=lambda m, x, y: m(x.sigmoid(), y)),
        Row("BCELoss options", lambda: nn.BCELoss(torch.tensor([0.5, 2.0, 1.0, 0.25]), reduction="none"),
            [rows, probabilities(*rows)], call=lambda m, x, y: m(x.sigmoid(), y)),
        Row("TripletMarginLoss", lambda: nn.TripletMarginLoss(), [rows, rows, rows]),
        Row("TripletMarginLoss options", lambda: nn.TripletMarginLoss(2.0, 1, swap=True, reduction="none"),
            [rows, rows, rows]),
        Row("CosineEmbeddingLoss", lambda: nn.CosineEmbeddingLoss(), [rows, rows, signs]),
        Row("CosineEmbeddingLoss options", lambda: nn.CosineEmbeddingLoss(-0.5, reduction="sum"), [rows, rows, signs]),
        Row("MarginRankingLoss", lambda: nn.MarginRankingLoss(), [(3,), (3,), signs]),
        Row("MarginRankingLoss options", lambda: nn.MarginRankingLoss(0.5, reduction="none"), [(3,), (3,), signs]),
        Row("GaussianNLLLoss", lambda: nn.GaussianNLLLoss(), [rows, rows, rows], call=lambda m, x, y, v: m(x, y, v.exp())),
        Row("GaussianNLLLoss options", lambda: nn.GaussianNLLLoss(full=True, eps=1.0, reduction="sum"),
            [rows, rows, (3, 1)], call=lambda m, x, y, v: m(x, y, v.exp())),
        Row("MultiMarginLoss", lambda: nn.MultiMarginLoss(), [rows, integers(4, 3)]),
        Row("MultiMarginLoss options",
            lambda: nn.MultiMarginLoss(2, 0.5, torch.tensor([0.5, 2.0, 1.0, 0.25]), reduction="none"),
            [rows, integers(4, 3)]),
        Row("MultiLabelMarginLoss", lambda: nn.MultiLabelMarginLoss(), [rows, labels]),
        Row("MultiLabelMarginLoss options", lambda: nn.MultiLabelMarginLoss(reduction="none"), [rows, labels]),
        Row("SoftMarginLoss", lambda: nn.SoftMarginLoss(), [(3,), signs]),
        Row("SoftMarginLoss options", lambda: nn.SoftMarginLoss(reduction="sum"), [(3,), signs]),
        Row("MultiLabelSoftMarginLoss", lambda: nn.MultiLabelSoftMarginLoss(), [rows, probabilities(*rows)]),
        Row("MultiLabelSoftMarginLoss options",
            lambda: nn.MultiLabelSoftMarginLoss(torch.tensor([0.5, 2.0, 1.0, 0.25]), reduction="none"),
            [rows, probabilities(*rows)]),
        Row("PoissonNLLLoss", lambda: nn.PoissonNLLLoss(), [rows, counts]),
        Row("PoissonNLLLoss options", lambda: nn.PoissonNLLLoss(full=True, reduction="none"), [rows, counts]),
        Row("PoissonNLLLoss rates", lambda: nn.PoissonNLLLoss(False, eps=0.5, reduction="sum"), [rows, counts],
            call=lambda m, x, y: m(x.exp(), y)),
        Row("HingeEmbeddingLoss", lambda: nn.HingeEmbeddingLoss(), [(3,), signs]),
        Row("HingeEmbeddingLoss options", lambda: nn.HingeEmbeddingLoss(0.25, reduction="none"), [(3,), signs]),
        Row("CTCLoss", lambda: nn.CTCLoss(), [(9, 3, 5), words, *lengths], call=ctc),
        Row("CTCLoss joined", lambda: nn.CTCLoss(blank=4, reduction="none"),
            [(9, 3, 5), integers(4, 5), *lengths], call=ctc),
        Row("CTCLoss infinite", lambda: nn.CTCLoss(reduction="sum", zero_infinity=True),
            [(4, 3, 5), words, torch.tensor([3, 2, 4]), torch.tensor([3, 2, 0])], call=ctc),
    ]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    store(pathlib.Path(__file__).with_suffix(".safetensors"), function_rows())
