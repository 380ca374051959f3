#!/usr/bin/env python3
"""Write fixtures/tokenizers.json: small tokenizers that between them use every component of
tokenizer.json that is built, with the ids that the reference library (Hugging Face tokenizers)
gives a list of texts.

The vocabularies are trained on the texts themselves, so that words, pieces of words and characters
without a piece all occur. The library's training has ties that it breaks by chance: another run
gives another file of the same kind.

    pip install tokenizers==0.23.3
    python3 tests/golden/make_tokenizer_fixtures.py
"""

import base64
import json
import pathlib
import struct

import tokenizers
from tokenizers import Regex, Tokenizer, models, trainers
from tokenizers import decoders as D
from tokenizers import normalizers as N
from tokenizers import pre_tokenizers as P
from tokenizers import processors as S

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
WORDS = [
    "It was the best of times, it was the worst of times, it was the age of wisdom...",
    "The quick brown fox can't jump over 1234567 lazy dogs; don't, we'll, I'VE, they'd!",
    "def f(x):\n    return x ** 2  # squares\n\n\tif x != 0:\r\n        pass\r\n",
    "Voil\u00e0 un caf\u00e9, na\u00efve r\u00e9sum\u00e9, \u00c5ngstr\u00f6m, Stra\u00dfe",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u0395\u03bb\u03bb\u03b7\u03bd",
    "\u6771\u4eac\u3067\u5bff\u53f8\u3092\u98df\u3079\u308b\u3002 \ud55c\uad6d\uc5b4",
    "e\u0301 A\u030a \u1e9b\u0323 \ufb01ne \u2460\u2461 \uff21\uff22 \uff76\uff9e \u212b",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f emoji \U0001f1e9\U0001f1ea",
]
HARD = [
    "", " ", "   ", "\n", "a", " a", "a ", "  a  b  ", "\u2581a \u2581 b\u2581",
    "\u00a0x\u3000y\u2003z", "x\u0001y\u0007z\ufffd\ufeffw\u200bv\u00adu",
    "I\u0130\u0131i \u01c5 \u1e9e", "\u0e01\u0e33 \u0939\u093f",
    "1f 12 123 1234 \u0661\u0662 \u00bd \u2167", "\u1100\u1161\u11a8 \uac01",
    "!?.,;:\u00bf\u2026\u3001\u2e43", "'s 'S 're'll", "a" * 120, "ab" * 60 + "!",
    "===== ------- ........", "word\u0301\u0323s", "b <s>a</s> <s> b </s>",
    "x <mask> y<mask>z <mask>", "tab\tNEW\n\nLINE", "the the\u2581the", "\ud7a3\u11a8",
]
TEXTS = WORDS + HARD


def charsmap(rules):
    """The table of a few replacements as a double array, laid out as SentencePiece does: units of
    32 bits, children of a node at offset ^ byte."""
    strings, places = b"", {}
    for value in rules.values():
        places[value] = len(strings)
        strings += value.encode() + b"\0"
    root = {}
    for key, value in rules.items():
        node = root
        for byte in key.encode():
            node = node.setdefault(byte, {})
        node[None] = places[value]
    units, free = {0: 0}, [256]

    def place(at, node):
        base = free[0]
        free[0] += 256
        offset = at ^ base
        assert offset < 1 << 21
        units[at] |= offset << 10 | (1 << 8 if None in node else 0)
        for byte, child in node.items():
            if byte is None:
                units[base] = 1 << 31 | child
            else:
                units[base ^ byte] = byte
        for byte, child in node.items():
            if byte is not None:
                place(base ^ byte, child)

    place(0, root)
    trie = b"".join(struct.pack("<I", units.get(i, 0)) for i in range(free[0]))
    return struct.pack("<I", len(trie)) + trie + strings


CHARSMAP = charsmap({"\ufb01": "fi", "\u00e9": "e", "e\u0301": "e", "\u2460": "1", "\uff21": "A",
                     "\u00a0": " ", "\u3000": " ", "\u200b": "", "\uff76": "\u30ab", "A": "a"})


