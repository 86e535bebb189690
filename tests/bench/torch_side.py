"""PyTorch's side of compare.py: the workloads of taper_bench with the same names, parameter
names and sizes, by the same protocol (see BenchOptions::paced in bench.h).

    python3 torch_side.py prepare DIRECTORY NAME...   writes NAME.safetensors: parameters and batch
    python3 torch_side.py NAME MODE [DIRECTORY]       eager, compile, compile-ro or graph
    python3 torch_side.py generate MODE               eager, or static: a static cache and torch.compile
    python3 torch_side.py ops|overhead [ONLY]         single operators whose name contains ONLY
"""
import contextlib
import json
import os
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ONLY = ""  # of single operators, those whose name contains this are timed


class BasicBlock(nn.Module):
    def __init__(self, width, out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(width, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.downsample = None
        if stride != 1 or width != out:
            self.downsample = nn.Sequential(nn.Conv2d(width, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class Attention(nn.Module):
    def __init__(self, width, heads, p):
        super().__init__()
        self.heads, self.p = heads, p
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.resid_dropout = nn.Dropout(p)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (z.view(b, t, self.heads, c // self.heads).transpose(1, 2)
                   for z in self.c_attn(x).split(c, 2))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.p if self.training else 0.0,
                                           is_causal=True)
        return self.resid_dropout(self.c_proj(y.transpose(1, 2).reshape(b, t, c)))


class MLP(nn.Module):
    def __init__(self, width, p):
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width)
        self.c_proj = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(p)

    def forward(self, x):
        return self.dropout(self.c_proj(F.gelu(self.c_fc(x), approximate="tanh")))


class Block(nn.Module):
    def __init__(self, width, heads, p):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(width), Attention(width, heads, p)
        self.ln_2, self.mlp = nn.LayerNorm(width), MLP(width, p)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary, length, layers, heads, width, p):
        super().__init__()
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(vocabulary, width), "wpe": nn.Embedding(length, width),
            "drop": nn.Dropout(p),
            "h": nn.Sequential(*(Block(width, heads, p) for _ in range(layers))),
            "ln_f": nn.LayerNorm(width)})
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        self.lm_head.weight = self.transformer.wte.weight
        for m in self.modules():
            if isinstance(m, (nn.Linear, nn.Embedding)):
                nn.init.normal_(m.weight, 0, 0.02)

    def forward(self, tokens):
        t = self.transformer
        x = t.drop(t.wte(tokens) + t.wpe(torch.arange(tokens.shape[1], device=tokens.device)))
        return self.lm_head(t.ln_f(t.h(x)))


def mlp():
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
                         nn.Linear(512, 10))


def cnn():
    return nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Dropout(0.25), nn.Flatten(), nn.Linear(9216, 128),
                         nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10))


def resnet():
    layers, width = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()], 64
    for out in (64, 64, 128, 128, 256, 256, 512, 512):
        layers.append(BasicBlock(width, out, 1 if width == out else 2))
        width = out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


class Bottleneck(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        width = cout // 4
        self.conv1 = nn.Conv2d(cin, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, cout, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(cout)
        self.downsample = None
        if stride != 1 or cin != cout:
            self.downsample = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        y = F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))
        return F.relu(self.bn3(self.conv3(y)) + (x if self.downsample is None else self.downsample(x)))


class ResNet50(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        cin = 64
        for i, count in enumerate((3, 4, 6, 3)):
            cout = 256 << i
            stage = [Bottleneck(cin, cout, 1 if i == 0 else 2)]
            stage += [Bottleneck(cout, cout, 1) for _ in range(count - 1)]
            setattr(self, f"layer{i + 1}", nn.Sequential(*stage))
            cin = cout
        self.fc = nn.Linear(cin, 1000)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


def images(batch, *shape):
    return torch.randn(batch, *shape), torch.randint(0, 10, (batch,))


def tokens(vocabulary, batch, length):
    return (torch.randint(0, vocabulary, (batch, length)),)


def adamw(parameters, mode):
    return torch.optim.AdamW(parameters, lr=1e-3, fused=True, capturable=mode == "graph")


def sgd(parameters, mode):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=5e-4, fused=True)


