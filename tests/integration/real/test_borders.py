"""Goal: at the borders of a gap no space is doubled and none is lost, and a fill that is to be one
sentence is one.

Method: tiny models with both kinds of vocabulary, in which several tokens begin with a space, and
the default model. Replies are judged by their texts alone, of texts by hand and by a fixed seed;
that the space was moved, and not left where it stood, by what the same text without it is filled
with. Where a sentence ends is said once more, as a pattern.
"""
import random
import re
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
TEXTS = ["The [gap] sat on the [gap].", "a  [gap]  b [gap] c", "x \t[gap] y\u00a0[gap] z \n[gap]!",
         "\u00e9t\u00e9 [gap]\U0001f98a [gap] [gap] end"]
WORDS = ["The", "a", " b", "\n", "\u00e9t\u00e9", "t.", "(", "3.1", "  x", "\u4f60", "one two"]
SENTENCE = re.compile("[.!?\u2026\u3002\uff01\uff1f]+[\"')\\]}\u201d\u00bb\u300d.!?\u2026\u3002]*")


def sentencepiece():
    variant = Variant()
    tokens, types, scores = (variant.keys[P + key] for key in ("tokens", "token_type", "scores"))
    variant.vocabulary(tokens + SPACED, types + [NORMAL] * len(SPACED),
                       scores + [-1.0 - i for i in range(len(SPACED))])
    return variant


def byte_level():
    return Variant().byte_level(["<s>", "</s>"], merges=MERGES)


def random_text(dice):
    """One to three gaps, with and without spaces on either side."""
    text = dice.choice(WORDS)
    for _ in range(dice.randint(1, 3)):
        text += dice.choice(("", " ", " ", "  ")) + "[gap]" + dice.choice(("", " ", " ", "  "))
        text += dice.choice(WORDS)
    return text + dice.choice(("", " [gap]"))


def sentence_end(text):
    """Bytes of the first sentence, and whether it has an end in this text."""
    for match in SENTENCE.finditer(text):
        behind = text[match.end():match.end() + 1]
        if behind and (behind.isspace() or re.search("[\u3002\uff01\uff1f]", match.group())):
            return match.end(), True
    return len(text), False


