#!/usr/bin/env python3
"""Lay a GGUF file of plain numbers (F32, F16, BF16) out as a model hub would.

    python3 tests/golden/make_folder.py IN.gguf OUT [--parts N] [--scaling llama3] [--type KIND]

OUT/ gets config.json, generation_config.json, tokenizer.json and model.safetensors, or N parts and
their index. The
bytes of every tensor stay; rows of q and k go back to rotate-half order, names become those of the
hub. --scaling llama3 leaves rope_freqs.weight out and states instead what it was computed from: the
numbers of make_tiny_llama.py. For numbers of other types write such a file first
(tests/bench/make_models.py).

Only the Python standard library, and none of our reader: a misreading shows as a failed test.
"""

import argparse
import json
import mmap
import pathlib
import struct

NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q",
           12: "d"}
STRING, ARRAY = 8, 9
TYPES = {0: ("F32", 4), 1: ("F16", 2), 30: ("BF16", 2)}
DECODER = {"layer": "model.layers.", "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj",
           "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
           "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
           "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
           "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
           "token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
BERT = {"layer": "encoder.layer.", "attn_q": "attention.self.query",
        "attn_k": "attention.self.key", "attn_v": "attention.self.value",
        "attn_output": "attention.output.dense", "attn_output_norm": "attention.output.LayerNorm",
        "ffn_up": "intermediate.dense", "ffn_down": "output.dense",
        "layer_output_norm": "output.LayerNorm", "token_embd": "embeddings.word_embeddings",
        "position_embd": "embeddings.position_embeddings",
        "token_types": "embeddings.token_type_embeddings",
        "token_embd_norm": "embeddings.LayerNorm"}
JINA = BERT | {"ffn_up": "mlp.gated_layers", "ffn_down": "mlp.wo",
               "layer_output_norm": "mlp.layernorm"}
NOMIC = {"layer": "encoder.layers.", "attn_qkv": "attn.Wqkv", "attn_output": "attn.out_proj",
         "attn_output_norm": "norm1", "ffn_up": "mlp.fc11", "ffn_gate": "mlp.fc12",
         "ffn_down": "mlp.fc2", "layer_output_norm": "norm2",
         "token_embd": "embeddings.word_embeddings", "token_embd_norm": "emb_ln",
         "token_types": "embeddings.token_type_embeddings"}
MODERN = {"layer": "layers.", "attn_norm": "attn_norm", "attn_qkv": "attn.Wqkv",
          "attn_output": "attn.Wo", "ffn_norm": "mlp_norm", "ffn_up": "mlp.Wi",
          "ffn_down": "mlp.Wo", "token_embd": "embeddings.tok_embeddings",
          "token_embd_norm": "embeddings.norm", "output_norm": "final_norm"}
GEMMA = {"layer": "layers.", "ffn_norm": "pre_feedforward_layernorm",
         "post_attention_norm": "post_attention_layernorm",
         "post_ffw_norm": "post_feedforward_layernorm", "token_embd": "embed_tokens",
         "output_norm": "norm"}
DECODERS = {"gemma3": DECODER | GEMMA | {"layer": "model.layers.",
                                         "token_embd": "model.embed_tokens",
                                         "output_norm": "model.norm"}}
NAMES = {"gemma-embedding": DECODER | GEMMA, "bert": BERT, "jina-bert-v2": JINA,
         "nomic-bert": NOMIC, "modern-bert": MODERN}
PAD = 1  # of RoBERTa: rows of its positions before the first that a token has, less 1
CLASSES = {"gemma3_text": "Gemma3", "llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2",
           "qwen3": "Qwen3"}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}


