"""Goal: over HTTP, an adapter changes what it lies on, /embed and hybrid /infill, and not one bit
of anything else.

Method: the same requests to a server without adapters and to one with; the answers of other modes
must be equal byte for byte, also while requests with the adapter share their steps. With the
default model the adapter is a real one, and fills the gap of its reference.
"""
import sys
import unittest

import real
from harness import together
from real import ok

MODEL = sys.argv.pop(1)
if MODEL == "default":
    real.need_default_model()
    ADAPTERS = [real.data_path("magnet-trial-adapter")]
    if ADAPTERS[0] is None:
        print("skipped: magnet-trial-adapter is not here ($MAGNETD_DATA)")
        sys.exit(real.SKIPPED)
else:
    FIXTURES = real.SOURCE / "tests/golden/fixtures/tiny_adapters"
    ADAPTERS = [FIXTURES / "tied_first", FIXTURES / "tied_second.gguf"]
NAMES = [path.name.removesuffix(".gguf") for path in ADAPTERS]

EMBED = ("/embed", {"inputs": ["the red fox", "tea"], "encoding_format": "base64"})
HYBRID = ("/infill", {"text": "the fox [gap] the hen.", "max_tokens": 4, "until": "length",
                      "mode": "hybrid"})
CHANGED = [EMBED, HYBRID]
UNCHANGED = [
    ("/generate", {"inputs": "on the road", "parameters": {
        "max_new_tokens": 12, "details": True, "top_n_tokens": 3}}),
    ("/generate", {"inputs": "at the sea", "parameters": {
        "max_new_tokens": 12, "details": True, "temperature": 1.4, "seed": 21}}),
    ("/classify", {"inputs": ["good tea", "bad tea"], "labels": ["pos", "neg"]}),
    ("/infill", {"text": "the fox [gap] the hen.", "max_tokens": 3, "candidates": 3,
                 "mode": "rerank"}),
    ("/embed", EMBED[1] | {"attention": "causal"}),
]


def answer(server, path, body):
    return real.without_timings(ok(server, path, body).value)


class Adapter(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        flags = [part for path in ADAPTERS for part in ("--adapter", str(path))]
        cls.base = real.start(MODEL)
        cls.server = real.start(MODEL, *flags)

    @classmethod
    def tearDownClass(cls):
        for server in (cls.server, cls.base):
            real.settled(server)
        with cls.base, cls.server:
            pass

    def test_what_changes(self):
        for path, body in CHANGED:
            with_adapter = answer(self.server, path, body)
            self.assertNotEqual(with_adapter, answer(self.base, path, body), path)

    def test_what_does_not(self):
        for path, body in UNCHANGED:
            self.assertEqual(answer(self.server, path, body), answer(self.base, path, body), path)

    def test_together(self):
        """In the same steps, each as alone."""
        requests = (CHANGED + UNCHANGED) * 3
        expected = [answer(self.server if request in CHANGED else self.base, *request)
                    for request in requests]
        found = [None] * len(requests)

        def run(index):
            found[index] = answer(self.server, *requests[index])

        together([lambda index=i: run(index) for i in range(len(requests))])
        self.assertEqual(found, expected)

    def test_auto_is_hybrid(self):
        body = {"text": "the fox [gap] the hen.", "max_tokens": 2}
        self.assertEqual(ok(self.server, "/infill", body).value["mode"], "hybrid")
        self.assertNotEqual(ok(self.base, "/infill", body).value["mode"], "hybrid")

    def test_info(self):
        info = ok(self.server, "/info").value
        self.assertEqual(info["adapters"], {"embed": NAMES, "infill": NAMES})
        self.assertEqual(info["infill"]["modes"][0], "hybrid")
        self.assertEqual(ok(self.base, "/info").value["adapters"], {})

    @unittest.skipIf(MODEL != "default", "needs a trained adapter")
    def test_a_gap_is_filled(self):
        body = {"text": "The capital of France is[gap], which lies on the Seine.", "max_tokens": 1,
                "until": "length"}
        text = str(ok(self.server, "/infill", body).value)
        self.assertIn("' Paris'", text)
        self.assertNotIn("' Paris'", str(ok(self.base, "/infill", body | {"mode": "hybrid"}).value))


unittest.main()