class Borders:
    """Tests of one server."""

    def fill(self, text, **fields):
        return ok(self.server, "/infill", {"text": text, "max_tokens": 3, **fields}).value

    def check(self, text, heal=True, **fields):
        """The texts around the gaps are there, byte for byte, and the fills between them."""
        reply = self.fill(text, heal=heal, **fields)
        parts = text.split("[gap]")
        whole = ""
        for before, after, gap in zip(parts, parts[1:], reply["gaps"], strict=False):
            whole += before
            self.assertEqual(gap["start"], len(whole))
            if heal and len(before) > 1 and before.endswith(" "):
                self.assertFalse(gap["text"].startswith(" "), (text, reply))
            if heal and after.startswith(" "):
                self.assertFalse(gap["text"].endswith(" "), (text, reply))
            whole += gap["text"]
            self.assertEqual(gap["end"], len(whole))
            if fields.get("until") == "length":
                self.assertEqual((gap["tokens"], gap["finish_reason"]), (3, "length"))
            if fields["mode"] == "hybrid":
                self.assertGreaterEqual(gap["tokens"], fields.get("min_tokens", 0))
        self.assertEqual(reply["text"], whole + parts[-1])
        return reply

    def test_no_space_is_doubled_or_lost(self):
        dice = random.Random(1)
        texts = TEXTS + [random_text(dice) for _ in range(12)]
        some = ({}, {"until": "length"}, {"min_tokens": 2}, {"max_tokens": 1}, {"heal": False},
                {"temperature": 1.5, "seed": 3}, {"temperature": 1, "seed": 4},
                {"stop": [" ", "a"]}, {"max_tokens": 0}, {"until": "sentence"})
        doubled = 0
        for text in texts if TINY else texts[::8]:
            for fields in dice.sample(some, 4 if TINY else 1):
                for mode in ("hybrid", "rerank"):
                    fields = {"spans": dice.choice(("sequential", "independent")),
                              "candidates": dice.choice((1, 3)), **fields, "mode": mode}
                    with self.subTest(text=text, **fields):
                        reply = self.check(text, **fields)
                        doubled += "   " in reply["text"]
        if TINY:
            self.assertGreater(doubled, 0)  # without "heal" such fills are seen

    def test_candidates(self):
        """Every answer of mode rerank, not only the best one."""
        body = {"input_prefix": "b a ", "input_suffix": "c", "n_predict": 3, "n_cmpl": 8,
                "mode": "rerank"}
        for suffix in ("c", ""):
            replies = ok(self.server, "/infill", {**body, "input_suffix": suffix}).value
            for reply in replies:
                self.assertFalse(reply["content"].startswith(" "), reply["content"])

    def test_stream(self):
        for text in TEXTS[:2 if TINY else 1]:
            for fields in ({"spans": "sequential"}, {"spans": "independent"},
                           {"mode": "rerank", "candidates": 2},
                           {"temperature": 1, "seed": 4, "max_tokens": 8, "until": "sentence"}):
                body = {"text": text, "max_tokens": 3, "mode": "hybrid", **fields}
                whole = ok(self.server, "/infill", body).value
                frames = ok(self.server, "/infill", {**body, "stream": True}).frames
                self.assertEqual(frames[-1]["text"], whole["text"])
                for gap in whole["gaps"]:
                    shown = "".join(frame.get("text", "") for frame in frames[:-1]
                                    if frame["gap"] == gap["index"])
                    self.assertEqual(shown, gap["text"])

    def test_first_token_begins_with_the_space(self):
        """Whatever else is likelier; and only where it was moved."""
        body = {"input_prefix": "a b ", "input_suffix": " c", "n_predict": 3, "n_probs": 1}
        for fields in ({"temperature": 0}, {"seed": 1}, {"mode": "rerank"},
                       {"seed": 2, "temperature": 2, "top_k": 0, "top_p": 1, "min_p": 0}):
            reply = ok(self.server, "/infill", {"mode": "hybrid", **body, **fields}).value
            tokens = [bytes(token["bytes"]) for token in reply["completion_probabilities"]]
            self.assertTrue(tokens[0].startswith(b" "), tokens)
            self.assertFalse(b"".join(tokens).startswith(b"  "), tokens)
            self.assertEqual(b"".join(tokens)[1:].decode("utf-8", "ignore"),
                             reply["content"].replace("\ufffd", ""))

    def test_no_token_left_that_begins_with_the_space(self):
        """All of them banned: an error of the request, as of a form that nothing fits."""
        if not TINY:
            return
        last = ok(self.server, "/tokenize", {"content": "b"}).value["tokens"][-1]
        bans, token = [], 0
        while (reply := real.ask(self.server, "/detokenize",
                                 {"tokens": [last, token]})).status == 200:
            bans += [[token, False]] * ("b " in reply.value["content"])
            token += 1
        for fields in ({"mode": "hybrid"}, {"mode": "hybrid", "temperature": 1},
                       {"mode": "rerank"}, {"mode": "rerank", "candidates": 1}):
            body = {"text": "a [gap]b", "max_tokens": 3, "logit_bias": bans, **fields}
            error = real.refused(self.server, "/infill", body, 400)
            self.assertIn("the space before a gap", error["message"])
            self.fill("a[gap]b", logit_bias=bans, **fields)

    def test_only_a_space_moves(self):
        for before in ("a\t", "a\n", "a\u00a0", "a\u3000", "a", " "):
            for mode in ("hybrid", "rerank"):
                body = {"text": ("" if before == " " else "b") + before + "[gap],c", "mode": mode,
                        "max_tokens": 3 if TINY else 1, "candidates": 1}
                moved, kept = (real.without_timings(self.fill(**body, until="length", heal=heal))
                               for heal in (True, False))
                self.assertEqual(moved, kept)
        moved, kept = (self.fill("b a [gap] c", mode="hybrid", heal=heal)["usage"]["prompt_tokens"]
                       for heal in (True, False))
        self.assertEqual(moved, kept - 1)

    def same_as_without(self, text, **fields):
        """A fill that begins with one space anyway is the same; whether it was such a one."""
        fields = {"until": "length", "max_tokens": 4, "candidates": 1, **fields}
        bare = self.fill(text.replace(" [gap]", "[gap]"), **fields)["gaps"][0]
        if bare["text"][:1] != " " or bare["text"][1:2] == " ":
            return False
        healed = self.fill(text, **fields)["gaps"][0]
        self.assertEqual(healed["text"], bare["text"][1:])
        self.assertEqual(healed["logprob"], bare["logprob"])
        return True

    def sentences(self, text, **fields):
        """What the same seed gives up to the end of its first sentence; whether that came."""
        fields = {"mode": "hybrid", "max_tokens": 16, **fields}
        whole = self.fill(text, **fields)["gaps"][0]
        part = self.fill(text, until="sentence", **fields)["gaps"][0]
        end, ended = sentence_end(whole["text"])
        self.assertEqual(part["text"], whole["text"][:end])
        if ended:
            self.assertEqual(part["finish_reason"], "stop")
            self.assertLess(part["tokens"], whole["tokens"])
        return ended

    def test_sentences(self):
        if not TINY:
            reply = self.fill("My dog is very old. [gap] He likes to sleep.", mode="rerank",
                              until="sentence", max_tokens=24, candidates=3)["gaps"][0]
            self.assertEqual(sentence_end(reply["text"] + " "), (len(reply["text"]), True))
            self.assertEqual(reply["finish_reason"], "stop")
            return
        likely = {"temperature": 1, "frequency_penalty": 1,
                  "logit_bias": [[piece, 8] for piece in (".", "!", " ", ")")]}
        ended = sum(self.sentences("b [gap]c", seed=seed, **likely) for seed in range(24))
        self.assertGreater(ended, 4)
        for seed in range(6):
            fields = {**likely, "seed": seed, "max_tokens": 12, "until": "sentence"}
            held = self.fill("b [gap]c", mode="hybrid", min_tokens=10, **fields)["gaps"][0]
            self.assertGreaterEqual(held["tokens"], 10)
            for text in ("b [gap] c", "b[gap]c", "b [gap]"):
                fill = self.fill(text, mode="rerank", candidates=4, **fields)["gaps"][0]
                self.assertFalse(sentence_end(fill["text"])[1], fill)
            for mode in ("hybrid", "rerank"):  # one mark, which is the text's
                fill = self.fill("b [gap]. c", mode=mode, **fields)["gaps"][0]
                self.assertFalse(sentence_end(fill["text"] + ". ")[0] < len(fill["text"]), fill)
                self.assertNotIn(fill["text"][-1:], (".", "!"), fill)


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

        def test_begins_with_a_gap(self):
            if self.bos:
                for mode in ("hybrid", "rerank"):
                    self.check("[gap] tea [gap]\n", mode=mode)

        def test_the_space_is_moved(self):
            if variant is not None:  # the token of space and a, whatever the model thinks
                spelled = ok(self.server, "/tokenize", {"content": "b a"}).value["tokens"]
                for mode in ("hybrid", "rerank"):
                    self.assertTrue(self.same_as_without(
                        "b [gap]c", max_tokens=1, temperature=0, mode=mode,
                        logit_bias=[[spelled[-1], 100]]))
                return
            texts = ["The capital of France is [gap], which lies on the Seine.",
                     "She went to the [gap] to buy some bread.", "Once upon a [gap], there was"]
            for mode in ("hybrid", "rerank"):
                self.assertGreater(sum(self.same_as_without(text, mode=mode) for text in texts), 0)

    return Case


if TINY:
    SentencePiece, ByteLevel = with_server(sentencepiece, True), with_server(byte_level, False)
else:
    Default = with_server(None, False)

if __name__ == "__main__":
    unittest.main()
