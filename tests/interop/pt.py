"""Files of torch.save that Taper must read, and a check that PyTorch reads Taper's files.

  python tests/interop/pt.py make            writes the files to pt/ in this folder
  python tests/interop/pt.py check FILE      loads a file that Taper saved (called by pt_test.cpp)

Needs torch. kinds.pt has tensors of known values in every dtype and layout, some with shared storage.
checkpoint.pt has a model, its optimizer, and an input with its output. deflated.pt is checkpoint.pt as a
compressed archive. protocol4.pt uses another pickle protocol. old.pt has the format before PyTorch 1.6.
module.pt has an object instead of tensors. call.pt has a tensor, and an object that calls a function.
"""

import pathlib
import sys
import zipfile

import torch

HERE = pathlib.Path(__file__).parent / "pt"
DTYPES = "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8".split()


class Call:
    def __reduce__(self):
        import os

        return os.system, ("touch /tmp/taper_was_here",)


def kinds():
    x = torch.arange(24.0)
    tied = torch.nn.Parameter(torch.arange(6.0).view(2, 3))
    out = {d: torch.arange(6).view(2, 3).to(getattr(torch, d)) for d in DTYPES}
    out["bool"] = torch.tensor([True, False, True])
    out["scalar"] = torch.tensor(2.5)
    out["empty"] = torch.empty(0, 3)
    out["transposed"] = torch.arange(6.0).view(2, 3).t()
    out["sliced"] = x.view(4, 6)[1:3, ::2]
    out["shared"] = x[20:]
    out["expanded"] = torch.ones(1, 1).expand(2, 3)
    out["channels_last"] = x.view(1, 2, 3, 4).to(memory_format=torch.channels_last)
    out["tied"], out["tied_again"] = tied, tied
    out["nested"] = {"list": [torch.ones(1), (torch.zeros(1), 7)], 3: torch.tensor(3)}
    out["beside"] = [None, True, -5, 1 << 40, 0.5, "text", b"bytes", torch.Size([1, 2]), {4}]
    out["dtype"] = torch.bfloat16
    return out


def checkpoint():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x = torch.randn(16, 4)
    model(x).square().sum().backward()
    optimizer.step()
    out = {"epoch": 3, "model": model.state_dict(), "optimizer": optimizer.state_dict(), "x": x}
    out["y"] = model.eval()(x).detach()
    return out, model


def deflate(source, target):
    with zipfile.ZipFile(source) as plain:
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
            for entry in plain.namelist():
                packed.writestr(zipfile.ZipInfo(entry), plain.read(entry), zipfile.ZIP_DEFLATED)


def make():
    HERE.mkdir(exist_ok=True)
    torch.save(kinds(), HERE / "kinds.pt")
    state, model = checkpoint()
    torch.save(state, HERE / "checkpoint.pt")
    deflate(HERE / "checkpoint.pt", HERE / "deflated.pt")
    torch.save(state["model"], HERE / "protocol4.pt", pickle_protocol=4)
    torch.save(model, HERE / "module.pt")
    torch.save({"weight": torch.ones(2), "more": Call()}, HERE / "call.pt")
    torch.save(kinds(), HERE / "old.pt", _use_new_zipfile_serialization=False)


def check(path):
    """Checks that a file has the tensors of kinds() that pt_test.cpp saves."""
    got = torch.load(path, weights_only=True)
    want = {d: kinds()[d] for d in DTYPES + ["bool", "scalar", "empty", "transposed"]}
    assert list(got) == [*want, "tied", "tied_again"], list(got)
    for name, x in want.items():
        assert got[name].dtype == x.dtype and torch.equal(got[name], x), name
    assert got["tied"].data_ptr() == got["tied_again"].data_ptr()


if __name__ == "__main__":
    if sys.argv[1:] == ["make"]:
        make()
    elif sys.argv[1:2] == ["check"] and len(sys.argv) == 3:
        check(sys.argv[2])
    else:
        sys.exit(__doc__)
