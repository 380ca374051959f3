"""Hostile GGUF files: one good file, one thing wrong in each.

A case is (words, what, where, change): the words of the list of hazards that it stands for, what is
wrong, the key or tensor that the error must name, and a function that breaks a good File in place.
CASES are broken forms of a float file, QUANT of one with blocks, BPE of one with merges.
"""

import struct

from gguf_file import (ARRAY, BOOL, F32, I32, I8, STRING, U32, U64, U8, Key, array_of, text,
                       value_of)

MIB = 1 << 20
EMBD, NORM, QUERY = "token_embd.weight", "blk.0.attn_norm.weight", "blk.0.attn_q.weight"
LAST = "output_norm.weight"
TOKENS = "tokenizer.ggml.tokens"
SCORES, TYPES = "tokenizer.ggml.scores", "tokenizer.ggml.token_type"
ALIGNMENT = "general.alignment"


# ---- makers of changes ---------------------------------------------------------------------------


def field(name, value):
    """A number of the file's head."""
    return lambda file: setattr(file, name, value)


def put(name, kind, value):
    return lambda file: file.set(name, kind, value)


def array(name, kind, values, count=None):
    return lambda file: file.set_array(name, kind, values, count)


def raw(name, kind, data):
    """A key in front of the others, so that its place in the file is known."""
    return lambda file: file.keys.insert(0, Key(name, kind, data))


def element(name, kind, index, value):
    """One element of an array of numbers, or of strings."""

    def change(file):
        key = file.key(name)
        if kind != STRING:
            size = len(value_of(kind, 0))
            at = 12 + index * size
            key.data = key.data[:at] + value_of(kind, value) + key.data[at + size:]
            return
        at, index_left = 12, index
        while index_left > 0:
            at += 8 + struct.unpack_from("<Q", key.data, at)[0]
            index_left -= 1
        old = 8 + struct.unpack_from("<Q", key.data, at)[0]
        key.data = key.data[:at] + value + key.data[at + old:]

    return change


def shorter(name, kind):
    """An array without its last element."""

    def change(file):
        key = file.key(name)
        count = struct.unpack_from("<Q", key.data, 4)[0]
        key.data = struct.pack("<IQ", kind, count - 1) + key.data[12:-len(value_of(kind, 0))]

    return change


def tensor(which, **values):
    def change(file):
        one = file.tensor(which)
        for key, value in values.items():
            setattr(one, key, value)

    return change


def twice(part, name):
    def change(file):
        parts = getattr(file, part)
        parts.append(next(one for one in parts if one.name == name))

    return change


def number_in(name, format, value, at=0):
    """One number of a tensor's data."""

    def change(file):
        one = file.tensor(name)
        data = struct.pack("<" + format, value)
        one.data = one.data[:at] + data + one.data[at + len(data):]

    return change


def sparse(size, *changes):
    """As large as `size` says; what no change wrote is a hole."""

    def change(file):
        for one in changes:
            one(file)
        file.sparse_bytes = size

    return change


def both(*changes):
    return lambda file: [change(file) for change in changes]


NAN, INFINITY = float("nan"), float("inf")

