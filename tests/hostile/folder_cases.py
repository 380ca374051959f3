"""Hostile folders: a good one as a model hub lays it out, one thing wrong in each.

A case is (words, what, where, change) as in gguf_cases.py; change(folder) works on a copy of the
good folder. HEADER cases change the header of model.safetensors as a Python value, RAW ones give
its bytes, TEXT ones replace a part of a JSON file, OTHER ones do what they like.
"""

import json
import os
import struct

MIB = 1 << 20
SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
CONFIG, TOKENIZER = "config.json", "tokenizer.json"
EMBD, NORM = "model.embed_tokens.weight", "model.norm.weight"
QUERY = "model.layers.0.self_attn.q_proj.weight"


# ---- the weights ---------------------------------------------------------------------------------


def split(folder):
    data = (folder / SINGLE).read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    return data[8:8 + length], data[8 + length:]


def write(folder, header, data, length=None):
    stated = len(header) if length is None else length
    (folder / SINGLE).write_bytes(struct.pack("<Q", stated) + header + data)


def entry(name, **values):
    """Members of a tensor's entry; with `data_offsets` as a function of those it has."""

    def change(folder):
        header, data = split(folder)
        header = json.loads(header)
        for key, value in values.items():
            header[name][key] = value(*header[name][key]) if callable(value) else value
        write(folder, json.dumps(header).encode(), data)

    return change


def header_text(find, put):
    def change(folder):
        header, data = split(folder)
        assert find in header
        write(folder, header.replace(find, put, 1), data)

    return change


def raw(data, size=None):
    def change(folder):
        (folder / SINGLE).write_bytes(data)
        if size is not None:
            os.truncate(folder / SINGLE, size)

    return change


def grown(folder):
    with open(folder / SINGLE, "ab") as file:
        file.write(bytes(4))


def hole(folder):
    """Everything from the second tensor on four bytes later."""
    header, data = split(folder)
    header = json.loads(header)
    first = header[EMBD]["data_offsets"][1]
    for name, one in header.items():
        if name not in ("__metadata__", EMBD):
            one["data_offsets"] = [end + 4 for end in one["data_offsets"]]
    write(folder, json.dumps(header).encode(), data[:first] + bytes(4) + data[first:])


def empty_sharing(folder):
    header, data = split(folder)
    header = json.loads(header)
    header["x"] = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    write(folder, json.dumps(header).encode(), data)


def number(at, bits):
    def change(folder):
        header, data = split(folder)
        at_end = at if at >= 0 else len(data) + at
        write(folder, header, data[:at_end] + struct.pack("<I", bits) + data[at_end + 4:])

    return change


