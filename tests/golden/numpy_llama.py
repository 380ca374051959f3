"""A llama network in float64 with a dense mask: the independent reference of the golden tests.

Goal: code a reader can hold against the papers (RMSNorm arXiv 1910.07467, RoPE 2104.09864, grouped
queries 2305.13245, SwiGLU 2002.05202) and against the written definition of hybrid attention, with
nothing of the engine in it: tokens stand in text order, the mask is a matrix, there is no cache and
no slot order. Weights are dequantised here from the block layouts, in float64, without rounding.

Needs numpy and the `gguf` package (only to find tensors and metadata in the file).
"""

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGUFReader


# ---- weights ------------------------------------------------------------------------------------


def dequantize(tensor):
    """The exact numbers of a tensor, float64, [outputs, inputs] or [count]."""
    shape = tuple(int(n) for n in reversed(tensor.shape))
    data = np.asarray(tensor.data)
    if tensor.tensor_type in (Type.F32, Type.F16):
        return data.astype(np.float64).reshape(shape)
    raw = data.view(np.uint8).reshape(-1)
    if tensor.tensor_type == Type.BF16:  # the upper half of a float32
        numbers = (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    elif tensor.tensor_type == Type.Q8_0:  # 32 numbers: f16 scale, 32 int8
        blocks = raw.reshape(-1, 34)
        scale = blocks[:, :2].copy().view(np.float16).astype(np.float64)
        numbers = scale * blocks[:, 2:].copy().view(np.int8).astype(np.float64)
    elif tensor.tensor_type == Type.Q4_1:  # f16 scale, f16 least, 16 bytes: low halves come first
        blocks = raw.reshape(-1, 20)
        scale = blocks[:, 0:2].copy().view(np.float16).astype(np.float64)
        least = blocks[:, 2:4].copy().view(np.float16).astype(np.float64)
        quants = np.concatenate([blocks[:, 4:] & 15, blocks[:, 4:] >> 4], axis=1)
        numbers = scale * quants.astype(np.float64) + least
    else:
        raise ValueError(f"{tensor.name}: type {tensor.tensor_type.name} is not needed here")
    return numbers.reshape(shape)


class Llama:
    """Hyperparameters and weights of a GGUF file."""

    def __init__(self, path):
        reader = GGUFReader(path)

        def number(key, default=None):
            field = reader.fields.get("llama." + key)
            return default if field is None else field.contents()

        self.layers = number("block_count")
        self.width = number("embedding_length")
        self.heads = number("attention.head_count")
        self.heads_kv = number("attention.head_count_kv", self.heads)
        self.head_dim = number("attention.key_length", self.width // self.heads)
        self.eps = float(np.float32(number("attention.layer_norm_rms_epsilon")))
        self.rope_base = float(np.float32(number("rope.freq_base", 10000.0)))
        self.weights = {t.name: dequantize(t) for t in reader.tensors}
        self.embedding = self.weights["token_embd.weight"]
        self.head = self.weights.get("output.weight", self.embedding)

    # ---- forward --------------------------------------------------------------------------------

    def hidden(self, tokens, positions, sees):
        """Rows after the final norm, [n, width]. sees[q, k]: token q attends to token k."""
        x = self.embedding[np.asarray(tokens)]
        angles = self.rope_angles(np.asarray(positions))
        for layer in range(self.layers):
            w = lambda name: self.weights[f"blk.{layer}.{name}.weight"]
            h = rms_norm(x, w("attn_norm"), self.eps)
            q = rope(self.split_heads(h @ w("attn_q").T, self.heads), angles)
            k = rope(self.split_heads(h @ w("attn_k").T, self.heads_kv), angles)
            v = self.split_heads(h @ w("attn_v").T, self.heads_kv)
            x = x + self.attend(q, k, v, sees) @ w("attn_output").T
            h = rms_norm(x, w("ffn_norm"), self.eps)
            x = x + (silu(h @ w("ffn_gate").T) * (h @ w("ffn_up").T)) @ w("ffn_down").T
        return rms_norm(x, self.weights["output_norm.weight"], self.eps)

    def logits(self, hidden):
        return hidden @ self.head.T

    def attend(self, q, k, v, sees):
        """q [heads, n, d], k and v [heads_kv, n, d] -> [n, heads * d]."""
        out = np.empty_like(q)
        for head in range(self.heads):
            shared = head * self.heads_kv // self.heads  # neighbouring query heads share a K/V head
            scores = q[head] @ k[shared].T / np.sqrt(self.head_dim)
            scores = np.where(sees, scores, -np.inf)
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            out[head] = weights / weights.sum(axis=1, keepdims=True) @ v[shared]
        return out.transpose(1, 0, 2).reshape(q.shape[1], -1)

    def split_heads(self, rows, heads):
        return rows.reshape(len(rows), heads, self.head_dim).transpose(1, 0, 2)

    def rope_angles(self, positions):
        """[n, head_dim / 2]. The file's rope_freqs (Llama 3.1) divide the frequencies."""
        frequencies = self.rope_base ** (-np.arange(0, self.head_dim, 2) / self.head_dim)
        frequencies = frequencies / self.weights.get("rope_freqs.weight", 1.0)
        return positions[:, None] * frequencies[None, :]


def rms_norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * weight


def silu(x):
    return x / (1 + np.exp(-x))


def rope(x, angles):
    """GGUF llama files pair neighbours: (x0, x1), (x2, x3), ... are rotated as complex numbers."""
    turned = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angles)
    return np.stack([turned.real, turned.imag], axis=-1).reshape(x.shape)


# ---- hybrid attention ---------------------------------------------------------------------------


def mask(order):
    """The written definition. order[i] is None for a context token, else its turn of decoding:
    context tokens see all of the context and nothing else; a span token sees all of the context,
    itself and the span tokens decoded before it."""
    n = len(order)
    sees = np.zeros((n, n), dtype=bool)
    for q in range(n):
        for k in range(n):
            if order[k] is None:
                sees[q, k] = True
            elif order[q] is not None:
                sees[q, k] = order[k] <= order[q]
    return sees


def pool(hidden, how):
    """Pooled over all rows, not normalised."""
    if how == "mean":
        return hidden.mean(axis=0)
    if how == "cls":
        return hidden[0]
    if how == "last":
        return hidden[-1]
    if how == "weighted_mean":  # row i of n weighs i + 1
        weights = np.arange(1, len(hidden) + 1)
        return weights @ hidden / weights.sum()
    raise ValueError(how)
