"""Makes tests/golden/fixtures/tiny_llama: tiny random llama files and what they must compute.

MAKING: in a Python 3 environment with numpy and gguf (`pip install numpy gguf`), from anywhere:
    python3 tests/golden/make_tiny_llama.py
rewrites the whole folder from the seed below. The numbers come from numpy_llama.py (float64, dense
mask, text order) and are rounded to float32 at the end; the files are compared with a tolerance, so
another numpy may change last bits and nothing else.

Models (.gguf), each small but whole, with a SentencePiece vocabulary of 272 pieces:
    tied    F32, head tied to the embeddings, 3 query heads on 1 K/V head
    rope31  F16, head of its own, 4 query heads on 2 K/V heads, Llama 3.1 rope factors
    quant   Q8_0 and Q4_1 matrices, tied
    bf16    BF16, head of its own

For each, NAME.json lists cases and NAME.bin holds float32 rows (the JSON counts floats):
    tokens, positions, context_count   in slot order: context by position, then spans by turn
    logit_rows, logits_at              slots whose logits are stored, [rows][vocab]
    pooled_at                          mean, cls, last, weighted_mean, [4][width], not normalised
"""

import json
import os
import shutil

import gguf
import numpy as np
from numpy_llama import Llama, mask, pool

SEED = 20240817
VOCAB = 272
CONTEXT = 256
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures", "tiny_llama")
POOLINGS = ["mean", "cls", "last", "weighted_mean"]

F32, F16 = gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.F16
BF16 = gguf.GGMLQuantizationType.BF16
Q8_0, Q4_1 = gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.Q4_1

MODELS = {
    "tied": dict(width=48, heads=3, heads_kv=1, ffn=64, tied=True, attn=F32, mlp=F32, embd=F32),
    "rope31": dict(width=64, heads=4, heads_kv=2, ffn=64, tied=False, attn=F16, mlp=F16, embd=F16),
    "quant": dict(width=64, heads=4, heads_kv=2, ffn=96, tied=True, attn=Q8_0, mlp=Q4_1, embd=Q8_0),
    "bf16": dict(width=48, heads=3, heads_kv=3, ffn=64, tied=False, attn=BF16, mlp=BF16, embd=BF16),
}

# ---- model files ---------------------------------------------------------------------------------


