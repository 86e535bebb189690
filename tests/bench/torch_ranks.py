"""PyTorch's side of distributed.py: workloads of torch_side.py under DistributedDataParallel, with the
protocol of tests/bench/distributed.h. Each rank is a process with RANK and related variables in the
environment. Without them the model is trained by one process, without DistributedDataParallel.

    python3 torch_ranks.py prepare DIRECTORY NAME...      as in torch_side.py; also prints the versions
    python3 torch_ranks.py NAME MODE DIRECTORY [--first-step]
    python3 torch_ranks.py collectives MOST_BYTES

MODE: eager, compile, compile-ro or graph. With the suffix "-copies", gradients are copied to buckets and
back (gradient_as_bucket_view=False); otherwise they are views of buckets.
"""
import json
import os
import sys
import time

import torch
import torch.distributed as dist

from torch_side import DEVICE, graphed, prepare, prepared

RANK, RANKS = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
LOCAL = int(os.environ.get("LOCAL_RANK", 0))


def say(**words):
    if RANK == 0:
        print(json.dumps(words), flush=True)


def synchronize():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def reduced(x, op=dist.ReduceOp.MAX):
    """Returns the maximum, or the sum, over all ranks, and synchronizes them."""
    if RANKS == 1:
        return x
    x = torch.tensor([x], dtype=torch.float64, device=DEVICE)
    dist.all_reduce(x, op)
    return x.item()


def seconds_of(calls, call):
    start = time.perf_counter()
    for _ in range(calls):
        call()
    synchronize()
    return (time.perf_counter() - start) / calls


def measure(ready, variants, seconds, warm_up=0):
    """Times variants (calls by name) like Ranks::measure: `seconds` per repeat, after `warm_up` seconds."""
    for call in variants.values():
        seconds_of(5, call)
    reduced(0)
    say(**ready)
    calls, settling = dict.fromkeys(variants, 3), dict.fromkeys(variants, 0)
    for line in sys.stdin:
        if line.strip() != "go":
            break
        us = {}
        for name, call in variants.items():
            if DEVICE == "cuda":
                seconds_of(max(settling[name], 1), call)
            reduced(0)
            took = max(reduced(seconds_of(calls[name], call)), 1e-7)
            calls[name] = max(3, min(10000, int(seconds / took)))
            settling[name] = int(warm_up / took)
            us[name] = took * 1e6
        say(us=us)


def option(name, default):
    """Returns the number after a word of the command line."""
    return float(sys.argv[sys.argv.index(name) + 1]) if name in sys.argv else default


def training(name, mode, directory, settle):
    mode, copies, _ = mode.partition("-copies")

    def wrap(net):
        if RANKS == 1:
            return net
        # Each rank keeps its own running statistics, as in Taper.
        options = {"gradient_as_bucket_view": not copies, "broadcast_buffers": False}
        if DEVICE == "cpu":
            return torch.nn.parallel.DistributedDataParallel(net, **options)
        # For a graph it must be created on a side stream:
        # https://pytorch.org/docs/stable/notes/cuda.html#usage-with-distributeddataparallel
        torch.cuda.synchronize()
        with torch.cuda.stream(torch.cuda.Stream()):
            ddp = torch.nn.parallel.DistributedDataParallel(net, device_ids=[LOCAL], **options)
        torch.cuda.synchronize()
        return ddp

    is_first = "--first-step" in sys.argv
    item, step, losses = prepared(name, mode, directory, wrap, RANK, 1 if is_first else 3)
    if is_first:
        reduced(0)
        return say(at="step")
    losses = [reduced(loss, dist.ReduceOp.SUM) / RANKS for loss in losses]
    if DEVICE == "cuda":
        torch.cuda.reset_peak_memory_stats()  # the steps so far were eager
    step = graphed(step, 12) if mode == "graph" else step
    seconds_of(5, step)
    peak = torch.cuda.max_memory_allocated() if DEVICE == "cuda" else 0
    measure({"ready": item, "ranks": RANKS, "losses": losses, "peak_bytes": reduced(peak)},
            {"step": step}, 0.15, settle)


def collectives(most_bytes):
    whole = torch.zeros(most_bytes // 4 // RANKS * RANKS, device=DEVICE)
    part = torch.zeros(most_bytes // 4 // RANKS, device=DEVICE)
    variants = {}
    size = 1024
    while size <= most_bytes:
        numel = size // 4 // RANKS
        every, own = whole[:numel * RANKS], part[:numel]
        variants[f"all_reduce {size}"] = lambda x=every: dist.all_reduce(x)
        variants[f"reduce_scatter {size}"] = lambda x=every, y=own: dist.reduce_scatter_tensor(y, x)
        variants[f"all_gather {size}"] = lambda x=every, y=own: dist.all_gather_into_tensor(x, y)
        size *= 4
    measure({"ready": "collectives", "ranks": RANKS}, variants, 0.02)


if __name__ == "__main__":
    if DEVICE == "cuda":
        torch.cuda.set_device(LOCAL)
    elif "OMP_NUM_THREADS" in os.environ:
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    if "RANK" in os.environ:
        os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0")  # required by graphs
        device = {"device_id": torch.device("cuda", LOCAL)} if DEVICE == "cuda" else {}
        dist.init_process_group("nccl" if DEVICE == "cuda" else "gloo", **device)
        reduced(0)
        say(at="communicator")
    if sys.argv[1] == "prepare":
        prepare(sys.argv[2], sys.argv[3:])
        nccl = ".".join(map(str, torch.cuda.nccl.version())) if DEVICE == "cuda" else None
        say(torch=torch.__version__, nccl=nccl)
    elif sys.argv[1] == "collectives":
        collectives(int(sys.argv[2]))
    else:
        training(*sys.argv[1:4], option("--settle", 4))
    if dist.is_initialized():
        dist.destroy_process_group()
