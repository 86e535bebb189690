"""Stores weights, inputs, outputs, gradients and buffers of PyTorch's layers for layer_test.cpp.

  python tests/interop/layers.py        writes layers.safetensors in this folder

Needs torch and safetensors. To add a group of layers, write a script that imports Row and store from here,
and a C++ file with a table like that of layer_test.cpp (see store() and layer_rows.h).
"""

import dataclasses
import json
import pathlib
import warnings
from collections.abc import Callable

import torch
from safetensors.torch import save_file
from torch import nn


@dataclasses.dataclass
class Row:
    """A layer and its inputs.

    inputs: a tuple is the shape of a random input that gets a gradient. A tensor is passed unchanged and
    gets no gradient (indices, targets, masks). None is passed unchanged. call(module, *inputs) is by
    default module(*inputs). It returns a tensor or (nested) tuples of tensors; None is omitted.
    """

    name: str
    make: Callable[[], nn.Module]
    inputs: list
    training: bool = True
    call: Callable = lambda module, *inputs: module(*inputs)


def flat(outputs):
    if outputs is None:
        return []
    if isinstance(outputs, torch.Tensor):
        return [outputs]
    return [t for part in outputs for t in flat(part)]


def dy_of(y):
    """Returns the output gradient: -5/4 ... 5/4 by position in y. layer_rows.cpp computes the same."""
    return ((torch.arange(y.numel()) * 7 % 11 - 5) / 4).double().reshape(y.shape)


def store_row(row, tensors, meta):
    module = row.make().double()
    module.train(row.training)
    with torch.no_grad():  # not just ones and zeros; variances stay positive
        for p in module.parameters():
            p.add_(0.2 * torch.randn_like(p))
        for b in module.buffers():
            if b.is_floating_point():
                b.add_(0.5 * torch.rand_like(b))
    meta[f"{row.name}/repr"] = repr(module)
    meta[f"{row.name}/keys"] = ",".join(module.state_dict())
    meta[f"{row.name}/training"] = str(row.training)

    def put(what, tensor):
        tensors[f"{row.name}/{what}"] = tensor.detach().clone().contiguous()

    for key, value in module.state_dict().items():
        put(f"state/{key}", value)
    inputs = []
    for i, given in enumerate(row.inputs):
        if isinstance(given, tuple):
            given = torch.randn(given, dtype=torch.float64).requires_grad_()
        if given is not None:
            put(f"input/{i}", given)
        inputs.append(given)
    outputs = flat(row.call(module, *inputs))
    dys = [dy_of(y) for y in outputs]
    torch.autograd.backward([y for y in outputs if y.requires_grad],
                            [dy for y, dy in zip(outputs, dys) if y.requires_grad])
    for i, y in enumerate(outputs):
        put(f"output/{i}", y)
    for i, x in enumerate(inputs):
        if x is not None and x.requires_grad:
            put(f"dinput/{i}", x.grad)
    for key, p in module.named_parameters():
        if p.grad is not None:
            put(f"dparameter/{key}", p.grad)
    for key, b in module.named_buffers():
        if not torch.equal(b, tensors[f"{row.name}/state/{key}"]):
            put(f"after/{key}", b)


def sort_metadata(path):
    """Sorts the metadata of a file, which the library writes in a random order."""
    raw = pathlib.Path(path).read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:start])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(len(text).to_bytes(8, "little") + text + raw[start:])


def store(path, rows):
    """Runs the rows and writes their results to a file.

    Each row ROW has the tensors ROW/state/KEY, ROW/input/I, ROW/output/I, ROW/dinput/I and
    ROW/dparameter/KEY (for the output gradients dy_of), and ROW/after/BUFFER if the call changed the buffer,
    all in float64. The metadata has ROW/repr, ROW/keys (of the state dict) and ROW/training.
    """
    tensors, meta = {}, {}
    for i, row in enumerate(rows):
        torch.manual_seed(i)
        store_row(row, tensors, meta)
    assert len({row.name for row in rows}) == len(rows)
    save_file(tensors, path, meta)
    sort_metadata(path)
    print(f"{path}: {len(rows)} rows, {pathlib.Path(path).stat().st_size} bytes")


def integers(high, *shape):
    return (torch.arange(torch.Size(shape).numel()) * 7 % high).reshape(shape)


def probabilities(*shape):
    return torch.linspace(-2, 2, torch.Size(shape).numel()).double().reshape(shape).sin().softmax(1)


