"""Goal: the four kinds share forward passes and do not touch each other's answers.

Method: each request alone first, then all four kinds at once from a start gate, several rounds; the
answers must be equal byte for byte but for timings. The metric step_kinds must have seen a step
that carried more than one kind. The same for a network of Qwen3's shape with the profile of its
embedder, which makes vectors of last rows and generates. Case O15: an /embed beside streams ends
within 10 steps.
"""
import sys
import threading
import unittest

import real
from harness import Client, together, wait_for
from real import ok

MODEL = sys.argv.pop(1)
TINY = MODEL == "tiny"
ROUNDS = (10 if TINY else 2) if real.SCALE == 1 else 1
STREAMS = 16
COPIES = 4 if TINY else 1
STEPS_ALLOWED = 10

REQUESTS = [
    ("/embed", {"inputs": ["the red fox", "tea on the train", "a"], "encoding_format": "base64"}),
    ("/embed_all", {"inputs": "the onion"}),
    ("/infill", {"text": "the fox [gap] the hen [gap].", "max_tokens": 6, "until": "length",
                 "mode": "hybrid"}),
    ("/infill", {"text": "the fox [gap] the hen [gap].", "max_tokens": 5, "spans": "independent",
                 "mode": "hybrid"}),
    ("/infill", {"text": "the fox [gap] the hen [gap].", "max_tokens": 3, "candidates": 4,
                 "mode": "rerank"}),
    ("/generate", {"inputs": "on the road", "parameters": {
        "max_new_tokens": 12, "details": True, "top_n_tokens": 3}}),
    ("/generate", {"inputs": "at the sea", "parameters": {
        "max_new_tokens": 12, "details": True, "temperature": 1.4, "top_p": 0.9, "seed": 21}}),
    ("/generate_stream", {"inputs": "at noon", "parameters": {"max_new_tokens": 10}}),
    ("/classify", {"inputs": ["good tea", "bad tea"], "labels": ["pos", "neg"]}),
    ("/classify", {"input": "Late again.", "questions": [
        {"type": "predicate", "instructions": "Is it about time?"}]}),
]
QWEN3 = [
    ("/embed", {"inputs": ["the red fox", "tea on the train", "a"], "encoding_format": "base64"}),
    ("/embed", {"inputs": "where is tea?", "prompt_name": "query"}),
    ("/embed", {"inputs": ["the onion " * 9, "the hen"], "instruction": "Find tea"}),
    ("/generate", {"inputs": "on the road", "parameters": {
        "max_new_tokens": 24, "details": True, "top_n_tokens": 3}}),
    ("/generate", {"inputs": "at the sea", "parameters": {
        "max_new_tokens": 24, "details": True, "temperature": 1.4, "top_p": 0.9, "seed": 21}}),
    ("/generate_stream", {"inputs": "at noon", "parameters": {"max_new_tokens": 20}}),
]
MODERATION = [("/classify", {"prompt": "How do I boil an egg?", "response": "In water."})]


def chosen_requests():
    if TINY:
        return REQUESTS
    if real.SCALE == 1:
        return REQUESTS + MODERATION
    # A sanitizer takes seconds for each token of the default model: the first of every route. The
    # tiny model has them all.
    return list({path: (path, body) for path, body in reversed(REQUESTS)}.values())


def content(reply):
    return real.without_timings(reply.value if reply.frames is None else reply.frames)


def steps_with_several_kinds(metrics):
    one = metrics['magnetd_step_kinds_bucket{le="1"}']
    return metrics["magnetd_step_kinds_count"] - one


class Mixed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = real.start(MODEL)

    @classmethod
    def tearDownClass(cls):
        real.settled(cls.server)
        with cls.server:
            pass

    def test_four_kinds_at_once(self):
        before, after = self.all_at_once(self.server, chosen_requests())
        self.assertEqual(after["magnetd_step_kinds_count"], after["magnetd_step_seconds_count"])
        for kind in real.KINDS:
            name = f'magnetd_requests_received_total{{kind="{kind}"}}'
            self.assertGreater(after[name], before[name])

    @unittest.skipUnless(TINY, "once is enough")
    def test_an_embedder_that_generates(self):
        profile = real.SOURCE / "deploy/profiles/qwen3-embedding.json"
        with real.start("tiny_networks/qwen3", "--profile", str(profile)) as server:
            self.assertEqual(ok(server, "/info").value["embedding"]["attention"], "causal")
            self.all_at_once(server, QWEN3)

    def all_at_once(self, server, requests):
        """The metrics before and after."""
        alone = [content(ok(server, path, body)) for path, body in requests]
        before = real.settled(server)
        self.assertEqual(steps_with_several_kinds(before), 0)
        for _ in range(ROUNDS):
            gate = threading.Barrier(len(requests) * COPIES)

            def one(index):
                path, body = requests[index % len(requests)]
                gate.wait(60)
                self.assertEqual(content(ok(server, path, body)), alone[index % len(requests)])
            together([lambda index=index: one(index) for index in range(len(requests) * COPIES)])
        after = real.settled(server)
        self.assertGreater(steps_with_several_kinds(after), 0)
        return before, after

    @unittest.skipIf(TINY, "a stream of the tiny model is over before anything can stand beside it")
    @unittest.skipIf(real.SCALE > 1, "a sanitizer makes the default model too slow for this")
    def test_o15_embed_beside_streams(self):
        """Steps are counted, not seconds. The cache holds all streams: one that does not fit
        waits in the queue, and so would the /embed behind it."""
        with real.start(MODEL, "--context", "256", "--cache-mib", "128") as server:
            clients = [Client(server.port) for _ in range(STREAMS)]
            for client in clients:
                client.send_request("POST", "/infill", {
                    "input_prefix": "a", "input_suffix": "", "stream": True, "ignore_eos": True,
                    "n_predict": 2**31, "mode": "hybrid"})
            wait_for(lambda: server.metrics()["magnetd_sequences_running"] == STREAMS, "streams")
            for _ in range(3):
                before = server.metrics()["magnetd_step_seconds_count"]
                ok(server, "/embed", {"inputs": "the red fox"})
                steps = server.metrics()["magnetd_step_seconds_count"] - before
                self.assertLessEqual(steps, STEPS_ALLOWED)
            self.assertEqual(server.metrics()["magnetd_sequences_running"], STREAMS)
            for client in clients:
                client.reset()
            real.settled(server)


if __name__ == "__main__":
    if not TINY:
        real.need_default_model(with_sanitizers=True)
    unittest.main()