CHAR, TINY = (65, 64, 4, 4, 128, 0.0), (65, 16, 2, 2, 32, 0.0)
# name: model, batch, optimizer, bfloat16
TRAININGS = {
    "mlp": ("mlp_b128_fp32", mlp, lambda: images(128, 784), adamw, False),
    "cnn": ("cnn_b128_fp32", cnn, lambda: images(128, 1, 28, 28), adamw, False),
    "resnet": ("resnet18_b512_bf16", resnet, lambda: images(512, 3, 32, 32), sgd, True),
    "resnet50": ("resnet50_b256_bf16", ResNet50, lambda: images(256, 3, 224, 224), sgd, True),
    "gptchar": ("gptchar_b64_bf16", lambda: GPT(65, 256, 6, 6, 384, 0.2),
                lambda: tokens(65, 64, 256), adamw, True),
    "gpt2": ("gpt2_124m_b16_bf16", lambda: GPT(50304, 1024, 12, 12, 768, 0.0),
             lambda: tokens(50257, 16, 1024), adamw, True),
    "gpt2_b64": ("gpt2_124m_b64_bf16", lambda: GPT(50304, 1024, 12, 12, 768, 0.0),
                 lambda: tokens(50257, 64, 1024), adamw, True),
    # The tokenizer's vocabulary, which is no multiple of 64.
    "gpt2_50257": ("gpt2_124m_b16_v50257_bf16", lambda: GPT(50257, 1024, 12, 12, 768, 0.0),
                   lambda: tokens(50257, 16, 1024), adamw, True),
    "gpt2_350m": ("gpt2_350m_b16_bf16", lambda: GPT(50304, 1024, 24, 16, 1024, 0.0),
                  lambda: tokens(50257, 16, 1024), adamw, True),
    "tiny_resnet": ("tiny_resnet18_b2_fp32", resnet, lambda: images(2, 3, 32, 32), sgd, False),
    "tiny_gpt": ("tiny_gpt_b4_fp32", lambda: GPT(*TINY), lambda: tokens(65, 4, 16), adamw, False),
    "cpu_mlp": ("cpu_mlp_b128_fp32", mlp, lambda: images(128, 784), adamw, False),
    "cpu_cnn": ("cpu_cnn_b128_fp32", cnn, lambda: images(128, 1, 28, 28), adamw, False),
    "cpu_gpt": ("cpu_gptchar_l4c128_b12_t64_fp32", lambda: GPT(*CHAR), lambda: tokens(65, 12, 64),
                adamw, False),
}


def prepare(directory, names):
    from safetensors.torch import save_file
    for name in names:
        _, model, batch, _, _ = TRAININGS[name]
        torch.manual_seed(0)
        state = {k: v for k, v in model().state_dict().items() if k != "lm_head.weight"}
        state |= dict(zip("xy", batch()))
        save_file({k: v.contiguous() for k, v in state.items()}, f"{directory}/{name}.safetensors")


def measure(name, call, device=DEVICE, calls=1, losses=()):
    """Warms up and counts calls as timing.cpp does, then times one repeat for each line 'go'.

    Does nothing for an operator (which has no losses) whose name does not contain ONLY.
    """
    if not losses and ONLY not in name:
        return

    def repeat(n):
        start = time.perf_counter()
        for _ in range(n):
            call()
        if device == "cuda":
            torch.cuda.synchronize()
        return (time.perf_counter() - start) / n
    repeat(10)
    n = max(3, min(100000, int(1 / 7 / max(repeat(1), 1e-7))))
    peak = torch.cuda.max_memory_allocated() if device == "cuda" else 0
    print(json.dumps({"ready": name, "losses": list(losses), "peak_bytes": peak}), flush=True)
    for line in sys.stdin:
        if line.strip() != "go":
            return
        print(json.dumps({"us": repeat(n) / calls * 1e6}), flush=True)


def loss_of(net, x, y=None):
    logits = net(x)
    return F.cross_entropy(logits, y) if y is not None else F.cross_entropy(
        logits.view(-1, logits.shape[-1]), x.view(-1))


def graphed(step, warm_up=5):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(warm_up):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def prepared(name, mode, directory, wrap=lambda net: net, shift=0, steps=3):
    """Returns a training's label, a function that runs a step, and the losses of the first steps.

    wrap: wraps the model. shift: by how much the batch is shifted along its last dimension.
    """
    from safetensors.torch import load_file
    item, model, _, make_optimizer, half = TRAININGS[name]
    device = "cpu" if name.startswith("cpu_") else DEVICE
    state = load_file(f"{directory}/{name}.safetensors")
    batch = [state.pop(k).to(device) for k in "xy" if k in state]
    batch[0] = batch[0].roll(shift, -1)
    net = model()
    net.load_state_dict(state, strict=False)
    net.to(device)
    if name.startswith("resnet"):
        torch.backends.cudnn.benchmark = True
        net.to(memory_format=torch.channels_last)
        batch[0] = batch[0].to(memory_format=torch.channels_last)
    optimizer = make_optimizer(net.parameters(), mode)
    called = wrap(net)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16) if half else contextlib.nullcontext():
            loss = loss_of(called, *batch)
        loss.backward()
        optimizer.step()
        return loss
    net.eval()
    # By default PyTorch's convolutions use TF32 instead of float32. They are timed in this mode, but the
    # losses are compared in float32.
    torch.backends.cudnn.allow_tf32 = False
    losses = [step().item() for _ in range(steps)]
    torch.backends.cudnn.allow_tf32 = True
    net.train()
    if mode.startswith("compile"):
        called = torch.compile(called, mode="reduce-overhead" if mode == "compile-ro" else "default")
    return item, step, losses


def training(name, mode, directory):
    item, step, losses = prepared(name, mode, directory)
    device = "cpu" if name.startswith("cpu_") else DEVICE
    measure(item, graphed(step) if mode == "graph" else step, device, losses=losses)


