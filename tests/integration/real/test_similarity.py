"""Goal: /similarity and /rerank say of texts what the vectors of /embed say.

Method: the cosines of /embed's own vectors, computed here; then orders, shapes, places of errors,
and on a sentence encoder a query whose best text nobody would dispute.
"""
import sys
import unittest

import real
from real import ok, refused

MODEL = sys.argv.pop(1)
QUERY = "an animal in the forest"
TEXTS = ["the bank raised its rates", "a red fox ran between the trees", "tea with milk"]


class Similarity(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = real.start(MODEL)

    @classmethod
    def tearDownClass(cls):
        real.settled(cls.server)
        with cls.server:
            pass

    def cosines(self):
        query, *others = ok(self.server, "/embed", {"inputs": [QUERY, *TEXTS]}).value
        return [sum(a * b for a, b in zip(query, other)) for other in others]

    def check(self, found, expected):
        self.assertEqual(len(found), len(expected))
        for one, other in zip(found, expected):
            self.assertAlmostEqual(one, other, delta=1e-6)

    def test_similarity(self):
        inputs = {"source_sentence": QUERY, "sentences": TEXTS}
        self.check(ok(self.server, "/similarity", {"inputs": inputs}).value, self.cosines())

    def test_rerank(self):
        cosines = self.cosines()
        order = sorted(range(len(TEXTS)), key=lambda i: -cosines[i])
        body = {"query": QUERY, "texts": TEXTS, "return_text": True}
        results = ok(self.server, "/rerank", body).value
        self.assertEqual([result["index"] for result in results], order)
        self.assertEqual([result["text"] for result in results], [TEXTS[i] for i in order])
        self.check([result["score"] for result in results],
                   [(1 + cosines[i]) / 2 for i in order])
        raw = ok(self.server, "/rerank", {**body, "raw_scores": True, "return_text": False}).value
        self.check([result["score"] for result in raw], [cosines[i] for i in order])
        self.assertEqual(set(raw[0]), {"index", "score"})
        if MODEL == "minilm":
            self.assertEqual(order[0], 1)

    def test_documents(self):
        body = {"query": QUERY, "documents": [TEXTS[0], {"text": TEXTS[1]}, TEXTS[2]]}
        whole = ok(self.server, "/rerank", body).value
        self.assertEqual(ok(self.server, "/v1/rerank", body).value, whole)
        tokens = ok(self.server, "/embed", {"inputs": [QUERY, *TEXTS], "details": True}).value
        self.assertEqual(whole["usage"], tokens["usage"])
        best = ok(self.server, "/v1/rerank",
                  {**body, "top_n": 1, "return_documents": True}).value["results"]
        [first] = best
        self.assertEqual(first.pop("document"), {"text": TEXTS[first["index"]]})
        self.assertEqual(first, whole["results"][0])

    def test_errors(self):
        body = {"query": QUERY, "documents": [TEXTS[0], " "]}
        error = refused(self.server, "/rerank", body, 400, "/documents/1")
        self.assertEqual(error["error_type"], "empty")
        error = refused(self.server, "/v1/rerank", body, 400, "/documents/1")
        self.assertEqual(error["type"], "invalid_request_error")

    @unittest.skipIf(MODEL == "minilm", "the same, slowly")
    def test_limits(self):
        """2,048 inputs, the query one of them."""
        reply = ok(self.server, "/rerank", {"query": "a", "texts": ["b"] * 2047, "top_n": 2})
        self.assertEqual([result["index"] for result in reply.value], [0, 1])
        error = refused(self.server, "/rerank", {"query": "a", "texts": ["b"] * 2048}, 422,
                        "/texts")
        self.assertEqual(error["code"], "too_many_inputs")


if __name__ == "__main__":
    real.need_model(MODEL)
    unittest.main()
