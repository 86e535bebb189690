"""PyTorch's side of tests/examples/losses_test.cpp: runs five programs of apps/examples in PyTorch, in
float64, and stores the first 30 losses of each.

  python tests/examples/losses.py        writes losses.safetensors in this folder

Both sides start from the same weights, which a formula defines (weights_by_rule), and use no dropout.
Needs torch and safetensors.
"""

import math
import pathlib

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

STEPS = 30
torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)


def numbers(count):
    """Returns numbers in [-1, 1) that are exact in float64, from a multiplication modulo 2^32."""
    return (torch.arange(1, count + 1) * 2654435761 % 2**32).double() / 2**31 - 1


def weights_by_rule(model):
    """Sets each parameter to numbers x in [-1, 1): matrices to x / sqrt(number of inputs), weights that
    are vectors to 1 + 0.1 x, other vectors to 0.1 x."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            x = numbers(p.numel()).view(p.shape)
            if p.dim() > 1:
                p.copy_(x * math.sqrt(p.shape[0] / p.numel()))
            else:
                p.copy_(0.1 * x + (1 if name.endswith("weight") else 0))
    return model


class MnistNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        return F.log_softmax(self.fc2(F.relu(self.fc1(x.flatten(1)))), 1)


class EncoderBlock(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.attention = nn.MultiheadAttention(size, heads, batch_first=True)
        self.enc_MLP = nn.Sequential(
            nn.Linear(size, size * 4), nn.GELU(), nn.Identity(), nn.Linear(size * 4, size)
        )

    def forward(self, x):
        y = self.norm(x)
        x = self.attention(y, y, y)[0] + x
        return self.enc_MLP(self.norm(x)) + x


class InputEmbedding(nn.Module):
    def __init__(self, patch, patches, size):
        super().__init__()
        self.patch = patch
        self.LinearProjection = nn.Linear(patch * patch, size)
        self.class_token = nn.Parameter(torch.empty(1, 1, size))
        self.pos_embedding = nn.Parameter(torch.empty(1, patches + 1, size))

    def forward(self, x):
        p = self.patch
        x = x.unfold(2, p, p).unfold(3, p, p).permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)
        x = self.LinearProjection(x)
        return torch.cat((self.class_token.expand(len(x), -1, -1), x), 1) + self.pos_embedding


class ViT(nn.Module):
    def __init__(self, size, heads, encoders, classes):
        super().__init__()
        self.embedding = InputEmbedding(7, 16, size)
        self.encoders = nn.Sequential(*(EncoderBlock(size, heads) for _ in range(encoders)))
        self.MLPHead = nn.Sequential(
            nn.LayerNorm(size), nn.Linear(size, size), nn.Linear(size, classes)
        )

    def forward(self, x):
        return self.MLPHead(self.encoders(self.embedding(x))[:, 0])


class RNNModel(nn.Module):
    def __init__(self, words, size, layers):
        super().__init__()
        self.encoder = nn.Embedding(words, size)
        self.rnn = nn.LSTM(size, size, layers)
        self.decoder = nn.Linear(size, words)
        self.decoder.weight = self.encoder.weight
        self.hidden = None

    def forward(self, x):
        y, (h, c) = self.rnn(self.encoder(x), self.hidden)
        self.hidden = h.detach(), c.detach()
        return F.log_softmax(self.decoder(y), -1)


class TransformerModel(nn.Module):
    def __init__(self, words, size, heads, hidden, layers):
        super().__init__()
        self.input_emb = nn.Embedding(words, size)
        layer = nn.TransformerEncoderLayer(size, heads, hidden, dropout=0)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.decoder = nn.Linear(size, words)
        self.decoder.weight = self.input_emb.weight
        self.size = size

    def forward(self, x):
        position = torch.arange(len(x)).view(-1, 1, 1)
        div_term = torch.exp(torch.arange(0, self.size, 2) * (-math.log(10000.0) / self.size))
        pe = torch.zeros(len(x), 1, self.size, dtype=torch.float32)  # the program stores it in float32
        pe[:, :, 0::2] = torch.sin(position * div_term)
        pe[:, :, 1::2] = torch.cos(position * div_term)
        y = self.input_emb(x) * math.sqrt(self.size) + pe.double()
        mask = nn.Transformer.generate_square_subsequent_mask(len(x))
        return F.log_softmax(self.decoder(self.encoder(y, mask=mask, is_causal=True)), -1)


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm1 = nn.LSTMCell(1, 51)
        self.lstm2 = nn.LSTMCell(51, 51)
        self.linear = nn.Linear(51, 1)

    def forward(self, x):
        h1 = c1 = h2 = c2 = torch.zeros(len(x), 51)
        outputs = []
        for x_t in x.split(1, 1):
            h1, c1 = self.lstm1(x_t, (h1, c1))
            h2, c2 = self.lstm2(h1, (h2, c2))
            outputs.append(self.linear(h2))
        return torch.cat(outputs, 1)


class GraphConv(nn.Module):
    def __init__(self, fan_in, fan_out):
        super().__init__()
        self.kernel = nn.Parameter(torch.empty(fan_in, fan_out))
        self.bias = nn.Parameter(torch.empty(fan_out))

    def forward(self, x, adj):
        return torch.mm(adj, x @ self.kernel) + self.bias


class GCN(nn.Module):
    def __init__(self, words, hidden, classes):
        super().__init__()
        self.gc1 = GraphConv(words, hidden)
        self.gc2 = GraphConv(hidden, classes)

    def forward(self, x, adj):
        return F.log_softmax(self.gc2(F.relu(self.gc1(x, adj)), adj), 1)


def first_losses(optimizer, loss_of):
    """Minimizes loss_of(step) for successive steps, and returns the losses."""
    losses = []

    def closure():
        optimizer.zero_grad()
        loss = loss_of(closure.step)
        loss.backward()
        losses.append(loss.item())
        return loss

    for step in range(STEPS):
        closure.step = step
        optimizer.step(closure)
    return torch.tensor(losses[:STEPS])


def language_losses(model, text, lr):
    losses = []
    for step in range(STEPS):
        model.zero_grad()
        data, targets = text[step * 10 : step * 10 + 10], text[step * 10 + 1 : step * 10 + 11]
        loss = F.nll_loss(model(data).flatten(0, 1), targets.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        with torch.no_grad():
            for p in model.parameters():
                p.add_(p.grad, alpha=-lr)
        losses.append(loss.item())
    return torch.tensor(losses)


def main():
    torch.manual_seed(1)
    out = {}

    images = torch.randint(256, (4, 8, 1, 28, 28), dtype=torch.uint8)
    labels = torch.randint(10, (4, 8))
    out |= {"images": images, "labels": labels}
    net = weights_by_rule(MnistNet())
    out["mnist.losses"] = first_losses(
        torch.optim.Adadelta(net.parameters(), lr=1),
        lambda step: F.nll_loss(net(images[step % 4] / 255), labels[step % 4]),
    )
    vit = weights_by_rule(ViT(64, 4, 3, 10))
    out["vision_transformer.losses"] = first_losses(
        torch.optim.Adam(vit.parameters(), lr=1e-3),
        lambda step: F.cross_entropy(vit(images[step % 4] / 255), labels[step % 4]),
    )

    text = torch.randint(20, (STEPS * 10 + 1, 4))
    out["text"] = text
    out["lstm.losses"] = language_losses(weights_by_rule(RNNModel(20, 64, 2)), text, 20)
    transformer = weights_by_rule(TransformerModel(20, 64, 2, 64, 2))
    out["transformer.losses"] = language_losses(transformer, text, 5)

    waves = torch.sin((torch.arange(40) + torch.randint(-80, 80, (6, 1))) / 20)
    out["waves"] = waves
    seq = weights_by_rule(Sequence())
    out["time_sequence.losses"] = first_losses(
        torch.optim.LBFGS(seq.parameters(), lr=0.8),
        lambda step: F.mse_loss(seq(waves[:, :-1]), waves[:, 1:]),
    )

    nodes, words = 40, 20
    adjacency = (torch.rand(nodes, nodes) < 0.1).double().triu(1)
    adjacency = adjacency + adjacency.T + torch.eye(nodes)
    d = adjacency.sum(1).rsqrt()
    adj = (d[:, None] * adjacency * d).to_sparse()
    features = (torch.rand(nodes, words) < 0.3).double()
    classes, known = torch.randint(3, (nodes,)), torch.randperm(nodes)[:20]
    out |= {"adjacency": adjacency, "features": features, "classes": classes, "known": known}
    gcn = weights_by_rule(GCN(words, 16, 3))
    out["gcn.losses"] = first_losses(
        torch.optim.Adam(gcn.parameters(), lr=0.01, weight_decay=5e-4),
        lambda step: F.nll_loss(gcn(features, adj)[known], classes[known]),
    )
    for name, value in out.items():
        if name.endswith("losses"):
            print(name, *(f"{x:.6g}" for x in value.tolist()))
    here = pathlib.Path(__file__).parent
    save_file({k: v.contiguous() for k, v in out.items()}, here / "losses.safetensors")


main()
