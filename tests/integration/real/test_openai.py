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


class Configured(unittest.TestCase):
    def test_embed_token_ids_reject(self):
        with real.start(MODEL, "--embed-token-ids", "reject") as server:
            for path, key in (("/v1/embeddings", "input"), ("/embed", "inputs"),
                              ("/embed_all", "inputs")):
                for ids in ([5], [[5], [6]]):
                    error = refused(server, path, {key: ids}, 400, f"/{key}")
                    self.assertEqual(error["code"], "token_ids_refused")
                ok(server, path, {key: ["the"]})


if __name__ == "__main__":
    unittest.main()
