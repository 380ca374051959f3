"""Goal: the vectors somebody gets are those of the reference, whoever else asks, however odd the
text is, and one that cannot be computed fails alone (cases E2 E4 E5 E6 E7).

Method: "tiny" in variants made for each case, so that these run everywhere; "default" and "minilm"
against the references in $MAGNETD_DATA, which were computed by others.
"""
import array
import base64
import json
import math
import random
import sys
import tempfile
import unittest

import real
from harness import together
from real import ok, refused
from variants import BOS, EOS, TIED, VOCAB, Variant, bits, byte_id

MODEL = sys.argv.pop(1)
THREADS, TEXTS = 32, 50  # of E2
LONG = 8192              # tokens, of E4
SPELLED = "[CLS]"        # a control token of the reference, in a text that is text to us (U4)


def unless(models, why):
    return unittest.skipUnless(MODEL in models, why)


def serve(path, *flags):
    return real.Server("--log-level", "warn", *flags, model=str(path), binary=real.BINARY)


def jsonl(name):
    return [json.loads(line) for line in real.data_path(name).read_text().splitlines()]


def floats(name):
    return array.array("f", real.data_path(name).read_bytes())


def embed(server, inputs, **fields):
    return ok(server, "/embed", {"inputs": inputs, **fields}).value


def packed(server, inputs, **fields):
    """Each vector as its float32 bytes."""
    texts = embed(server, inputs, encoding_format="base64", **fields)
    return [base64.b64decode(text, validate=True) for text in texts]


def shown_ids(server, text, **fields):
    """The ids that /tokenize shows for a text of a user."""
    body = {"inputs": text, "parse_special": False, **fields}
    lists = ok(server, "/tokenize", body).value
    return [[token["id"] for token in tokens] for tokens in lists]


def distance(a, b):
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return 1 - dot / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


