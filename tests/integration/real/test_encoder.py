"""Goal: over HTTP, an encoder embeds, and every other endpoint says that it cannot.

Method: the tiny random encoder of the golden tests; one request of each endpoint.
"""
import sys
import unittest

import real
from real import ok, refused

MODEL = sys.argv.pop(1)


class Encoder(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = real.start(MODEL)

    @classmethod
    def tearDownClass(cls):
        real.settled(cls.server)
        with cls.server:
            pass

    def test_vectors(self):
        texts = ["the one", "another one"]
        both = ok(self.server, "/embed", {"inputs": texts}).value
        for text, vector in zip(texts, both):
            alone = ok(self.server, "/embed", {"inputs": text}).value
            self.assertEqual(alone, [vector])
            self.assertAlmostEqual(sum(x * x for x in vector), 1, places=5)
        self.assertNotEqual(both[0], both[1])
        ok(self.server, "/embed_all", {"inputs": "a"})

    def test_size_of_a_vector(self):
        """That of the dense head; rows have their own."""
        size = ok(self.server, "/info").value["embedding"]["dimensions"]
        whole = ok(self.server, "/embed", {"inputs": "a fox"}).value[0]
        row = ok(self.server, "/embed_all", {"inputs": "a fox"}).value[0][0]
        self.assertEqual((size, len(whole), len(row)), (24, 24, 32))
        body = {"inputs": "a fox", "normalize": False}
        whole = ok(self.server, "/embed", body).value[0]
        self.assertEqual(ok(self.server, "/embed", body | {"dimensions": 24}).value[0], whole)
        self.assertEqual(ok(self.server, "/embed", body | {"dimensions": 5}).value[0], whole[:5])
        error = refused(self.server, "/embed", body | {"dimensions": 25}, 422, "/dimensions")
        self.assertIn("24", str(error))

    def test_many_at_once(self):
        """More vectors than go through the head side by side, each as alone."""
        texts = [f"the {word} {i}" for i in range(35) for word in ("fox", "hen in the onion")]
        body = {"inputs": texts, "encoding_format": "base64"}
        together = ok(self.server, "/embed", body).value
        for i in range(0, len(texts), 9):
            self.assertEqual(ok(self.server, "/embed", body | {"inputs": texts[i]}).value[0],
                             together[i])

    def test_info(self):
        info = ok(self.server, "/info").value
        self.assertEqual(info["embedding"]["attention"], "bidirectional")
        self.assertEqual(info["infill"]["modes"], [])

    def test_the_rest_is_refused(self):
        for path, body, status in (
                ("/generate", {"inputs": "a"}, 424), ("/generate_stream", {"inputs": "a"}, 424),
                ("/classify", {"inputs": "a", "labels": ["x", "y"]}, 424),
                ("/infill", {"text": "a [gap]"}, 501),
                ("/infill", {"input_prefix": "a", "input_suffix": "b"}, 501)):
            with self.subTest(path, body=body):
                error = refused(self.server, path, body, status)
                self.assertIn("this model does not", str(error))
        ok(self.server, "/embed", {"inputs": "a"})


if __name__ == "__main__":
    unittest.main()
