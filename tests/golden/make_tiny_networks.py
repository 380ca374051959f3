"""Makes tests/golden/fixtures/tiny_networks: tiny random files of the networks besides llama and
what they must compute.

MAKING: in a Python 3 environment with numpy and gguf (`pip install numpy gguf`), from anywhere:
    python3 tests/golden/make_tiny_networks.py [NAME...]
writes all of them, or those named; each has a seed of its own. The numbers come from
numpy_networks.py (float64, dense mask, text order) and are rounded to float32 at the end; the files
are compared with a tolerance, so another numpy may change last bits and nothing else.

For each, NAME.json lists cases and NAME.bin holds float32 rows as in make_tiny_llama.py, which the
cases and the vocabulary of 272 pieces come from; of networks that have no head, hidden rows instead
of logits. Where there is a dense head, the pooled vectors follow once more, as it turns them out.
Windows are short, so that the cases reach past them.
"""

import json
import os
import sys
import zlib

import gguf
import numpy as np
from make_tiny_llama import CASES, CONTEXT, POOLINGS, VOCAB, run_case, vocabulary
from numpy_networks import Network

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures", "tiny_networks")
F32, F16 = gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.F16


class Maker:
    """A GGUF file being written: sizes as metadata, then random tensors."""

    def __init__(self, path, network, layers, heads, heads_kv, width, ffn, head_dim=16):
        self.rng = np.random.default_rng(zlib.crc32(os.path.basename(path).encode()))
        self.writer = gguf.GGUFWriter(path, network)
        self.layers, self.width, self.ffn = layers, width, ffn
        self.width_q, self.width_kv, self.head_dim = heads * head_dim, heads_kv * head_dim, head_dim
        self.writer.add_name(f"tiny random {network}")
        self.writer.add_block_count(layers)
        self.writer.add_context_length(CONTEXT)
        self.writer.add_embedding_length(width)
        self.writer.add_feed_forward_length(ffn)
        self.writer.add_head_count(heads)
        self.writer.add_head_count_kv(heads_kv)

    def matrix(self, name, outputs, inputs, gain=1.0, kind=F16):
        numbers = self.rng.standard_normal((outputs, inputs)) * gain / np.sqrt(inputs)
        data = gguf.quants.quantize(numbers.astype(np.float32), kind)
        self.writer.add_tensor(name + ".weight", data, raw_dtype=kind)

    def vector(self, name, count, mean=0.0, spread=0.2):
        numbers = mean + spread * self.rng.standard_normal(count)
        if self.writer.arch.startswith("gemma") and name.endswith("norm.weight"):
            numbers = np.round(numbers * 2**20) / 2**20  # 1 less, as folders hold them, is exact
        self.writer.add_tensor(name, numbers.astype(np.float32))

    def norm(self, name):
        self.vector(name + ".weight", self.width, mean=1.0)

    def biased_norm(self, name):
        self.norm(name)
        self.vector(name + ".bias", self.width)

    def biased(self, name, outputs, inputs, gain=1.0):
        self.matrix(name, outputs, inputs, gain)
        self.vector(name + ".bias", outputs)

    def dense_head(self, layers):
        """Layers behind the pooling, as (outputs, bias and tanh): the usual converter's keys and
        names, and ours for what it has none of."""
        inputs = self.width
        for index, (outputs, more) in enumerate(layers):
            name = f"dense_{index + 2}"
            self.writer.add_dense_features_dims(name, inputs, outputs)
            self.matrix(name, outputs, inputs)
            if more:
                self.writer.add_bool(f"{self.writer.arch}.{name}_bias", True)
                self.writer.add_string(f"{self.writer.arch}.{name}_activation", "tanh")
                self.vector(name + ".bias", outputs)
            inputs = outputs

    def finish(self):
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()


# ---- decoders ------------------------------------------------------------------------------------
# Gains make attention pick (scores spread over several units) and logits spread like a model's.


