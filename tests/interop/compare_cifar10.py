#!/usr/bin/env python3
"""Trains configs/cifar10.yaml with Taper and the same recipe in PyTorch, on the same pictures.

  python3 tests/interop/compare_cifar10.py PICTURES --taper build/apps/taper [--seeds 5] [--epochs 24]
      [--target 0.9] [--compile]
  python3 tests/interop/compare_cifar10.py PICTURES --taper build/apps/taper --check

PICTURES is a folder with train/CLASS/*.jpg and test/CLASS/*.jpg, or a folder of .pack files, from which
such a folder is written first. A record of a .pack file is a label (one byte), a length (two bytes, the low
one first), and a JPEG file of that length; a file whose name has "test" is the test part.

Prints for each program the medians over the seeds of the accuracy on the test part at the end, of the seconds
of training, and of the seconds until an epoch ends with the accuracy --target. Seconds are those of training:
neither the first reading of the pictures nor the evaluations count. Both programs keep the decoded pictures
on the device, augment there, use channels-last memory and bfloat16 products. --compile also compiles the
model of PyTorch (torch.compile); the first epoch then has the time of the compilation, which is subtracted
as the difference to the second epoch.

--check trains on a few pictures on the CPU in float32, and fails unless both programs agree:
  - without augmentation and from the same weights, the losses of the first steps differ by less than 1e-3
    of their values;
  - with augmentation and a rate of 0, the means of the losses over many passes differ by less than four
    standard errors, and the augmentation changes the losses.

Needs PyTorch and Pillow, and numpy.
"""
import argparse
import json
import math
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import numpy
import torch
from PIL import Image
from torch import nn
from torch.nn import functional as F

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
BATCH, RATE, MOMENTUM, DECAY, SMOOTHING = 512, 0.4, 0.9, 5e-4, 0.2
PADDING, CUTOUT, SCALE = 4, 8, 0.125


# --- pictures ---

def unpack(source, folder, limit):
    """Writes the records of .pack files as JPEG files in class folders."""
    for file in sorted(source.glob("*.pack")):
        part = folder / ("test" if "test" in file.name else "train")
        data, at, number = file.read_bytes(), 0, 0
        while at < len(data) and number < limit:
            label, length = struct.unpack_from("<BH", data, at)
            target = part / CLASSES[label]
            target.mkdir(parents=True, exist_ok=True)
            (target / ("%05d.jpg" % number)).write_bytes(data[at + 3:at + 3 + length])
            at += 3 + length
            number += 1


def pictures_in(source, scratch, limit):
    if any(source.glob("*.pack")):
        unpack(source, scratch, limit)
        return scratch
    if not (source / "train").is_dir() or not (source / "test").is_dir():
        sys.exit("%s: expected .pack files, or the folders train/ and test/" % source)
    return source


def load(folder):
    """Returns uint8 [N, 3, 32, 32] and labels [N], in Taper's order: classes, then files, by name."""
    images, labels = [], []
    for label, name in enumerate(sorted(p.name for p in folder.iterdir() if p.is_dir())):
        for file in sorted((folder / name).iterdir()):
            with Image.open(file) as image:
                images.append(numpy.asarray(image.convert("RGB")).transpose(2, 0, 1))
            labels.append(label)
    return torch.from_numpy(numpy.stack(images)), torch.tensor(labels)


# --- the recipe in PyTorch ---

class Logits(nn.Module):
    """The network of modules/models/resnet9.h, with the same names of parameters."""

    def __init__(self, width=64, classes=10):
        super().__init__()

        def convolution(inputs, outputs):
            return [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs),
                    nn.ReLU(inplace=True)]

        def two(channels):
            return nn.Sequential(*convolution(channels, channels), *convolution(channels, channels))

        self.prep = nn.Sequential(*convolution(3, width))
        self.layer1 = nn.Sequential(*convolution(width, 2 * width), nn.MaxPool2d(2))
        self.residual1 = two(2 * width)
        self.layer2 = nn.Sequential(*convolution(2 * width, 4 * width), nn.MaxPool2d(2))
        self.layer3 = nn.Sequential(*convolution(4 * width, 8 * width), nn.MaxPool2d(2))
        self.residual3 = two(8 * width)
        self.fc = nn.Linear(8 * width, classes, bias=False)

    def forward(self, x):
        a = self.layer1(self.prep(x))
        b = self.layer3(self.layer2(a + self.residual1(a)))
        return self.fc((b + self.residual3(b)).amax((2, 3))) * SCALE


