#!/usr/bin/env python3
"""Write corpus/gguf: small GGUF files, good and broken, for fuzz_gguf and its regression test.

Only the Python standard library; same seed, same files. A crash found by the fuzzer is added to
the corpus by hand as crash-NAME.gguf and stays (this script leaves such files alone).

    python3 tests/fuzz/make_gguf_corpus.py
"""

import pathlib
import random
import struct

SEED = 7
U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
NUMBERS = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "B",
           U64: "Q", I64: "q", F64: "d"}
# name, id, numbers per block, bytes per block
TYPES = [("f32", 0, 1, 4), ("f16", 1, 1, 2), ("q4_0", 2, 32, 18), ("q4_1", 3, 32, 20),
         ("q5_0", 6, 32, 22), ("q5_1", 7, 32, 24), ("q8_0", 8, 32, 34), ("q4_k", 12, 256, 144),
         ("q5_k", 13, 256, 176), ("q6_k", 14, 256, 210), ("bf16", 30, 1, 2)]


def text(value):
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(data)) + data


def pair(key, kind, value):
    if kind == STRING:
        return text(key) + struct.pack("<I", kind) + text(value)
    return text(key) + struct.pack("<I" + NUMBERS[kind], kind, value)


def array(key, kind, values):
    head = text(key) + struct.pack("<IIQ", ARRAY, kind, len(values))
    if kind == STRING:
        return head + b"".join(map(text, values))
    return head + struct.pack(f"<{len(values)}{NUMBERS[kind]}", *values)


def build(pairs, tensors, version=3, alignment=32):
    """tensors: (name, dims, type id, data)"""
    directory, data = b"", b""
    for name, dims, type_id, content in tensors:
        data += bytes(-len(data) % alignment)
        directory += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, type_id,
                                              len(data))
        data += content
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(pairs))
    head += b"".join(pairs) + directory
    if tensors:
        head += bytes(-len(head) % alignment)
    return head + data


def good_files(rng):
    pairs = [pair("general.architecture", STRING, "llama"), pair("general.alignment", U32, 32)]
    pairs += [pair(f"number.{kind}", kind, 1) for kind in NUMBERS]
    pairs += [array(f"numbers.{kind}", kind, [1, 0, 1]) for kind in NUMBERS]
    pairs += [array("tokenizer.ggml.tokens", STRING, ["a", "", b"\xff", "\u2581the"]),
              array("empty", STRING, [])]
    yield "empty", build([], [])
    yield "keys", build(pairs, [])
    yield "version2", build(pairs[:3], [], version=2)
    for name, type_id, block, block_bytes in TYPES:
        tensor = ("w", (block, 2), type_id, rng.randbytes(2 * block_bytes))
        yield f"tensor-{name}", build(pairs[:1], [tensor])
    tensors = [("a.weight", (4, 2, 1), 0, rng.randbytes(32)),
               ("b.weight", (32, 2), 2, rng.randbytes(36)), ("c.weight", (3,), 1, b"\0" * 6)]
    yield "tensors", build(pairs, tensors)
    yield "alignment8", build([pair("general.alignment", U32, 8)], tensors, alignment=8)
    yield "split", build([pair("split.count", U16, 2)], [])
    yield "nested", build([text("n") + struct.pack("<IIQIQ", ARRAY, ARRAY, 1, U8, 0)], [])
    yield "twice", build([pair("k", U8, 1), pair("k", U8, 2)], [])


def main():
    folder = pathlib.Path(__file__).parent / "corpus" / "gguf"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if not old.name.startswith("crash-"):
            old.unlink()
    rng = random.Random(SEED)
    files = dict(good_files(rng))
    base = files["tensors"]
    for i in range(24):  # the same file with a few bytes changed, moved or cut
        data = bytearray(base)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(data))
            data[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        if i % 4 == 0:
            del data[rng.randrange(len(data)):]
        files[f"mutated-{i:02}"] = bytes(data)
    for name, data in files.items():
        (folder / f"{name}.gguf").write_bytes(data)
    print(f"{len(files)} files, {sum(map(len, files.values()))} bytes")


if __name__ == "__main__":
    main()