WEIGHTS = torch.tensor([0.5, 2.0, 1.0, 0.25])


def layer_rows():
    image, one, line, rows = (2, 4, 5, 4), (1, 4, 5, 4), (2, 4, 7), (3, 4)
    return [
        Row("Linear", lambda: nn.Linear(4, 3), [(2, 5, 4)]),
        Row("Linear no bias", lambda: nn.Linear(4, 3, bias=False), [(5, 4)]),
        Row("Identity", lambda: nn.Identity(), [rows]),
        # convolutions
        Row("Conv1d", lambda: nn.Conv1d(4, 6, 3), [line]),
        Row("Conv1d options", lambda: nn.Conv1d(4, 6, 3, 2, 1, 2, 2, False), [line]),
        Row("Conv1d same", lambda: nn.Conv1d(4, 2, 4, padding="same"), [line]),
        Row("Conv1d unbatched", lambda: nn.Conv1d(4, 2, 2), [(4, 5)]),
        Row("Conv2d", lambda: nn.Conv2d(4, 3, 3), [image]),
        Row("Conv2d options", lambda: nn.Conv2d(4, 6, (3, 2), (2, 1), (1, 2), (1, 2), 2, False), [one]),
        Row("Conv2d same", lambda: nn.Conv2d(4, 2, (3, 2), padding="same", dilation=(2, 1)), [one]),
        Row("Conv2d same even", lambda: nn.Conv2d(4, 2, 4, padding="same"), [one]),
        Row("Conv2d valid", lambda: nn.Conv2d(4, 2, 3, padding="valid"), [one]),
        Row("Conv2d depthwise", lambda: nn.Conv2d(4, 4, 3, padding=1, groups=4), [one]),
        Row("Conv1d circular", lambda: nn.Conv1d(4, 2, 3, padding=2, padding_mode="circular"), [line]),
        Row("Conv2d reflect", lambda: nn.Conv2d(4, 2, (3, 4), padding="same", padding_mode="reflect"), [one]),
        Row("Conv2d replicate", lambda: nn.Conv2d(4, 2, 3, 2, (1, 2), padding_mode="replicate"), [one]),
        Row("ConvTranspose1d", lambda: nn.ConvTranspose1d(4, 3, 3), [line]),
        Row("ConvTranspose1d options", lambda: nn.ConvTranspose1d(4, 6, 3, 2, 1, 1, 2, False, 2), [line]),
        Row("ConvTranspose2d", lambda: nn.ConvTranspose2d(4, 3, 2), [one]),
        Row("ConvTranspose2d options", lambda: nn.ConvTranspose2d(4, 2, (3, 2), (2, 1), (1, 0), (1, 0)), [one]),
        # surroundings
        Row("ReflectionPad1d", lambda: nn.ReflectionPad1d(2), [line]),
        Row("ReflectionPad2d", lambda: nn.ReflectionPad2d((1, 2, 0, 3)), [one]),
        Row("ReplicationPad1d", lambda: nn.ReplicationPad1d((1, 3)), [line]),
        Row("ReplicationPad2d", lambda: nn.ReplicationPad2d(2), [one]),
        Row("CircularPad1d", lambda: nn.CircularPad1d(3), [line]),
        Row("CircularPad2d", lambda: nn.CircularPad2d((1, 0, 2, 1)), [one]),
        Row("ZeroPad1d", lambda: nn.ZeroPad1d(1), [line]),
        Row("ZeroPad2d", lambda: nn.ZeroPad2d((1, 0, -1, 2)), [one]),
        Row("PixelShuffle", lambda: nn.PixelShuffle(2), [one]),
        Row("PixelUnshuffle", lambda: nn.PixelUnshuffle(2), [(1, 2, 4, 6)]),
        Row("Unfold", lambda: nn.Unfold(2, padding=1, stride=(2, 1)), [one]),
        Row("Fold", lambda: nn.Fold((3, 4), 2), [(2, 8, 6)]),
        # pools
        Row("MaxPool1d", lambda: nn.MaxPool1d(3), [line]),
        Row("MaxPool1d options", lambda: nn.MaxPool1d(3, 2, 1, 2, ceil_mode=True), [line]),
        Row("MaxPool2d", lambda: nn.MaxPool2d(2), [one]),
        Row("MaxPool2d options", lambda: nn.MaxPool2d((3, 2), (2, 1), (1, 0), ceil_mode=True), [one]),
        Row("AvgPool1d", lambda: nn.AvgPool1d(2), [line]),
        Row("AvgPool1d options", lambda: nn.AvgPool1d(3, 2, 1, True, False), [line]),
        Row("AvgPool2d", lambda: nn.AvgPool2d(2), [one]),
        Row("AvgPool2d options", lambda: nn.AvgPool2d((3, 2), (2, 1), (1, 0), True, False), [one]),
        Row("AdaptiveAvgPool1d", lambda: nn.AdaptiveAvgPool1d(4), [line]),
        Row("AdaptiveAvgPool2d", lambda: nn.AdaptiveAvgPool2d(1), [one]),
        Row("AdaptiveAvgPool2d sizes", lambda: nn.AdaptiveAvgPool2d((4, 2)), [one]),
        Row("AdaptiveAvgPool2d none", lambda: nn.AdaptiveAvgPool2d((None, 3)), [one]),
        Row("AdaptiveMaxPool1d", lambda: nn.AdaptiveMaxPool1d(4), [line]),
        Row("AdaptiveMaxPool2d", lambda: nn.AdaptiveMaxPool2d((3, 2)), [one]),
        # normalization
        Row("BatchNorm1d", lambda: nn.BatchNorm1d(4), [(7, 4)]),
        Row("BatchNorm1d lines", lambda: nn.BatchNorm1d(4, momentum=0.3), [line]),
        Row("BatchNorm1d eval", lambda: nn.BatchNorm1d(4), [line], training=False),
        Row("BatchNorm2d", lambda: nn.BatchNorm2d(4), [image]),
        Row("BatchNorm2d eval", lambda: nn.BatchNorm2d(4, eps=1e-3), [image], training=False),
        Row("BatchNorm2d cumulative", lambda: nn.BatchNorm2d(4, momentum=None), [(2, 4, 3, 2)],
            call=lambda m, x: (m(x), m(2 * x + 1), m(x - 3))),
        Row("BatchNorm2d bare", lambda: nn.BatchNorm2d(4, affine=False, track_running_stats=False), [image],
            training=False),
        Row("GroupNorm", lambda: nn.GroupNorm(2, 4), [image]),
        Row("GroupNorm bare", lambda: nn.GroupNorm(4, 4, eps=1e-3, affine=False), [line]),
        Row("InstanceNorm1d", lambda: nn.InstanceNorm1d(4), [line]),
        Row("InstanceNorm2d unbatched", lambda: nn.InstanceNorm2d(4, eps=1e-3), [(4, 5, 4)]),
        Row("InstanceNorm2d tracked", lambda: nn.InstanceNorm2d(4, affine=True, track_running_stats=True), [image]),
        Row("InstanceNorm2d eval", lambda: nn.InstanceNorm2d(4, affine=True, track_running_stats=True), [image],
            training=False),
        Row("LayerNorm", lambda: nn.LayerNorm(4), [rows]),
        Row("LayerNorm two", lambda: nn.LayerNorm((5, 4), eps=1e-6), [image]),
        Row("LayerNorm no bias", lambda: nn.LayerNorm(4, bias=False), [rows]),
        Row("LayerNorm bare", lambda: nn.LayerNorm(4, elementwise_affine=False), [rows]),
        Row("RMSNorm", lambda: nn.RMSNorm(7, eps=1e-6), [line]),
        Row("RMSNorm bare", lambda: nn.RMSNorm((4, 7), eps=0.0001, elementwise_affine=False), [line]),
        # tables
        Row("Embedding", lambda: nn.Embedding(6, 3), [integers(6, 2, 5)]),
        Row("Embedding padding", lambda: nn.Embedding(6, 3, padding_idx=-5), [integers(6, 2, 5)]),
        Row("EmbeddingBag", lambda: nn.EmbeddingBag(6, 3), [integers(6, 2, 5)]),
        Row("EmbeddingBag max", lambda: nn.EmbeddingBag(6, 3, mode="max", padding_idx=-5), [integers(6, 2, 5)]),
        Row("EmbeddingBag offsets", lambda: nn.EmbeddingBag(6, 3, mode="sum"),
            [integers(6, 7), torch.tensor([0, 2, 2, 5]), (7,)]),
        # dropout
        Row("Dropout eval", lambda: nn.Dropout(), [rows], training=False),
        Row("Dropout2d eval", lambda: nn.Dropout2d(0.25), [one], training=False),
        # activations
        *[Row(type(m).__name__, lambda m=m: m, [line])
          for m in (nn.ReLU(), nn.ReLU6(), nn.LeakyReLU(), nn.ELU(), nn.GELU(), nn.SiLU(), nn.Sigmoid(),
                    nn.Tanh(), nn.Softplus(), nn.Hardtanh(), nn.Softmax(1), nn.LogSoftmax(-1))],
        Row("LeakyReLU slope", lambda: nn.LeakyReLU(0.2), [rows]),
        Row("ELU alpha", lambda: nn.ELU(0.5), [rows]),
        Row("GELU tanh", lambda: nn.GELU("tanh"), [rows]),
        Row("Softplus options", lambda: nn.Softplus(2.0, 1.0), [rows]),
        Row("Hardtanh options", lambda: nn.Hardtanh(-0.5, 0.25), [rows]),
        # shapes
        Row("Flatten", lambda: nn.Flatten(), [image]),
        Row("Flatten dims", lambda: nn.Flatten(0, -2), [image]),
        Row("Unflatten", lambda: nn.Unflatten(1, (2, -1)), [rows]),
        Row("Upsample", lambda: nn.Upsample(scale_factor=2), [(1, 2, 3, 4)]),
        Row("Upsample lines", lambda: nn.Upsample(scale_factor=1.5, mode="linear"), [line]),
        Row("Upsample bilinear", lambda: nn.Upsample((7, 5), mode="bilinear"), [one]),
        Row("Upsample bicubic", lambda: nn.Upsample(scale_factor=2, mode="bicubic"), [(1, 2, 3, 4)]),
        Row("Upsample area", lambda: nn.Upsample((2, 3), mode="area"), [one]),
        Row("Upsample corners", lambda: nn.Upsample(6, mode="bilinear", align_corners=True), [(1, 2, 3, 4)]),
        # losses
        *[Row(f"CrossEntropyLoss {reduction}", lambda r=reduction: nn.CrossEntropyLoss(reduction=r),
              [(5, 4), integers(4, 5)]) for reduction in ("mean", "sum", "none")],
        Row("CrossEntropyLoss options",
            lambda: nn.CrossEntropyLoss(WEIGHTS.clone(), ignore_index=1, label_smoothing=0.1),
            [(2, 4, 3), integers(4, 2, 3)]),
        Row("CrossEntropyLoss probabilities", lambda: nn.CrossEntropyLoss(), [(5, 4), probabilities(5, 4)]),
        Row("NLLLoss", lambda: nn.NLLLoss(), [(5, 4), integers(4, 5)]),
        Row("NLLLoss options", lambda: nn.NLLLoss(WEIGHTS.clone(), ignore_index=2, reduction="sum"),
            [(5, 4), integers(4, 5)]),
        *[Row(f"{kind.__name__} {reduction}", lambda k=kind, r=reduction: k(reduction=r), [rows, rows])
          for kind in (nn.MSELoss, nn.L1Loss, nn.HuberLoss, nn.SmoothL1Loss) for reduction in ("mean", "none")],
        Row("HuberLoss delta", lambda: nn.HuberLoss(reduction="sum", delta=0.5), [rows, rows]),
        Row("SmoothL1Loss beta", lambda: nn.SmoothL1Loss(reduction="sum", beta=0.5), [rows, rows]),
        Row("BCEWithLogitsLoss", lambda: nn.BCEWithLogitsLoss(), [rows, probabilities(*rows)]),
        Row("BCEWithLogitsLoss options",
            lambda: nn.BCEWithLogitsLoss(WEIGHTS.clone(), reduction="sum", pos_weight=3 * WEIGHTS),
            [rows, probabilities(*rows)]),
        *[Row(f"KLDivLoss {reduction}", lambda r=reduction: nn.KLDivLoss(reduction=r),
              [rows, probabilities(*rows)]) for reduction in ("mean", "batchmean")],
        Row("KLDivLoss log", lambda: nn.KLDivLoss(reduction="sum", log_target=True),
            [rows, probabilities(*rows).log()]),
    ]