def augmented(x):
    """Crops, mirrors and cuts out a batch in [0, 1], on its device, with its own numbers for each picture."""
    n, _, h, w = x.shape
    rows = torch.arange(h, device=x.device)
    dy, dx = torch.randint(0, 2 * PADDING + 1, (2, n, 1), device=x.device)
    columns = torch.where(torch.rand(n, 1, device=x.device) < 0.5, rows.flip(0), rows)
    padded = F.pad(x, [PADDING] * 4).permute(0, 2, 3, 1)
    each = torch.arange(n, device=x.device).view(n, 1, 1)
    x = padded[each, (rows + dy).unsqueeze(2), (columns + dx).unsqueeze(1)].permute(0, 3, 1, 2)
    # The center may be any pixel, so that the square is smaller at the edges (arXiv 1708.04552).
    cy, cx = torch.randint(0, h, (2, n, 1), device=x.device)

    def covered(center):
        return (rows >= center - CUTOUT // 2) & (rows < center + CUTOUT // 2)

    return x.masked_fill((covered(cy).unsqueeze(2) & covered(cx).unsqueeze(1)).unsqueeze(1), 0)


class Recipe:
    def __init__(self, folder, device):
        self.device = device
        (x, y), (tx, ty) = load(folder / "train"), load(folder / "test")
        pixels = x.double() / 255
        self.mean = pixels.mean((0, 2, 3)).float().view(1, 3, 1, 1).to(device)
        self.std = pixels.std((0, 2, 3), unbiased=False).float().view(1, 3, 1, 1).to(device)
        self.x, self.y, self.tx, self.ty = (t.to(device) for t in (x, y, tx, ty))

    def inputs(self, raw, augments):
        x = raw.float() / 255
        if augments:
            x = augmented(x)
        return ((x - self.mean) / self.std).contiguous(memory_format=torch.channels_last)

    def autocast(self):
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda")

    def accuracy(self, model):
        model.eval()
        hits = 0
        with torch.no_grad(), self.autocast():
            for i in range(0, len(self.ty), 1024):
                hits += (model(self.inputs(self.tx[i:i + 1024], False)).argmax(1) == self.ty[i:i + 1024]).sum()
        model.train()
        return int(hits) / len(self.ty)

    def train(self, epochs, seed, compiles):
        """Returns (seconds, accuracy) at the end of each epoch."""
        torch.manual_seed(seed)
        model = Logits().to(self.device, memory_format=torch.channels_last)
        called = torch.compile(model) if compiles else model
        steps = len(self.y) // BATCH
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM, nesterov=True, weight_decay=DECAY)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, RATE, total_steps=epochs * steps, pct_start=0.2, anneal_strategy="linear", div_factor=25,
            final_div_factor=1000, cycle_momentum=False)
        curve = []
        for _ in range(epochs):
            start = time.perf_counter()
            order = torch.randperm(len(self.y), device=self.device)
            for i in range(steps):
                rows = order[i * BATCH:(i + 1) * BATCH]
                with self.autocast():
                    loss = F.cross_entropy(called(self.inputs(self.x[rows], True)), self.y[rows],
                                           label_smoothing=SMOOTHING)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
                schedule.step()
            if self.device.type == "cuda":
                torch.cuda.synchronize()
            seconds = time.perf_counter() - start
            curve.append((seconds, self.accuracy(model)))
        return cumulated(curve)