def template(before, behind):
    single = f"{before} $A {behind}".strip()
    names = [(name, number) for number, name in ((1, "<s>"), (2, "</s>")) if name in single]
    return S.TemplateProcessing(single=single, pair="$A $B", special_tokens=names)


def train(model, normalizer, pre, kind, size=420, bytes_too=False, alphabet=()):
    tokenizer = Tokenizer(model)
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if pre is not None:
        tokenizer.pre_tokenizer = pre
    special = ["<unk>", "<s>", "</s>", "<mask>"] + (BYTES if bytes_too else [])
    options = {"vocab_size": size + (256 if bytes_too else 0), "special_tokens": special,
               "show_progress": False}
    if kind == "unigram":
        trainer = trainers.UnigramTrainer(unk_token="<unk>", **options)
    elif kind == "wordpiece":
        trainer = trainers.WordPieceTrainer(limit_alphabet=90, **options)
    else:
        trainer = trainers.BpeTrainer(
            initial_alphabet=list(alphabet), limit_alphabet=300, **options)
    tokenizer.train_from_iterator([text for text in TEXTS if "<" not in text] * 3, trainer)
    return tokenizer


def byte_level(pre, normalizer=None, **options):
    return train(models.BPE(**options), normalizer, pre, "bpe", 460,
                 alphabet=P.ByteLevel.alphabet())


def wordpiece(normalizer, pre, **options):
    return train(models.WordPiece(unk_token="<unk>", **options), normalizer, pre, "wordpiece")


def spaces_marked():
    return D.Sequence([D.Replace("\u2581", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)])


