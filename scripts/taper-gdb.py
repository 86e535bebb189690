"""Prints taper::Tensor, Shape, Device and DType in gdb.

    (gdb) source taper-gdb.py
    (gdb) print x
    $1 = tensor([2, 3], float32, cpu, requires_grad) = {1, 2, 3, 4, 5, 6}

The elements of a CPU tensor are shown in row-major order, up to `set print elements`. The memory of a GPU
cannot be read from gdb, so a CUDA tensor shows its shape only.
"""

import struct

import gdb
import gdb.printing

# Name, size in bytes and format for struct.unpack, in the order of the enumerators of taper::DType.
DTYPES = [
    ("float32", 4, "f"), ("float64", 8, "d"), ("float16", 2, "e"), ("bfloat16", 2, None), ("int64", 8, "q"),
    ("int32", 4, "i"), ("int16", 2, "h"), ("int8", 1, "b"), ("uint8", 1, "B"), ("bool", 1, "?"),
]


def sizes(shape):
    return [int(shape["dims_"][i]) for i in range(int(shape["size_"]))]


def device_name(device):
    if int(device["type_"]) == 0:
        return "cpu"
    index = int(device["index_"])
    return "cuda" if index < 0 else f"cuda:{index}"


def element(memory, dtype):
    name, _, form = DTYPES[dtype]
    if name == "bfloat16":  # the upper half of a float
        return struct.unpack("<f", b"\0\0" + memory)[0]
    return struct.unpack("<" + form, memory)[0]


def offsets(shape, strides):
    """Yields the offset of each element in row-major order."""
    if not shape:
        yield 0
        return
    for i in range(shape[0]):
        for rest in offsets(shape[1:], strides[1:]):
            yield i * strides[0] + rest


class ShapePrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return str(sizes(self.value))


class DevicePrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return device_name(self.value)


class TensorPrinter:
    def __init__(self, value):
        self.impl = value["impl_"]["p_"]

    def to_string(self):
        if int(self.impl) == 0:
            return "tensor(undefined)"
        impl = self.impl.dereference()
        storage = impl["storage"]["p_"].dereference()
        dtype = int(impl["dtype"])
        words = [str(sizes(impl["shape"])), DTYPES[dtype][0], device_name(storage["device"])]
        if bool(impl["requires_grad"]) or int(impl["grad_fn"]["p_"]) != 0:
            words.append("requires_grad")
        text = "tensor(" + ", ".join(words) + ")"
        if words[2] != "cpu":
            return text
        return text + " = {" + self.elements(impl, storage, dtype) + "}"

    def elements(self, impl, storage, dtype):
        most = gdb.parameter("print elements") or 200
        size = DTYPES[dtype][1]
        start = int(storage["data"]) + int(impl["offset"]) * size
        process = gdb.selected_inferior()
        shown = []
        for offset in offsets(sizes(impl["shape"]), sizes(impl["strides"])):
            if len(shown) == most:
                shown.append("...")
                break
            shown.append(f"{element(bytes(process.read_memory(start + offset * size, size)), dtype):g}")
        return ", ".join(shown)


def register():
    printers = gdb.printing.RegexpCollectionPrettyPrinter("taper")
    printers.add_printer("Tensor", r"^taper::(v\d+::)?Tensor$", TensorPrinter)
    printers.add_printer("Shape", r"^taper::(v\d+::)?Shape$", ShapePrinter)
    printers.add_printer("Device", r"^taper::(v\d+::)?Device$", DevicePrinter)
    gdb.printing.register_pretty_printer(None, printers, replace=True)


register()
