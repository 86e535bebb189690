"""Compares Taper with PyTorch's operator database (OpInfo): results, gradients, aliasing, errors.

  python tests/interop/opinfo.py --taper build/tests/test_interop            every case; a table by operator
  python tests/interop/opinfo.py --taper build/tests/test_interop --only conv2d,div --show 20
  python tests/interop/opinfo.py --taper build/tests/test_interop --store    also writes opinfo.safetensors
  python tests/interop/opinfo.py --taper build/tests/test_interop --only roll --store    replaces only roll in it

Needs torch, numpy and safetensors. The cases of each operator are drawn with a fixed seed, computed by PyTorch on
the CPU and written to a file per operator, which the test OpInfo.* of test_interop reads. opinfo_test.cpp describes
what it compares; opinfo_rows.cpp defines how each operator is called. A crash counts as a failure of the case.
--keep DIR keeps the files in DIR and uses those that exist. The exit code is 1 if the failure of a case is not
explained by DIFFERENCES. opinfo.safetensors has a few small cases of each operator, for every test run.
"""

import argparse
import collections
import ctypes
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import warnings

import numpy
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import ErrorInput

from opinfo_table import (DIFFERENCES, IN_PLACE, IN_PLACE_ONLY, OPERATORS, OVERRIDES, Inexpressible, bind,
                          is_random, with_tensors)

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
          torch.int8, torch.uint8, torch.bool]
MOST_DIMS, MOST_BYTES = 8, 1 << 18
STORED = pathlib.Path(__file__).with_suffix(".safetensors")


def name_of(dtype):
    return str(dtype).removeprefix("torch.")


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for part in value for t in tensors_in(part)]
    return []


def replaced(value, f):
    if isinstance(value, torch.Tensor):
        return f(value)
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return type(value)(replaced(part, f) for part in value) if type(value) in (list, tuple) else value
    if isinstance(value, dict):
        return {key: replaced(part, f) for key, part in value.items()}
    return value


def bytes_of(storage):
    return ctypes.string_at(storage.data_ptr(), storage.nbytes()) if storage.nbytes() else b""


class File:
    """Cases and the bytes of their tensors. Equal bytes are stored once."""

    def __init__(self):
        self.data, self.places, self.cases = bytearray(), {}, []

    def place(self, raw):
        if raw not in self.places:
            self.places[raw] = len(self.data)
            self.data += raw + b"\0" * (-len(raw) % 8)
        return self.places[raw]

    def values(self, t):
        """Stores the elements of a tensor in row-major order."""
        dense = torch.empty(t.shape, dtype=t.dtype).copy_(t.detach())
        return {"dtype": name_of(t.dtype), "shape": list(t.shape), "at": self.place(bytes_of(dense.untyped_storage()))}

    def save(self, path):
        text = json.dumps(self.cases, separators=(",", ":")).encode()
        save_file({"cases": torch.frombuffer(bytearray(text), dtype=torch.uint8),
                   "data": torch.frombuffer(bytearray(self.data or b"\0"), dtype=torch.uint8)}, path)

    @staticmethod
    def load(path):
        file = File()
        with safe_open(path, "pt") as f:
            file.cases = json.loads(bytes(f.get_tensor("cases").numpy()))
            file.data = bytearray(f.get_tensor("data").numpy())
        return file


def dy_of(y):
    """Returns the output gradient: -5/4 ... 5/4 by position in y. opinfo_test.cpp computes the same."""
    return ((torch.arange(y.numel()) * 7 % 11 - 5) / 4).reshape(y.shape).to(y.dtype)