def volume_convolutions():
    volume, one = (2, 2, 3, 4, 3), (1, 2, 4, 5, 3)
    return [
        Row("Conv3d", lambda: nn.Conv3d(2, 3, 3), [volume]),
        Row("Conv3d options", lambda: nn.Conv3d(2, 4, (3, 2, 1), (2, 1, 1), (1, 2, 0), (1, 2, 1), 2, False), [one]),
        Row("Conv3d same", lambda: nn.Conv3d(2, 2, (3, 2, 4), padding="same", dilation=(1, 2, 1)), [one]),
        Row("Conv3d unbatched", lambda: nn.Conv3d(2, 2, 2), [(2, 3, 4, 3)]),
        Row("Conv3d circular", lambda: nn.Conv3d(2, 2, 3, padding=(1, 2, 0), padding_mode="circular"), [one]),
        Row("Conv3d reflect", lambda: nn.Conv3d(2, 2, (3, 2, 3), padding="same", padding_mode="reflect"), [one]),
        Row("Conv3d replicate", lambda: nn.Conv3d(2, 2, 3, 2, 1, padding_mode="replicate"), [one]),
        Row("ConvTranspose3d", lambda: nn.ConvTranspose3d(2, 3, 2), [one]),
        Row("ConvTranspose3d options",
            lambda: nn.ConvTranspose3d(2, 4, (3, 2, 2), (2, 1, 2), (1, 0, 0), (1, 0, 1), 2, False, (1, 2, 1)), [one]),
    ]


