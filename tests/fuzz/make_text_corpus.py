#!/usr/bin/env python3
"""Write corpus/tokenizer and corpus/vocab: texts and vocabularies, good and broken, for
fuzz_tokenizer, fuzz_vocab and their regression tests.

Only the Python standard library; same seed, same files. A crash found by the fuzzer is added to
the corpus by hand as crash-NAME and stays (this script leaves such files alone).

    python3 tests/fuzz/make_text_corpus.py
"""

import pathlib
import random

from make_gguf_corpus import BOOL, F32, I32, STRING, U32, array, build, pair

SEED = 11
VOCABULARIES = 7  # of fuzz_tokenizer.c
TEXTS = {
    "words": "It's an abab, a  ab\n\n  and 1234 more\tÀÉé",
    "marks": "e\u0301\u0323o\u0302 \u1100\u1161\u11a8 \u212b\u0958",
    "specials": "<s><|im_start|>a<|im_end|></s><think<th<|fim_middle|> <|im_",
    "spaces": " \u00a0\u2003 \r\n \u2581\u2581a \u0085   ",
    "emoji": "\U0001f469\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f \U0001f999",
    "long": "ab" * 200,
}
TAIL = b"\xf0\x9f \xff\xc0\x80"  # no UTF-8
P = "tokenizer.ggml."


def alphabet():
    kept = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
    moved = iter(range(256, 512))
    return [chr(b) if b in kept else chr(next(moved)) for b in range(256)]


def bpe_file(pre="gpt-2", merges=("a b", "ab ab"), extra=()):
    tokens = alphabet() + ["ab", "abab", "<s>", "</s>", "<|fim_prefix|>"]
    types = [1] * 258 + [3, 3, 4]
    return build([pair(P + "model", STRING, "gpt2"), pair(P + "pre", STRING, pre),
                  array(P + "tokens", STRING, tokens), array(P + "token_type", I32, types),
                  array(P + "merges", STRING, merges), pair(P + "bos_token_id", U32, 258),
                  *extra], [])


def spm_file(byte_tokens=256, extra=()):
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(byte_tokens)]
    types = [2, 3, 3] + [6] * byte_tokens
    scores = [0.0] * len(tokens)
    for piece, score in (("\u2581", -3), ("a", -4), ("b", -5), ("ab", -1), ("\u2581ab", -2)):
        tokens, types, scores = tokens + [piece], types + [1], scores + [score]
    return build([pair(P + "model", STRING, "llama"), array(P + "tokens", STRING, tokens),
                  array(P + "token_type", I32, types), array(P + "scores", F32, scores),
                  *extra], [])


def vocab_files(rng):
    files = {f"bpe-{pre}": bpe_file(pre) for pre in ("gpt-2", "smollm", "llama-bpe", "qwen2")}
    files["bpe-other"] = bpe_file("other")
    files["bpe-merges"] = bpe_file(merges=("a b", "ab zz"))
    files["spm"] = spm_file()
    files["spm-no-bytes"] = spm_file(0)
    files["spm-some-bytes"] = spm_file(255)
    files["spm-options"] = spm_file(extra=[pair(P + "add_space_prefix", BOOL, 0),
                                           pair(P + "remove_extra_whitespaces", BOOL, 1),
                                           pair(P + "add_eos_token", BOOL, 1)])
    for base in ("bpe-llama-bpe", "spm"):
        for i in range(8):
            data = bytearray(files[base])
            for _ in range(rng.randint(1, 4)):
                data[rng.randrange(len(data))] = rng.choice([0, 1, 7, 0x20, 0x80, 0xFF])
            files[f"{base}-mutated-{i}"] = bytes(data)
    return files


def text_files():
    files = {"empty": b""}
    for which in range(VOCABULARIES):
        for number, (name, text) in enumerate(TEXTS.items()):
            flags = (which + number) % 8 | (number * 5 % 32) << 3
            files[f"{name}-{which}"] = bytes([which, flags]) + text.encode()
        files[f"broken-{which}"] = bytes([which, 0]) + TEXTS["words"].encode() + TAIL
    return files


def write(folder, ending, files):
    folder = pathlib.Path(__file__).parent / "corpus" / folder
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if not old.name.startswith("crash-"):
            old.unlink()
    for name, data in files.items():
        (folder / (name + ending)).write_bytes(data)
    print(f"{folder.name}: {len(files)} files, {sum(map(len, files.values()))} bytes")


if __name__ == "__main__":
    write("vocab", ".gguf", vocab_files(random.Random(SEED)))
    write("tokenizer", ".bin", text_files())