class Call:
    """One call in PyTorch, with copies of the arguments, outputs and gradients."""

    def __init__(self, f, args, kwargs, in_place, twice, dtype=None):
        cast = (lambda t: t.to(dtype) if t.is_floating_point() else t) if dtype else (lambda t: t)
        # Each storage is copied once, so that tensors that share a storage still share the copy.
        own = {}

        def fresh(t):
            t = cast(t.detach()).requires_grad_(t.requires_grad)
            key = t.untyped_storage()._cdata
            if key not in own:
                own[key] = (t.untyped_storage(), t.untyped_storage().clone())
            copy = torch.empty(0, dtype=t.dtype).set_(own[key][1], t.storage_offset(), t.shape, t.stride())
            return copy.requires_grad_(t.requires_grad)

        self.args, self.kwargs = replaced(tuple(args), fresh), replaced(kwargs, fresh)
        self.storages = [copy for _, copy in own.values()]
        self.before = [bytes_of(s) for s in self.storages]
        inputs = [t for t in tensors_in([*self.args, *self.kwargs.values()])]
        self.leaves = [t for t in inputs if t.requires_grad]
        called = self.args
        self.cloned = in_place and bool(self.leaves)
        if self.cloned:
            called = (self.args[0].clone(), *self.args[1:])
        outputs = f(*called, **self.kwargs)
        self.outputs = tensors_in(outputs if isinstance(outputs, (list, tuple)) else [outputs])
        self.first = self.second = None
        ys = [y for y in self.outputs if y.requires_grad]
        if self.leaves and ys:
            self.first = torch.autograd.grad(ys, self.leaves, [dy_of(y) for y in ys], create_graph=twice,
                                             allow_unused=True)
            dxs = [dx for dx in self.first if dx is not None and dx.requires_grad]
            if twice and dxs:
                try:
                    self.second = torch.autograd.grad(dxs, self.leaves, [dy_of(dx) for dx in dxs], allow_unused=True)
                except RuntimeError:  # PyTorch has no second derivative
                    pass

    def place_of(self, t):
        """Returns the index of the argument storage that t uses, or None."""
        ids = [s.data_ptr() for s in self.storages]
        return ids.index(t.untyped_storage().data_ptr()) if t.numel() and t.untyped_storage().data_ptr() in ids else None


def overlaps_itself(t):
    """Returns whether elements may share memory: a stride does not exceed the extent of smaller strides."""
    reach = 0
    for stride, size in sorted((st, s) for st, s in zip(t.stride(), t.shape) if s > 1):
        if stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


def encoded(value, call):
    """Returns the JSON form of an argument."""
    if isinstance(value, torch.Tensor):
        at = [s._cdata for s in call.storages].index(value.untyped_storage()._cdata)
        form = {"tensor": at, "dtype": name_of(value.dtype), "shape": list(value.shape)}
        if not value.is_contiguous():
            form["strides"] = list(value.stride())
        if value.storage_offset():
            form["offset"] = value.storage_offset()
        if value.requires_grad:
            form["grad"] = [id(leaf) for leaf in call.leaves].index(id(value))
        return form
    if isinstance(value, (list, tuple)):
        return [encoded(part, call) for part in value]
    if isinstance(value, slice):
        return {"slice": [value.start, value.stop, value.step]}
    if value is Ellipsis:
        return {"ellipsis": True}
    if isinstance(value, torch.dtype):
        if value not in DTYPES:
            raise Inexpressible(f"{name_of(value)} tensors")
        return {"dtype": name_of(value)}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (float, numpy.floating)):
        return float(value) if numpy.isfinite(value) else {"number": str(float(value))}
    if isinstance(value, numpy.integer):
        return int(value)
    raise Inexpressible(f"{type(value).__name__} as an argument")


def slack(got, exact):
    """Returns PyTorch's own error against its result in float64, up to a limit."""
    if got is None or exact is None or got.shape != exact.shape or not got.is_floating_point() or not got.numel():
        return 0.0
    error = (got.detach().double() - exact.detach().double()).abs()
    finite = error[error.isfinite()]
    largest = got.detach().double().abs()
    largest = largest[largest.isfinite()]
    if not finite.numel():
        return 0.0
    return min(float(finite.max()), 32 * torch.finfo(got.dtype).eps * float(largest.max()))


def result(file, t, exact):
    form = file.values(t)
    off = slack(t, exact)
    if off > 0:
        form["slack"] = float(f"{off:.2g}")
    return form