def volume_layers():
    volume, one = (2, 2, 3, 4, 3), (1, 2, 4, 5, 3)
    return [
        *[Row(f"{kind.__name__}", lambda k=kind: k((1, 0, 2, 1, 0, 1)), [one])
          for kind in (nn.ReflectionPad3d, nn.ReplicationPad3d, nn.CircularPad3d)],
        Row("ZeroPad3d", lambda: nn.ZeroPad3d((1, 0, -1, 2, 0, 1)), [one]),
        Row("ReplicationPad3d unbatched", lambda: nn.ReplicationPad3d(1), [(2, 3, 2, 4)]),
        Row("MaxPool3d", lambda: nn.MaxPool3d(2), [one]),
        Row("MaxPool3d options", lambda: nn.MaxPool3d((3, 2, 1), (2, 1, 2), (1, 0, 0), ceil_mode=True), [one]),
        Row("AvgPool3d", lambda: nn.AvgPool3d(2), [one]),
        Row("AvgPool3d options", lambda: nn.AvgPool3d((3, 2, 3), (2, 1, 1), (1, 0, 1), True, False), [one]),
        Row("AvgPool3d unbatched", lambda: nn.AvgPool3d((1, 2, 2)), [(2, 3, 4, 4)]),
        Row("AdaptiveAvgPool3d", lambda: nn.AdaptiveAvgPool3d(1), [one]),
        Row("AdaptiveAvgPool3d sizes", lambda: nn.AdaptiveAvgPool3d((3, 4, 2)), [one]),
        Row("AdaptiveAvgPool3d none", lambda: nn.AdaptiveAvgPool3d((None, 3, 1)), [one]),
        Row("AdaptiveMaxPool3d", lambda: nn.AdaptiveMaxPool3d((3, 2, 1)), [one]),
        Row("BatchNorm3d", lambda: nn.BatchNorm3d(2), [volume]),
        Row("BatchNorm3d eval", lambda: nn.BatchNorm3d(2, eps=1e-3), [volume], training=False),
        Row("InstanceNorm3d unbatched", lambda: nn.InstanceNorm3d(2, eps=1e-3), [(2, 3, 4, 3)]),
        Row("InstanceNorm3d tracked", lambda: nn.InstanceNorm3d(2, affine=True, track_running_stats=True), [volume]),
        Row("GroupNorm volumes", lambda: nn.GroupNorm(2, 4), [(2, 4, 3, 2, 3)]),
        Row("Dropout3d eval", lambda: nn.Dropout3d(0.25), [one], training=False),
        Row("Upsample volumes", lambda: nn.Upsample(scale_factor=2), [(1, 2, 2, 3, 2)]),
        Row("Upsample trilinear", lambda: nn.Upsample((5, 7, 4), mode="trilinear"), [one]),
        Row("Upsample trilinear corners", lambda: nn.Upsample(scale_factor=1.5, mode="trilinear", align_corners=True),
            [one]),
        Row("Upsample volumes area", lambda: nn.Upsample((2, 3, 4), mode="area"), [one]),
    ]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    store(pathlib.Path(__file__).with_suffix(".safetensors"),
          layer_rows() + volume_convolutions() + volume_layers())