def ops():
    gpu = DEVICE == "cuda"
    n, c, rows, v = (16384 if gpu else 1024), 4096, (8192 if gpu else 256), 50304
    a = torch.empty(2**30 if gpu else 2**26, dtype=torch.uint8, device=DEVICE)
    b = torch.empty_like(a)
    measure("copy", lambda: b.copy_(a))
    for dtype in (torch.float32, torch.bfloat16):
        o = {"dtype": dtype, "device": DEVICE}
        name = str(dtype).removeprefix("torch.")
        x, g = torch.randn(n, c, **o), torch.randn(n, c, **o)
        w = torch.ones(c, **o, requires_grad=True)
        bias = torch.zeros(c, **o, requires_grad=True)
        leaf = x.clone().requires_grad_()
        with torch.no_grad():
            measure(f"layernorm_fwd_{name}", lambda: F.layer_norm(x, (c,), w, bias))
        y = F.layer_norm(leaf, (c,), w, bias)
        measure(f"layernorm_bwd_{name}",
                lambda: torch.autograd.grad(y, (leaf, w, bias), g, retain_graph=True))
        measure(f"gelu_fwd_{name}", lambda: F.gelu(x, approximate="tanh"))
        measure(f"add_{name}", lambda: x + g)
        measure(f"sum_all_{name}", x.sum)
        measure(f"sum_dim0_{name}", lambda: x.sum(0))
        measure(f"softmax_fwd_{name}", lambda: F.softmax(x, -1))
        logits = torch.randn(rows, v, **o, requires_grad=True)
        target = torch.randint(0, 50257, (rows,), device=DEVICE)

        def cross_entropy():
            logits.grad = None
            F.cross_entropy(logits, target).backward()
        measure(f"xent_fwdbwd_{name}", cross_entropy)
        del logits, leaf, y
    ps = [torch.randn(12_400_000 if gpu else 1_240_000, device=DEVICE, requires_grad=True)
          for _ in range(10)]
    for p in ps:
        p.grad = torch.randn_like(p)
    optimizer = torch.optim.AdamW(ps, fused=True)
    measure("adamw_124M", optimizer.step)

    def matmul(size, dtype, precision):
        torch.backends.cuda.matmul.allow_tf32 = precision == "high"
        x, z = (torch.randn(size, size, device=DEVICE, dtype=dtype) for _ in "ab")
        name = str(dtype).removeprefix("torch.")
        measure(f"matmul_{size}_{name}_{precision}", lambda: x @ z)
    matmul(4096 if gpu else 1024, torch.float32, "highest")
    if not gpu:
        return
    matmul(8192, torch.bfloat16, "highest")
    matmul(8192, torch.float32, "high")
    for b, h, t, d in ((16, 12, 1024, 64), (8, 16, 2048, 128)):
        qkv = [torch.randn(b, h, t, d, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)
               for _ in range(3)]

        def attention():
            for x in qkv:
                x.grad = None
            F.scaled_dot_product_attention(*qkv, is_causal=True).sum().backward()
        measure(f"sdpa_causal_fwdbwd_b{b}_h{h}_t{t}_d{d}", attention)


def overhead():
    for device in ("cpu", "cuda") if DEVICE == "cuda" else ("cpu",):
        a, b = torch.ones(1, device=device), torch.ones(1, device=device)
        g = torch.ones(1, device=device, requires_grad=True)
        layer, x = nn.Linear(8, 8, device=device), torch.ones(8, 8, device=device)

        def chain():
            y = g
            for _ in range(100):
                y = y * 1.0001
            y.backward()
            g.grad = None
        measure(f"overhead_add_{device}", lambda: a + b, device)
        measure(f"overhead_add_grad_{device}", lambda: g + b, device)
        measure(f"overhead_linear_8x8_{device}", lambda: layer(x), device)
        measure(f"overhead_chain_node_{device}", chain, device, 100)


def generate(mode):
    """Continues a text by the likeliest tokens, with transformers' generate()."""
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.manual_seed(0)
    net = GPT2LMHeadModel(GPT2Config()).to(DEVICE).eval()
    tokens = 64
    prompt = torch.randint(0, 50257, (1, tokens), device=DEVICE)
    cache = {"cache_implementation": "static"} if mode == "static" else {}
    measure("generate_gpt2_124m_b1_fp32",
            lambda: net.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=tokens,
                                 min_new_tokens=tokens, do_sample=False, pad_token_id=50256, **cache),
            calls=tokens)


def first_step():
    layer = nn.Linear(8, 8, device=DEVICE)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    layer(torch.ones(2, 8, device=DEVICE)).sum().backward()
    optimizer.step()
    layer.weight.sum().item()


if __name__ == "__main__":
    if sys.argv[1] == "prepare":
        prepare(sys.argv[2], sys.argv[3:])
    elif sys.argv[1] in TRAININGS:
        if "OMP_NUM_THREADS" in os.environ:
            torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        training(*sys.argv[1:4])
    elif sys.argv[1] == "generate":
        generate(sys.argv[2])
    else:
        ONLY = sys.argv[2] if len(sys.argv) > 2 else ""
        {"ops": ops, "overhead": overhead, "first_step": first_step}[sys.argv[1]]()