def outcome(file, call, case, exact):
    """Adds PyTorch's results to the case."""
    case["outputs"] = []
    for i, y in enumerate(call.outputs):
        form = result(file, y, exact.outputs[i] if exact and i < len(exact.outputs) else None)
        at = call.place_of(y)
        if at is not None:
            form.update(alias=at, strides=list(y.stride()), offset=y.storage_offset())
        case["outputs"].append(form)
    for what in ("first", "second"):
        grads = getattr(call, what)
        if grads is not None:
            against = getattr(exact, what, None) or [None] * len(grads)
            case[what] = [None if g is None else result(file, g, e) for g, e in zip(grads, against)]
    after = {i: file.place(bytes_of(s)) for i, s in enumerate(call.storages) if bytes_of(s) != call.before[i]}
    if after:
        case["after"] = {str(i): at for i, at in after.items()}


def add_case(file, counts, op, row, signature, f, sample, dtype, kind, in_place=False, error=None):
    """Adds a sample as a case, or counts why it cannot be expressed."""
    args, kwargs = (sample.input, *sample.args), sample.kwargs
    try:
        if any(t.dtype not in DTYPES for t in tensors_in([*args, *kwargs.values()])):
            raise Inexpressible("complex tensors")
        bound = bind(op, signature, args, kwargs)
        inputs = tensors_in([*args, *kwargs.values()])
        if any(t.dim() > MOST_DIMS for t in inputs):
            raise Inexpressible(f"more than {MOST_DIMS} dimensions")
        if sum(t.untyped_storage().nbytes() for t in inputs) > MOST_BYTES:
            return
        if in_place and inputs and overlaps_itself(inputs[0]):
            raise Inexpressible("in place on elements that share memory: the last write wins")
        case = {"op": row, "kind": kind, "dtype": name_of(dtype)}
        call, failure = None, None
        twice = dtype in (torch.float32, torch.float64)
        torch.default_generator.manual_seed(1)
        names = list(bound)

        def run(**how):
            return Call(f, args, kwargs, in_place, twice, **how)

        try:
            call = run()
        except Exception as e:  # PyTorch raises many types
            failure = e
        if error is not None and failure is None:
            return
        if failure is not None:
            if isinstance(failure, (AssertionError, NotImplementedError)) and error is None and not str(failure):
                return
            call = Call(lambda *a, **k: [], args, kwargs, False, False)
            case["error"] = [type(failure).__name__, str(failure).split("\n")[0][:200]]
        elif any(t.dtype not in DTYPES or t.dim() > MOST_DIMS for t in call.outputs):
            raise Inexpressible(f"a result of another dtype or more than {MOST_DIMS} dimensions")
        bound = bind(op, signature, call.args, call.kwargs)
        case["args"] = {name: encoded(bound[name], call) for name in names}
        case["storages"] = [file.place(raw) for raw in call.before]
        case["bytes"] = [len(raw) for raw in call.before]
        if failure is None:
            exact = None
            if dtype in (torch.float32, torch.float16, torch.bfloat16):
                try:
                    torch.default_generator.manual_seed(1)
                    exact = run(dtype=torch.float64)
                except Exception:
                    pass
            if is_random(row, bound):
                case["random"] = True
            outcome(file, call, case, exact)
            if call.cloned:
                case["cloned"] = True
        text = json.dumps(case)
        if text not in counts["seen"]:
            counts["seen"].add(text)
            file.cases.append(case)
    except Inexpressible as e:
        counts["inexpressible"][str(e)] += 1


def seeded(seed=0):
    torch.default_generator.manual_seed(seed)
    numpy.random.seed(seed)
    random.seed(seed)


def samples_of(op, dtype):
    """Yields (kind, sample) for an operator in a dtype; nothing if it has no samples."""
    seeded()
    grad = dtype.is_floating_point and op.supports_autograd
    try:
        drawn = list(op.reference_inputs("cpu", dtype, requires_grad=grad))
    except Exception:
        try:
            seeded()
            drawn = list(op.sample_inputs("cpu", dtype, requires_grad=grad))
        except Exception:
            return
    if dtype not in op.dtypes:  # PyTorch refuses the dtype: a few samples suffice
        drawn = drawn[:3]
    for sample in drawn:
        yield "plain", sample
    for sample in drawn:
        if tensors_in([sample.input, *sample.args, *sample.kwargs.values()]):
            try:
                yield "noncontiguous", sample.noncontiguous()
            except Exception:
                pass


