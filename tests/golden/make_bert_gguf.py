#!/usr/bin/env python3
"""Write a hub's folder of a BERT encoder as GGUF files, with the keys and names of the usual
converter.

    python3 tests/golden/make_bert_gguf.py FOLDER OUT [--types f32,bf16,q8_0]

OUT/ gets TYPE.gguf for each type. Matrices take the type, but for positions and token types, which
stay F32 like biases and norms; the pooler is left out, for nothing pools with it. Only the Python
standard library, and none of our reader: a misreading shows as a failed test.
"""

import argparse
import array
import json
import mmap
import pathlib
import struct

U32, F32, BOOL, STRING, ARRAY, I32 = 4, 6, 7, 8, 9, 5
ALIGNMENT = 32
# ggml's type of a tensor, its file type, bytes of how many numbers.
TYPES = {"f32": (0, 0, 4, 1), "bf16": (30, 32, 2, 1), "q8_0": (8, 7, 34, 32)}
NAMES = {"embeddings.word_embeddings": "token_embd",
         "embeddings.position_embeddings": "position_embd",
         "embeddings.token_type_embeddings": "token_types",
         "embeddings.LayerNorm": "token_embd_norm",
         "attention.self.query": "attn_q", "attention.self.key": "attn_k",
         "attention.self.value": "attn_v", "attention.output.dense": "attn_output",
         "attention.output.LayerNorm": "attn_output_norm", "intermediate.dense": "ffn_up",
         "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm"}
LEFT_OUT = ("pooler.dense.weight", "pooler.dense.bias", "embeddings.position_ids")
EXACT = ("position_embd.weight", "token_types.weight")
POOLINGS = {"pooling_mode_mean_tokens": 1, "pooling_mode_cls_token": 2}
SPECIAL = {"bos": "[CLS]", "eos": "[SEP]", "unknown": "[UNK]", "seperator": "[SEP]",
           "padding": "[PAD]", "mask": "[MASK]"}


def gguf_name(name):
    stem, kind = name.rsplit(".", 1)
    if stem.startswith("encoder.layer."):
        layer, part = stem[len("encoder.layer."):].split(".", 1)
        return f"blk.{layer}.{NAMES[part]}.{kind}"
    return f"{NAMES[stem]}.{kind}"


def read_safetensors(path):
    """[(name, shape, memoryview of its F32 numbers)]"""
    with open(path, "rb") as file:
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    (count,) = struct.unpack_from("<Q", data)
    header = json.loads(bytes(data[8:8 + count]))
    tensors = []
    for name, entry in header.items():
        if name == "__metadata__" or name in LEFT_OUT:
            continue
        assert entry["dtype"] == "F32", name
        begin, end = (8 + count + offset for offset in entry["data_offsets"])
        tensors.append((gguf_name(name), entry["shape"], data[begin:end]))
    return sorted(tensors)


# ---- numbers -------------------------------------------------------------------------------------


def to_bf16(data):
    """The nearest one, the even of two. A million at a time, for Python's numbers are large."""
    parts = []
    for at in range(0, len(data), 4 << 20):
        bits = array.array("I", bytes(data[at:at + (4 << 20)]))
        parts.append(array.array("H", [b + 0x7FFF + (b >> 16 & 1) >> 16 for b in bits]).tobytes())
    return b"".join(parts)


def to_q8_0(data):
    """Blocks of 32: a scale, and multiples of it from -127 to 127."""
    numbers, pack, blocks = array.array("f", bytes(data)), struct.Struct("<e32b").pack, []
    for at in range(0, len(numbers), 32):
        block = numbers[at:at + 32]
        most = max(max(block), -min(block))
        scale = 127 / most if most else 0
        blocks.append(pack(most / 127, *[round(x * scale) for x in block]))
    return b"".join(blocks)


CONVERT = {"f32": bytes, "bf16": to_bf16, "q8_0": to_q8_0}


# ---- keys ----------------------------------------------------------------------------------------


def text(value):
    return struct.pack("<Q", len(value.encode())) + value.encode()


def packed(kind, value):
    if kind == STRING:
        return text(value)
    return struct.pack({U32: "<I", F32: "<f", BOOL: "<?", I32: "<i"}[kind], value)


