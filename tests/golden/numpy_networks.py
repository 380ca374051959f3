"""The networks besides llama in float64 with dense masks: the reference of the golden tests.

One function a network, written from its paper and the published model code, with nothing of the
engine in it: tokens stand in text order, the mask is a matrix, every layer reads its weights by
name. What is common to all of them (dequantising, the written definition of hybrid attention) is in
numpy_llama.py.

Needs numpy and the `gguf` package (only to find tensors and metadata in the file).
"""

import math

import numpy as np
from gguf import GGUFReader
from numpy_llama import dequantize, rms_norm, silu


class Network:
    """Metadata and weights of a GGUF file."""

    def __init__(self, path):
        self.reader = GGUFReader(path)
        self.name = self.reader.fields["general.architecture"].contents()
        self.layers = self.number("block_count")
        self.width = self.number("embedding_length")
        self.heads = self.number("attention.head_count")
        self.heads_kv = self.number("attention.head_count_kv", self.heads)
        self.head_dim = self.number("attention.key_length", self.width // self.heads)
        self.rms_eps = self.number("attention.layer_norm_rms_epsilon")
        self.eps = self.number("attention.layer_norm_epsilon")
        self.weights = {t.name: dequantize(t) for t in self.reader.tensors}
        self.embedding = self.weights["token_embd.weight"]
        self.dense = [f"dense_{i}" for i in (2, 3) if f"dense_{i}.weight" in self.weights]

    def number(self, key, default=None):
        field = self.reader.fields.get(f"{self.name}.{key}")
        return default if field is None else field.contents()

    def layer(self, index):
        start = f"blk.{index}."
        return {n[len(start) :]: w for n, w in self.weights.items() if n.startswith(start)}

    def hidden(self, tokens, positions, sees):
        """The rows vectors and logits are made of, [n, width]. sees[q, k]: q attends to k."""
        return FORWARDS[self.name](self, np.asarray(tokens), np.asarray(positions), sees)

    def logits(self, hidden):
        return hidden @ self.weights.get("output.weight", self.embedding).T

    def head(self, vectors):
        """Pooled vectors through the dense layers, as sentence-transformers' module Dense."""
        for name in self.dense:
            vectors = vectors @ self.weights[name + ".weight"].T
            vectors = vectors + self.weights.get(name + ".bias", 0)
            if self.number(name + "_activation", "identity") == "tanh":
                vectors = np.tanh(vectors)
        return vectors

    def split(self, rows):
        """[n, heads * head_dim] -> [heads, n, head_dim]."""
        return rows.reshape(len(rows), -1, self.head_dim).transpose(1, 0, 2)

    def attend(self, q, k, v, sees, bias=None):
        """[heads, n, d], bias [heads, n, n] -> [n, heads * d]."""
        group = len(q) // len(k)
        k, v = np.repeat(k, group, axis=0), np.repeat(v, group, axis=0)
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(self.head_dim)
        scores = np.where(sees, scores if bias is None else scores + bias, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        out = weights / weights.sum(axis=-1, keepdims=True) @ v
        return out.transpose(1, 0, 2).reshape(q.shape[1], -1)


# ---- pieces --------------------------------------------------------------------------------------


def layer_norm(x, weight, bias, eps):
    """arXiv 1607.06450."""
    mean = x.mean(axis=-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + eps) * weight + bias


def gelu(x):
    """arXiv 1606.08415."""
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / np.sqrt(2)))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def rope(x, positions, base, interleaved=False):
    """arXiv 2104.09864. x [heads, n, d]: pair i is (i, i + d/2), or (2i, 2i + 1) if interleaved."""
    half = x.shape[-1] // 2
    angles = positions[:, None] * base ** (-np.arange(half) / half)
    pairs = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
    a = pairs[0] * np.cos(angles) - pairs[1] * np.sin(angles)
    b = pairs[0] * np.sin(angles) + pairs[1] * np.cos(angles)
    return np.stack([a, b], axis=-1).reshape(x.shape) if interleaved else np.concatenate([a, b], -1)


def within(positions, distance):
    """[n, n]: at most so many positions apart."""
    return np.abs(positions[:, None] - positions[None, :]) <= distance


# ---- decoders ------------------------------------------------------------------------------------


def mistral(net, tokens, positions, sees):
    """arXiv 2310.06825: llama whose token sees the `window` tokens that end with itself."""
    x = net.embedding[tokens]
    sees = sees & within(positions, net.number("attention.sliding_window") - 1)
    base = net.number("rope.freq_base")
    for index in range(net.layers):
        w = net.layer(index)
        h = rms_norm(x, w["attn_norm.weight"], net.rms_eps)
        q = rope(net.split(h @ w["attn_q.weight"].T), positions, base, interleaved=True)
        k = rope(net.split(h @ w["attn_k.weight"].T), positions, base, interleaved=True)
        v = net.split(h @ w["attn_v.weight"].T)
        x = x + net.attend(q, k, v, sees) @ w["attn_output.weight"].T
        h = rms_norm(x, w["ffn_norm.weight"], net.rms_eps)
        gate = silu(h @ w["ffn_gate.weight"].T) * (h @ w["ffn_up.weight"].T)
        x = x + gate @ w["ffn_down.weight"].T
    return rms_norm(x, net.weights["output_norm.weight"], net.rms_eps)