def draw(op_name):
    """Returns the file of one operator, and the number of inexpressible calls by reason."""
    file, counts = File(), {"inexpressible": collections.Counter(), "seen": set()}
    for op in op_db:
        full = f"{op.name}/{op.variant_test_name}"
        signature = OPERATORS.get(full) or OPERATORS.get(op.name) or IN_PLACE_ONLY.get(op.name)
        if op.name != op_name or not signature or "decomposed" in full or "cudnn" in full:
            continue
        if full.startswith("normal/") and full != "normal/in_place":
            continue
        row = signature.split(":")[0]
        calls = [] if op.name in IN_PLACE_ONLY else [(row, OVERRIDES.get(op.name, op.op), row.endswith("_"))]
        if op.name in IN_PLACE and op.inplace_variant:
            calls.append((row.rstrip("_") + "_", op.inplace_variant, True))
        for dtype in DTYPES:
            for kind, sample in samples_of(op, dtype):
                sample = with_tensors(op.name, sample)
                for name, f, in_place in calls:
                    if in_place and dtype is torch.float32:  # float64 covers recorded writes, float32 unrecorded ones
                        sample = sample.transform(lambda t: t.detach() if isinstance(t, torch.Tensor) else t)
                    add_case(file, counts, op.name, name, signature, f, sample, dtype, kind, in_place)
        if op.error_inputs_func is not None:
            seeded()
            for e in op.error_inputs("cpu"):
                if isinstance(e, ErrorInput):
                    for name, f, in_place in calls:
                        add_case(file, counts, op.name, name, signature, f, e.sample_input, torch.float32, "error",
                                 in_place, error=e)
    return file, counts["inexpressible"]


