"""Goal: no length, no batch and no crowd ends the process, stalls the others or is let in by
another rule than its like (cases L2 L8 L9 D3).

Method: "tiny" with every small size of a step, and with streams that nobody reads, which hold what
they have for as long as a test wants; "default" is slow enough for a long prompt to be in the way.
"""
import random
import socket
import sys
import tempfile
import threading
import time
import unittest

import real
from harness import Client, together, wait_for
from real import ask, held_stream, ok, refused
from variants import VOCAB, Variant

MODEL = sys.argv.pop(1)
TINY = MODEL == "tiny"
CONTEXT = 256
STREAMS = 8
FIRST_TOKEN_S = 1.0  # D3
FRAMES_BESIDE = 20   # each stream shows at least so many while a long prompt is read


@unittest.skipUnless(TINY, "many servers, or many requests, need the tiny model")
class Sizes(unittest.TestCase):
    def texts(self, rows):
        rng = random.Random(rows)
        counts = sorted({1, 2, rows - 1, rows, rows + 1, 2 * rows - 1, 2 * rows, 2 * rows + 1,
                         CONTEXT - 1, CONTEXT})
        return [[rng.randrange(3, VOCAB) for _ in range(count)] for count in counts
                if count <= CONTEXT]

    def test_l2_every_batch_size(self):
        """One token under, at and over the rows of a step and twice them; all of it in one call and
        one by one: the same vectors as of a server whose step holds everything."""
        with real.start(MODEL, "--step-rows", "4096", "--log-level", "warn") as large:
            for rows in (16, 17, 31, 64) if real.SCALE == 1 else (16, 31):
                with real.start(MODEL, "--step-rows", str(rows), "--log-level", "warn") as small:
                    self.compare(large, small, rows)

    def compare(self, large, small, rows):
        texts = self.texts(rows)
        for attention in ("causal", "bidirectional"):
            body = {"inputs": texts, "attention": attention, "truncate": False}
            expected = ok(large, "/embed", body).value
            self.assertEqual(ok(small, "/embed", body).value, expected, rows)
            for text, vector in zip(texts, expected):
                alone = ok(small, "/embed", {**body, "inputs": [text]}).value
                self.assertEqual(alone, [vector], (rows, len(text)))
        one_over = {"inputs": [[5], [5] * (CONTEXT + 1)], "truncate": False}
        refused(small, "/embed", one_over, 422, "/inputs/1")
        for text in texts[:-1]:  # as a prompt of a text, and around a gap
            self.assert_same(large, small, "/generate", {
                "inputs": "a" * len(text), "parameters": {"max_new_tokens": 2, "truncate": 250}})
            self.assert_same(large, small, "/infill", {
                "text": "a" * (len(text) // 2) + "b[gap]" + "c" * (len(text) // 2),
                "max_tokens": 1, "mode": "hybrid"})
        real.settled(small)

    def assert_same(self, large, small, path, body):
        replies = [real.without_timings(ask(server, path, body).value) for server in (large, small)]
        self.assertEqual(*replies)


@unittest.skipUnless(TINY, "needs variants of the tiny model")
class Streams(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Variant().context(1024).write(folder.name)

    def serve(self, *flags):
        return real.Server("--log-level", "warn", *flags, model=str(self.path), binary=real.BINARY)

    def test_l8_too_long_leaves_streams_alone(self):
        """While a stream is half way, prompts of one token more than the context are refused on
        every route; a budget of 2^31 is cut to the room; then the stream goes on as if alone."""
        context = 1024
        over = "b" * (context + 1)
        with self.serve() as server:
            with held_stream(server, 2**31) as alone:
                expected = alone.reply().body
            self.assertEqual(expected.count(b"data: "), context - 2)  # BOS and "a" before it
            with held_stream(server, 2**31) as client:
                wait_for(lambda: server.metrics()["magnetd_sequences_running"] == 1, "running")
                for path in ("/generate", "/generate_stream"):
                    error = refused(server, path, {"inputs": over}, 422, "/inputs")
                    self.assertEqual(error["code"], "context_length_exceeded")
                error = refused(server, "/infill", {"text": over + "[gap]", "mode": "hybrid"}, 400)
                self.assertEqual((error["type"], error["n_ctx"]),
                                 ("exceed_context_size_error", context))
                refused(server, "/classify", {"inputs": over, "labels": ["x", "y"]}, 422)
                error = refused(server, "/v1/completions", {"prompt": over}, 400, "/prompt")
                self.assertEqual(error["code"], "context_length_exceeded")
                made = ok(server, "/v1/completions", {"prompt": "c" * 1000, "max_tokens": 2**31})
                self.assertLessEqual(made.value["usage"]["total_tokens"], context)
                refused(server, "/embed", {"inputs": over, "truncate": False}, 422, "/inputs")
                body = {"inputs": "c" * 1000, "parameters": {"max_new_tokens": 2**31,
                                                             "details": True}}
                made = ok(server, "/generate", body).value["details"]["generated_tokens"]
                self.assertLessEqual(made, context - 1000)
                self.assertEqual(server.metrics()["magnetd_sequences_running"], 1)
                self.assertEqual(client.reply().body, expected)
            real.settled(server)

    def test_l9_one_rule_for_one_and_for_many(self):
        """Saturated, a text, a list of one and a list of 256 are refused alike; with a place free
        each is let in; and of 256 at once as many are served as find one."""
        jobs = 4
        forms = ["a", ["a"], ["a"] * 256, [5], [[5]] * 256]
        with self.serve("--jobs", str(jobs), "--workers", "4") as server:
            clients = [held_stream(server, 1000) for _ in range(jobs)]
            wait_for(lambda: server.metrics()["magnetd_tasks_in_use"] == jobs, "saturated")
            for inputs in forms * 2:
                self.assertEqual(ask(server, "/embed", {"inputs": inputs}).status, 429)
            clients.pop().reset()
            wait_for(lambda: server.metrics()["magnetd_tasks_in_use"] == jobs - 1, "one place")
            for inputs in forms * 2:
                self.assertEqual(ask(server, "/embed", {"inputs": inputs}).status, 200)
            statuses = []

            def crowd(inputs, count):
                for _ in range(count):
                    statuses.append(ask(server, "/embed", {"inputs": inputs}).status)
            together([lambda: crowd("a", 16)] * 16)
            self.assertEqual(len(statuses), 256)
            self.assertLessEqual(set(statuses), {200, 429})
            self.assertGreater(statuses.count(200), 0)
            for client in clients:
                client.reset()
            metrics = real.settled(server)
            refusals = metrics['magnetd_rejected_total{reason="queue_full"}']
            self.assertEqual(refusals, 2 * len(forms) + statuses.count(429))


class Reader(threading.Thread):
    """Reads a stream and notes when each frame came."""

    def __init__(self, server, body):
        super().__init__()
        self.times, self.left, self.client = [], False, Client(server.port, 60)
        self.client.send_request("POST", "/generate_stream", body)
        self.start()

    def run(self):
        try:
            for _ in self.frames():
                self.times.append(time.monotonic())
        except EOFError:
            assert self.left, "the server closed a stream"

    def frames(self):
        assert self.client.head().status == 200
        for frame in self.client.frames():
            assert '"error"' not in frame, frame
            yield frame

    def leave(self):
        self.left = True
        self.client.socket.shutdown(socket.SHUT_RDWR)
        self.join()
        self.client.close()


@unittest.skipIf(TINY, "nothing of the tiny model is long")
class LongPrompt(unittest.TestCase):
    def test_d3_long_prompt_stalls_nobody(self):
        """Eight streams, then a prompt that takes seconds, then short ones: between the long one's
        arrival and its first token every stream goes on, and each short one is answered at once."""
        stream = {"inputs": "on the road", "parameters": {"max_new_tokens": 2000}}
        long = {"inputs": "the red fox eats an onion in the rain. " * 120,
                "parameters": {"max_new_tokens": 1}}
        short = {"inputs": "at noon", "parameters": {"max_new_tokens": 1}}
        with real.start(MODEL, "--context", "4096", "--log-level", "warn") as server:
            readers = [Reader(server, stream) for _ in range(STREAMS)]
            wait_for(lambda: all(len(reader.times) > 5 for reader in readers), "streams run")
            began = time.monotonic()
            slow = Reader(server, long)
            waits = []
            while not slow.times and len(waits) < 5:
                sent = time.monotonic()
                quick = Reader(server, short)
                quick.join()
                waits.append(quick.times[0] - sent)
            slow.join()
            ended = slow.times[0]
            beside = [sum(began < at < ended for at in reader.times) for reader in readers]
            for reader in readers:
                reader.leave()
            real.settled(server)
        print(f"long prompt: {ended - began:.1f} s, frames beside it {beside}, "
              f"short ones after {max(waits):.2f} s at most")
        self.assertGreaterEqual(len(waits), 3)
        self.assertLess(max(waits), FIRST_TOKEN_S)
        self.assertGreaterEqual(min(beside), FRAMES_BESIDE)


if __name__ == "__main__":
    if not TINY:
        real.need_default_model()
    unittest.main()