def cumulated(epochs):
    out, total = [], 0.0
    for seconds, accuracy in epochs:
        total += seconds
        out.append((total, accuracy))
    return out


# --- Taper ---

def lines_of(run, name, kind):
    lines = (json.loads(line) for line in (run / name).read_text().splitlines())
    return [line for line in lines if line["kind"] == kind]


def run_taper(program, folder, run, settings):
    call = [program, "train", str(ROOT / "configs/cifar10.yaml"), "data.path=%s" % folder, *settings, "--out",
            str(run)]
    end = subprocess.run(call, capture_output=True, text=True)
    if end.returncode != 0:
        sys.exit("%s\n%s" % (" ".join(call), end.stderr))
    return run


def curve_of(run):
    seconds = [line["seconds"] for line in lines_of(run, "timing.jsonl", "epoch")]
    # The last line is the test of the saved weights, which are those of the last epoch.
    accuracies = [line["accuracy"] for line in lines_of(run, "metrics.jsonl", "eval")][:len(seconds)]
    return cumulated(list(zip(seconds, accuracies)))


# --- the comparison ---

def without_compilation(curve):
    """Subtracts what the first epoch took longer than the second one."""
    if len(curve) < 2:
        return curve
    extra = max(0.0, 2 * curve[0][0] - curve[1][0])
    return [(seconds - extra, accuracy) for seconds, accuracy in curve]


def row(name, curves, target):
    reached = [next((s for s, a in curve if a >= target), math.inf) for curve in curves]
    last = [curve[-1] for curve in curves]
    spread = statistics.stdev(a for _, a in last) if len(last) > 1 else 0
    print("| %s | %.2f +- %.2f | %.1f | %s |" % (
        name, 100 * statistics.median(a for _, a in last), 100 * spread,
        statistics.median(s for s, _ in last),
        "%.1f" % statistics.median(reached) if statistics.median(reached) < math.inf else "not reached"))


def compare(args, folder, scratch):
    device = torch.device(args.device)
    recipe = Recipe(folder, device)
    ours, theirs = [], []
    for seed in range(args.seeds):  # in turn, so that both meet the same state of the machine
        run = run_taper(args.taper, folder, scratch / ("run-%d" % seed),
                        ["seed=%d" % seed, "device=%s" % args.device, "train.epochs=%d" % args.epochs])
        ours.append(curve_of(run))
        curve = recipe.train(args.epochs, seed, args.compile)
        theirs.append(without_compilation(curve) if args.compile else curve)
        print("seed %d: Taper %.2f %% after %.1f s, PyTorch %.2f %% after %.1f s" % (
            seed, 100 * ours[-1][-1][1], ours[-1][-1][0], 100 * theirs[-1][-1][1], theirs[-1][-1][0]), flush=True)
    print("\n| program | test accuracy, %% | seconds of training | seconds to %.1f %% |" % (100 * args.target))
    print("|---|---|---|---|")
    row("Taper", ours, args.target)
    row("PyTorch %s%s" % (torch.__version__, ", compiled" if args.compile else ""), theirs, args.target)
    return 0


# --- the check of the recipes ---

CHECK = ["device=cpu", "train.precision=fp32", "model.width=8", "train.batch_size=64", "train.eval_every=100000",
         "train.epochs=null"]
CHECK_RATE = 0.004  # rounding errors grow quickly with a large one