def run_taper(program, path, total):
    """Returns {case: lines of the report}. After a crash, which is reported, the next case is run."""
    lines, start = {}, 0
    report = pathlib.Path(str(path) + ".report")
    while start < total:
        report.write_text("")
        env = {**os.environ, "TAPER_OPINFO": str(path), "TAPER_OPINFO_REPORT": str(report),
               "TAPER_OPINFO_FROM": str(start)}
        done = subprocess.run([program, "--gtest_filter=OpInfo.ReadsAFileOfCases", "--gtest_brief=1"], env=env,
                              capture_output=True, text=True)
        last = start - 1
        for text in report.read_text().splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if "begin" in line:
                last = line["begin"]
            else:
                lines.setdefault(line["case"], []).append(line)
        if last < start:
            sys.exit(f"{program} did not read {path}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        if last < total - 1 or done.returncode < 0:
            lines[last] = [{"case": last, "result": "failed", "what": f"crash: exit code {done.returncode}"}]
        start = last + 1
    return lines


def explained(case, what):
    for rows, text, reason in DIFFERENCES:
        if re.fullmatch(rows, case["op"]) and re.match(text, f"{case['dtype']}: {what}", re.S):
            return reason
    return None


def shown(case):
    return json.dumps(case["args"])[:300]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--taper", required=True, help="the program test_interop")
    parser.add_argument("--only", help="OpInfo names, separated by commas")
    parser.add_argument("--keep", help="folder for the files of cases; existing ones are used")
    parser.add_argument("--show", type=int, default=3, help="unexplained cases to print for each operator")
    parser.add_argument("--store", action="store_true", help=f"write {STORED.name}")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    folder = pathlib.Path(options.keep or tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    names = options.only.split(",") if options.only else sorted({o.split("/")[0] for o in OPERATORS} | {*IN_PLACE_ONLY})
    rows, reasons, missing, chosen = [], collections.Counter(), collections.Counter(), Selection()
    said = [0, 0]
    for name in names:
        path = folder / f"{name}.safetensors"
        if not path.exists():
            file, inexpressible = draw(name)
            file.save(path)
            path.with_suffix(".json").write_text(json.dumps(inexpressible))
        file = File.load(path)
        lines = run_taper(options.taper, path, len(file.cases))
        count = collections.Counter(cases=len(file.cases))
        for reason, n in json.loads(path.with_suffix(".json").read_text()).items():
            missing[f"{name}: {reason}"] += n
            count["inexpressible"] += n
        printed = 0
        for i, case in enumerate(file.cases):
            failed = []
            for line in lines.get(i, []):
                if line["result"] == "inexpressible":
                    missing[f"{name}: {line['what']}"] += 1
                    count["inexpressible"] += 1
                    count["cases"] -= 1
                    break
                if line["result"] == "refused":
                    said[line["same"]] += 1
                    continue
                failed.append(line)
            else:
                why = [explained(case, line["what"]) for line in failed]
                unexplained = [line for line, reason in zip(failed, why) if not reason]
                if failed and not unexplained:
                    reasons[f"{case['op']}: {why[0]}"] += 1
                count["unexplained" if unexplained else "purpose" if failed else "equal"] += 1
                if not failed:
                    chosen.offer(name, file, case)
                for line in unexplained:
                    if printed < options.show:
                        print(f"  {case['op']} {i} {case['dtype']} {case['kind']}: {line['what'][:300]}\n"
                              f"      {shown(case)}")
                    printed += 1
        rows.append((name, count))
        print("{:48}{cases:7}{equal:7}{purpose:9}{unexplained:12}{inexpressible:14}".format(
            name, **{k: count[k] for k in ("cases", "equal", "purpose", "unexplained", "inexpressible")}), flush=True)
    total = collections.Counter()
    for _, count in rows:
        total += count
    print("\n" + "{:48}{:>7}{:>7}{:>9}{:>12}{:>14}".format("operator", "cases", "equal", "purpose", "unexplained",
                                                            "inexpressible"))
    for name, count in [*rows, ("all", total)]:
        print("{:48}{cases:7}{equal:7}{purpose:9}{unexplained:12}{inexpressible:14}".format(
            name, **{k: count[k] for k in ("cases", "equal", "purpose", "unexplained", "inexpressible")}))
    print(f"\nrefusals that begin like PyTorch's: {said[1]} of {sum(said)}\n\nintended differences:")
    for reason, n in reasons.most_common():
        print(f"{n:7} {reason}")
    print("\nnot expressible:")
    for reason, n in missing.most_common():
        print(f"{n:7} {reason}")
    if options.store:
        chosen.save(STORED, File.load(STORED) if options.only else File())
    return 1 if total["unexplained"] else 0


class Selection:
    """The smallest passing case of each operator, dtype, kind and form of arguments."""

    def __init__(self):
        self.best = {}

    def offer(self, name, file, case):
        form = json.dumps({k: "t" if isinstance(v, dict) else type(v).__name__ if isinstance(v, (int, float, list))
                           and not isinstance(v, bool) else v for k, v in case["args"].items()})
        size = len(json.dumps(case)) + sum(case["bytes"])
        main = case["dtype"] in ("float64",)
        key = (name, case["op"], case["dtype"], case["kind"] if main else case["kind"] == "error",
               "error" in case, form if main else "")
        if size < self.best.get(key, (4000,))[0]:
            self.best[key] = (size, file, case)

    def save(self, path, others):
        """Writes the selected cases, and the cases of `others` for all other operators."""
        own = [(file, case) for _, (_, file, case) in sorted(self.best.items())]
        drawn = {case["op"] for _, case in own}
        kept = [(others, case) for case in others.cases if case["op"] not in drawn]
        out = File()
        for file, case in sorted(kept + own, key=lambda pair: pair[1]["op"]):
            def moved(at, count):
                return out.place(bytes(file.data[at:at + count]))

            case = json.loads(json.dumps(case))
            case["storages"] = [moved(at, n) for at, n in zip(case["storages"], case["bytes"])]
            for i, at in case.get("after", {}).items():
                case["after"][i] = moved(at, case["bytes"][int(i)])
            for t in case.get("outputs", []) + [t for w in ("first", "second") for t in case.get(w, []) if t]:
                width = torch.empty(0, dtype=getattr(torch, t["dtype"])).element_size()
                t["at"] = moved(t["at"], width * int(numpy.prod(t["shape"], dtype=numpy.int64)))
            out.cases.append(case)
        out.save(path)
        print(f"{path}: {len(out.cases)} cases, {path.stat().st_size} bytes")


if __name__ == "__main__":
    sys.exit(main())
