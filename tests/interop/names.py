"""Stores weights under the names of other libraries for tests/interop/names_test.cpp.

  python tests/interop/names.py make          writes names/gpt2.pt, names/gpt2_run.pt, names/resnet18.txt
  python tests/interop/names.py check FILE    loads a file that Taper saved into GPT2LMHeadModel, strictly

Needs torch, transformers and torchvision.
"""

import pathlib
import sys

import torch

HERE = pathlib.Path(__file__).parent / "names"


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=31, n_positions=12, n_embd=16, n_layer=2, n_head=2, initializer_range=0.3,
            bos_token_id=0, eos_token_id=0,
        )
    ).eval()


def tokens():
    return torch.arange(24).view(2, 12) * 7 % 31


@torch.no_grad()
def make():
    import torchvision

    HERE.mkdir(exist_ok=True)
    model = gpt2()
    torch.save(model.state_dict(), HERE / "gpt2.pt")
    torch.save({"tokens": tokens(), "logits": model(tokens()).logits}, HERE / "gpt2_run.pt")
    state = torchvision.models.resnet18().state_dict()
    lines = [" ".join([name, *map(str, x.shape)]) for name, x in state.items()]
    (HERE / "resnet18.txt").write_text("\n".join(lines) + "\n")


@torch.no_grad()
def check(path):
    model, got = gpt2(), gpt2()
    for p in got.parameters():
        p.zero_()
    got.load_state_dict(torch.load(path, weights_only=True), strict=True)
    assert torch.equal(got(tokens()).logits, model(tokens()).logits)


if __name__ == "__main__":
    if sys.argv[1:] == ["make"]:
        make()
    elif sys.argv[1:2] == ["check"] and len(sys.argv) == 3:
        check(sys.argv[2])
    else:
        sys.exit(__doc__)