WEIGHTS = (
    ("Header > file", "by one", SINGLE, raw(struct.pack("<Q", 3) + b"{}")),
    ("Header > file", "2^64 - 1", SINGLE, raw(b"\xff" * 8 + b"{}")),
    ("Header > file", "no length", SINGLE, raw(b"\2\0\0")),
    ("Header > 100 MB", "in a sparse file", SINGLE,
     raw(struct.pack("<Q", 100000001) + b"{", 101000000)),
    ("Header < 2", "0", SINGLE, raw(bytes(8))),
    ("Header < 2", "1", SINGLE, raw(struct.pack("<Q", 1) + b"{")),
    ("not starting with {", "a space", SINGLE, raw(struct.pack("<Q", 3) + b" {}")),
    ("not starting with {", "a list", SINGLE, raw(struct.pack("<Q", 2) + b"[]")),
    ("not starting with {", "no JSON", SINGLE, raw(struct.pack("<Q", 2) + b"{{")),
    ("duplicate keys", "a tensor", SINGLE,
     header_text(b'"model.norm.weight":', b'"model.norm.weight":{},"model.norm.weight":')),
    ("duplicate keys", "a member", SINGLE, header_text(b'"dtype":', b'"dtype":"F32","dtype":')),
    ("deep nesting", "100 000 lists", SINGLE,
     raw(struct.pack("<Q", 100001) + b"{" + b"[" * 100000)),
    ("deep nesting", "a list too many", SINGLE, entry(NORM, shape=[[[48]]])),
    ("data_offsets negative", "begin", EMBD, entry(EMBD, data_offsets=lambda a, b: [-4, b])),
    ("data_offsets negative", "end", EMBD, entry(EMBD, data_offsets=lambda a, b: [a, -b])),
    ("end before begin", "turned round", EMBD, entry(EMBD, data_offsets=lambda a, b: [b, a])),
    ("end past the file", "by 2^62", NORM, entry(NORM, data_offsets=lambda a, b: [a, 1 << 62])),
    ("size != shape x type", "a row less", EMBD, entry(EMBD, shape=[271, 48])),
    ("size != shape x type", "another type", EMBD, entry(EMBD, dtype="F16")),
    ("product overflow", "wraps to 4", EMBD,
     entry(EMBD, shape=[4194305, 4194305, 211106198978564])),
    ("product overflow", "2^63 rows", SINGLE, entry(EMBD, shape=[1 << 63])),
    ("product overflow", "a negative row", EMBD, entry(EMBD, shape=[-272, -48])),
    ("overlaps", "four bytes", "model.layers.0.input_layernorm.weight",
     entry("model.layers.0.input_layernorm.weight", data_offsets=lambda a, b: [a - 4, b - 4])),
    ("holes", "four bytes", "model.layers.0.input_layernorm.weight", hole),
    ("uncovered tail", "four bytes", SINGLE, grown),
    ("empty tensor sharing an offset", "at 0", "x", empty_sharing),
    ("unknown dtype", "F33", NORM, entry(NORM, dtype="F33")),
    ("unknown dtype", "F64", NORM, entry(NORM, dtype="F64")),
    ("unknown dtype", "I64 for weights", QUERY,
     entry(QUERY, dtype="I64", shape=lambda a, b: [a, b // 2])),
    ("NaN or Inf in weights", "NaN", EMBD, number(0, 0x7FC00000)),
    ("NaN or Inf in weights", "infinite", NORM, number(-4, 0xFF800000)),
)


# ---- parts ---------------------------------------------------------------------------------------


def in_parts(name, before=None):
    """One part, which the index gives this name."""

    def change(folder):
        header, _ = split(folder)
        names = [key for key in json.loads(header) if key != "__metadata__"]
        os.rename(folder / SINGLE, folder / "part")
        if before is not None:
            before(folder)
        (folder / INDEX).write_text(json.dumps({"weight_map": dict.fromkeys(names, name)}))

    return change


def outside(folder):
    os.rename(folder / "part", folder.parent / (folder.name + ".part"))


def below(folder):
    os.mkdir(folder / "sub")
    os.rename(folder / "part", folder / "sub" / "part")


MAP = f"{INDEX}: weight_map.{EMBD}"

PARTS = (
    ("shard names with ../", "../part", MAP, in_parts("../part", outside)),
    ("shard names with ../", "sub/../part", MAP, in_parts("sub/../part", below)),
    ("shard names with ../", "..", MAP, in_parts("..")),
    ("shard names or absolute", "/etc/passwd", MAP, in_parts("/etc/passwd")),
    ("plain names in the directory of their index", "sub/part", MAP, in_parts("sub/part", below)),
    ("plain names in the directory of their index", "hidden", MAP, in_parts(".part")),
    ("plain names in the directory of their index", "empty", MAP, in_parts("")),
    ("plain names in the directory of their index", "a NUL", INDEX, in_parts("part\0")),
)


# ---- JSON ----------------------------------------------------------------------------------------


def text(name, find, put):
    def change(folder):
        whole = (folder / name).read_text()
        assert find in whole
        (folder / name).write_text(whole.replace(find, put, 1))

    return change


def size(name, bytes_count):
    return lambda folder: os.truncate(folder / name, bytes_count)


def steps(count):
    return ",".join(['{"type":"NFC"}'] * count)


def added(*tokens, **others):
    """Added tokens, (id, text) each; other members of the file."""
    one = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": True,
           "special": False}

    def change(folder):
        whole = json.loads((folder / TOKENIZER).read_text())
        whole["added_tokens"] += [{"id": id, "content": text, **one} for id, text in tokens]
        (folder / TOKENIZER).write_text(json.dumps(whole | others))

    return change


def each_other():
    """Two tokens whose normalised spellings begin with each other, longer by each step."""
    steps = [{"type": "Replace", "pattern": {"String": one}, "content": other * 32}
             for one, other in (("r", "o"), ("o", "r")) * 8]
    return added((270, "er"), (271, "on"), normalizer={"type": "Sequence", "normalizers": steps})


REGEX = ('"pre_tokenizer": {"type":"Split","pattern":{"Regex":"%s"},"behavior":"Isolated",'
         '"invert":false}')

JSON = (
    ("size caps", "config.json of 1 MiB and 1", CONFIG, size(CONFIG, MIB + 1)),
    ("size caps", "a sparse config.json of 1 TB", CONFIG, size(CONFIG, 1 << 40)),
    ("size caps", "tokenizer.json of 64 MiB and 1", TOKENIZER, size(TOKENIZER, 64 * MIB + 1)),
    ("size caps", "a sparse tokenizer.json of 1 TB", TOKENIZER, size(TOKENIZER, 1 << 40)),
    ("regexes", "one that backtracks", f"{TOKENIZER}#/pre_tokenizer/pattern",
     text(TOKENIZER, '"pre_tokenizer": null', REGEX % "(a+)+$")),
    ("regexes", "one that is none", f"{TOKENIZER}#/pre_tokenizer/pattern",
     text(TOKENIZER, '"pre_tokenizer": null', REGEX % "(")),
    ("regexes", "one of a normaliser", f"{TOKENIZER}#/normalizer/normalizers/1/pattern",
     text(TOKENIZER, '{"String": " "}', '{"Regex": "(a|a)*b"}')),
    ("added-token cycles", "the same token twice", f"{TOKENIZER}#/added_tokens/3",
     added((0, "<unk>"))),
    ("added-token cycles", "another token's id", f"{TOKENIZER}#/added_tokens/3",
     added((270, "<x>"))),
    ("added-token cycles", "rows that the weights do not have", f"{TOKENIZER}#/model",
     added((272, "<x>"))),
    ("added-token cycles", "spellings that grow by each other", f"{TOKENIZER}#/added_tokens",
     each_other()),
    ("long normaliser chains", "17 steps", f"{TOKENIZER}#/normalizer/normalizers/16",
     text(TOKENIZER, '{"type": "Prepend"', steps(16) + ',{"type": "Prepend"')),
    ("long normaliser chains", "sequences in sequences", TOKENIZER,
     text(TOKENIZER, '{"type": "Prepend"',
          '{"type":"Sequence","normalizers":[' * 100 + steps(1) + "]}" * 100 +
          ',{"type": "Prepend"')),
    ("duplicate keys", "config.json", CONFIG,
     text(CONFIG, '"hidden_size"', '"hidden_size": 48, "hidden_size"')),
    ("duplicate keys", "tokenizer.json", TOKENIZER,
     text(TOKENIZER, '"<unk>": 0', '"<unk>": 0, "<unk>": 0')),
    ("deep nesting", "config.json", CONFIG,
     text(CONFIG, "{", '{"x":' + "[" * 100000)),
    ("deep nesting", "tokenizer.json", TOKENIZER,
     text(TOKENIZER, "{", '{"x":' + "[" * 100000)),
    ("unknown value that changes results", "an activation", f"{CONFIG}: hidden_act",
     text(CONFIG, "silu", "relu")),
    ("unknown value that changes results", "a key", f"{CONFIG}: residual_scale",
     text(CONFIG, "{", '{"residual_scale": 2,')),
    ("unknown value that changes results", "a key that rewrites the line", f"{CONFIG}: a?b?[2K",
     text(CONFIG, "{", r'{"a\nb\u001b[2K": 2,')),
)


# ---- files that are none -------------------------------------------------------------------------


def instead(name, make):
    def change(folder):
        (folder / name).unlink()
        make(folder / name)

    return change


FILES = tuple(
    (words, f"{what} for {name}", name, instead(name, make))
    for name in (CONFIG, TOKENIZER, SINGLE)
    for words, what, make in (
        ("FIFO", "a FIFO", os.mkfifo),
        ("a link to one", "a link to a device", lambda path: path.symlink_to("/dev/zero")),
        ("/proc entry", "a link into /proc", lambda path: path.symlink_to("/proc/self/status")),
        ("a link to one", "a link to itself", lambda path: path.symlink_to(path.name)),
        ("a link to one", "a link to nothing", lambda path: path.symlink_to("nothing")),
        ("a link to one", "a folder", os.mkdir),
        ("truncated", "nothing in it", lambda path: path.write_bytes(b"")),
        ("sparse", "1 TB of nothing", lambda path: (path.touch(), os.truncate(path, 1 << 40))),
    ))

CASES = WEIGHTS + PARTS + JSON + FILES
