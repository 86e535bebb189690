"""Runs every CASE.onnx of a folder in ONNX Runtime and compares the results with Taper's.

  python run_onnx.py FOLDER      the folder also has CASE.INPUT.npy and CASE.OUTPUT.npy

An input of strings is CASE.INPUT.txt, with one line per row.

Needs onnx, onnxruntime and numpy. Exits with 1 and names the cases if ONNX's checker refuses a model, or
if a result differs in shape, in dtype or, by more than 1e-5 (1 + |result|), in a value.
"""

import pathlib
import sys

import numpy
import onnx
import onnxruntime


def load(path, value):
    if value.type == "tensor(string)":
        lines = path.with_suffix(f".{value.name}.txt").read_text().splitlines()
        return numpy.array(lines, dtype=object).reshape(-1, 1)
    return numpy.load(path.with_suffix(f".{value.name}.npy"))


def wrong(path):
    onnx.checker.check_model(onnx.load(path), full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    arrays = lambda values: {v.name: load(path, v) for v in values}
    want = arrays(session.get_outputs())
    got = dict(zip(want, session.run(None, arrays(session.get_inputs()))))
    for name, y in want.items():
        if got[name].shape != y.shape or got[name].dtype != y.dtype:
            return f"{name}: {got[name].dtype}{got[name].shape}, not {y.dtype}{y.shape}"
        if not numpy.allclose(got[name], y, rtol=1e-5, atol=1e-5, equal_nan=True):
            off = numpy.nanmax(numpy.abs(got[name].astype(float) - y.astype(float)))
            return f"{name}: differs by {off}"
    return ""


def main(folder):
    cases = sorted(pathlib.Path(folder).glob("*.onnx"))
    failed = 0
    for path in cases:
        try:
            text = wrong(path)
        except Exception as error:
            text = repr(error)
        if text:
            failed += 1
            print(f"{path.stem}: {text}")
    print(f"{len(cases)} cases, {failed} wrong")
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) if len(sys.argv) == 2 else __doc__)