def decoder(make, extra=lambda make, blk: None, base=10000.0, dense=()):
    """llama's tensors and what `extra` adds to a layer."""
    make.writer.add_key_length(make.head_dim)
    make.writer.add_value_length(make.head_dim)
    make.writer.add_rope_freq_base(base)
    make.writer.add_layer_norm_rms_eps(1e-6)
    vocabulary(make.writer)
    make.matrix("token_embd", VOCAB, make.width, 2.0)
    make.norm("output_norm")
    for layer in range(make.layers):
        blk = f"blk.{layer}."
        make.norm(blk + "attn_norm")
        make.matrix(blk + "attn_q", make.width_q, make.width, 1.4)
        make.matrix(blk + "attn_k", make.width_kv, make.width, 1.4)
        make.matrix(blk + "attn_v", make.width_kv, make.width)
        make.matrix(blk + "attn_output", make.width, make.width_q)
        make.norm(blk + "ffn_norm")
        make.matrix(blk + "ffn_gate", make.ffn, make.width)
        make.matrix(blk + "ffn_up", make.ffn, make.width)
        make.matrix(blk + "ffn_down", make.width, make.ffn)
        extra(make, blk)
    make.dense_head(dense)
    make.finish()


def mistral(path):
    make = Maker(path, "llama", layers=2, heads=3, heads_kv=1, width=48, ffn=64)
    make.writer.add_rope_dimension_count(make.head_dim)
    make.writer.add_sliding_window(6)
    decoder(make)


def qwen2(path):
    def biases(make, blk):
        make.vector(blk + "attn_q.bias", make.width_q, spread=0.5)
        make.vector(blk + "attn_k.bias", make.width_kv, spread=0.5)
        make.vector(blk + "attn_v.bias", make.width_kv, spread=0.5)

    decoder(Maker(path, "qwen2", layers=2, heads=4, heads_kv=2, width=64, ffn=64), biases, 1e6)


def qwen3(path):
    """The heads together are wider than the rows, as in the real ones of small size."""

    def norms(make, blk):
        make.vector(blk + "attn_q_norm.weight", make.head_dim, mean=1.5)
        make.vector(blk + "attn_k_norm.weight", make.head_dim, mean=1.5)

    decoder(Maker(path, "qwen3", layers=2, heads=4, heads_kv=2, width=48, ffn=64), norms, 1e6)


def gemma3(path, network="gemma3", dense=()):
    """One round of five local layers and a global one, and a local layer more."""

    def norms(make, blk):
        make.vector(blk + "attn_q_norm.weight", make.head_dim, mean=1.5)
        make.vector(blk + "attn_k_norm.weight", make.head_dim, mean=1.5)
        make.norm(blk + "post_attention_norm")
        make.norm(blk + "post_ffw_norm")

    make = Maker(path, network, layers=7, heads=2, heads_kv=1, width=32, ffn=48)
    make.writer.add_sliding_window(6)
    decoder(make, norms, 1e6, dense)


DECODERS = [mistral, qwen2, qwen3, gemma3]

# ---- encoders ------------------------------------------------------------------------------------


def gemma_embedding(path):
    """With a dense head like that of EmbeddingGemma, whose vectors are as wide as its rows, but for
    that: 24 of 32."""
    gemma3(path, "gemma-embedding", [(80, False), (24, False)])


def encoder(path, network, heads, layers=2):
    make = Maker(path, network, layers, heads, heads, width=16 * heads, ffn=64)
    make.writer.add_layer_norm_eps(1e-12)
    make.writer.add_causal_attention(False)
    make.writer.add_pooling_type(gguf.PoolingType.MEAN)
    vocabulary(make.writer)
    make.matrix("token_embd", VOCAB, make.width, make.width**0.5)
    return make


def after_bert(make, layer, dense=()):
    """What follows bert in that its norms come last."""
    make.matrix("token_types", 2, make.width, make.width**0.5)
    make.biased_norm("token_embd_norm")
    for index in range(make.layers):
        blk = f"blk.{index}."
        layer(make, blk)
        make.biased_norm(blk + "attn_output_norm")
        make.biased_norm(blk + "layer_output_norm")
    make.dense_head(dense)
    make.finish()


def biased_attention(make, blk):
    make.biased(blk + "attn_q", make.width, make.width, 1.4)
    make.biased(blk + "attn_k", make.width, make.width, 1.4)
    make.biased(blk + "attn_v", make.width, make.width)
    make.biased(blk + "attn_output", make.width, make.width)


