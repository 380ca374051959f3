"""Goal: the OpenAI routes mean what OpenAI's clients expect of them, beyond the schemas of their
replies (E8 E9 E10 on these routes, section 2 and 6 of the wire format).

Method: the same question on the route of our own and on the one of OpenAI; the answers must agree.
"""
import base64
import struct
import sys
import unittest

import real
from real import ok, refused

MODEL = sys.argv.pop(1)
CONTEXT = 64 if MODEL == "tiny" else 256


def floats(text):
    """What a client makes of the base64 form: little-endian float32."""
    data = base64.b64decode(text, validate=True)
    return list(struct.unpack(f"<{len(data) // 4}f", data))


def as_float32(values):
    return [struct.unpack("<f", struct.pack("<f", value))[0] for value in values]


class Embeddings(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = real.start(MODEL, "--context", str(CONTEXT))

    @classmethod
    def tearDownClass(cls):
        real.settled(cls.server)
        with cls.server:
            pass

    def embeddings(self, **body):
        return ok(self.server, "/v1/embeddings", body).value

    def test_e8_one_vector_an_input_in_order(self):
        texts = ["the tea", "a", "the"]
        reply = self.embeddings(input=texts)
        self.assertEqual([entry["index"] for entry in reply["data"]], [0, 1, 2])
        plain = ok(self.server, "/embed", {"inputs": texts}).value
        self.assertEqual([entry["embedding"] for entry in reply["data"]], plain)
        for text, vector in zip(texts, plain):
            self.assertEqual(self.embeddings(input=text)["data"][0]["embedding"], vector)

    def test_e9_base64_is_the_same_bits(self):
        body = {"input": ["the tea", "a"], "dimensions": 7}
        numbers = self.embeddings(**body)["data"]
        texts = self.embeddings(**body, encoding_format="base64")["data"]
        for number, text in zip(numbers, texts, strict=True):
            self.assertEqual(as_float32(number["embedding"]), floats(text["embedding"]))
            self.assertAlmostEqual(sum(x * x for x in number["embedding"]), 1, delta=1e-5)

    def test_e10_ids_are_taken_as_they_are(self):
        one = self.embeddings(input=[5, 6])["data"]
        self.assertEqual(self.embeddings(input=[[5, 6]])["data"], one)
        self.assertEqual([[one[0]["embedding"]], 2],
                         [ok(self.server, "/embed", {"inputs": [5, 6]}).value,
                          self.embeddings(input=[5, 6])["usage"]["prompt_tokens"]])
        error = refused(self.server, "/v1/embeddings", {"input": [[5], [6, -1]]}, 400, "/input/1/1")
        self.assertEqual(error["param"], "input[1][1]")

    def test_too_long_is_an_error_unless_cut(self):
        for body in ({"input": [5] * (CONTEXT + 1)}, {"input": ["a", "the " * CONTEXT * 2]}):
            error = refused(self.server, "/v1/embeddings", body, 400,
                            "/input/1" if isinstance(body["input"][0], str) else "/input")
            self.assertEqual((error["type"], error["code"]),
                             ("invalid_request_error", "context_length_exceeded"))
            reply = ok(self.server, "/v1/embeddings", {**body, "truncate": True})
            self.assertIsNotNone(reply.field("x-truncated-inputs"))
            first = 0 if len(body["input"]) > 2 else 2  # "a" behind a BOS
            self.assertIn(reply.value["usage"]["prompt_tokens"] - CONTEXT, (0, 1, first))
        self.embeddings(input=[5] * CONTEXT)

    @unittest.skipIf(MODEL == "default", "the same, slowly")
    def test_limits(self):
        reply = self.embeddings(input=[[5]] * 2048, encoding_format="base64", dimensions=1)
        self.assertEqual(reply["usage"], {"prompt_tokens": 2048, "total_tokens": 2048})
        error = refused(self.server, "/v1/embeddings", {"input": [[5]] * 2049}, 400, "/input")
        self.assertEqual(error["code"], "too_many_inputs")
        width = ok(self.server, "/info").value["embedding"]["dimensions"]
        refused(self.server, "/v1/embeddings", {"input": "a", "dimensions": width + 1}, 400,
                "/dimensions")
        for given, where in (("", "/input"), ([], "/input"), (["a", " "], "/input/1"),
                             ([[5], []], "/input/1")):
            error = refused(self.server, "/v1/embeddings", {"input": given}, 400, where)
            self.assertEqual(error["code"], "empty")


class Models(unittest.TestCase):
    def test_models(self):
        flags = ("--served-model-name", "org/a b", "--model-alias", "gpt-4o,x")
        with real.start(MODEL, *flags) as server:
            entry = ok(server, "/v1/models").value["data"][0]
            self.assertEqual(entry["id"], "org/a b")
            self.assertEqual(entry["max_model_len"], ok(server, "/info").value["max_input_length"])
            for name in ("org/a%20b", "org%2Fa%20b", "gpt-4o", "x"):
                self.assertEqual(ok(server, f"/v1/models/{name}").value, entry, name)
            for name in ("other", "gpt-4", "gpt-4o,x", "org", "a%20b", "%zz", "x/", ","):
                error = refused(server, f"/v1/models/{name}", None, 404)
                self.assertEqual(error["code"], "model_not_found", name)
            refused(server, "/v1/models/", None, 404, method="GET")
            refused(server, "/v1/models", {}, 405, method="POST")
            for name in ("org/a b", "gpt-4o", "x", "", None):
                reply = ok(server, "/v1/embeddings", {"input": "a", "model": name})
                self.assertEqual(reply.value["model"], "org/a b")
            for name in ("gpt-4", "gpt-4o,x", ",", "omni-moderation-latest"):
                error = refused(server, "/v1/embeddings", {"input": "a", "model": name}, 404,
                                "/model")
                self.assertEqual(error["code"], "model_not_found")


class Verdicts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = real.start(MODEL, "--moderation-threshold", "0")

    @classmethod
    def tearDownClass(cls):
        real.settled(cls.server)
        with cls.server:
            pass

    def test_decisions_are_the_questions_of_classify(self):
        body = {"input": [{"role": "user", "content": "Late."}], "questions": [
            {"type": "predicate", "name": "a", "instructions": "Money back?"},
            {"type": "score", "instructions": "How angry?",
             "levels": [{"label": "calm"}, {"label": "mad"}]}]}
        reply = ok(self.server, "/v1/decisions", body).value
        self.assertEqual(real.without_timings(reply),
                         real.without_timings(ok(self.server, "/classify", body).value))
        body["questions"].append(body["questions"][0])
        refused(self.server, "/v1/decisions", body, 400, "/questions/2/name")

    @unittest.skipIf(MODEL == "tiny", "its vocabulary has no token for each answer")
    def test_moderations_are_the_verdicts_of_classify(self):
        texts = ["I baked bread.", "b"]
        reply = ok(self.server, "/v1/moderations", {"input": texts}).value
        for text, result in zip(texts, reply["results"], strict=True):
            verdict = ok(self.server, "/classify", {"prompt": text}).value["prompt_harmfulness"]
            self.assertEqual(result["probability"], verdict["probabilities"]["harmful"])
            self.assertTrue(result["flagged"])  # everything is, at a threshold of 0
        joined = ok(self.server, "/v1/moderations", {"input": "a\nb"}).value["results"]
        parts = [{"type": "text", "text": text} for text in "ab"]
        reply = ok(self.server, "/v1/moderations", {"input": parts}).value
        self.assertEqual(reply["results"], joined)

    def test_moderations_refuse(self):
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
        blank = () if MODEL == "tiny" else (("", "/input"), (["a", " "], "/input/1"))
        for given, where in (([image], "/input/0"),
                             ([{"type": "text", "text": "a"}, image], "/input/1"),
                             ([{"type": "text"}], "/input/0/text"), ([], "/input"), *blank):
            error = refused(self.server, "/v1/moderations", {"input": given}, 400)
            self.assertTrue(error["param"].startswith(real.param_of("/v1/moderations", where)))
        refused(self.server, "/v1/moderations", {"input": "a", "model": "x"}, 404, "/model")


class Configured(unittest.TestCase):
    def test_embed_token_ids_reject(self):
        with real.start(MODEL, "--embed-token-ids", "reject") as server:
            for path, key in (("/v1/embeddings", "input"), ("/embed", "inputs"),
                              ("/embed_all", "inputs")):
                for ids in ([5], [[5], [6]]):
                    error = refused(server, path, {key: ids}, 400, f"/{key}")
                    self.assertEqual(error["code"], "token_ids_refused")
                ok(server, path, {key: ["the"]})

    @unittest.skipIf(MODEL == "tiny", "it cannot moderate")
    def test_moderation_threshold(self):
        with real.start(MODEL, "--moderation-threshold", "1") as server:
            reply = ok(server, "/v1/moderations", {"input": "I baked bread."}).value
            self.assertFalse(reply["results"][0]["flagged"])


if __name__ == "__main__":
    unittest.main()