def qwen2(net, tokens, positions, sees):
    """arXiv 2407.10671."""
    x = net.embedding[tokens]
    base = net.number("rope.freq_base")
    for index in range(net.layers):
        w = net.layer(index)
        h = rms_norm(x, w["attn_norm.weight"], net.rms_eps)
        q = rope(net.split(h @ w["attn_q.weight"].T + w["attn_q.bias"]), positions, base)
        k = rope(net.split(h @ w["attn_k.weight"].T + w["attn_k.bias"]), positions, base)
        v = net.split(h @ w["attn_v.weight"].T + w["attn_v.bias"])
        x = x + net.attend(q, k, v, sees) @ w["attn_output.weight"].T
        h = rms_norm(x, w["ffn_norm.weight"], net.rms_eps)
        gate = silu(h @ w["ffn_gate.weight"].T) * (h @ w["ffn_up.weight"].T)
        x = x + gate @ w["ffn_down.weight"].T
    return rms_norm(x, net.weights["output_norm.weight"], net.rms_eps)


def qwen3(net, tokens, positions, sees):
    """arXiv 2505.09388: queries and keys are normed head by head."""
    x = net.embedding[tokens]
    base = net.number("rope.freq_base")
    for index in range(net.layers):
        w = net.layer(index)
        h = rms_norm(x, w["attn_norm.weight"], net.rms_eps)
        q = rms_norm(net.split(h @ w["attn_q.weight"].T), w["attn_q_norm.weight"], net.rms_eps)
        k = rms_norm(net.split(h @ w["attn_k.weight"].T), w["attn_k_norm.weight"], net.rms_eps)
        q, k = rope(q, positions, base), rope(k, positions, base)
        v = net.split(h @ w["attn_v.weight"].T)
        x = x + net.attend(q, k, v, sees) @ w["attn_output.weight"].T
        h = rms_norm(x, w["ffn_norm.weight"], net.rms_eps)
        gate = silu(h @ w["ffn_gate.weight"].T) * (h @ w["ffn_up.weight"].T)
        x = x + gate @ w["ffn_down.weight"].T
    return rms_norm(x, net.weights["output_norm.weight"], net.rms_eps)


def gemma3(net, tokens, positions, sees, local=None):
    """arXiv 2503.19786. The file's norm weights are 1 + w already. local[q, k]: within reach in the
    layers that are not global, by default the window that ends with q; which way the token looks is
    what `sees` says."""
    if local is None:
        local = within(positions, net.number("attention.sliding_window") - 1)
    norm = lambda rows, weight: rms_norm(rows, weight, net.rms_eps)
    x = net.embedding[tokens] * np.sqrt(net.width)
    for index in range(net.layers):
        w = net.layer(index)
        is_global = (index + 1) % 6 == 0
        base = net.number("rope.freq_base") if is_global else 10000.0
        h = norm(x, w["attn_norm.weight"])
        q = norm(net.split(h @ w["attn_q.weight"].T), w["attn_q_norm.weight"])
        k = norm(net.split(h @ w["attn_k.weight"].T), w["attn_k_norm.weight"])
        q, k = rope(q, positions, base), rope(k, positions, base)
        v = net.split(h @ w["attn_v.weight"].T)
        attended = net.attend(q, k, v, sees if is_global else sees & local)
        x = x + norm(attended @ w["attn_output.weight"].T, w["post_attention_norm.weight"])
        h = norm(x, w["ffn_norm.weight"])
        gate = gelu_tanh(h @ w["ffn_gate.weight"].T) * (h @ w["ffn_up.weight"].T)
        x = x + norm(gate @ w["ffn_down.weight"].T, w["post_ffw_norm.weight"])
    return norm(x, net.weights["output_norm.weight"])


# ---- encoders ------------------------------------------------------------------------------------