def vocabulary(writer):
    """Unknown, BOS, EOS, 256 bytes and 13 pieces that merge: enough for any text."""
    pieces = ["▁", "e", "t", "a", "o", "n", "▁t", "he", "▁the", "in", "▁a", "er", "on"]
    kinds = gguf.TokenType
    writer.add_tokenizer_model("llama")
    writer.add_token_list(["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + pieces)
    writer.add_token_scores([0.0] * 259 + [-float(i + 1) for i in range(len(pieces))])
    writer.add_token_types(
        [kinds.UNKNOWN, kinds.CONTROL, kinds.CONTROL] + [kinds.BYTE] * 256 + [kinds.NORMAL] * 13
    )
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)


def llama31_factors(head_dim, base, factor=8.0, low=1.0, high=4.0, trained=16.0):
    """Long waves are stretched by `factor`, short ones kept, those between blended. A trained
    context of 16 puts all three kinds into a head of 16 dimensions."""
    waves = 2 * np.pi * base ** (np.arange(0, head_dim, 2) / head_dim)
    blend = np.clip((trained / waves - low) / (high - low), 0, 1)
    return (1 / ((1 - blend) / factor + blend)).astype(np.float32)


def write_model(path, shape, rng):
    layers, head_dim, width, ffn = 2, 16, shape["width"], shape["ffn"]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny random llama")
    writer.add_block_count(layers)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(ffn)
    writer.add_head_count(shape["heads"])
    writer.add_head_count_kv(shape["heads_kv"])
    writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(VOCAB)
    vocabulary(writer)

    def matrix(name, outputs, inputs, kind, gain):
        numbers = rng.standard_normal((outputs, inputs)) * gain / np.sqrt(inputs)
        data = gguf.quants.quantize(numbers.astype(np.float32), kind)
        writer.add_tensor(name, data, raw_dtype=kind)

    def norm(name):
        writer.add_tensor(name, (1 + 0.2 * rng.standard_normal(width)).astype(np.float32))

    # Gains make attention pick (scores spread over several units) and logits spread like a model's.
    matrix("token_embd.weight", VOCAB, width, shape["embd"], 2.0)
    if "rope31" in path:
        writer.add_tensor("rope_freqs.weight", llama31_factors(head_dim, 10000.0))
    for layer in range(layers):
        attn, mlp, kv_width = shape["attn"], shape["mlp"], shape["heads_kv"] * head_dim
        norm(f"blk.{layer}.attn_norm.weight")
        matrix(f"blk.{layer}.attn_q.weight", shape["heads"] * head_dim, width, attn, 1.4)
        matrix(f"blk.{layer}.attn_k.weight", kv_width, width, attn, 1.4)
        matrix(f"blk.{layer}.attn_v.weight", kv_width, width, attn, 1.0)
        matrix(f"blk.{layer}.attn_output.weight", width, shape["heads"] * head_dim, attn, 1.0)
        norm(f"blk.{layer}.ffn_norm.weight")
        matrix(f"blk.{layer}.ffn_gate.weight", ffn, width, mlp, 1.0)
        matrix(f"blk.{layer}.ffn_up.weight", ffn, width, mlp, 1.0)
        matrix(f"blk.{layer}.ffn_down.weight", width, ffn, mlp, 1.0)
    norm("output_norm.weight")
    if not shape["tied"]:
        matrix("output.weight", VOCAB, width, shape["embd"], 2.0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# ---- cases ---------------------------------------------------------------------------------------
# Each is the turn of every token in text order: None = context, k = decoded as the kth.


def causal(n):
    return list(range(n))


def gaps(layout, order):
    """layout such as "..2..3." puts gaps of 2 and 3 tokens into a context of dots; order says
    which gap is decoded first. Positions stay in place: a span token sits where it belongs."""
    turns, counts = [], [int(c) for c in layout if c != "."]
    starts = {gap: sum(counts[g] for g in order[: order.index(gap)]) for gap in order}
    gap = 0
    for char in layout:
        if char == ".":
            turns.append(None)
        else:
            turns += [starts[gap] + i for i in range(int(char))]
            gap += 1
    return turns


CASES = {
    "causal": causal(21),
    "causal_one": causal(1),
    "bidirectional": [None] * 21,
    "bidirectional_page": [None] * 40,  # longer than a tile of keys
    "prefix_lm": [None] * 9 + causal(8),
    "infill_one_gap": gaps(".....4......", [0]),
    "infill_two_gaps": gaps("...3.....2...", [0, 1]),
    "infill_two_gaps_backwards": gaps("...3.....2...", [1, 0]),
    "infill_three_gaps": gaps("..2...3....1..", [0, 1, 2]),
    "infill_three_gaps_mixed": gaps("..2...3....1..", [2, 0, 1]),
    "infill_at_borders": gaps(".3......2", [0, 1]),
}


def stored_rows(turns):
    """Slots whose logits are kept: the first and last of the context, the first and last span."""
    context = sum(turn is None for turn in turns)
    rows = {0, max(context - 1, 0), min(context, len(turns) - 1), len(turns) - 1}
    return sorted(rows)


def run_case(model, turns, offset, rng, floats):
    n = len(turns)
    tokens = rng.integers(3, VOCAB, n)
    positions = np.arange(n) + offset
    hidden = model.hidden(tokens, positions, mask(turns))
    slots = sorted(range(n), key=lambda i: (turns[i] is not None, turns[i] or 0, i))
    rows = stored_rows(turns)
    case = {
        "tokens": [int(tokens[i]) for i in slots],
        "positions": [int(positions[i]) for i in slots],
        "context_count": sum(turn is None for turn in turns),
        "logit_rows": rows,
        "logits_at": len(floats),
    }
    floats.extend(model.logits(hidden[[slots[row] for row in rows]]).reshape(-1))
    case["pooled_at"] = len(floats)
    in_slot_order = hidden[slots]
    for how in POOLINGS:
        floats.extend(pool(in_slot_order, how))
    return case


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    os.makedirs(FOLDER)
    rng = np.random.default_rng(SEED)
    for name, shape in MODELS.items():
        path = os.path.join(FOLDER, name + ".gguf")
        write_model(path, shape, rng)
        model = Llama(path)
        floats, cases = [], []
        for case_name, turns in CASES.items():
            offset = 5 if case_name == "causal_one" else 0  # positions need not begin at 0
            cases.append({"name": case_name, **run_case(model, turns, offset, rng, floats)})
        with open(os.path.join(FOLDER, name + ".json"), "w") as file:
            file.write('{"cases": [\n' + ",\n".join(json.dumps(c) for c in cases) + "\n]}\n")
        np.asarray(floats, dtype="<f4").tofile(os.path.join(FOLDER, name + ".bin"))


if __name__ == "__main__":
    main()