CASES = (
    # ---- the file's head
    ("Magic", "another magic", "magic", field("magic", b"GGML")),
    ("Magic", "a magic turned round", "magic", field("magic", b"FUGG")),
    ("Magic", "nothing behind the magic", "version", field("cut_at", 4)),
    ("Magic", "an empty file", "magic", field("cut_at", 0)),
    ("version 1 (32-bit counts)", "version 1", "version", field("version", 1)),
    ("version 1 (32-bit counts)", "version 0", "version", field("version", 0)),
    ("version 1 (32-bit counts)", "version 4", "version", field("version", 4)),
    ("big-endian", "a big-endian file", "version", field("version", 3 << 24)),
    ("n_tensors > bytes left", "2^32 tensors", "tensor_count", field("tensor_count", 1 << 32)),
    ("n_tensors > bytes left", "2^64 - 1 tensors", "tensor_count",
     field("tensor_count", (1 << 64) - 1)),
    ("n_tensors > bytes left", "more tensors than are read, in a sparse file", "tensor_count",
     sparse(64 * MIB, field("tensor_count", (1 << 16) + 1))),
    ("n_kv > bytes left", "2^32 keys", "metadata_kv_count", field("key_count", 1 << 32)),
    ("n_kv > bytes left", "2^64 - 1 keys", "metadata_kv_count", field("key_count", (1 << 64) - 1)),
    ("n_kv > bytes left", "more keys than are read, in a sparse file", "metadata_kv_count",
     sparse(64 * MIB, field("key_count", (1 << 16) + 1))),
    # ---- strings
    ("Strings: longer than bytes left", "a value", "x", raw("x", STRING, text("abc", 1 << 30))),
    ("Strings: longer than bytes left", "a value of 2^64 - 1", "x",
     raw("x", STRING, text("abc", (1 << 64) - 1))),
    ("Strings: longer than bytes left", "a key's name", "key 0",
     raw(text("x", 1 << 40), U32, value_of(U32, 1))),
    ("Strings: longer than bytes left", "a tensor's name", "tensor 0",
     tensor(EMBD, name=text("x", 1 << 40))),
    ("Strings: longer than 64 MiB", "a value in a sparse file", "x",
     sparse(100 * MIB, raw("x", STRING, text("abc", 64 * MIB + 1)))),
    ("NUL", "in a value", "x", raw("x", STRING, text(b"a\0b"))),
    ("NUL", "in a key's name", "key 0", raw(text(b"a\0b"), U32, value_of(U32, 1))),
    ("NUL", "in a tensor's name", "tensor 0", tensor(EMBD, name=text(b"a\0b"))),
    ("bad UTF-8", "in a value", "x", raw("x", STRING, text(b"a\xff"))),
    ("bad UTF-8", "a surrogate", "x", raw("x", STRING, text(b"\xed\xa0\x80"))),
    ("bad UTF-8", "in a key's name", "key 0", raw(text(b"\xc3\xa9"), U32, value_of(U32, 1))),
    ("empty names", "a key", "key 0", raw("", U32, value_of(U32, 1))),
    ("empty names", "a tensor", "tensor 0", tensor(EMBD, name="")),
    # ---- arrays
    ("Arrays: count x size overflow", "2^62 x 4", "x",
     raw("x", ARRAY, array_of(F32, [1], 1 << 62))),
    ("Arrays: count x size overflow", "2^61 x 8", "x",
     raw("x", ARRAY, array_of(U64, [1], 1 << 61))),
    ("Arrays: count x size overflow", "2^64 - 1 bytes", "x",
     raw("x", ARRAY, array_of(U8, [1], (1 << 64) - 1))),
    ("nesting", "an array of arrays", "x",
     raw("x", ARRAY, struct.pack("<IQ", ARRAY, 1) + array_of(U8, [1]))),
    ("nesting", "100 deep", "x", raw("x", ARRAY, struct.pack("<IQ", ARRAY, 1) * 100)),
    ("2^32 empty strings", "in a small file", "x",
     raw("x", ARRAY, struct.pack("<IQ", STRING, 1 << 32))),
    ("2^32 empty strings", "in a sparse file that could hold them", "x",
     sparse(1 << 36, raw("x", ARRAY, struct.pack("<IQ", STRING, 1 << 32)))),
    ("wrong element type (UINT8 scores)", "scores of u8", SCORES, array(SCORES, U8, [0] * 272)),
    ("wrong element type (UINT8 scores)", "scores of i32", SCORES, array(SCORES, I32, [0] * 272)),
    ("wrong element type (UINT8 scores)", "tokens of u32", TOKENS, array(TOKENS, U32, [0] * 272)),
    ("wrong element type (UINT8 scores)", "types of f32", TYPES, array(TYPES, F32, [1] * 272)),
    ("wrong element type (UINT8 scores)", "types of i8", TYPES, array(TYPES, I8, [1] * 272)),
    ("wrong element type (UINT8 scores)", "element type 13", "x",
     raw("x", ARRAY, struct.pack("<IQ", 13, 1) + bytes(8))),
    ("wrong element type (UINT8 scores)", "element type -1", "x",
     raw("x", ARRAY, struct.pack("<iQ", -1, 1) + bytes(8))),
    # ---- keys
    ("Known key of wrong type", "layers as a string", "llama.block_count",
     put("llama.block_count", STRING, "2")),
    ("Known key of wrong type", "width as f32", "llama.embedding_length",
     put("llama.embedding_length", F32, 48)),
    ("Known key of wrong type", "heads as an array", "llama.attention.head_count",
     array("llama.attention.head_count", U32, [3, 3])),
    ("Known key of wrong type", "width as bool", "llama.feed_forward_length",
     put("llama.feed_forward_length", BOOL, 1)),
    ("Known key of wrong type", "eps as u32", "llama.attention.layer_norm_rms_epsilon",
     put("llama.attention.layer_norm_rms_epsilon", U32, 1)),
    ("Known key of wrong type", "network as u32", "general.architecture",
     put("general.architecture", U32, 1)),
    ("Known key of wrong type", "name as u32", "general.name", put("general.name", U32, 1)),
    ("Known key of wrong type", "tokenizer as bool", "tokenizer.ggml.model",
     put("tokenizer.ggml.model", BOOL, 1)),
    ("Known key of wrong type", "tokens as a string", TOKENS, put(TOKENS, STRING, "a")),
    ("Known key of wrong type", "BOS as a string", "tokenizer.ggml.bos_token_id",
     put("tokenizer.ggml.bos_token_id", STRING, "<s>")),
    ("Known key of wrong type", "a question as a number", "tokenizer.ggml.add_bos_token",
     put("tokenizer.ggml.add_bos_token", U32, 1)),
    ("Known key of wrong type", "value type 13", "x", raw("x", 13, bytes(8))),
    ("Known key of wrong type", "value type -1", "x", raw("x", -1, bytes(8))),
    ("Known key of wrong type", "bool 2", "x", raw("x", BOOL, b"\2")),
    ("duplicate keys, tensors", "the same key", "llama.block_count",
     twice("keys", "llama.block_count")),
    ("duplicate keys, tensors", "the same tensor", NORM, twice("tensors", NORM)),
    ("general.alignment 0, odd, huge, wrong type", "0", ALIGNMENT, put(ALIGNMENT, U32, 0)),
    ("general.alignment 0, odd, huge, wrong type", "33", ALIGNMENT, put(ALIGNMENT, U32, 33)),
    ("general.alignment 0, odd, huge, wrong type", "1", ALIGNMENT, put(ALIGNMENT, U32, 1)),
    ("general.alignment 0, odd, huge, wrong type", "2^31", ALIGNMENT,
     put(ALIGNMENT, U32, 1 << 31)),
    ("general.alignment 0, odd, huge, wrong type", "of type u64", ALIGNMENT,
     put(ALIGNMENT, U64, 32)),
    ("general.alignment 0, odd, huge, wrong type", "a string", ALIGNMENT,
     put(ALIGNMENT, STRING, "32")),
    # ---- tensors
    ("n_dims outside 1-4", "0", NORM, tensor(NORM, dims=[])),
    ("n_dims outside 1-4", "5", NORM, tensor(NORM, dims=[48, 1, 1, 1, 1])),
    ("n_dims outside 1-4", "2^32 - 1", NORM, tensor(NORM, dim_count=(1 << 32) - 1)),
    ("dim 0 or negative", "0", NORM, tensor(NORM, dims=[0])),
    ("dim 0 or negative", "a second of 0", QUERY, tensor(QUERY, dims=[48, 0])),
    ("dim 0 or negative", "-48", NORM, tensor(NORM, dims=[-48])),
    ("dim 0 or negative", "-2^63", QUERY, tensor(QUERY, dims=[48, -1 << 63])),
    ("product overflow (also x type size)", "2^62 x 48", QUERY, tensor(QUERY, dims=[48, 1 << 62])),
    ("product overflow (also x type size)", "wraps to 4", QUERY,
     tensor(QUERY, dims=[4194305, 4194305, 211106198978564])),
    ("product overflow (also x type size)", "2^61 floats", NORM, tensor(NORM, dims=[1 << 61])),
    ("Type id unknown, negative, removed", "99", NORM, tensor(NORM, kind=99)),
    ("Type id unknown, negative, removed", "-1", NORM, tensor(NORM, kind=-1)),
    ("Type id unknown, negative, removed", "4, removed", NORM, tensor(NORM, kind=4)),
    ("Offset unaligned, past EOF, overlapping, + size overflow", "unaligned", NORM,
     tensor(NORM, offset=52224 + 16)),
    ("Offset unaligned, past EOF, overlapping, + size overflow", "past the end", NORM,
     tensor(NORM, offset=1 << 40)),
    ("Offset unaligned, past EOF, overlapping, + size overflow", "2^64 - 32", NORM,
     tensor(NORM, offset=(1 << 64) - 32)),
    ("Offset unaligned, past EOF, overlapping, + size overflow", "another's middle", NORM,
     tensor(NORM, offset=32)),
    ("Offset unaligned, past EOF, overlapping, + size overflow", "another's own", NORM,
     tensor(EMBD, offset=52224)),
    ("Data start past EOF", "no data", EMBD, field("cut_at", "head")),
    ("Data start past EOF", "the last bytes missing", LAST, field("cut_at", -1)),
    # ---- sizes that do not fit each other
    ("Layers, heads 0 or absurd", "layers 0", "llama.block_count",
     put("llama.block_count", U32, 0)),
    ("Layers, heads 0 or absurd", "a million layers", "llama.block_count",
     put("llama.block_count", U32, 1000000)),
    ("Layers, heads 0 or absurd", "2^32 - 1 layers", "llama.block_count",
     put("llama.block_count", U32, (1 << 32) - 1)),
    ("Layers, heads 0 or absurd", "one layer more than there is", "blk.2.attn_norm.weight",
     put("llama.block_count", U32, 3)),
    ("Layers, heads 0 or absurd", "one layer less", NORM.replace("0", "1"),
     put("llama.block_count", U32, 1)),
    ("Layers, heads 0 or absurd", "heads 0", "llama.attention.head_count",
     put("llama.attention.head_count", U32, 0)),
    ("Layers, heads 0 or absurd", "a million heads", "llama.attention.head_count",
     put("llama.attention.head_count", U32, 1000000)),
    ("Layers, heads 0 or absurd", "no K/V heads", "llama.attention.head_count_kv",
     put("llama.attention.head_count_kv", U32, 0)),
    ("Layers, heads 0 or absurd", "a width of 2^31", "llama.embedding_length",
     put("llama.embedding_length", U32, 1 << 31)),
    ("heads_kv > heads or not dividing", "6 of 3", "llama.attention.head_count_kv",
     put("llama.attention.head_count_kv", U32, 6)),
    ("heads_kv > heads or not dividing", "2 of 3", "llama.attention.head_count_kv",
     put("llama.attention.head_count_kv", U32, 2)),
    ("odd head_dim with RoPE", "heads of 15", "llama.attention.key_length",
     both(put("llama.attention.key_length", U32, 15),
          lambda file: file.drop("llama.rope.dimension_count"))),
    ("odd head_dim with RoPE", "15 of 16 turn", "llama.rope.dimension_count",
     put("llama.rope.dimension_count", U32, 15)),
    ("vocabulary != embedding rows", "stated", "llama.vocab_size",
     put("llama.vocab_size", U32, 271)),
    ("vocabulary != embedding rows", "tokens", TOKENS,
     both(array(TOKENS, STRING, ["a"] * 271), array(SCORES, F32, [0] * 271),
          array(TYPES, I32, [1] * 271))),
    ("theta 0 or NaN", "0", "llama.rope.freq_base", put("llama.rope.freq_base", F32, 0)),
    ("theta 0 or NaN", "NaN", "llama.rope.freq_base", put("llama.rope.freq_base", F32, NAN)),
    ("theta 0 or NaN", "infinite", "llama.rope.freq_base",
     put("llama.rope.freq_base", F32, INFINITY)),
    ("eps NaN", "NaN", "llama.attention.layer_norm_rms_epsilon",
     put("llama.attention.layer_norm_rms_epsilon", F32, NAN)),
    ("eps NaN", "negative", "llama.attention.layer_norm_rms_epsilon",
     put("llama.attention.layer_norm_rms_epsilon", F32, -1)),
    ("context absurd", "0", "llama.context_length", put("llama.context_length", U32, 0)),
    ("context absurd", "2^31", "llama.context_length", put("llama.context_length", U32, 1 << 31)),
    ("context absurd", "2^64 - 1", "llama.context_length",
     put("llama.context_length", U64, (1 << 64) - 1)),
    # ---- the vocabulary
    ("Tokens: count mismatch", "a score missing", SCORES, shorter(SCORES, F32)),
    ("Tokens: count mismatch", "a type missing", TYPES, shorter(TYPES, I32)),
    ("Tokens: count mismatch", "no tokens", TOKENS, array(TOKENS, STRING, [])),
    ("byte tokens outside 0-255", "<0x100>", TOKENS,
     element(TOKENS, STRING, 3, text("<0x100>"))),
    ("byte tokens outside 0-255", "no number", TOKENS, element(TOKENS, STRING, 3, text("<0xZZ>"))),
    ("byte tokens outside 0-255", "one twice", TOKENS, element(TOKENS, STRING, 3, text("<0x01>"))),
    ("NaN scores", "NaN", SCORES, element(SCORES, F32, 270, NAN)),
    ("NaN scores", "infinite", SCORES, element(SCORES, F32, 270, INFINITY)),
    ("special ids out of range", "BOS", "tokenizer.ggml.bos_token_id",
     put("tokenizer.ggml.bos_token_id", U32, 272)),
    ("special ids out of range", "EOS 2^32 - 1", "tokenizer.ggml.eos_token_id",
     put("tokenizer.ggml.eos_token_id", U32, (1 << 32) - 1)),
    ("special ids out of range", "a token type", TYPES, element(TYPES, I32, 5, 77)),
    ("1 GB token", "in a small file", TOKENS,
     element(TOKENS, STRING, 265, text("ab", 1 << 30))),
    ("1 GB token", "in a sparse file that holds it", TOKENS,
     sparse(2 << 30, element(TOKENS, STRING, 265, text("ab", 1 << 30)))),
    ("1 GB token", "64 KiB in fact", TOKENS, element(TOKENS, STRING, 265, text("a" * 65536))),
    # ---- the rest
    ("NaN or Inf scales in weights", "NaN in a matrix", QUERY, number_in(QUERY, "f", NAN, 400)),
    ("NaN or Inf scales in weights", "infinite in a norm", NORM, number_in(NORM, "f", INFINITY)),
    ("NaN or Inf scales in weights", "NaN in the last row of the embedding", EMBD,
     number_in(EMBD, "f", NAN, 52220)),
)

