"""Goal: a vector of /embed and /v1/embeddings is the same in every form a client may ask for, and
with on_error "report" an input that fails harms no other.

Method: the forms are unpacked here as docs/api.md says, against the numbers. Failures of each kind,
among them one that only the forward pass can find, stand between inputs that are good.
"""
import base64
import struct
import sys
import tempfile
import unittest

import real
from real import ok, refused
from variants import VOCAB, Variant, byte_id

MODEL = sys.argv.pop(1)
TEXTS = ["the tea", "a", "on the train"]


def unpack(form, text, width):
    """The numbers of a packed vector."""
    data = base64.b64decode(text, validate=True)
    if form == "base64":
        return struct.unpack(f"<{width}f", data)
    if form == "float16":
        return struct.unpack(f"<{width}e", data)
    if form == "int8":
        scale, *values = struct.unpack(f"<f{width}b", data)
        return [scale * value for value in values]
    bits = f"{int.from_bytes(data, 'big'):0{8 * len(data)}b}"
    assert len(data) == (width + 7) // 8 and "1" not in bits[width:]
    return [int(bit) for bit in bits[:width]]


class Forms(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = real.start(MODEL)

    @classmethod
    def tearDownClass(cls):
        real.settled(cls.server)
        with cls.server:
            pass

    def check(self, form, text, numbers):
        found = unpack(form, text, len(numbers))
        if form == "binary":
            self.assertEqual(found, [int(number > 0) for number in numbers])
            return
        largest = max(map(abs, numbers))
        bound = {"base64": 1e-7, "float16": largest / 1024, "int8": largest / 127 * 0.501}[form]
        for one, number in zip(found, numbers, strict=True):
            self.assertAlmostEqual(one, number, delta=bound)

    def test_forms(self):
        for fields in ({}, {"dimensions": 13}):
            plain = ok(self.server, "/embed", {"inputs": TEXTS, **fields}).value
            for form in ("base64", "float16", "int8", "binary"):
                body = {**fields, "encoding_format": form}
                texts = ok(self.server, "/embed", {"inputs": TEXTS, **body}).value
                data = ok(self.server, "/v1/embeddings", {"input": TEXTS, **body}).value["data"]
                self.assertEqual([entry["embedding"] for entry in data], texts)
                for text, numbers in zip(texts, plain, strict=True):
                    self.check(form, text, numbers)
        for form in ("ubinary", "uint8", "Float"):
            refused(self.server, "/embed", {"inputs": "a", "encoding_format": form}, 400,
                    "/encoding_format")

    def test_whole_batch_of_each_form(self):
        """2,048 inputs, one of them cut, in the most and the least that a vector takes."""
        context = ok(self.server, "/info").value["max_input_length"]
        ids = [[5]] * 2047 + [[6] * (context + 1)]
        for form in ("float", "binary"):
            reply = ok(self.server, "/embed", {"inputs": ids, "encoding_format": form})
            self.assertEqual(len(reply.value), 2048)
            self.assertEqual(reply.field("x-truncated-inputs"), "2047")
            self.assertTrue(all(value == reply.value[0] for value in reply.value[:2047]))

    def report(self, inputs, **fields):
        body = {"inputs": inputs, "on_error": "report", **fields}
        return ok(self.server, "/embed", body).value

    def test_report(self):
        plain = ok(self.server, "/embed", {"inputs": TEXTS, "details": True}).value
        self.assertEqual(self.report(TEXTS), {**plain, "errors": []})
        long = "the " * 5000
        reply = self.report(["", TEXTS[0], " ", TEXTS[1], long, TEXTS[2]], truncate=False)
        alone = plain["embeddings"]
        self.assertEqual(reply["embeddings"], [None, alone[0], None, alone[1], None, alone[2]])
        self.assertEqual([(error["index"], error["code"]) for error in reply["errors"]],
                         [(0, "empty"), (2, "empty"), (4, "context_length_exceeded")])
        self.assertEqual(reply["usage"], plain["usage"])
        self.assertEqual(reply["truncated"], [])
        cut = self.report(["", long, "a"])
        self.assertEqual((cut["truncated"], len(cut["errors"])), ([1], 1))
        ids = self.report([[5, 6], [], [7, VOCAB], [7]], encoding_format="int8")
        self.assertEqual([value is None for value in ids["embeddings"]],
                         [False, True, True, False])
        self.assertEqual([error["code"] for error in ids["errors"]],
                         ["empty", "token_out_of_range"])

    def test_report_is_no_excuse(self):
        """What the request says wrong is its own error, and so is the first of nothing but
        failures."""
        for body, status, where in (
                ({"inputs": ["a", ""], "prompt_name": "no"}, 422, "/prompt_name"),
                ({"inputs": ["a"], "dimensions": 10 ** 6}, 422, "/dimensions"),
                ({"inputs": []}, 400, "/inputs"), ({"inputs": ["", " "]}, 400, "/inputs/0"),
                ({"inputs": " "}, 400, "/inputs"), ({"inputs": ["a", 5]}, 400, "/inputs/1"),
                ({"inputs": [[5]] * 2049}, 422, "/inputs")):
            refused(self.server, "/embed", {**body, "on_error": "report"}, status, where)
        refused(self.server, "/embed", {"inputs": ["a", ""], "on_error": "fail"}, 400, "/inputs/1")
        refused(self.server, "/embed", {"inputs": "a", "on_error": "skip"}, 400, "/on_error")

    def test_report_of_the_forward_pass(self):
        """The letter Z has a value beyond float32."""
        with tempfile.TemporaryDirectory() as folder:
            path = Variant().overflowing(byte_id(ord("Z"))).write(folder)
            with real.Server("--log-level", "warn", model=str(path),
                             binary=real.BINARY) as server:
                alone = ok(server, "/embed", {"inputs": ["a", "tea"]}).value
                body = {"inputs": ["Z", "", "a", "a Z", "tea", ""], "on_error": "report"}
                reply = ok(server, "/embed", body).value
                self.assertEqual(reply["embeddings"], [None, None, alone[0], None, alone[1], None])
                self.assertEqual([(error["index"], error["code"]) for error in reply["errors"]],
                                 [(0, "non_finite"), (1, "empty"), (3, "non_finite"), (5, "empty")])
                self.assertTrue(all(error["message"] for error in reply["errors"]))
                refused(server, "/embed", {**body, "inputs": ["", "Z"]}, 424)
                real.settled(server)


if __name__ == "__main__":
    unittest.main()
