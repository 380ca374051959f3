"""Variants of the tiny model, each made for one case: a longer context, a vocabulary with the
tokens a case asks about, a token whose values overflow. Written when a test runs.
"""
import array
import pathlib
import struct
import sys

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TESTS / "golden"), str(TESTS / "fuzz")]

import make_gguf_corpus as gguf  # noqa: E402
from make_folder import Reader  # noqa: E402
from make_text_corpus import alphabet  # noqa: E402

TIED = TESTS / "golden/fixtures/tiny_llama/tied.gguf"
VOCAB = 272
WIDTH = 48
LAYERS = 2
BOS, EOS = 1, 2
P = "tokenizer.ggml."
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] + message['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant' }}{% endif %}")


def byte_id(byte):
    """The byte's token in the vocabulary of the tiny models."""
    return 3 + byte


class RawReader(Reader):
    """Keeps the bytes of each key, so that those nobody changes are written as they were."""

    def __init__(self, path):
        self.raw = {}
        super().__init__(path)

    def key(self):
        start = self.at
        name, value = super().key()
        self.raw[name] = self.bytes[start:self.at]
        return name, value


class Variant:
    """The tiny model, to be changed and written. Its numbers are all float32."""

    def __init__(self):
        reader = RawReader(TIED)
        self.pairs, self.keys, self.tensors = dict(reader.raw), reader.keys, {}
        for name, shape, kind, offset in reader.tensors:
            assert kind == 0, name
            count = 1
            for extent in shape:
                count *= extent
            start = reader.data_at + offset
            self.tensors[name] = (shape, array.array("f", reader.bytes[start:start + 4 * count]))
        reader.bytes.close()
        reader.file.close()

    def number(self, key, value):
        self.pairs[key] = gguf.pair(key, gguf.U32, value)

    def switch(self, key, value):
        self.pairs[key] = gguf.pair(key, gguf.BOOL, value)

    def word(self, key, value):
        self.pairs[key] = gguf.pair(key, gguf.STRING, value)

    def chatting(self):
        self.word(P + "chat_template", CHAT_TEMPLATE)
        return self

    def context(self, count):
        self.number("llama.context_length", count)
        return self

    def control_tokens(self, spellings):
        """More control tokens behind the others; their ids."""
        first = len(self.keys[P + "tokens"])
        self.vocabulary(self.keys[P + "tokens"] + list(spellings),
                        self.keys[P + "token_type"] + [CONTROL] * len(spellings),
                        self.keys[P + "scores"] + [0.0] * len(spellings))
        return list(range(first, first + len(spellings)))

    def vocabulary(self, tokens, types, scores):
        self.keys[P + "tokens"], self.keys[P + "token_type"] = tokens, types
        self.pairs[P + "tokens"] = gguf.array(P + "tokens", gguf.STRING, tokens)
        self.pairs[P + "token_type"] = gguf.array(P + "token_type", gguf.I32, types)
        if scores is not None:
            self.keys[P + "scores"] = scores
            self.pairs[P + "scores"] = gguf.array(P + "scores", gguf.F32, scores)
        self.number("llama.vocab_size", len(tokens))
        _, rows = self.tensors["token_embd.weight"]
        while len(rows) < len(tokens) * WIDTH:  # like others: nobody asks what they mean
            rows.append(rows[len(rows) - VOCAB // 2 * WIDTH])
        self.tensors["token_embd.weight"] = ([WIDTH, len(tokens)], rows[:len(tokens) * WIDTH])

    def byte_level(self, control, merges=("a b",), pre="gpt-2"):
        """Byte-level BPE instead: 256 letters, what the merges make, then `control` tokens."""
        tokens = alphabet() + [merge.replace(" ", "") for merge in merges] + list(control)
        types = [NORMAL] * (256 + len(merges)) + [CONTROL] * len(control)
        del self.pairs[P + "scores"], self.pairs[P + "unknown_token_id"]
        self.word(P + "model", "gpt2")
        self.word(P + "pre", pre)
        self.pairs[P + "merges"] = gguf.array(P + "merges", gguf.STRING, merges)
        self.vocabulary(tokens, types, None)
        for name, spelling in (("bos", "<s>"), ("eos", "</s>")):
            self.number(f"{P}{name}_token_id", tokens.index(spelling))
        return self

    def overflowing(self, token):
        """A model of finite numbers in which `token`, and no other, has a value that is not: one
        dimension is the token's alone, and one weight of the first layer's values reads it."""
        own = WIDTH - 1
        _, rows = self.tensors["token_embd.weight"]
        rows[own::WIDTH] = array.array("f", [0.0] * (len(rows) // WIDTH))
        rows[token * WIDTH:(token + 1) * WIDTH] = array.array("f", [0.0] * own + [1.0])
        for layer in range(LAYERS):
            for name in ("attn_output", "ffn_down"):
                shape, numbers = self.tensors[f"blk.{layer}.{name}.weight"]
                at = own * shape[0]
                numbers[at:at + shape[0]] = array.array("f", [0.0] * shape[0])
        self.tensors["blk.0.attn_v.weight"][1][own] = 3e38
        return self

    def write(self, folder, name="variant"):
        path = pathlib.Path(folder) / f"{name}.gguf"
        tensors = [(name, shape, 0, numbers.tobytes())
                   for name, (shape, numbers) in self.tensors.items()]
        path.write_bytes(gguf.build(list(self.pairs.values()), tensors))
        return path


def bits(vector):
    """A vector's float32 bytes: equal bits are equal bytes."""
    return struct.pack(f"<{len(vector)}f", *vector)
