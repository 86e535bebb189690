"""Converts optimizer state between Taper's files and PyTorch.

  optimizer.load_state_dict(to_torch(load("taper.safetensors"), optimizer))
  save("for_taper.safetensors", from_torch(optimizer))

Needs only torch: this module reads and writes safetensors files of a few dtypes itself.
"""
import json
import struct

import torch

DTYPES = {"F64": torch.float64, "F32": torch.float32, "I64": torch.int64, "BOOL": torch.bool}
ADJUST_LR = ["original", "match_rms_adamw"]  # Taper stores the index
# Settings of PyTorch's implementation, which Taper does not have.
PYTORCH_ONLY = {"foreach", "fused", "capturable", "differentiable", "params"}
ADAMS = (torch.optim.Adam, torch.optim.AdamW)  # weight decay is decoupled depending on the type
LINE_SEARCH = [None, "strong_wolfe"]  # Taper stores the index
INTEGERS = {"ns_steps", "max_iter", "max_eval", "history_size"}
LISTS = {"old_dirs", "old_stps", "ro"}  # Taper stores them stacked


def save(path, tensors):
    names = {dtype: name for name, dtype in DTYPES.items()}
    header, data = {}, b""
    for name, x in sorted(tensors.items(), key=lambda item: -item[1].element_size()):
        raw = x.contiguous().numpy().tobytes()
        header[name] = {"dtype": names[x.dtype], "shape": list(x.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def load(path):
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = bytearray(f.read())
    header.pop("__metadata__", None)
    out = {}
    for name, e in header.items():
        begin, end = e["data_offsets"]
        raw = torch.frombuffer(data[begin:end], dtype=torch.uint8) if end > begin else torch.zeros(0, dtype=torch.uint8)
        out[name] = raw.view(DTYPES[e["dtype"]]).reshape(e["shape"]).clone()
    return out


def to_torch(tensors, optimizer):
    """Returns a state dict for optimizer.load_state_dict, with the optimizer's values of PYTORCH_ONLY."""
    state, groups = {}, optimizer.state_dict()["param_groups"]
    for name, x in tensors.items():
        kind, index, key = name.split(".")
        if kind == "state":
            state.setdefault(int(index), {})[key] = list(x) if key in LISTS else x
        elif key == "adjust_lr_fn":
            groups[int(index)][key] = ADJUST_LR[x]
        elif key == "line_search_fn":
            groups[int(index)][key] = LINE_SEARCH[x]
        elif key == "params":
            groups[int(index)][key] = x.tolist()
        else:
            groups[int(index)][key] = tuple(x.tolist()) if x.dim() else x.item()
    return {"state": state, "param_groups": groups}


def from_torch(optimizer):
    saved, out = optimizer.state_dict(), {}
    for index, state in saved["state"].items():
        for key, x in state.items():
            if key in LISTS:
                x = torch.stack([torch.as_tensor(part, dtype=torch.float64) for part in x])
            if x is None or key == "al":
                continue
            whole = key in ("func_evals", "n_iter")
            x = torch.as_tensor(x, dtype=None if whole or torch.is_tensor(x) else torch.float64)
            out[f"state.{index}.{key}"] = x.float() if key == "step" else x
    for index, group in enumerate(saved["param_groups"]):
        for key, value in group.items():
            name = f"param_groups.{index}.{key}"
            if key == "params":
                out[name] = torch.tensor(value)
            elif key == "adjust_lr_fn":
                out[name] = torch.tensor(ADJUST_LR.index(value or "original"))
            elif key == "line_search_fn":
                out[name] = torch.tensor(LINE_SEARCH.index(value))
            elif key == "decoupled_weight_decay" and isinstance(optimizer, ADAMS):
                continue
            elif key not in PYTORCH_ONLY:
                whole = isinstance(value, bool) or key in INTEGERS
                out[name] = torch.tensor(value, dtype=None if whole else torch.float64)
    return out
