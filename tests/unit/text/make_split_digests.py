"""Digests of how the reference expressions split text, for test_pretokenize.c.

Usage: make_split_digests.py > split_digests.h
       make_split_digests.py NAME TEXT      shows how one text is split

Every text over a small alphabet (one character or two of each kind the expressions tell apart) up
to a length, and pseudo-random longer ones, is split by Python's own regular expressions; the ends
of all pieces go into one 64-bit FNV-1a digest for each pre-tokenizer. The expressions are written
with the alphabet's letters and numbers in place of \\p{L} and \\p{N}, which `re` lacks.
"""

import itertools
import re
import sys

ALPHABET = ["a", "s", "L", "\u00e9", "1", "\u00bd", " ", "\u00a0", "\n", "\r", "'", "!", "\u0301"]
L, N, S = "asL\u00e9", "1\u00bd", " \u00a0\n\r"
EXHAUSTIVE, RANDOM, RANDOM_LENGTH = 4, 20000, 14

GPT2 = (rf"'s|'t|'re|'ve|'m|'ll|'d| ?[{L}]+| ?[{N}]+| ?[^{S}{L}{N}]+|[{S}]+(?![^{S}])|[{S}]+")
LLAMA = (rf"'[sStT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n{L}{N}]?[{L}]+|[{N}]{{1,%d}}"
         rf"| ?[^{S}{L}{N}]+[\r\n]*|[{S}]*[\r\n]+|[{S}]+(?![^{S}])|[{S}]+")
EXPRESSIONS = {"gpt-2": GPT2, "llama-bpe": LLAMA % 3, "qwen2": LLAMA % 1}


def split(name, text):
    if name != "smollm":
        pieces = re.findall(EXPRESSIONS[name], text)
    else:  # numbers alone, then GPT-2's between them
        pieces = []
        for part in re.findall(rf"[{N}]|[^{N}]+", text):
            pieces += [part] if part in N else re.findall(GPT2, part)
    assert "".join(pieces) == text, (name, text, pieces)
    return pieces


def texts():
    for length in range(1, EXHAUSTIVE + 1):
        for symbols in itertools.product(ALPHABET, repeat=length):
            yield "".join(symbols)
    state = 1
    for _ in range(RANDOM):
        text = ""
        for _ in range(RANDOM_LENGTH):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            text += ALPHABET[(state >> 33) % len(ALPHABET)]
        yield text


def digest(name):
    value = 0xCBF29CE484222325
    for text in texts():
        end = 0
        for piece in split(name, text):
            end += len(piece.encode())
            value = (value ^ end) * 0x100000001B3 % 2**64
    return value


def main():
    if len(sys.argv) == 3:
        print(split(sys.argv[1], sys.argv[2]))
        return
    print("/* Made by make_split_digests.py beside this file. */")
    print("#ifndef TESTS_UNIT_TEXT_SPLIT_DIGESTS_H")
    print("#define TESTS_UNIT_TEXT_SPLIT_DIGESTS_H\n")
    print("#include <stdint.h>\n")
    for name in ("gpt-2", "smollm", "llama-bpe", "qwen2"):
        macro = "SPLIT_DIGEST_" + name.replace("-", "_").upper()
        print(f"#define {macro} UINT64_C(0x{digest(name):016X})")
    print("\n#endif")


main()
