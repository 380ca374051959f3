"""Goal: text comes in and goes out as it is, byte by byte and id by id (cases U2 U3).

Method: "tiny" is made to write bytes that are no character; "default" and "minilm" read the hard
strings of $MAGNETD_DATA, whose ids other tokenizers gave. The other cases of text are in
test_answers.py (U1 U4), test_refusals.py (U5 U6 U9) and test_mutations.py (U8).
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import real
from harness import TIMEOUT_S
from real import ok
from variants import Variant, byte_id

MODEL = sys.argv.pop(1)
TINY = MODEL == "tiny"
TRUTHS = {"default": "smollm2", "minilm": "bert", "minilm_q8": "bert"}
STRINGS = 500  # at least so many


@unittest.skipUnless(TINY, "needs a model that can be made to write bytes")
class Bytes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = real.start(MODEL, "--log-level", "warn")

    @classmethod
    def tearDownClass(cls):
        real.settled(cls.server)
        with cls.server:
            pass

    def test_u2_logprobs_hold_raw_bytes(self):
        """A token that is a part of a character: its text has U+FFFD, its bytes have the byte."""
        for byte in (0xF0, 0x9F, 0x80, 0xC3, 0xFF, 0x41, 0x0A):
            reply = ok(self.server, "/infill", {
                "input_prefix": "a", "input_suffix": "", "mode": "hybrid", "n_predict": 2,
                "n_probs": 3, "temperature": 0, "logit_bias": [[byte_id(byte), 100]]}).value
            for token in reply["completion_probabilities"]:
                self.assertEqual((token["id"], token["bytes"]), (byte_id(byte), [byte]))
                self.assertEqual(token["token"], chr(byte) if byte < 0x80 else "\ufffd")
                for other in token["top_logprobs"]:
                    if byte_id(0) <= other["id"] <= byte_id(0xFF):
                        self.assertEqual(other["bytes"], [other["id"] - byte_id(0)])

    def test_u3_unknown_pre_tokenizer_does_not_start(self):
        with tempfile.TemporaryDirectory() as folder:
            variant = Variant().byte_level(["<s>", "</s>"], pre="never-heard-of")
            path = variant.write(folder)
            done = subprocess.run([real.BINARY, "--model", str(path), "--port", "0"],
                                  capture_output=True, timeout=TIMEOUT_S)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"tokenizer.ggml.pre", done.stderr)
        self.assertIn(b"never-heard-of", done.stderr)


@unittest.skipIf(TINY, "needs a vocabulary that others have used")
class Reference(unittest.TestCase):
    def test_u3_ids_of_hard_strings(self):
        folder = real.data_path("tokenizer-truth")
        if folder is None:
            self.skipTest("tokenizer-truth is not here ($MAGNETD_DATA)")
        texts = {case["id"]: case["text"] for case in lines(folder / "inputs.jsonl")}
        truth = lines(folder / f"{TRUTHS[MODEL]}.jsonl")
        cases = [(texts[case["id"]], case["ids"]) for case in truth
                 if "\0" not in texts[case["id"]]]  # which no request may hold
        self.assertGreater(len(cases), STRINGS)
        with real.start(MODEL, "--log-level", "warn") as server:
            for first in range(0, len(cases), 100):
                part = cases[first:first + 100]
                reply = ok(server, "/tokenize", {
                    "inputs": [text for text, _ in part], "add_special_tokens": False,
                    "parse_special": False}).value
                for (text, ids), tokens in zip(part, reply, strict=True):
                    self.assertEqual([token["id"] for token in tokens], ids, repr(text)[:200])
            text, ids = cases[0]  # the other form shows the same
            self.assertEqual(ok(server, "/tokenize", {
                "content": text, "parse_special": False}).value["tokens"], ids)


def lines(path):
    return [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]


if __name__ == "__main__":
    real.need_model(MODEL)
    unittest.main()
