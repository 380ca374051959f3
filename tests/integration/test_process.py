"""Goal: the real program, with its real libraries and the default model, starts, answers and ends
as a service manager expects.

Method: signals are sent to the process while it idles, while it loads and while it answers. The
scripted engine of the other tests cannot show this: libraries of the real one have threads of their
own, which took a SIGTERM once and ended the process. Skips without the model.
"""
import os
import pathlib
import signal
import sys
import threading
import time
import unittest

from harness import SCALE, Client, Server, all_at_rest, request, wait_for

SKIPPED = 77
ROUNDS = 5


def model_path():
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    default = cache / "magnetd" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    path = pathlib.Path(os.environ.get("MAGNETD_MODEL") or default)
    return path if path.exists() else None


def start(*flags, **options):
    return Server("--context", "256", "--jobs", "8", *flags, model=str(model_path()),
                  binary=os.environ["MAGNETD_BINARY"], **options)


def generate(port, tokens):
    body = {"inputs": "Once upon a time", "parameters": {"max_new_tokens": tokens}}
    return request(port, "POST", "/generate", body)


class Process(unittest.TestCase):
    def test_o10_signals_end_it_cleanly(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            for _ in range(ROUNDS):
                server = start()
                server.stop(number)
                self.assertEqual(server.wait(), 0)

    def test_a_signal_while_it_loads(self):
        server = start(ready=False)
        server.stop()
        self.assertEqual(server.wait(), 0)

    def test_a_running_answer_is_finished(self):
        server = start()
        answers = []
        client = threading.Thread(target=lambda: answers.append(generate(server.port, 32)))
        client.start()
        while server.metrics().get('magnetd_requests_in_flight{kind="generate"}', 0) == 0:
            self.assertTrue(client.is_alive(), "answered before it was seen to run")
        server.stop()
        client.join(20)
        self.assertEqual(server.wait(), 0)
        self.assertEqual(answers[0].status, 200)

    def test_a_client_that_leaves_frees_everything(self):
        """In a stream, and in the middle of a long prompt; a step's tokens may follow, no more."""
        step_rows = 64  # a busy machine may take seconds for a step of 512
        rows = 'magnetd_step_rows_total{kind="generate"}'
        with start("--context", "4096", "--step-rows", str(step_rows)) as server:
            with Client(server.port) as client:
                client.send_request("POST", "/generate_stream", {
                    "inputs": "Once upon a time", "parameters": {"max_new_tokens": 3000}})
                client.head()
                frames = client.frames()
                for _ in range(5):
                    next(frames)
            wait_for(lambda: all_at_rest(server), "rest after a stream", 3)
            used = 'magnetd_cache_pages{state="used"}'
            wait_for(lambda: server.metrics()[used] == 0, "pages free", 3)
            self.assertLess(server.metrics()['magnetd_generated_tokens_total{kind="generate"}'], 40)
            with Client(server.port) as client:
                client.send_request("POST", "/generate", {
                    "inputs": "fox " * 3000, "parameters": {"max_new_tokens": 1}})
                wait_for(lambda: server.metrics()["magnetd_sequences_running"] == 1, "prefill")
                before = server.metrics()[rows]
            wait_for(lambda: all_at_rest(server), "rest after a prompt")
            values = server.metrics()
            self.assertEqual(values[used], 0)
            # The step that ran, and one that may have begun before the reader of `before` closed.
            self.assertLessEqual(values[rows], before + 2 * step_rows)
            self.assertEqual(sum(value for name, value in values.items()
                                 if name.startswith("magnetd_cancelled_total")), 2)

    def test_probes_are_quick_while_it_computes(self):
        with start("--context", "4096") as server, Client(server.port) as client:
            client.send_request("POST", "/generate", {
                "inputs": "fox " * 3000, "parameters": {"max_new_tokens": 1}})
            wait_for(lambda: server.metrics()["magnetd_sequences_running"] == 1, "prefill")
            times = []
            while server.metrics()["magnetd_sequences_running"] == 1 and len(times) < 50:
                began = time.monotonic()
                self.assertEqual(request(server.port, "GET", "/health").status, 200)
                times.append(time.monotonic() - began)
            self.assertGreater(len(times), 5)
            self.assertLess(sorted(times)[len(times) * 9 // 10], 0.25)


if __name__ == "__main__":
    if model_path() is None:
        print("skipped: the default model is not here")
        sys.exit(SKIPPED)
    if SCALE > 1:
        print("skipped: under a sanitizer a step of the default model takes most of a minute")
        sys.exit(SKIPPED)
    unittest.main()
