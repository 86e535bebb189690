"""Stores results of PyTorch's recurrent and attention layers for recurrent_test.cpp.

  python tests/interop/recurrent.py    writes {recurrent,attention,transformer}.safetensors in this folder

Needs torch and safetensors. layers.py describes what is stored.
"""

import pathlib

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from layers import Row, store

# In inference, layers use special kernels, which are no reference for gradients.
torch.backends.mha.set_fastpath_enabled(False)

CAUSAL = torch.ones(5, 5).triu(1).bool()
PADDING = torch.tensor([[False, False, False, False, True], [False, False, True, True, True]])
BAND = torch.tensor([[abs(i - j) > 2 for j in range(4)] for i in range(5)])


def lstm(module, x, h, c):
    return module(x, (h, c))


def packed(lengths, **options):
    """Runs packed sequences of these lengths. Returns the padded output and the states."""
    def call(module, x, *state):
        sequence = pack_padded_sequence(x, lengths, **options)
        y, states = module(sequence, (state if len(state) > 1 else state[0]) if state else None)
        first = options.get("batch_first", False)
        return pad_packed_sequence(y, first, padding_value=0.5, total_length=6)[0], states
    return call


def attend(**options):
    return lambda m, q, k, v, *masks: m(q, k, v, **dict(zip(options["masks"], masks)),
                                        **{k: v for k, v in options.items() if k != "masks"})


def itself(**options):
    """Self-attention: query, key and value are the same tensor and are projected by one product."""
    return lambda m, x, *masks: attend(**options)(m, x, x, x, *masks)


def recurrent_rows():
    x = (5, 2, 3)
    both = dict(num_layers=2, batch_first=True, bidirectional=True)
    return [
        Row("LSTM", lambda: nn.LSTM(3, 4), [x]),
        Row("LSTM deep", lambda: nn.LSTM(3, 4, **both), [(2, 5, 3), (4, 2, 4), (4, 2, 4)], call=lstm),
        Row("LSTM eval", lambda: nn.LSTM(3, 4, 3, dropout=0.5), [x], training=False),
        Row("LSTM no bias", lambda: nn.LSTM(3, 4, bias=False, bidirectional=True), [x]),
        Row("LSTM unbatched", lambda: nn.LSTM(3, 4, batch_first=True), [(5, 3), (1, 4), (1, 4)], call=lstm),
        Row("LSTM long", lambda: nn.LSTM(2, 3), [(40, 1, 2)], call=lambda m, x: m(x)[0][-1]),
        Row("GRU", lambda: nn.GRU(3, 4), [x]),
        Row("GRU deep", lambda: nn.GRU(3, 4, **both), [(2, 5, 3), (4, 2, 4)]),
        Row("GRU eval", lambda: nn.GRU(3, 4, 2, dropout=0.25), [x], training=False),
        Row("GRU no bias", lambda: nn.GRU(3, 4, bias=False, bidirectional=True), [x, (2, 2, 4)]),
        Row("GRU unbatched", lambda: nn.GRU(3, 4, bidirectional=True), [(5, 3)]),
        Row("RNN", lambda: nn.RNN(3, 4), [x]),
        Row("RNN relu", lambda: nn.RNN(3, 4, nonlinearity="relu", **both), [(2, 5, 3), (4, 2, 4)]),
        Row("LSTM projection", lambda: nn.LSTM(3, 4, proj_size=2, **both), [(2, 5, 3), (4, 2, 2), (4, 2, 4)], call=lstm),
        Row("LSTM projection unbatched", lambda: nn.LSTM(3, 4, proj_size=3), [(5, 3)]),
        Row("LSTM packed", lambda: nn.LSTM(3, 4, 2, bidirectional=True), [(5, 3, 3), (4, 3, 4), (4, 3, 4)],
            call=packed([3, 5, 2], enforce_sorted=False)),
        Row("LSTM packed projection", lambda: nn.LSTM(3, 4, proj_size=2, **both), [(3, 5, 3)],
            call=packed([5, 5, 1], batch_first=True)),
        Row("GRU packed", lambda: nn.GRU(3, 4, bidirectional=True), [(5, 3, 3), (2, 3, 4)], call=packed([4, 4, 3])),
        Row("RNN packed", lambda: nn.RNN(3, 4), [(5, 3, 3)], call=packed([1, 2, 5], enforce_sorted=False)),
        Row("RNNCell", lambda: nn.RNNCell(3, 4), [(2, 3)]),
        Row("RNNCell relu", lambda: nn.RNNCell(3, 4, nonlinearity="relu"), [(2, 3), (2, 4)]),
        Row("GRUCell", lambda: nn.GRUCell(3, 4), [(2, 3), (2, 4)]),
        Row("GRUCell unbatched", lambda: nn.GRUCell(3, 4, bias=False), [(3,), (4,)]),
        Row("LSTMCell", lambda: nn.LSTMCell(3, 4), [(2, 3), (2, 4), (2, 4)], call=lstm),
        Row("LSTMCell unbatched", lambda: nn.LSTMCell(3, 4, bias=False), [(3,)]),
    ]


