"""Who is served, when it takes too long, and what is said about it.

Method: the scripted engine ends a step after each token, so a slow token is a slow step. Limits are
set short by their flags; times are checked from both sides.
"""
import signal
import time
import unittest

from harness import SCALE, Client, Server, all_at_rest, request, wait_for


class Priority(unittest.TestCase):
    def test_words_of_the_header(self):
        with Server() as server:
            for word, status in (("interactive", 200), ("normal", 200), ("Bulk", 200),
                                 ("", 400), ("urgent", 400), ("bulk,normal", 400)):
                reply = request(server.port, "POST", "/generate", {"tokens": 1},
                                [("X-Priority", word)])
                self.assertEqual(reply.status, status, word)
            self.assertIn("interactive, normal and bulk", reply.body.decode())
            self.assertEqual(request(server.port, "GET", "/health", None,
                                     [("X-Priority", "urgent")]).status, 200)
            self.assertEqual(server.metrics()['magnetd_rejected_total{reason="priority"}'], 3)
            wait_for(lambda: all_at_rest(server), "gauges at zero")


class Watchdog(unittest.TestCase):
    def ready(self, server):
        return request(server.port, "GET", "/ready").status

    def test_o3_a_stalled_engine_is_not_ready_and_is_logged(self):
        with Server("--stall-ms", "1000") as server, Client(server.port) as client:
            time.sleep(1.5)  # a rest is no stall, nor is the first step after it
            began = time.monotonic()
            client.send_request("POST", "/generate", {"tokens": 2, "step_ms": 4000})
            while self.ready(server) == 200:
                time.sleep(0.02)
            self.assertGreaterEqual(time.monotonic() - began, 0.99)
            self.assertEqual(server.metrics()["magnetd_engine_stalled"], 1)
            self.assertEqual(request(server.port, "GET", "/live").status, 200)
            wait_for(lambda: "no step has ended for" in server.log(), "a line in the log")
            self.assertEqual(client.reply().status, 200)
            wait_for(lambda: self.ready(server) == 200, "ready again")
            wait_for(lambda: "steps end again" in server.log(), "the other line")
            self.assertLessEqual(server.log().count("no step has ended for"), 2)  # not each second
            wait_for(lambda: all_at_rest(server), "gauges at zero")


class Deadlines(unittest.TestCase):
    def test_the_queue_has_a_bound_in_time(self):
        with Server("--queue-ms", "300", "--sequences", "1") as server, \
                Client(server.port) as client:
            client.send_request("POST", "/generate", {"tokens": 1, "prompt_ms": 3000})
            wait_for(lambda: server.metrics()["magnetd_sequences_running"] == 1, "running")
            began = time.monotonic()
            self.assertEqual(request(server.port, "POST", "/generate", {"tokens": 1}).status, 504)
            self.assertGreaterEqual(time.monotonic() - began, 0.29)
            self.assertLess(time.monotonic() - began, 2 * SCALE)
            self.assertEqual(client.reply().status, 200)
            wait_for(lambda: all_at_rest(server), "gauges at zero")


class Stop(unittest.TestCase):
    def test_while_the_model_is_loaded(self):
        """At once, and it is no failure: nothing was being served yet."""
        server = Server(model="fake:load_ms=20000", ready=False)
        self.assertEqual(request(server.port, "GET", "/ready").status, 503)
        began = time.monotonic()
        server.stop()
        self.assertEqual(server.wait(), 0)
        self.assertLess(time.monotonic() - began, 5 * SCALE)
        self.assertIn("stopped while the model was being loaded", server.log())

    def test_while_a_step_does_not_end(self):
        """Everybody is answered; the process leaves without the step and says so."""
        server = Server("--drain-timeout-ms", "100", "--stop-timeout-ms", "300")
        with Client(server.port) as client:
            client.send_request("POST", "/generate", {"tokens": 1, "prompt_ms": 30000})
            wait_for(lambda: server.metrics()["magnetd_sequences_running"] == 1, "running")
            server.stop(signal.SIGINT)
            self.assertEqual(client.reply().status, 503)
        self.assertEqual(server.wait(), 3)
        self.assertIn("leaving while a step of the engine runs", server.log())

    def test_when_the_step_ends_in_time(self):
        server = Server("--drain-timeout-ms", "100", "--stop-timeout-ms", "20000")
        with Client(server.port) as client:
            client.send_request("POST", "/generate", {"tokens": 1, "prompt_ms": 3000})
            wait_for(lambda: server.metrics()["magnetd_sequences_running"] == 1, "running")
            server.stop()
            self.assertEqual(client.reply().status, 503)
        self.assertEqual(server.wait(), 0)


if __name__ == "__main__":
    unittest.main()