def key(name, kind, value, element=None):
    head = text(name) + struct.pack("<I", kind)
    if kind == ARRAY:
        return head + struct.pack("<IQ", element, len(value)) + b"".join(
            packed(element, item) for item in value)
    return head + packed(kind, value)


def vocabulary(folder):
    """Pieces begin with the mark of a word's start, or are its continuation; special ones are
    neither."""
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    ids = tokenizer["model"]["vocab"]
    special = {token["content"] for token in tokenizer["added_tokens"] if token["special"]}
    pieces = sorted(ids, key=ids.get)
    assert [ids[piece] for piece in pieces] == list(range(len(pieces)))
    stored = [piece if piece in special else piece[2:] if piece.startswith("##")
              else "\u2581" + piece for piece in pieces]
    keys = [key("tokenizer.ggml.model", STRING, "bert"),
            key("tokenizer.ggml.pre", STRING, "jina-v2-en"),
            key("tokenizer.ggml.tokens", ARRAY, stored, STRING),
            key("tokenizer.ggml.token_type", ARRAY,
                [3 if piece in special else 1 for piece in pieces], I32)]
    keys += [key(f"tokenizer.ggml.{name}_token_id", U32, ids[piece])
             for name, piece in SPECIAL.items()]
    keys += [key(f"tokenizer.ggml.add_{name}_token", BOOL, name != "sep")
             for name in ("bos", "eos", "sep")]
    lower = tokenizer["normalizer"]["lowercase"]
    return keys + [key("tokenizer.ggml.normalizer.lowercase", BOOL, lower)]


def all_keys(folder, kind):
    config = json.loads((folder / "config.json").read_text())
    pooling = json.loads((folder / "1_Pooling" / "config.json").read_text())
    assert config["model_type"] == "bert" and config["hidden_act"] == "gelu"
    numbers = [("block_count", U32, config["num_hidden_layers"]),
               ("context_length", U32, config["max_position_embeddings"]),
               ("embedding_length", U32, config["hidden_size"]),
               ("feed_forward_length", U32, config["intermediate_size"]),
               ("attention.head_count", U32, config["num_attention_heads"]),
               ("attention.layer_norm_epsilon", F32, config["layer_norm_eps"]),
               ("attention.causal", BOOL, False),
               ("pooling_type", U32, next(POOLINGS[flag] for flag in POOLINGS if pooling[flag]))]
    return [key("general.architecture", STRING, "bert"),
            key("general.type", STRING, "model"),
            key("general.name", STRING, folder.name),
            *(key("bert." + name, of, value) for name, of, value in numbers),
            key("tokenizer.ggml.token_type_count", U32, config["type_vocab_size"]),
            *vocabulary(folder),
            key("general.quantization_version", U32, 2),
            key("general.file_type", U32, TYPES[kind][1])]


# ---- the file ------------------------------------------------------------------------------------


def padded(count):
    return -(-count // ALIGNMENT) * ALIGNMENT


def write(path, keys, tensors, kind):
    directory, at = [], 0
    kinds = [kind if len(shape) == 2 and name not in EXACT else "f32" for name, shape, _ in tensors]
    for (name, shape, data), of in zip(tensors, kinds):
        number, _, size, block = TYPES[of]
        directory.append(text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape[::-1],
                                                  number, at))
        at += padded(len(data) // 4 // block * size)
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(keys)) + b"".join(keys + directory)
    with open(path, "wb") as file:
        file.write(head + bytes(padded(len(head)) - len(head)))
        for (_, _, data), of in zip(tensors, kinds):
            file.write(CONVERT[of](data))
            file.write(bytes(padded(file.tell()) - file.tell()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--types", default="f32,bf16,q8_0")
    arguments = parser.parse_args()
    tensors = read_safetensors(arguments.folder / "model.safetensors")
    arguments.out.mkdir(parents=True, exist_ok=True)
    for kind in arguments.types.split(","):
        write(arguments.out / f"{kind}.gguf", all_keys(arguments.folder, kind), tensors, kind)


if __name__ == "__main__":
    main()
