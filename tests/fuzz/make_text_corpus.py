#!/usr/bin/env python3
"""Write corpus/tokenizer, corpus/vocab and corpus/tokenizer_json: texts, vocabularies and
tokenizer.json files, good and broken, for fuzz_tokenizer, fuzz_vocab, fuzz_tokenizer_json and their
regression tests.

Only the Python standard library; same seed, same files. A crash found by the fuzzer is added to
the corpus by hand as crash-NAME and stays (this script leaves such files alone).

    python3 tests/fuzz/make_text_corpus.py
"""

import base64
import json
import pathlib
import random
import struct

from make_gguf_corpus import BOOL, F32, I32, STRING, U8, U32, array, build, pair

SEED = 11
VOCABULARIES = 9  # of fuzz_tokenizer.c
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


def bert_file(extra=()):
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "\u2581a", "b", "\u2581ab", "\u2581!"]
    return build([pair(P + "model", STRING, "bert"), pair(P + "pre", STRING, "bert-bge"),
                  array(P + "tokens", STRING, tokens),
                  array(P + "token_type", I32, [3, 2, 3, 3, 1, 1, 1, 1]),
                  pair(P + "unknown_token_id", U32, 1), pair(P + "cls_token_id", U32, 2),
                  pair(P + "seperator_token_id", U32, 3), *extra], [])


def charsmap():
    """U+FB01 to "fi" as a double array of one chain, a block of 256 units for each byte."""
    units, at, key = {}, 0, "\ufb01".encode()
    for number, byte in enumerate(key, 1):
        units[at] = units.get(at, 0) | (at ^ 256 * number) << 10
        at = 256 * number ^ byte
        units[at] = byte
    end = 256 * (len(key) + 1)
    units[at] |= (at ^ end) << 10 | 1 << 8
    units[end] = 1 << 31
    trie = b"".join(struct.pack("<I", units.get(i, 0)) for i in range(end + 1))
    return struct.pack("<I", len(trie)) + trie + b"fi\0"


def t5_file(extra=()):
    tokens = ["<pad>", "</s>", "<unk>", "\u2581", "a", "b", "ab", "\u2581ab", "fi"]
    return build([pair(P + "model", STRING, "t5"), array(P + "tokens", STRING, tokens),
                  array(P + "token_type", I32, [3, 3, 2, 1, 1, 1, 1, 1, 1]),
                  array(P + "scores", F32, [0, 0, 0, -3, -4, -5, -1, -2, -6]),
                  array(P + "precompiled_charsmap", U8, list(charsmap())),
                  pair(P + "eos_token_id", U32, 1), *extra], [])


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
    files["bert"] = bert_file()
    files["bert-cased"] = bert_file([pair(P + "normalizer.lowercase", BOOL, 0)])
    files["t5"] = t5_file()
    files["t5-options"] = t5_file([pair(P + "add_space_prefix", BOOL, 0),
                                   pair(P + "remove_extra_whitespaces", BOOL, 0)])
    for base in ("bpe-llama-bpe", "spm", "bert", "t5"):
        for i in range(8):
            data = bytearray(files[base])
            for _ in range(rng.randint(1, 4)):
                data[rng.randrange(len(data))] = rng.choice([0, 1, 7, 0x20, 0x80, 0xFF])
            files[f"{base}-mutated-{i}"] = bytes(data)
    return files


# ---- tokenizer.json ----

STEPS = {
    "normalizer": [
        {"type": "BertNormalizer", "strip_accents": True}, {"type": "NFKC"}, {"type": "NFD"},
        {"type": "Nmt"}, {"type": "StripAccents"}, {"type": "Lowercase"}, {"type": "Strip"},
        {"type": "Prepend", "prepend": "\u2581"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": ""},
        {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap()).decode()},
    ],
    "pre_tokenizer": [
        {"type": "BertPreTokenizer"}, {"type": "Whitespace"}, {"type": "WhitespaceSplit"},
        {"type": "Digits", "individual_digits": False},
        {"type": "Punctuation", "behavior": "Contiguous"},
        {"type": "CharDelimiterSplit", "delimiter": "a"},
        {"type": "Split", "pattern": {"String": "b"}, "behavior": "MergedWithNext",
         "invert": True},
        {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first"},
    ],
}
MODELS = {
    "wordpiece": {"type": "WordPiece", "unk_token": "<u>", "vocab": {
        "<u>": 0, "<s>": 1, "a": 2, "##b": 3, "ab": 4, "!": 5}},
    "bpe": {"type": "BPE", "unk_token": "<u>", "fuse_unk": True,
            "merges": ["a b", ["\u2581", "ab"]], "vocab": {
                "<u>": 0, "<s>": 1, "a": 2, "b": 3, "ab": 4, "\u2581": 5, "\u2581ab": 6}},
    "bytes": {"type": "BPE", "ignore_merges": True, "merges": ["a b"], "vocab": dict(
        {letter: i + 2 for i, letter in enumerate(alphabet())}, **{"<u>": 0, "<s>": 1, "ab": 258})},
    "unigram": {"type": "Unigram", "unk_id": 0, "vocab": [
        ["<u>", 0], ["<s>", 0], ["a", -2.5], ["b", -3], ["ab", -1], ["\u2581", -4.25]]},
}


def json_file(model, rng):
    def chain(kind, plural):
        steps = rng.sample(STEPS[kind], rng.randint(0, 3))
        if model == "wordpiece" and kind == "pre_tokenizer":
            steps = [{"type": "BertPreTokenizer"}] + steps
        if model == "bytes":
            steps = [step for step in steps if step["type"] != "Metaspace"]
            if kind == "pre_tokenizer":
                steps.append({"type": "ByteLevel", "add_prefix_space": rng.random() < 0.5})
        return {"type": "Sequence", plural: steps}
    rules = ("single_word", "lstrip", "rstrip", "normalized")
    added = [{"id": i, "content": text, "special": i < 2, **{r: rng.random() < 0.3 for r in rules}}
             for i, text in ((0, "<u>"), (1, "<s>"), (300, "bab"), (302, "  "))]
    post = {"type": "TemplateProcessing", "single": [
        {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
            "normalizer": chain("normalizer", "normalizers"),
            "pre_tokenizer": chain("pre_tokenizer", "pretokenizers"), "post_processor": post,
            "decoder": None, "model": MODELS[model]}


def json_files(rng):
    files = {}
    for model in MODELS:
        for i in range(6):
            text = json.dumps(json_file(model, rng), ensure_ascii=rng.random() < 0.5)
            files[f"{model}-{i}"] = text.encode()
            data = bytearray(text.encode())
            for _ in range(rng.randint(1, 3)):
                data[rng.randrange(len(data))] = rng.choice(b'0"{}[],:\\a\x80')
            files[f"{model}-mutated-{i}"] = bytes(data)
    files["config"] = files["bpe-0"] + b'\0{"bos_token":"<s>","unk_token":{"content":"<u>"}}'
    files["config-broken"] = files["bpe-0"] + b'\0{"bos_token":"<t>"}'
    files["empty"] = b""
    files["deep"] = b'{"model":' + b"[" * 40
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
    write("tokenizer_json", ".bin", json_files(random.Random(SEED)))
    write("tokenizer", ".bin", text_files())
