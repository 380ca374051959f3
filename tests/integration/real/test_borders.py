"""Goal: a space before a gap is shown once: no fill doubles it, and none loses it.

Method: tiny models with both kinds of vocabulary, in which several tokens begin with a space, and
the default model. Replies are judged by their texts alone; that the space was moved, and not left
where it stood, by what the same text without it is filled with.
"""
import sys
import tempfile
import unittest

import real
from real import ok
from variants import NORMAL, P, Variant

MODEL = sys.argv.pop(1)
real.need_model(MODEL)
TINY = MODEL == "tiny"
SPACED = ["\u2581a", "\u2581t", "\u2581\u2581", "\u2581\u2581\u2581", "\u2581\u2581a"]
MERGES = ["\u0120 a", "\u0120 t", "\u0120 \u0120", "\u0120\u0120 \u0120", "\u0120\u0120 a"]
TEXTS = ["The [gap] sat on the [gap].", "a  [gap] b [gap]", "[gap] tea [gap]\n", "one [gap]",
         "x \t[gap] y\u00a0[gap] z \n[gap]!", "\u00e9t\u00e9 [gap]\U0001f98a [gap] [gap] end"]


def sentencepiece():
    variant = Variant()
    tokens, types, scores = (variant.keys[P + key] for key in ("tokens", "token_type", "scores"))
    variant.vocabulary(tokens + SPACED, types + [NORMAL] * len(SPACED),
                       scores + [-1.0 - i for i in range(len(SPACED))])
    return variant


def byte_level():
    return Variant().byte_level(["<s>", "</s>"], merges=MERGES)


class Borders:
    """Tests of one server."""

    def fill(self, text, **fields):
        return ok(self.server, "/infill", {"text": text, "max_tokens": 3, **fields}).value

    def check(self, text, reply, strict):
        """The texts around the gaps are there, byte for byte, and the fills between them."""
        parts = text.split("[gap]")
        whole = ""
        for part, gap in zip(parts, reply["gaps"]):
            whole += part
            self.assertEqual(gap["start"], len(whole))
            if strict and len(part) > 1 and part.endswith(" "):
                self.assertFalse(gap["text"].startswith(" "), (text, reply))
            whole += gap["text"]
            self.assertEqual(gap["end"], len(whole))
        self.assertEqual(reply["text"], whole + parts[-1])

    def variants(self):
        for spans in ("sequential", "independent"):
            for fields in ({}, {"until": "length"}, {"min_tokens": 2}, {"max_tokens": 1},
                           {"temperature": 1.5, "seed": 3}, {"temperature": 1, "seed": 4},
                           {"stop": [" ", "a"]}, {"max_tokens": 0}):
                yield {"spans": spans, "mode": "hybrid", **fields}

    def test_hybrid(self):
        for text in TEXTS if TINY else TEXTS[::3]:
            if text.startswith("[gap]") and not self.bos:
                continue
            for fields in self.variants():
                with self.subTest(text=text, **fields):
                    reply = self.fill(text, **fields)
                    self.check(text, reply, True)
                    for gap in reply["gaps"]:
                        if fields.get("until") == "length":
                            self.assertEqual((gap["tokens"], gap["finish_reason"]), (3, "length"))
                        self.assertGreaterEqual(gap["tokens"], fields.get("min_tokens", 0))

    def test_rerank(self):
        for text in TEXTS[:2] + TEXTS[3:5]:
            for spans in ("sequential", "independent"):
                self.check(text, self.fill(text, mode="rerank", spans=spans, candidates=2), False)

    def test_stream(self):
        for text in (TEXTS[0], TEXTS[1]):
            for spans in ("sequential", "independent"):
                body = {"text": text, "max_tokens": 3, "mode": "hybrid", "spans": spans}
                whole = ok(self.server, "/infill", body).value
                frames = ok(self.server, "/infill", {**body, "stream": True}).frames
                self.assertEqual(frames[-1]["text"], whole["text"])
                for gap in whole["gaps"]:
                    shown = "".join(frame.get("text", "") for frame in frames[:-1]
                                    if frame["gap"] == gap["index"])
                    self.assertEqual(shown, gap["text"])

    def test_first_token_begins_with_the_space(self):
        """Whatever else is likelier; and only where it was moved."""
        body = {"input_prefix": "a b ", "input_suffix": " c", "n_predict": 3, "n_probs": 1,
                "mode": "hybrid"}
        for fields in ({"temperature": 0}, {"seed": 1}, {"seed": 2, "temperature": 2, "top_k": 0,
                                                         "top_p": 1, "min_p": 0}):
            reply = ok(self.server, "/infill", {**body, **fields}).value
            tokens = [bytes(token["bytes"]) for token in reply["completion_probabilities"]]
            self.assertTrue(tokens[0].startswith(b" "), tokens)
            self.assertFalse(b"".join(tokens).startswith(b"  "), tokens)
            self.assertEqual(b"".join(tokens)[1:].decode("utf-8", "ignore"),
                             reply["content"].replace("\ufffd", ""))

    def test_only_a_space_moves(self):
        for before in ("a\t", "a\n", "a\u00a0", "a\u3000", "a", " "):
            body = {"text": "b" + before + "[gap] c", "mode": "hybrid", "until": "length"}
            if before == " ":
                body["text"] = " [gap] c"
            moved, kept = (real.without_timings(self.fill(**body, heal=heal))
                           for heal in (True, False))
            self.assertEqual(moved, kept)
        moved, kept = (self.fill("b a [gap] c", mode="hybrid", heal=heal)["usage"]["prompt_tokens"]
                       for heal in (True, False))
        self.assertEqual(moved, kept - 1)

    def same_as_without(self, text, **fields):
        """A fill that begins with one space anyway is the same; whether it was such a one."""
        fields = {"mode": "hybrid", "until": "length", "max_tokens": 4, **fields}
        bare = self.fill(text.replace(" [gap]", "[gap]"), **fields)["gaps"][0]
        if bare["text"][:1] != " " or bare["text"][1:2] == " ":
            return False
        healed = self.fill(text, **fields)["gaps"][0]
        self.assertEqual(healed["text"], bare["text"][1:])
        self.assertEqual(healed["logprob"], bare["logprob"])
        return True


def with_server(variant, bos):
    class Case(Borders, unittest.TestCase):
        @classmethod
        def setUpClass(cls):
            cls.bos = bos
            cls.folder = tempfile.TemporaryDirectory()
            if variant is None:
                cls.server = real.start(MODEL, "--log-level", "warn")
            else:
                cls.server = real.Server("--log-level", "warn", binary=real.BINARY,
                                         model=str(variant().write(cls.folder.name)))

        @classmethod
        def tearDownClass(cls):
            real.settled(cls.server)
            with cls.server:
                pass
            cls.folder.cleanup()

        def test_the_space_is_moved(self):
            if variant is not None:  # the token of space and a, whatever the model thinks
                spelled = ok(self.server, "/tokenize", {"content": "b a"}).value["tokens"]
                self.assertTrue(self.same_as_without("b [gap]c", max_tokens=1, temperature=0,
                                                     logit_bias=[[spelled[-1], 100]]))
                return
            texts = ["The capital of France is [gap], which lies on the Seine.",
                     "She went to the [gap] to buy some bread.", "Once upon a [gap], there was"]
            self.assertGreater(sum(self.same_as_without(text) for text in texts), 0)

    return Case


if TINY:
    SentencePiece, ByteLevel = with_server(sentencepiece, True), with_server(byte_level, False)
else:
    Default = with_server(None, False)

if __name__ == "__main__":
    unittest.main()