class Reader:
    def __init__(self, path):
        self.file = open(path, "rb")
        self.bytes = mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_READ)
        self.at = 24
        magic, version, tensors, keys = struct.unpack_from("<4sIQQ", self.bytes)
        assert magic == b"GGUF" and version == 3
        self.keys = dict(self.key() for _ in range(keys))
        self.tensors = [self.tensor() for _ in range(tensors)]
        alignment = self.keys.get("general.alignment", 32)
        self.data_at = -(-self.at // alignment) * alignment

    def number(self, kind):
        (value,) = struct.unpack_from("<" + NUMBERS[kind], self.bytes, self.at)
        self.at += struct.calcsize(NUMBERS[kind])
        return value

    def text(self):
        count = self.number(10)
        self.at += count
        return self.bytes[self.at - count:self.at].decode(errors="replace")

    def value(self, kind):
        if kind == STRING:
            return self.text()
        if kind == ARRAY:
            element, count = self.number(4), self.number(10)
            return [self.value(element) for _ in range(count)]
        return self.number(kind)

    def key(self):
        name = self.text()
        return name, self.value(self.number(4))

    def tensor(self):
        name = self.text()
        shape = [self.number(10) for _ in range(self.number(4))]
        kind = self.number(4)
        return name, shape, kind, self.number(10)


def hub_name(name, network):
    names = NAMES.get(network) or DECODERS.get(network, DECODER)
    if name.startswith("dense_"):
        return name
    stem, kind = name.rsplit(".", 1)
    if stem.startswith("blk."):
        _, layer, part = stem.split(".")
        return f"{names['layer']}{layer}.{names[part]}.{kind}"
    return f"{names[stem]}.{kind}"


def less_one(data):
    """A norm that multiplies by 1 + w."""
    numbers = struct.unpack(f"<{len(data) // 4}f", data)
    out = struct.pack(f"<{len(numbers)}f", *(number - 1 for number in numbers))
    again = (1 + number for number in struct.unpack(f"<{len(numbers)}f", out))
    assert struct.pack(f"<{len(numbers)}f", *again) == data, "the sum would not be the same number"
    return out


def split_halves(data, rows, head):
    """Rows of each head from even, odd, even, ... to all even ones, then all odd ones."""
    width = len(data) // rows
    row = [data[i * width:(i + 1) * width] for i in range(rows)]
    order = [first + i for first in range(0, rows, head)
             for i in list(range(0, head, 2)) + list(range(1, head, 2))]
    return b"".join(row[i] for i in order)


def config_of(keys, kind, tied, scaling):
    network = keys["general.architecture"]
    get = lambda name, default=None: keys.get(f"{network}.{name}", default)
    config = {
        "architectures": [CLASSES[kind] + "ForCausalLM"], "model_type": kind, "hidden_act": "silu",
        "hidden_size": get("embedding_length"), "intermediate_size": get("feed_forward_length"),
        "num_hidden_layers": get("block_count"), "num_attention_heads": get("attention.head_count"),
        "num_key_value_heads": get("attention.head_count_kv", get("attention.head_count")),
        "head_dim": get("attention.key_length"),
        "max_position_embeddings": get("context_length"),
        "vocab_size": get("vocab_size", len(keys["tokenizer.ggml.tokens"])),
        "rms_norm_eps": float(f"{get('attention.layer_norm_rms_epsilon'):.7g}"),
        "rope_theta": get("rope.freq_base", 10000.0), "rope_scaling": scaling,
        "tie_word_embeddings": tied, "bos_token_id": keys.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": keys.get("tokenizer.ggml.eos_token_id"), "torch_dtype": "float32",
    }
    if kind == "mistral":
        config["sliding_window"] = get("attention.sliding_window")
    if kind in ("qwen2", "qwen3"):
        config |= {"use_sliding_window": False, "sliding_window": 4, "max_window_layers": 1}
    if kind in ("llama", "qwen3"):
        config["attention_bias"] = False
    return config


def gemma_config(keys):
    config = config_of(keys, "gemma3_text", True, None)
    del config["hidden_act"]
    network, layers = keys["general.architecture"], config["num_hidden_layers"]
    both = network == "gemma-embedding"
    return config | {
        "architectures": ["Gemma3TextModel" if both else "Gemma3ForCausalLM"],
        "hidden_activation": "gelu_pytorch_tanh", "_sliding_window_pattern": 6,
        "query_pre_attn_scalar": config["head_dim"], "rope_local_base_freq": 10000.0,
        "sliding_window": keys[network + ".attention.sliding_window"],
        "layer_types": ["full_attention" if i % 6 == 5 else "sliding_attention"
                        for i in range(layers)],
        "use_bidirectional_attention": both}


def write_sentence(out, keys, width, tensors, make):
    """sentence-transformers' files of a checkpoint with a dense head: mean, layers, length 1."""
    network = keys["general.architecture"]
    stages, dense = ["Transformer", "Pooling"], []
    while f"{network}.dense_{len(stages)}_feat_in" in keys:
        dense.append((len(stages), f"{network}.dense_{len(stages)}_"))
        stages.append("Dense")
    modules = [{"idx": i, "name": str(i), "path": f"{i}_{stage}" if i else "",
                "type": "sentence_transformers.models." + stage}
               for i, stage in enumerate(stages + ["Normalize"])]
    (out / "modules.json").write_text(json.dumps(modules, indent=1) + "\n")
    (out / "1_Pooling").mkdir(exist_ok=True)
    (out / "1_Pooling" / "config.json").write_text(json.dumps(
        {"word_embedding_dimension": width, "pooling_mode_mean_tokens": True,
         "include_prompt": True}) + "\n")
    for index, start in dense:
        folder = out / f"{index}_Dense"
        folder.mkdir(exist_ok=True)
        kind = {"tanh": "activation.Tanh"}.get(keys.get(start + "activation"), "linear.Identity")
        (folder / "config.json").write_text(json.dumps(
            {"in_features": keys[start + "feat_in"], "out_features": keys[start + "feat_out"],
             "bias": keys.get(start + "bias", False),
             "activation_function": "torch.nn.modules." + kind}) + "\n")
        mine = [t for t in tensors if t[0].startswith(f"dense_{index}.")]
        renamed = {"linear." + name.split(".")[1]: name for name, *_ in mine}
        write_part(folder / "model.safetensors",
                   [("linear." + t[0].split(".")[1], *t[1:]) for t in mine],
                   lambda name, renamed=renamed: make(renamed[name]))


def encoder_config(keys, kind):
    network = keys["general.architecture"]
    if network == "gemma-embedding":
        return gemma_config(keys)
    get = lambda name, default=None: keys.get(f"{network}.{name}", default)
    eps = float(f"{get('attention.layer_norm_epsilon'):.7g}")
    common = {"vocab_size": len(keys["tokenizer.ggml.tokens"]), "model_type": kind}
    if network == "nomic-bert":
        return common | {
            "architectures": ["NomicBertModel"], "model_type": "nomic_bert",
            "n_embd": get("embedding_length"), "n_inner": get("feed_forward_length"),
            "n_layer": get("block_count"), "n_head": get("attention.head_count"),
            "layer_norm_epsilon": eps, "rotary_emb_base": get("rope.freq_base"),
            "max_trained_positions": get("context_length"), "type_vocab_size": 2,
            "activation_function": "swiglu", "prenorm": False}
    common |= {"hidden_size": get("embedding_length"), "intermediate_size":
               get("feed_forward_length"), "num_hidden_layers": get("block_count"),
               "num_attention_heads": get("attention.head_count"),
               "max_position_embeddings": get("context_length")}
    if network == "modern-bert":
        return common | {
            "architectures": ["ModernBertModel"], "model_type": "modernbert", "norm_eps": eps,
            "global_rope_theta": get("rope.freq_base"), "local_rope_theta": 10000.0,
            "local_attention": get("attention.sliding_window"), "global_attn_every_n_layers": 3,
            "hidden_activation": "gelu"}
    common |= {"layer_norm_eps": eps, "hidden_act": "gelu", "type_vocab_size": 2}
    if network == "jina-bert-v2":
        return common | {"architectures": ["JinaBertModel"], "model_type": "bert",
                         "position_embedding_type": "alibi", "feed_forward_type": "geglu"}
    if kind == "xlm-roberta":
        return common | {"architectures": ["XLMRobertaModel"], "pad_token_id": PAD,
                         "max_position_embeddings": get("context_length") + PAD + 1}
    return common | {"architectures": ["BertModel"]}


def tokenizer_of(keys):
    """BPE over bytes for "gpt2" vocabularies (with SmolLM's digits), else over characters with byte
    tokens and the merges that the pieces allow, which is SentencePiece's choice for most texts."""
    tokens, kinds = keys["tokenizer.ggml.tokens"], keys["tokenizer.ggml.token_type"]
    added = [{"id": i, "content": token, "special": True, "single_word": False, "lstrip": False,
              "rstrip": False, "normalized": False}
             for i, token in enumerate(tokens) if kinds[i] in (2, 3)]
    model = {"type": "BPE", "vocab": {token: i for i, token in enumerate(tokens)},
             "merges": keys.get("tokenizer.ggml.merges"), "byte_fallback": False}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                  "use_regex": True}
    normalizer, ends = None, None
    pre = {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True},
                                                 byte_level]}
    if keys["tokenizer.ggml.model"] != "gpt2":
        pieces = sorted((i for i, kind in enumerate(kinds) if kind == 1),
                        key=lambda i: -keys["tokenizer.ggml.scores"][i])
        merges = [f"{tokens[i][:cut]} {tokens[i][cut:]}" for i in pieces
                  for cut in range(1, len(tokens[i]))
                  if tokens[i][:cut] in model["vocab"] and tokens[i][cut:] in model["vocab"]]
        model |= {"merges": merges, "byte_fallback": True, "unk_token": "<unk>", "fuse_unk": True}
        normalizer = {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "\u2581"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]}
        pre = None
        ends = {"type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                           {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
            "normalizer": normalizer, "pre_tokenizer": pre, "post_processor": ends,
            "decoder": byte_level if ends is None else None, "model": model}