def gemma_embedding(net, tokens, positions, sees):
    """EmbeddingGemma: Gemma 3 whose local layers see half a window to either side."""
    window = net.number("attention.sliding_window")
    return gemma3(net, tokens, positions, sees, within(positions, window // 2))


def bert(net, tokens, positions, sees):
    """arXiv 1810.04805, all tokens of the first type."""
    w, eps = net.weights, net.eps
    x = net.embedding[tokens] + w["token_types.weight"][0] + w["position_embd.weight"][positions]
    x = layer_norm(x, w["token_embd_norm.weight"], w["token_embd_norm.bias"], eps)
    for index in range(net.layers):
        w = net.layer(index)
        linear = lambda rows, name: rows @ w[name + ".weight"].T + w[name + ".bias"]
        q, k, v = (net.split(linear(x, name)) for name in ("attn_q", "attn_k", "attn_v"))
        x = x + linear(net.attend(q, k, v, sees), "attn_output")
        x = layer_norm(x, w["attn_output_norm.weight"], w["attn_output_norm.bias"], eps)
        x = x + linear(gelu(linear(x, "ffn_up")), "ffn_down")
        x = layer_norm(x, w["layer_output_norm.weight"], w["layer_output_norm.bias"], eps)
    return x


def nomic_bert(net, tokens, positions, sees):
    """arXiv 2402.01613: bert with rope and SwiGLU, and q, k, v in one matrix."""
    w, eps = net.weights, net.eps
    x = net.embedding[tokens] + w["token_types.weight"][0]
    x = layer_norm(x, w["token_embd_norm.weight"], w["token_embd_norm.bias"], eps)
    base = net.number("rope.freq_base")
    for index in range(net.layers):
        w = net.layer(index)
        q, k, v = (net.split(part) for part in np.split(x @ w["attn_qkv.weight"].T, 3, axis=1))
        q, k = rope(q, positions, base), rope(k, positions, base)
        x = x + net.attend(q, k, v, sees) @ w["attn_output.weight"].T
        x = layer_norm(x, w["attn_output_norm.weight"], w["attn_output_norm.bias"], eps)
        gate = silu(x @ w["ffn_gate.weight"].T) * (x @ w["ffn_up.weight"].T)
        x = x + gate @ w["ffn_down.weight"].T
        x = layer_norm(x, w["layer_output_norm.weight"], w["layer_output_norm.bias"], eps)
    return x


def alibi_slopes(heads):
    """arXiv 2108.12409 and its published code: a geometric series for a power of two; else that of
    the next lower power, then every second of the next higher one."""
    lower = 2 ** int(math.log2(heads))
    series = lambda n: [2 ** (-8 * (i + 1) / n) for i in range(n)]
    return np.array(series(lower) + series(2 * lower)[0::2][: heads - lower])


def jina_bert_v2(net, tokens, positions, sees):
    """arXiv 2310.19923: bert with ALiBi to both sides instead of positions, and GeGLU."""
    w, eps = net.weights, net.eps
    x = net.embedding[tokens] + w["token_types.weight"][0]
    x = layer_norm(x, w["token_embd_norm.weight"], w["token_embd_norm.bias"], eps)
    distance = np.abs(positions[:, None] - positions[None, :])
    bias = -alibi_slopes(net.heads)[:, None, None] * distance
    for index in range(net.layers):
        w = net.layer(index)
        linear = lambda rows, name: rows @ w[name + ".weight"].T + w[name + ".bias"]
        q, k, v = (net.split(linear(x, name)) for name in ("attn_q", "attn_k", "attn_v"))
        x = x + linear(net.attend(q, k, v, sees, bias), "attn_output")
        x = layer_norm(x, w["attn_output_norm.weight"], w["attn_output_norm.bias"], eps)
        if "ffn_gate.weight" in w:
            gate, up = x @ w["ffn_gate.weight"].T, x @ w["ffn_up.weight"].T
        else:
            gate, up = np.split(x @ w["ffn_up.weight"].T, 2, axis=1)
        x = x + linear(gelu(gate) * up, "ffn_down")
        x = layer_norm(x, w["layer_output_norm.weight"], w["layer_output_norm.bias"], eps)
    return x


def modern_bert(net, tokens, positions, sees):
    """arXiv 2412.13663. Layers 0, 3, 6, ... are global; the first has no norm before attention."""
    norm = lambda rows, weight: layer_norm(rows, weight, 0.0, net.eps)
    local = within(positions, net.number("attention.sliding_window") // 2)
    x = norm(net.embedding[tokens], net.weights["token_embd_norm.weight"])
    for index in range(net.layers):
        w = net.layer(index)
        is_global = index % 3 == 0
        base = net.number("rope.freq_base") if is_global else 10000.0
        h = x if index == 0 else norm(x, w["attn_norm.weight"])
        q, k, v = (net.split(part) for part in np.split(h @ w["attn_qkv.weight"].T, 3, axis=1))
        q, k = rope(q, positions, base), rope(k, positions, base)
        attended = net.attend(q, k, v, sees if is_global else sees & local)
        x = x + attended @ w["attn_output.weight"].T
        gate, up = np.split(norm(x, w["ffn_norm.weight"]) @ w["ffn_up.weight"].T, 2, axis=1)
        x = x + (gelu(gate) * up) @ w["ffn_down.weight"].T
    return norm(x, net.weights["output_norm.weight"])


FORWARDS = {
    "llama": mistral,
    "qwen2": qwen2,
    "qwen3": qwen3,
    "gemma3": gemma3,
    "gemma-embedding": gemma_embedding,
    "bert": bert,
    "nomic-bert": nomic_bert,
    "jina-bert-v2": jina_bert_v2,
    "modern-bert": modern_bert,
}