class Variants(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def check_finite(self, vectors):
        """`null` and NaN never come this far: the reader of replies refuses both."""
        for vector in vectors:
            self.assertTrue(all(math.isfinite(x) for x in vector))
            self.assertAlmostEqual(sum(x * x for x in vector), 1, delta=1e-4)


@unless(["tiny"], "needs variants of the tiny model")
class Parallel(Variants):
    def texts(self):
        """Of 1 to 500 tokens, each spelled in another way: bytes, so that tokens can be counted."""
        rng = random.Random(11)
        counts = [1, 500] + [rng.randint(1, 500) for _ in range(TEXTS - 2)]
        return [[rng.randrange(3, VOCAB) for _ in range(count)] for count in counts]

    def test_e2_parallel_equals_serial(self):
        texts = self.texts()
        path = Variant().context(512).write(self.folder)
        with serve(path) as server:
            serial = [packed(server, [text])[0] for text in texts]
            self.assertEqual(len(set(serial)), TEXTS)  # a mixed up order must show

            def one(first):
                turned = texts[first:] + texts[:first]
                self.assertEqual(packed(server, turned), serial[first:] + serial[:first])
            threads = THREADS // min(real.SCALE, 4)
            together([lambda i=i: one(i * 3 % TEXTS) for i in range(threads)])
            real.settled(server)


@unless(["tiny"], "needs variants of the tiny model")
class Extremes(Variants):
    def test_e4_long_and_uniform_texts_are_finite(self):
        """8 k tokens, one character 5,000 times, nothing but emoji, all bytes there are."""
        rng = random.Random(5)
        texts = ["a" * 5000, "\U0001f600" * 700, "\u4e2d" * 700, "\u200d\ufe0f" * 300,
                 "\u0001" * 1000, "e\u0301" * 500]
        masks = ("causal", "bidirectional") if real.SCALE == 1 else ("bidirectional",)
        with serve(Variant().context(LONG).write(self.folder)) as server:
            ids = [rng.randrange(VOCAB) for _ in range(LONG)]
            for attention in masks:
                self.check_finite(embed(server, ids, attention=attention))
            vectors = embed(server, texts)
            self.check_finite(vectors)
            self.assertEqual(len({bits(vector) for vector in vectors}), len(texts))

    def test_e5_one_value_that_overflows_fails_alone(self):
        """The letter Z has a value beyond float32. Its request names it; the texts beside it, in
        other requests of the same moment, have the vectors that they have alone."""
        with serve(Variant().overflowing(byte_id(ord("Z"))).write(self.folder)) as server:
            good = ["the tea", "on the train", "a"]
            alone = packed(server, good)
            for inputs, where in ((["a", "Z"], "/inputs/1"), (["Z", "a"], "/inputs/0"),
                                  (["a", "b", "a Z", "Z"], "/inputs/2"), ("Z", None)):
                for fields in ({}, {"attention": "causal"}, {"encoding_format": "base64"}):
                    self.check_refused(server, "/embed", {"inputs": inputs, **fields}, where)
                self.check_refused(server, "/embed_all", {"inputs": inputs}, where)
            for body in ({"input": ["a", "Z"]}, {"input": ["a", "Z"], "encoding_format": "base64"}):
                error = refused(server, "/v1/embeddings", body, 500, "/input/1")
                self.assertEqual(error["type"], "server_error")
            rounds = range(20 // min(real.SCALE, 4))

            def bad():
                for _ in rounds:
                    self.check_refused(server, "/embed", {"inputs": ["a", "Z"]}, "/inputs/1")

            def well():
                for _ in rounds:
                    self.assertEqual(packed(server, good), alone)
            together([bad, well] * 4)
            self.check_other_routes(server)
            failed = real.settled(server)['magnetd_requests_finished_total{kind="embed",'
                                          'outcome="failed"}']
            self.assertEqual(failed, 18 + 4 * len(rounds))

    def check_refused(self, server, path, body, where):
        error = refused(server, path, body, 424)
        self.assertEqual((error["error_type"], error["code"], error["param"]),
                         ("backend", "non_finite", where))

    def check_other_routes(self, server):
        """And what it left in the cache of keys and values harms nobody."""
        body = {"inputs": "a", "parameters": {"max_new_tokens": 4, "details": True}}
        before = ok(server, "/generate", body).value
        self.assertEqual(refused(server, "/generate", {"inputs": "a Z"}, 424)["code"], "non_finite")
        refused(server, "/infill", {"text": "a Z [gap] a", "mode": "hybrid"}, 500)
        for inputs, index in ((["a", "Z"], 1), (["Z", "a"], 0), (["a", "b", "a Z", "Z"], 2)):
            for fields in ({"labels": ["x", "y"]}, {"labels": ["x", "y", "w"], "multi_label": True},
                           {"labels": ["x"]}):
                self.check_refused(server, "/classify", {"inputs": inputs, **fields},
                                   f"/inputs/{index}")
            self.check_refused(server, "/classify", {"input": inputs, "labels": ["x", "y"]},
                               f"/input/{index}")
        self.check_refused(server, "/classify", {"inputs": "Z", "labels": ["x", "y"]}, None)
        self.assertEqual(ok(server, "/generate", body).value, before)


@unless(["tiny"], "needs variants of the tiny model")
class Ends(Variants):
    def test_e6_bos_and_eos_as_the_file_says(self):
        for bos in (False, True):
            for eos in (False, True):
                with self.subTest(bos=bos, eos=eos):
                    self.check_ends(bos, eos)

    def check_ends(self, bos, eos):
        variant = Variant()
        variant.switch("tokenizer.ggml.add_bos_token", bos)
        variant.switch("tokenizer.ggml.add_eos_token", eos)
        with serve(variant.write(self.folder)) as server:
            text = "the tea"
            [plain] = shown_ids(server, text, add_special_tokens=False)
            whole = [BOS] * bos + plain + [EOS] * eos
            self.assertFalse({BOS, EOS} & set(plain))
            self.assertEqual(shown_ids(server, text), [whole])
            content = ok(server, "/tokenize", {"content": text, "add_special": True}).value
            self.assertEqual(content["tokens"], whole)
            for pooling in ("mean", "last", "cls"):
                self.assertEqual(packed(server, text, pooling=pooling),
                                 packed(server, [whole], pooling=pooling))
            rows = ok(server, "/embed_all", {"inputs": text}).value[0]
            self.assertEqual(rows, ok(server, "/embed_all", {"inputs": [whole]}).value[0])
            self.assertEqual(len(rows), len(whole))
            ends = plain + [EOS]  # pooling reads the row of one EOS, whatever the file says
            self.assertEqual(packed(server, text, pooling="eos"),
                             packed(server, [[BOS] * bos + ends], pooling="last"))
            used = embed(server, text, details=True)["usage"]["prompt_tokens"]
            self.assertEqual(used, len(whole))


@unless(["tiny"], "needs the tiny model's fixture")
class Fixture(unittest.TestCase):
    def test_e7_vectors_of_the_float64_forward(self):
        cases = json.loads(TIED.with_suffix(".json").read_text())["cases"]
        numbers = array.array("f", TIED.with_suffix(".bin").read_bytes())
        checked = 0
        with serve(TIED) as server:
            for case in cases:
                count, masks = len(case["tokens"]), {0: "causal"}
                masks[count] = "bidirectional"
                if case["context_count"] not in masks or case["positions"][0] != 0:
                    continue
                for row, pooling in enumerate(("mean", "cls", "last", "weighted_mean")):
                    at = case["pooled_at"] + row * 48
                    [vector] = embed(server, [case["tokens"]], pooling=pooling,
                                     attention=masks[case["context_count"]])
                    self.assertLess(distance(vector, numbers[at:at + 48]), 1e-6, case["name"])
                    checked += 1
        self.assertGreaterEqual(checked, 12)


@unless(["default", "minilm", "minilm_q8"], "needs a model that others have run")
class References(Variants):
    """The same texts as somebody else's implementation saw."""

    @classmethod
    def setUpClass(cls):
        context = "1024" if MODEL == "default" else "256"
        cls.server = real.start(MODEL, "--log-level", "warn", "--context", context)

    @classmethod
    def tearDownClass(cls):
        real.settled(cls.server)
        with cls.server:
            pass

    def need(self, name):
        if real.data_path(name) is None:
            self.skipTest(f"{name} is not here ($MAGNETD_DATA)")

    @unless(["minilm", "minilm_q8"], "test_answers.py asks the default model")
    def test_e1_e3_company_changes_nothing(self):
        """An encoder's short text beside a long one, before and behind it, and alone: all bits."""
        texts = ["a", "the red fox", "an onion in the rain " * 60, "tea"]
        alone = [packed(self.server, text)[0] for text in texts]
        self.assertEqual(packed(self.server, texts), alone)
        self.assertEqual(packed(self.server, texts[::-1]), alone[::-1])
        self.assertEqual(packed(self.server, texts[2:0:-1]), alone[2:0:-1])

    def test_e4_uniform_texts_are_finite(self):
        for text in ("a" * 5000, "\U0001f600" * 400, "\u200d\ufe0f" * 200):
            self.check_finite(embed(self.server, text))

    def test_e6_ids_of_the_reference(self):
        """Ids with the ends that the reference puts around a text; /embed sees the same. Where the
        reference obeys a control token that a text spells, so does /tokenize, asked to, alone."""
        if MODEL == "default":
            self.need("smollm2-reference")
            cases = jsonl("smollm2-reference/embed.jsonl")
        else:
            self.need("minilm-reference")
            cases = jsonl("minilm-reference/texts.jsonl")
        whole = [case for case in cases if not case.get("truncated")]
        self.assertGreater(len(whole), 10)
        texts = [case["text"] for case in whole]
        ids = shown_ids(self.server, texts, parse_special=True)
        self.assertEqual(ids, [case["ids"] for case in whole])
        ids = shown_ids(self.server, texts)
        for case, found in zip(whole, ids, strict=True):
            self.assertEqual(found == case["ids"], SPELLED not in case["text"], case["text"])
        plain = [case for case in cases if SPELLED not in case["text"]]
        for first in range(0, len(plain), 8):
            part = plain[first:first + 8]
            self.assertEqual(packed(self.server, [case["text"] for case in part]),
                             packed(self.server, [case["ids"] for case in part]))

    @unless(["minilm", "minilm_q8"], "test_answers.py asks the others")
    def test_l7_cut_inside_the_ends(self):
        """What is cut is the text: [CLS] and [SEP] stay around the part that is kept."""
        text = "one two three four five six seven eight nine ten " * 40
        [ids] = shown_ids(self.server, text)
        for side, kept in (("Right", ids[:255] + ids[-1:]), ("Left", ids[:1] + ids[-255:])):
            body = {"inputs": ["a", text], "truncation_direction": side, "details": True}
            reply = ok(self.server, "/embed", body)
            self.assertEqual(reply.field("x-truncated-inputs"), "1")
            self.assertEqual(reply.value["truncated"], [1])
            self.assertEqual(packed(self.server, text, truncation_direction=side),
                             packed(self.server, [kept]))
        for inputs, where in ((text, "/inputs"), (["a", text], "/inputs/1")):
            body = {"inputs": inputs, "truncate": False}
            error = refused(self.server, "/embed", body, 422, where)
            for number in ("256", str(len(ids))):
                self.assertIn(number, error["error"])

    @unless(["default"], "the masks and poolings of the default model")
    def test_e7_vectors_of_the_default_model(self):
        self.need("smollm2-reference")
        rows = floats("smollm2-reference/embed_f32.bin")
        checked = 0
        for case in jsonl("smollm2-reference/embed.jsonl"):
            for name, row in case["rows"].items():
                attention, pooling = name.split("_", 1)
                [vector] = embed(self.server, case["text"], attention=attention, pooling=pooling)
                width = len(vector)
                reference = rows[row * width:(row + 1) * width]
                self.assertLess(distance(vector, reference), 1e-4, (case["text"], name))
                checked += 1
        self.assertGreater(checked, 80)

    @unless(["minilm", "minilm_q8"], "the vectors of sentence-transformers")
    def test_e7_vectors_of_minilm(self):
        self.need("minilm-reference")
        cases = [case for case in jsonl("minilm-reference/texts.jsonl")
                 if SPELLED not in case["text"]]
        self.assertGreater(len(cases), 30)
        rows = floats("minilm-reference/vectors_f32.bin")
        bound = 1e-5 if MODEL == "minilm" else 2e-3  # F32, or 8 bits of each number
        reply = ok(self.server, "/embed", {"inputs": [case["text"] for case in cases],
                                           "details": True}).value
        for case, vector in zip(cases, reply["embeddings"], strict=True):
            reference = rows[case["row"] * 384:(case["row"] + 1) * 384]
            self.assertLess(distance(vector, reference), bound, case["text"][:40])
        self.assertEqual(reply["truncated"],
                         [i for i, case in enumerate(cases) if case["truncated"]])


if __name__ == "__main__":
    real.need_model(MODEL)
    unittest.main()
