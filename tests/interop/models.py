"""Models in PyTorch that modules/models/ has in C++. Each side must load what the other one saves.

  python tests/interop/models.py make [NAME ...] stores weights, logits and losses in this folder
  TAPER_INTEROP_OUT=/tmp/out build/tests/test_interop --gtest_filter='*Models*'
  python tests/interop/models.py check /tmp/out  loads what Taper saved there, strictly

Needs torch and safetensors. For each model NAME, models_NAME.safetensors has the weights as written by
safetensors.torch.save_model (of two tied tensors only one, which Taper loads into both).
models_NAME.run.safetensors has an input, its logits in eval mode (of the model in float32 and in float64),
and the losses of 100 training steps. `check` loads the same pair of files from Taper, without the losses.
Taper writes tied tensors under both names, as state_dict() has them.
"""

import math
import pathlib
import sys

import torch
from safetensors.torch import load_file, load_model, save_file, save_model
from torch import nn
from torch.nn import functional as F

HERE = pathlib.Path(__file__).parent
STEPS = 100


def shortcut(cin, cout, stride):
    if stride == 1 and cin == cout:
        return nn.Identity()
    return nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.downsample = shortcut(cin, cout, stride)

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.downsample(x))


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, cin, cout, stride):
        super().__init__()
        width = cout // 4
        self.conv1 = nn.Conv2d(cin, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, cout, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(cout)
        self.downsample = shortcut(cin, cout, stride)

    def forward(self, x):
        y = F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))
        return F.relu(self.bn3(self.conv3(y)) + self.downsample(x))


class ResNet(nn.Module):
    def __init__(self, block, blocks, width, num_classes):
        super().__init__()
        w, cin = width, width
        self.conv1 = nn.Conv2d(3, w, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(w)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        for i, count in enumerate(blocks, 1):
            cout = block.expansion * w * 2 ** (i - 1)
            stage = [block(cin, cout, 1 if i == 1 else 2)]
            setattr(self, f"layer{i}", nn.Sequential(*stage, *(block(cout, cout, 1) for _ in range(count - 1))))
            cin = cout
        self.fc = nn.Linear(cin, num_classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            # With large residuals the training of a net this narrow would depend on rounding errors:
            # ReLUs would switch, and losses would differ by 1e-2.
            if isinstance(m, BasicBlock):
                nn.init.constant_(m.bn2.weight, 0.1)
            if isinstance(m, Bottleneck):
                nn.init.constant_(m.bn3.weight, 0.1)

    def forward(self, x):
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head):
        super().__init__()
        self.n_head = n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        B, T, C = x.shape
        qkv = [t.view(B, T, self.n_head, -1).transpose(1, 2) for t in self.c_attn(x).split(C, -1)]
        y = F.scaled_dot_product_attention(*qkv, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(B, T, C))


class Block(nn.Module):
    def __init__(self, n_embd, n_head):
        super().__init__()
        self.ln_1 = nn.LayerNorm(n_embd)
        self.attn = CausalSelfAttention(n_embd, n_head)
        self.ln_2 = nn.LayerNorm(n_embd)
        self.mlp = nn.ModuleDict(
            {"c_fc": nn.Linear(n_embd, 4 * n_embd), "c_proj": nn.Linear(4 * n_embd, n_embd)}
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp.c_proj(F.gelu(self.mlp.c_fc(self.ln_2(x))))


class GPT(nn.Module):
    def __init__(self, vocab_size, block_size, n_layer, n_head, n_embd):
        super().__init__()
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(vocab_size, n_embd),
                "wpe": nn.Embedding(block_size, n_embd),
                "h": nn.ModuleList(Block(n_embd, n_head) for _ in range(n_layer)),
                "ln_f": nn.LayerNorm(n_embd),
            }
        )
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)
        self.lm_head.weight = self.transformer.wte.weight
        for name, p in self.named_parameters():
            if p.dim() == 2:
                residual = name.endswith("c_proj.weight")
                nn.init.normal_(p, 0, 0.02 / math.sqrt(2 * n_layer) if residual else 0.02)
            elif name.endswith(".bias"):
                nn.init.zeros_(p)

    def forward(self, tokens):
        t = self.transformer
        x = t.wte(tokens) + t.wpe(torch.arange(tokens.shape[1]))
        for block in t.h:
            x = block(x)
        return self.lm_head(t.ln_f(x))


class LSTMClassifier(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_size, num_layers, num_classes):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.lstm = nn.LSTM(embedding_dim, hidden_size, num_layers, batch_first=True)
        self.fc = nn.Linear(hidden_size, num_classes)

    def forward(self, tokens):
        _, (h, _) = self.lstm(self.embedding(tokens))
        return self.fc(h[-1])