def finished(tokenizer, post=None, decoder=None, change=None, added=()):
    """The JSON of a tokenizer: byte tokens are no added ones; others are added as asked."""
    if post is not None:
        tokenizer.post_processor = post
    if decoder is not None:
        tokenizer.decoder = decoder
    data = json.loads(tokenizer.to_str())
    data["added_tokens"] = [a for a in data["added_tokens"] if a["content"] not in BYTES]
    vocab = data["model"]["vocab"]
    for token in data["added_tokens"]:
        if token["content"] == "<mask>":
            token["lstrip"] = True
    for content, rules in added:
        assert content not in vocab
        token = {"id": -1, "content": content, "special": False,
                 "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
        token["id"] = max(a["id"] for a in data["added_tokens"] + [{"id": len(vocab) - 1}]) + 1
        data["added_tokens"].append({**token, **rules})
    if change is not None:
        change(data)
    return data


def untyped(data):
    del data["model"]["type"]


def pairs_to_strings(data):
    data["model"]["merges"] = [" ".join(pair) for pair in data["model"]["merges"]]


def byte_fallback(data):
    data["model"]["byte_fallback"] = True


def bert_processing(data):
    data["post_processor"] = {"type": "BertProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1]}


def families():
    both = template("<s>", "</s>")
    split = P.Sequence([P.Split(Regex(LLAMA3), "isolated"), P.ByteLevel(False, use_regex=False)])
    qwen = P.Sequence([P.Split(Regex(QWEN2), "isolated"), P.ByteLevel(False, use_regex=False)])
    cl100k = P.Sequence([P.Split(Regex(CL100K), "removed", invert=True),
                         P.ByteLevel(False, use_regex=False)])
    yield "bert uncased", finished(wordpiece(N.BertNormalizer(), P.BertPreTokenizer()), both,
                                   D.WordPiece("##"))
    yield "bert cased", finished(
        wordpiece(N.BertNormalizer(lowercase=False, strip_accents=False), P.BertPreTokenizer(),
                  max_input_chars_per_word=20), None, None, bert_processing)
    yield "bert of old", finished(
        wordpiece(N.BertNormalizer(clean_text=False, handle_chinese_chars=False), P.Whitespace()),
        both, None, untyped)
    yield "roberta", finished(byte_level(P.ByteLevel(True)), S.RobertaProcessing(
        ("</s>", 2), ("<s>", 1)), D.ByteLevel(), pairs_to_strings)
    yield "gpt2 of old", finished(byte_level(P.ByteLevel(False)), S.ByteLevel(), D.ByteLevel(),
                                  untyped)
    yield "gpt2 split", finished(byte_level(P.Sequence(
        [P.Split(Regex(GPT2), "isolated"), P.ByteLevel(False, use_regex=False)])))
    yield "smollm", finished(byte_level(P.Sequence(
        [P.Digits(individual_digits=True), P.ByteLevel(False)])), None, D.ByteLevel())
    yield "llama3", finished(byte_level(split, ignore_merges=True),
                             S.Sequence([S.ByteLevel(), template("<s>", "")]), D.ByteLevel())
    yield "qwen2", finished(byte_level(qwen, N.NFC()), template("", "</s>"), D.ByteLevel())
    yield "cl100k", finished(byte_level(cl100k))
    yield "modernbert", finished(byte_level(P.ByteLevel(False), N.NFC()), both, D.ByteLevel(), None,
                                 [("  ", {"normalized": True}), ("\n\n", {"normalized": True})])
    yield "llama2", finished(
        train(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True),
              N.Sequence([N.Prepend("\u2581"), N.Replace(" ", "\u2581")]), None, "bpe",
              bytes_too=True), template("<s>", ""), spaces_marked())
    yield "mistral", finished(
        train(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True), None,
              P.Metaspace("\u2581", "first", False), "bpe", bytes_too=True), template("<s>", ""),
        spaces_marked())
    yield "gemma", finished(
        train(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True),
              N.Replace(" ", "\u2581"), P.Split(" ", "merged_with_previous"), "bpe",
              bytes_too=True), template("<s>", ""),
        D.Sequence([D.Replace("\u2581", " "), D.ByteFallback(), D.Fuse()]), None,
        [("\n\t", {}), ("\u2581jumps", {})])
    yield "xlm-roberta", finished(
        train(models.Unigram(),
              N.Sequence([N.Precompiled(CHARSMAP), N.Replace(Regex(" {2,}"), " ")]),
              P.Sequence([P.WhitespaceSplit(), P.Metaspace()]), "unigram"), both, D.Metaspace())
    yield "t5", finished(
        train(models.Unigram(), N.Sequence([N.Precompiled(CHARSMAP), N.Strip(False, True),
                                            N.Replace(Regex(" {2,}"), "\u2581")]),
              P.Metaspace("\u2581", "always", True), "unigram"), template("", "</s>"),
        D.Metaspace())
    yield "albert", finished(
        train(models.Unigram(), N.Sequence([N.Nmt(), N.NFKC(), N.Replace("``", '"'), N.NFKD(),
                                            N.StripAccents(), N.Lowercase()]),
              P.Metaspace("\u2581", "never", True), "unigram", bytes_too=True), both, None,
        byte_fallback)
    yield "words", finished(
        wordpiece(N.Sequence([N.NFD(), N.Replace(Regex(r"\s+"), " "), N.Strip()]), P.Sequence(
            [P.WhitespaceSplit(), P.CharDelimiterSplit("x"), P.Punctuation("contiguous"),
             P.Digits()])), both)
    yield "blanks", finished(
        train(models.BPE(unk_token="<unk>"), N.Sequence([N.Replace(Regex(" +"), " ")]), P.Sequence(
            [P.Split(" ", "merged_with_next"), P.Punctuation("merged_with_previous"),
             P.Split("e", "isolated", invert=True)]), "bpe"), None, None, None,
        [("best o", {"single_word": True}), ("fox ca", {"lstrip": True, "rstrip": True}),
         ("It was", {"normalized": True, "rstrip": True})])


def main():
    rows = []
    for name, data in families():
        reference = Tokenizer.from_str(json.dumps(data))
        row = {"name": name, "file": data}
        row["ids"] = [reference.encode(text).ids for text in TEXTS]
        reference.encode_special_tokens = True
        row["plain"] = [None if "<" in text else reference.encode(
            text, add_special_tokens=False).ids for text in TEXTS]
        rows.append(row)
    path = pathlib.Path(__file__).parent / "fixtures" / "tokenizers.json"
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    path.write_text(f'{{"made_with":"tokenizers {tokenizers.__version__}",\n"texts":'
                    f'{json.dumps(TEXTS)},\n"tokenizers":[\n{lines}\n]}}\n')
    print(f"{len(rows)} tokenizers, {len(TEXTS)} texts, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