def write_part(path, tensors, make):
    """tensors: [(name, dtype, shape, bytes)]; make(name) gives the data."""
    entries, at = {"__metadata__": {"format": "pt"}}, 0
    for name, dtype, shape, size in tensors:
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    header = json.dumps(entries, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        for name, *_ in tensors:
            file.write(make(name))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gguf")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--parts", type=int, default=1)
    parser.add_argument("--scaling", choices=["llama3"])
    parser.add_argument("--type", help="model_type, where it is not the GGUF's architecture")
    arguments = parser.parse_args()
    reader = Reader(arguments.gguf)
    out = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    network = reader.keys["general.architecture"]
    encoder = network in NAMES
    kind = arguments.type or network
    before = PAD + 1 if kind == "xlm-roberta" else 0
    heads = reader.keys[network + ".attention.head_count"]
    head = reader.keys.get(network + ".attention.key_length",
                           reader.keys[network + ".embedding_length"] // heads)
    tensors, places = [], {}
    for name, shape, number, offset in reader.tensors:
        if name == "rope_freqs.weight" and arguments.scaling:
            continue
        dtype, width = TYPES[number]
        size = width
        for extent in shape:
            size *= extent
        theirs = hub_name(name, network)
        places[theirs] = (name, reader.data_at + offset, size, shape)
        if name == "position_embd.weight":
            size += before * shape[0] * width
            shape = [shape[0], shape[1] + before]
        tensors.append((theirs, dtype, shape[::-1], size))
    sizes = {name: size for name, _, _, size in tensors}

    def make(name):
        ours, at, size, shape = places[name]
        data = bytes(sizes[name] - size) + reader.bytes[at:at + size]
        if network.startswith("gemma") and ours.endswith("norm.weight"):
            return less_one(data)
        turned = network == "llama" and ours.endswith(("attn_q.weight", "attn_k.weight"))
        return split_halves(data, shape[1], head) if turned else data

    dense = [t for t in tensors if t[0].startswith("dense_")]
    if dense:
        width = reader.keys[network + ".embedding_length"]
        write_sentence(out, reader.keys, width, dense, make)
        tensors = [t for t in tensors if t not in dense]
    tied = all(name != "lm_head.weight" for name, *_ in tensors)
    if encoder:
        config = encoder_config(reader.keys, kind)
    elif network == "gemma3":
        config = gemma_config(reader.keys)
    else:
        config = config_of(reader.keys, kind, tied, LLAMA3 if arguments.scaling else None)
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    if not encoder:
        ends = {key: config[key] for key in ("bos_token_id", "eos_token_id")}
        (out / "generation_config.json").write_text(json.dumps(ends) + "\n")
    (out / "tokenizer.json").write_text(json.dumps(tokenizer_of(reader.keys)) + "\n")
    if arguments.parts == 1:
        write_part(out / "model.safetensors", tensors, make)
        return
    weight_map, total = {}, len(tensors)
    for part in range(arguments.parts):
        file = f"model-{part + 1:05}-of-{arguments.parts:05}.safetensors"
        mine = tensors[part * total // arguments.parts:(part + 1) * total // arguments.parts]
        weight_map |= {name: file for name, *_ in mine}
        write_part(out / file, mine, make)
    index = {"metadata": {"total_size": sum(t[3] for t in tensors)}, "weight_map": weight_map}
    (out / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")


if __name__ == "__main__":
    main()