class EncoderClassifier(nn.Module):
    def __init__(self, vocab_size, max_len, d_model, nhead, num_layers, dim_feedforward, classes):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        layer = nn.TransformerEncoderLayer(
            d_model, nhead, dim_feedforward, dropout=0.0, batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, num_layers, enable_nested_tensor=False)
        self.fc = nn.Linear(d_model, classes)

    def forward(self, tokens):
        x = self.embedding(tokens) + self.position(torch.arange(tokens.shape[1]))
        return self.fc(self.encoder(x).mean(1))


def draw(seed, n, high):
    """Returns n pseudorandom integers in [0, high). model_test.cpp has the same hash."""
    x = (seed * 1000003 + torch.arange(n)) * 2654435761 & 0xFFFFFFFF
    x = (x ^ x >> 15) * 2246822519 & 0xFFFFFFFF
    return (x ^ x >> 13) % high


def images(batch):
    """Returns images of ten classes: a pattern for each class, plus noise."""
    y = draw(batch + 50, 32, 10)
    pattern = draw(200, 10 * 3 * 32 * 32, 2001).view(10, 3, 32, 32)
    noise = draw(batch, 32 * 3 * 32 * 32, 2001).view(32, 3, 32, 32)
    return ((7 * pattern[y] + 3 * noise - 10000).double() / 10000).float(), y


def text(batch):
    tokens = draw(batch, 4 * 17, 65).view(4, 17)
    return tokens[:, :-1], tokens[:, 1:]


def sentences(batch):
    return draw(batch, 8 * 12, 50).view(8, 12), draw(batch + 50, 8, 4)


def adam(model):
    return torch.optim.Adam(model.parameters(), lr=1e-3)


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=2e-4, momentum=0.9, weight_decay=5e-4)


# By name: the model, the function that returns a batch, the optimizer, the norm for gradient clipping.
MODELS = {
    "resnet18": (
        lambda: ResNet(BasicBlock, (2, 2, 2, 2), width=4, num_classes=10),
        images,
        sgd,
        None,
    ),
    "gpt": (
        lambda: GPT(vocab_size=65, block_size=24, n_layer=4, n_head=4, n_embd=32),
        text,
        lambda m: torch.optim.AdamW(m.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1),
        1.0,
    ),
    "lstm": (lambda: LSTMClassifier(50, 16, 24, 2, 4), sentences, adam, None),
    "encoder": (lambda: EncoderClassifier(50, 16, 32, 4, 2, 64, 4), sentences, adam, None),
    "resnet50": (
        lambda: ResNet(Bottleneck, (3, 4, 6, 3), width=2, num_classes=10),
        images,
        sgd,
        None,
    ),
}


def like(x, model):
    return x.to(next(model.parameters()).dtype) if x.is_floating_point() else x


def train(model, batch, optimizer, clip, steps=STEPS):
    model.train()
    losses = []
    for step in range(steps):
        x, y = batch(step % 4)
        logits = model(like(x, model))
        loss = F.cross_entropy(logits.flatten(0, -2), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses, dtype=torch.float64)


@torch.no_grad()
def eval_logits(model, x):
    return model.eval()(x)


def make(names):
    for seed, (name, (build, batch, make_optimizer, clip)) in enumerate(MODELS.items()):
        if names and name not in names:
            continue
        torch.manual_seed(seed)
        model = build()
        x = batch(90)[0]
        for _ in range(20):
            model(x)  # updates running statistics
        weights = str(HERE / f"models_{name}.safetensors")
        save_model(model, weights)
        x = x[:4].contiguous()
        run = {"input": x, "logits": eval_logits(model, x)}
        run["logits64"] = eval_logits(model.double(), like(x, model))
        # The same training in float64 shows how much rounding alone changes the losses.
        losses64 = train(model, batch, make_optimizer(model), clip)
        model.float()
        load_model(model, weights)
        run["losses"] = train(model, batch, make_optimizer(model), clip)
        save_file(run, HERE / f"models_{name}.run.safetensors")
        moved = ((run["losses"] - losses64) / losses64).abs().max()
        print(f"{name}: {run['losses'][0]:.4f} to {run['losses'][-1]:.4f}; rounding {moved:.1e}")


def check(folder):
    for name, (build, *_) in MODELS.items():
        model = build()
        # load_model would refuse a file with both names of a tied tensor.
        model.load_state_dict(load_file(folder / f"models_{name}.safetensors"), strict=True)
        run = load_file(folder / f"models_{name}.run.safetensors")
        for key, dtype, limit in ("logits", torch.float32, 1e-5), ("logits64", torch.float64, 1e-10):
            want = eval_logits(model.to(dtype), like(run["input"], model))
            off = ((run[key] - want).abs().max() / want.abs().max()).item()
            print(f"{name} {key}: {off:.1e} (at most {limit:.0e})")
            assert off <= limit


if __name__ == "__main__":
    torch.use_deterministic_algorithms(True)
    if sys.argv[1:2] == ["make"]:
        make(sys.argv[2:])
    elif sys.argv[1:2] == ["check"] and len(sys.argv) == 3:
        check(pathlib.Path(sys.argv[2]))
    else:
        sys.exit(__doc__)