DOWN = "blk.1.ffn_down.weight"

QUANT = (
    ("ne[0] not a multiple of the block", "a row of 33", QUERY, tensor(QUERY, dims=[33, 64])),
    ("ne[0] not a multiple of the block", "half a block", NORM, tensor(NORM, dims=[16], kind=8)),
    ("ne[0] not a multiple of the block", "a K-quant of 64", QUERY, tensor(QUERY, kind=12)),
    ("product overflow (also x type size)", "2^63 in blocks", QUERY,
     tensor(QUERY, dims=[64, 1 << 57])),
    ("NaN or Inf scales in weights", "NaN scale of q8_0", QUERY,
     number_in(QUERY, "H", 0x7E00, 34)),
    ("NaN or Inf scales in weights", "infinite scale of q8_0", QUERY,
     number_in(QUERY, "H", 0x7C00)),
    ("NaN or Inf scales in weights", "NaN scale of q4_1", DOWN, number_in(DOWN, "H", 0xFE00, 20)),
    ("NaN or Inf scales in weights", "infinite minimum of q4_1", DOWN,
     number_in(DOWN, "H", 0xFC00, 2)),
)

MERGES = "tokenizer.ggml.merges"

BPE = (
    ("merges naming unknown tokens", "an unknown left part", MERGES,
     array(MERGES, STRING, ["zz a"])),
    ("merges naming unknown tokens", "an unknown right part", MERGES,
     array(MERGES, STRING, ["a zz"])),
    ("merges naming unknown tokens", "an unknown result", MERGES, array(MERGES, STRING, ["b a"])),
    ("merges naming unknown tokens", "no parts", MERGES, array(MERGES, STRING, ["ab"])),
    ("merges naming unknown tokens", "numbers", MERGES, array(MERGES, I32, [1])),
    ("merges naming unknown tokens", "none", MERGES, lambda file: file.drop(MERGES)),
    ("Tokens: count mismatch", "an unknown way to split", "tokenizer.ggml.pre",
     put("tokenizer.ggml.pre", STRING, "nobody's")),
)


def to_bpe(file):
    """The float file with a vocabulary of merges; what is none of GPT-2's letters is control."""
    letters = [chr(c) for c in (*range(33, 127), *range(161, 173), *range(174, 256),
                                *range(256, 324))]
    tokens = letters + ["ab"] + [f"<|{i}|>" for i in range(272 - len(letters) - 1)]
    kinds = [1] * (len(letters) + 1) + [3] * (272 - len(letters) - 1)
    file.set("tokenizer.ggml.model", STRING, "gpt2")
    file.set("tokenizer.ggml.pre", STRING, "gpt-2")
    file.set_array(TOKENS, STRING, tokens)
    file.set_array(TYPES, I32, kinds)
    file.set_array(MERGES, STRING, ["a b"])
    file.drop(SCORES)
    for name in ("bos", "eos", "unknown"):
        file.set(f"tokenizer.ggml.{name}_token_id", U32, 271)