def check_losses(args, folder, scratch, recipe):
    """Compares the losses of the first steps, from the same weights and in the same order of samples."""
    steps = 8
    torch.manual_seed(1)
    model = Logits(8)
    torch.save(model.state_dict(), scratch / "start.pt")
    run = run_taper(args.taper, folder, scratch / "losses",
                    CHECK + ["model.init=%s" % (scratch / "start.pt"), "train.steps=%d" % steps, "data.transforms=none",
                             "train.shuffle=false", "optimizer.lr=%g" % CHECK_RATE])
    ours = [line["loss"] for line in lines_of(run, "metrics.jsonl", "train")]
    optimizer = torch.optim.SGD(model.parameters(), lr=CHECK_RATE, momentum=MOMENTUM, nesterov=True, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, CHECK_RATE, total_steps=steps, pct_start=0.2, anneal_strategy="linear", div_factor=25,
        final_div_factor=1000, cycle_momentum=False)
    worst = 0
    for step in range(steps):
        at = step * 64 % (len(recipe.y) // 64 * 64)
        loss = F.cross_entropy(model(recipe.inputs(recipe.x[at:at + 64], False)), recipe.y[at:at + 64],
                               label_smoothing=SMOOTHING)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        worst = max(worst, abs(loss.item() - ours[step]) / loss.item())
    print("losses of %d steps differ by at most %.1e of their values" % (steps, worst))
    return worst < 1e-3


def learned_by_heart(recipe):
    """Returns a model whose losses on the pictures are small, so that those on changed pictures are larger."""
    torch.manual_seed(3)
    model = Logits(8)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(60 * (len(recipe.y) // 64)):
        at = step * 64 % (len(recipe.y) // 64 * 64)
        loss = F.cross_entropy(model(recipe.inputs(recipe.x[at:at + 64], False)), recipe.y[at:at + 64])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def check_augmentation(args, folder, scratch, recipe):
    """Compares the means of losses over many passes of pictures that are augmented anew in each."""
    passes = 60
    steps = passes * (len(recipe.y) // 64)
    model = learned_by_heart(recipe)
    torch.save(model.state_dict(), scratch / "learned.pt")
    common = CHECK + ["model.init=%s" % (scratch / "learned.pt"), "train.shuffle=false", "optimizer.lr=1e-12",
                      "train.steps=%d" % steps]
    ours = [line["loss"] for line in lines_of(run_taper(args.taper, folder, scratch / "augmented", common),
                                              "metrics.jsonl", "train")]
    plain = [line["loss"] for line in lines_of(run_taper(args.taper, folder, scratch / "plain",
                                                         common + ["data.transforms=none"]), "metrics.jsonl", "train")]
    torch.manual_seed(2)
    theirs = []
    with torch.no_grad():
        for step in range(steps):
            at = step * 64 % (len(recipe.y) // 64 * 64)
            theirs.append(F.cross_entropy(model(recipe.inputs(recipe.x[at:at + 64], True)), recipe.y[at:at + 64],
                                          label_smoothing=SMOOTHING).item())
    # Batches differ in their mean, so that the noise is that of one batch over the passes.
    batches = len(recipe.y) // 64
    error = math.sqrt(sum(statistics.variance(values[k::batches]) / passes
                          for values in (ours, theirs) for k in range(batches))) / batches
    difference = statistics.mean(ours) - statistics.mean(theirs)
    effect = statistics.mean(ours) - statistics.mean(plain)
    print("augmented losses: Taper %.6f, PyTorch %.6f, %.1f standard errors apart; the augmentation changes them by "
          "%.1f" % (statistics.mean(ours), statistics.mean(theirs), abs(difference) / error, abs(effect) / error))
    return abs(difference) < 4 * error and abs(effect) > 8 * error


def check(args, folder, scratch):
    torch.set_num_threads(1)
    recipe = Recipe(folder, torch.device("cpu"))
    good = check_losses(args, folder, scratch, recipe)
    good = check_augmentation(args, folder, scratch, recipe) and good
    print("the recipes agree" if good else "the recipes differ")
    return 0 if good else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pictures", type=pathlib.Path)
    parser.add_argument("--taper", required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=24)
    parser.add_argument("--target", type=float, default=0.9)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--limit", type=int, help="records of each .pack file; default: all, with --check 256")
    args = parser.parse_args()
    limit = args.limit or (256 if args.check else 1 << 30)
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        folder = pictures_in(args.pictures, scratch / "pictures", limit)
        sys.exit((check if args.check else compare)(args, folder, scratch))


if __name__ == "__main__":
    main()
