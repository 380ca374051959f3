"""Goal: whoever asks /embed of all-MiniLM-L6-v2 gets the vectors sentence-transformers gives.

Method: the 40 texts of the reference over HTTP, as texts; it states their vectors, computed in
float64. One of them spells special tokens: the reference takes "[MASK]" in a text for the token,
/embed never does (no client speaks for the template), so that one is asked for by the reference's
ids. golden_minilm holds the other formats to the same vectors, golden_minilm_ids the ids.
"""
import json
import math
import os
import pathlib
import struct
import sys
import unittest

import real

MODEL = sys.argv.pop(1)
DATA = pathlib.Path(os.environ.get("MAGNETD_DATA") or real.SOURCE / "../shared/data")
FOLDER = DATA / "minilm-reference"
WIDTH = 384
SPELLS_SPECIAL = 20


def read():
    texts = [json.loads(line) for line in (FOLDER / "texts.jsonl").read_text().splitlines()]
    numbers = (FOLDER / "vectors_f32.bin").read_bytes()
    vectors = [struct.unpack_from(f"<{WIDTH}f", numbers, 4 * WIDTH * text["row"]) for text in texts]
    return texts, vectors


def distance(a, b):
    product = sum(x * y for x, y in zip(a, b))
    return 1 - product / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


class Vectors(unittest.TestCase):
    def ask(self, bound, *flags):
        texts, expected = read()
        self.assertEqual(len(texts), 40)
        with real.start(MODEL, *flags) as server:
            self.assertIn("[MASK]", texts[SPELLS_SPECIAL]["text"])
            body = {"inputs": [text["text"] for text in texts], "details": True}
            reply = real.ok(server, "/embed", body).value
            ids = real.ok(server, "/embed", {"inputs": [text["ids"] for text in texts]}).value
        self.assertEqual(reply["truncated"],
                         [i for i, text in enumerate(texts) if text["truncated"]])
        worst = max(distance(*pair) for pair in zip(ids, expected))
        print(f"{' '.join(flags)}: {worst:.2e} from the reference at most")
        self.assertLessEqual(worst, bound)
        for i, vector in enumerate(reply["embeddings"]):
            if i == SPELLS_SPECIAL:
                self.assertGreater(distance(vector, expected[i]), 0.01)
            else:
                self.assertEqual(vector, ids[i])

    def test_cache_in_f32(self):
        self.ask(1e-5, "--kv-type", "f32")

    def test_as_it_starts(self):
        self.ask(1e-5)


if __name__ == "__main__":
    if real.SCALE > 1:
        print("skipped: golden_minilm runs the same passes under the sanitizers")
        sys.exit(real.SKIPPED)
    if real.model_path("minilm") is None or not FOLDER.exists():
        print("skipped: all-MiniLM-L6-v2 (deploy/fetch_model.sh minilm) or minilm-reference is not "
              "here")
        sys.exit(real.SKIPPED)
    unittest.main()
