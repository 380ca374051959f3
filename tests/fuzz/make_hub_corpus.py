#!/usr/bin/env python3
"""Write corpus/safetensors and corpus/config: small files, good and broken, for fuzz_safetensors,
fuzz_config and their regression tests.

Only the Python standard library; same seed, same files. A crash found by the fuzzer is added to the
corpus by hand as crash-NAME and stays (this script leaves such files alone).

    python3 tests/fuzz/make_hub_corpus.py
"""

import json
import pathlib
import random
import struct

SEED = 7


# ---- safetensors ---------------------------------------------------------------------------------


def build(entries, data, length=None):
    header = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def safetensors_files():
    good = {"__metadata__": {"format": "pt"}, "b.weight": entry("F16", [3], 24, 30),
            "a.weight": entry("F32", [2, 3], 0, 24), "d": entry("BF16", [1], 30, 32),
            "position_ids": entry("I64", [1, 2], 32, 48)}
    yield "empty", build({}, b"")
    yield "good", build(good, bytes(range(48)))
    yield "padded", build(json.dumps(good).encode() + b"    ", bytes(48))
    yield "scalar", build({"s": entry("F32", [], 0, 4)}, bytes(4))
    yield "twice", build(b'{"a":{"dtype":"F16"},"a":1}', b"")
    yield "hole", build({"a": entry("F16", [1], 2, 4)}, bytes(4))
    yield "tail", build({"a": entry("F16", [1], 0, 2)}, bytes(4))
    yield "overlap", build({"a": entry("F16", [2], 0, 4), "b": entry("F16", [1], 2, 4)}, bytes(4))
    yield "wrap", build({"a": entry("F32", [4194305, 4194305, 211106198978564], 0, 16)}, bytes(16))
    yield "negative", build({"a": entry("F32", [-1], -4, 0)}, bytes(4))
    yield "deep", build(b'{"a":' + b"[" * 64 + b"]" * 64 + b"}", b"")
    yield "dtype", build({"a": entry("F8_E4M3", [1], 0, 1)}, bytes(1))
    yield "long", build({}, b"", length=1 << 40)
    yield "short", b"\2\0\0"


# ---- config.json ---------------------------------------------------------------------------------


def config(kind, name, **more):
    return {"architectures": [name], "model_type": kind, "hidden_size": 16, "intermediate_size": 24,
            "num_hidden_layers": 1, "num_attention_heads": 4, "vocab_size": 10,
            "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2, **more}


def config_files():
    rms = {"rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": True}
    llama = config("llama", "LlamaForCausalLM", **rms)
    scaling = {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
               "original_max_position_embeddings": 16}
    yield "llama", llama
    yield "llama3", llama | {"rope_scaling": scaling, "eos_token_id": [2, 3, 4], "head_dim": 4}
    yield "linear", llama | {"rope_scaling": {"type": "linear", "factor": 2.0}}
    yield "parameters", llama | {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}
    yield "yarn", llama | {"rope_scaling": {"rope_type": "yarn", "factor": 4}}
    yield "unknown", llama | {"residual_scale": 2}
    yield "null", {key: None for key in llama}
    yield "causal", llama | {"is_causal": False, "use_bidirectional_attention": True}
    yield "mistral", config("mistral", "MistralForCausalLM", sliding_window=8, **rms)
    yield "qwen2", config("qwen2", "Qwen2ForCausalLM", use_sliding_window=False, **rms)
    yield "qwen3", config("qwen3", "Qwen3Model", head_dim=8, layer_types=["full_attention"], **rms)
    yield "bert", config("bert", "BertModel", layer_norm_eps=1e-12, type_vocab_size=2,
                         hidden_act="gelu")
    encoder = {"layer_norm_eps": 1e-12, "type_vocab_size": 2, "hidden_act": "gelu"}
    yield "roberta", config("xlm-roberta", "XLMRobertaModel", pad_token_id=1, **encoder)
    yield "jina", config("bert", "JinaBertModel", position_embedding_type="alibi",
                         feed_forward_type="geglu", **encoder)
    yield "nomic", {"architectures": ["NomicBertModel"], "model_type": "nomic_bert", "n_embd": 16,
                    "n_inner": 24, "n_layer": 2, "n_head": 4, "vocab_size": 10,
                    "type_vocab_size": 2, "layer_norm_epsilon": 1e-12, "rotary_emb_base": 1000,
                    "max_trained_positions": 64, "activation_function": "swiglu",
                    "rotary_emb_fraction": 1.0}
    yield "modern", config("modernbert", "ModernBertModel", norm_eps=1e-5, local_attention=8,
                           global_rope_theta=160000.0, local_rope_theta=10000.0,
                           global_attn_every_n_layers=3, hidden_activation="gelu")
    yield "gemma3", config("gemma3_text", "Gemma3ForCausalLM", rms_norm_eps=1e-6, head_dim=4,
                           hidden_activation="gelu_pytorch_tanh", sliding_window=8,
                           query_pre_attn_scalar=16, rope_local_base_freq=10000.0)
    yield "huge", llama | {"hidden_size": 1 << 40, "rms_norm_eps": 1e300}
    yield "list", [1, 2]


def mutate(rng, base, at_most):
    data = bytearray(base)
    for _ in range(rng.randint(1, 3)):
        data[rng.randrange(min(at_most, len(data)))] = rng.choice(b'\0"{}[]9-:,\x7f\xff')
    if rng.randrange(4) == 0:
        del data[rng.randrange(len(data)):]
    return bytes(data)


def write(name, ending, files):
    """Mutated files may be no UTF-8, which only binary ones may be here."""
    folder = pathlib.Path(__file__).parent / "corpus" / name
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if not old.name.startswith("crash-"):
            old.unlink()
    for stem, data in files.items():
        kind = "bin" if stem.startswith("mutated") else ending
        (folder / f"{stem}.{kind}").write_bytes(data)
    print(f"{name}: {len(files)} files, {sum(map(len, files.values()))} bytes")


def main():
    rng = random.Random(SEED)
    files = dict(safetensors_files())
    files |= {f"mutated-{i:02}": mutate(rng, files["good"], 200) for i in range(16)}
    write("safetensors", "safetensors", files)
    files = {name: json.dumps(value).encode() + b"\n" for name, value in config_files()}
    files |= {f"mutated-{i:02}": mutate(rng, files["llama3"], 1 << 20) for i in range(16)}
    write("config", "json", files)


if __name__ == "__main__":
    main()