def bert(path, dense=()):
    def layer(make, blk):
        biased_attention(make, blk)
        make.biased(blk + "ffn_up", make.ffn, make.width)
        make.biased(blk + "ffn_down", make.width, make.ffn)

    make = encoder(path, "bert", heads=4)
    make.matrix("position_embd", CONTEXT, make.width, make.width**0.5)
    after_bert(make, layer, dense)


def bert_dense(path):
    """LaBSE's head: one layer with a bias and tanh. Vectors are wider than the rows."""
    bert(path, [(72, True)])


def nomic_bert(path):
    def layer(make, blk):
        make.matrix(blk + "attn_qkv", 3 * make.width, make.width, 1.4)
        make.matrix(blk + "attn_output", make.width, make.width)
        make.matrix(blk + "ffn_gate", make.ffn, make.width)
        make.matrix(blk + "ffn_up", make.ffn, make.width)
        make.matrix(blk + "ffn_down", make.width, make.ffn)

    make = encoder(path, "nomic-bert", heads=3)
    make.writer.add_rope_freq_base(1000.0)
    after_bert(make, layer)


def jina_bert_v2(path, joined=True):
    """Three heads: no power of two."""

    def layer(make, blk):
        biased_attention(make, blk)
        if joined:
            make.matrix(blk + "ffn_up", 2 * make.ffn, make.width)
        else:
            make.matrix(blk + "ffn_gate", make.ffn, make.width)
            make.matrix(blk + "ffn_up", make.ffn, make.width)
        make.biased(blk + "ffn_down", make.width, make.ffn)

    after_bert(encoder(path, "jina-bert-v2", heads=3), layer)


def jina_bert_v2_apart(path):
    jina_bert_v2(path, joined=False)


def modern_bert(path):
    """Two rounds of a global layer and two local ones."""
    make = encoder(path, "modern-bert", heads=2, layers=6)
    make.writer.add_sliding_window(8)
    make.writer.add_rope_freq_base(160000.0)
    make.norm("token_embd_norm")
    make.norm("output_norm")
    for index in range(make.layers):
        blk = f"blk.{index}."
        if index > 0:
            make.norm(blk + "attn_norm")
        make.matrix(blk + "attn_qkv", 3 * make.width, make.width, 1.4)
        make.matrix(blk + "attn_output", make.width, make.width)
        make.norm(blk + "ffn_norm")
        make.matrix(blk + "ffn_up", 2 * make.ffn, make.width)
        make.matrix(blk + "ffn_down", make.width, make.ffn)
    make.finish()


ENCODERS = [gemma_embedding, bert, bert_dense, nomic_bert, jina_bert_v2, jina_bert_v2_apart,
            modern_bert]

# ---- cases ---------------------------------------------------------------------------------------


ENCODER_CASES = {
    "one": [None],
    "some": [None] * 9,
    "many": [None] * 21,
    "more_than_two_tiles": [None] * 40,
}


def write_cases(path, cases, vectors_only):
    """Runs the cases through the file of this path and writes what came out beside it."""
    network = Network(path + ".gguf")
    if vectors_only:
        network.logits = lambda hidden: hidden
    rng = np.random.default_rng(zlib.crc32(os.path.basename(path).encode()) + 1)
    floats, listed = [], []
    for name, turns in cases.items():
        offset = 5 if name == "causal_one" else 0  # positions need not begin at 0
        case = {"name": name, **run_case(network, turns, offset, rng, floats)}
        if network.dense:
            at, count = case["pooled_at"], len(POOLINGS) * network.width
            pooled = np.asarray(floats[at:at + count]).reshape(len(POOLINGS), network.width)
            case["dense_at"] = len(floats)
            floats.extend(network.head(pooled).reshape(-1))
        listed.append(case)
    with open(path + ".json", "w") as file:
        file.write('{"cases": [\n' + ",\n".join(json.dumps(c) for c in listed) + "\n]}\n")
    np.asarray(floats, dtype="<f4").tofile(path + ".bin")


def main():
    os.makedirs(FOLDER, exist_ok=True)
    for make in DECODERS + ENCODERS:
        path = os.path.join(FOLDER, make.__name__)
        if len(sys.argv) == 1 or make.__name__ in sys.argv[1:]:
            make(path + ".gguf")
            encodes = make in ENCODERS
            write_cases(path, ENCODER_CASES if encodes else CASES, encodes)


if __name__ == "__main__":
    main()