def attention_rows():
    q, k = (5, 2, 6), (4, 2, 6)
    own = [(2, 5, 6)]

    def mha(**options):
        return lambda: nn.MultiheadAttention(6, 3, **options)

    return [
        Row("MultiheadAttention", mha(), [q, k, k], call=attend(masks=[])),
        Row("MultiheadAttention fast", mha(), [q, k, k], call=attend(masks=[], need_weights=False)),
        Row("MultiheadAttention self", mha(batch_first=True), own, call=itself(masks=[], need_weights=False)),
        Row("MultiheadAttention memory", mha(), [q, k], call=lambda m, q, k: m(q, k, k)),
        Row("MultiheadAttention no bias", mha(bias=False, batch_first=True), [(2, 5, 6), (2, 4, 6), (2, 4, 6)],
            call=attend(masks=[], average_attn_weights=False)),
        Row("MultiheadAttention bool mask", mha(), [q, k, k, BAND],
            call=attend(masks=["attn_mask"], need_weights=False)),
        Row("MultiheadAttention float mask", mha(), [q, k, k, (5, 4)],
            call=attend(masks=["attn_mask"], need_weights=False)),
        Row("MultiheadAttention mask of heads", mha(), [q, k, k, (6, 5, 4)], call=attend(masks=["attn_mask"])),
        Row("MultiheadAttention padding", mha(batch_first=True), [*own, PADDING],
            call=itself(masks=["key_padding_mask"], need_weights=False)),
        Row("MultiheadAttention float padding", mha(batch_first=True), [*own, (2, 5)],
            call=itself(masks=["key_padding_mask"])),
        Row("MultiheadAttention both masks", mha(batch_first=True), [*own, CAUSAL, PADDING],
            call=itself(masks=["attn_mask", "key_padding_mask"])),
        Row("MultiheadAttention causal", mha(batch_first=True), [*own, CAUSAL],
            call=itself(masks=["attn_mask"], need_weights=False, is_causal=True)),
        Row("MultiheadAttention causal weights", mha(batch_first=True), [*own, CAUSAL, PADDING],
            call=itself(masks=["attn_mask", "key_padding_mask"], is_causal=True)),
        Row("MultiheadAttention unbatched", mha(), [(5, 6), (4, 6), (4, 6), (3, 5, 4)],
            call=attend(masks=["attn_mask"])),
        Row("MultiheadAttention eval", mha(dropout=0.5), [q, k, k], training=False, call=attend(masks=[])),
    ]


def encoder_rows():
    def layer(**options):
        return nn.TransformerEncoderLayer(6, 2, 8, **{"dropout": 0.0, **options})

    def encoder(norm, **options):
        return nn.TransformerEncoder(layer(**options), 2, norm, enable_nested_tensor=False)

    def decoder_layer(**options):
        return nn.TransformerDecoderLayer(6, 2, 8, **{"dropout": 0.0, **options})

    def whole(**options):
        return nn.Transformer(6, 2, 2, 1, 8, **{"dropout": 0.0, **options})

    def with_masks(m, x, mask, padding):
        return m(x, mask, padding)

    return [
        Row("TransformerEncoderLayer", lambda: layer(), [(5, 2, 6)]),
        Row("TransformerEncoderLayer eval", lambda: layer(dropout=0.1, layer_norm_eps=1e-3), [(5, 2, 6)],
            training=False),
        Row("TransformerEncoderLayer pre-norm",
            lambda: layer(activation="gelu", norm_first=True, batch_first=True), [(2, 5, 6), CAUSAL, PADDING],
            call=lambda m, x, mask, padding: m(x, mask, padding)),
        Row("TransformerEncoderLayer no bias", lambda: layer(bias=False, batch_first=True), [(2, 5, 6), CAUSAL],
            call=lambda m, x, mask: m(x, mask, is_causal=True)),
        Row("TransformerEncoderLayer unbatched", lambda: layer(), [(5, 6)]),
        Row("TransformerEncoder", lambda: encoder(nn.LayerNorm(6), batch_first=True),
            [(2, 5, 6), CAUSAL, PADDING], call=with_masks),
        Row("TransformerDecoderLayer", lambda: decoder_layer(), [(5, 2, 6), (4, 2, 6)]),
        Row("TransformerDecoderLayer pre-norm",
            lambda: decoder_layer(activation="gelu", norm_first=True, batch_first=True, bias=False),
            [(2, 5, 6), (2, 4, 6), CAUSAL, BAND, PADDING, PADDING.flip(1)[:, 1:]]),
        Row("TransformerDecoder", lambda: nn.TransformerDecoder(decoder_layer(), 2, nn.LayerNorm(6)),
            [(5, 2, 6), (4, 2, 6), CAUSAL], call=lambda m, t, s, mask: m(t, s, mask, tgt_is_causal=True)),
        Row("TransformerDecoder eval", lambda: nn.TransformerDecoder(decoder_layer(dropout=0.3), 1),
            [(5, 6), (4, 6)], training=False),
        Row("Transformer", lambda: whole(), [(4, 2, 6), (5, 2, 6)]),
        Row("Transformer masks", lambda: whole(batch_first=True, norm_first=True),
            [(2, 5, 6), (2, 5, 6), CAUSAL, CAUSAL.T, BAND.new_zeros(5, 5), PADDING, PADDING.flip(1), PADDING]),
        Row("TransformerEncoder eval", lambda: encoder(None, dropout=0.3), [(5, 2, 6)], training=False),
    ]


if __name__ == "__main__":
    here = pathlib.Path(__file__).parent
    store(here / "recurrent.safetensors", recurrent_rows())
    store(here / "attention.safetensors", attention_rows())
    store(here / "transformer.safetensors", encoder_rows())
