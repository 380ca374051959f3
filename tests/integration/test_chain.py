"""Requests of several jobs, each planned from the results of those before.

Method: the scripted engine runs the same job again and again; planning the next one can be slow or
fail. Whatever ends a chain, at the end of the class the gauges are at zero.
"""
import time
import unittest

from harness import Client, Server, all_at_rest, request, wait_for

LEFT_S = 0.25  # a client that left is noticed long before this


class Chain(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        with cls.server:
            wait_for(lambda: all_at_rest(cls.server), "gauges at zero")

    def open(self, body, path="/generate_stream", **options):
        client = Client(self.server.port, **options)
        client.send_request("POST", path, body)
        return client

    def tokens(self):
        """Counted when a request ends, so only read at rest."""
        wait_for(lambda: all_at_rest(self.server), "gauges at zero")
        return self.server.metrics()['magnetd_requests_finished_total{kind="generate",'
                                     'outcome="completed"}']

    def test_whole_reply_after_the_last_job(self):
        before = self.tokens()
        reply = request(self.server.port, "POST", "/generate",
                        {"jobs": 3, "tokens": 2, "step_ms": 30, "prompt_ms": 10})
        self.assertEqual((reply.status, reply.json()), (200, {"text": "ab", "tokens": 6}))
        self.assertGreaterEqual(int(reply.field("x-inference-time")), 3 * (10 + 2 * 30))
        self.assertEqual(int(reply.field("x-compute-tokens")), 3 * 3)
        self.assertEqual(self.tokens(), before + 1)  # one request, however many jobs
        self.assertIn('"tokens_out":6', self.server.log())

    def test_frames_of_each_job_as_they_come(self):
        with self.open({"jobs": 3, "tokens": 2, "step_ms": 60}) as client:
            self.assertEqual(client.head().status, 200)
            times, frames = [], []
            for frame in client.frames():
                times.append(time.monotonic())
                frames.append(frame)
            job = ['data: {"index":0,"text":"a"}', 'data: {"index":1,"text":"b"}']
            self.assertEqual(frames, job * 3 + ['data: {"last":true,"tokens":6}'])
            self.assertTrue(all(later - sooner > 0.02 for sooner, later in
                                zip(times[:6], times[1:6])), times)

    def test_slow_reader_loses_nothing_between_jobs(self):
        body = {"jobs": 4, "tokens": 300, "bytes": 4000}
        with self.open(body, receive_buffer=8192) as client:
            client.head()
            time.sleep(0.3)
            frames = list(client.frames())
            self.assertEqual(len(frames), 4 * 300 + 1)
            self.assertEqual([frame for frame in frames if '"index":0,' in frame],
                             [frames[0]] * 4)

    def test_failure_of_a_later_plan(self):
        body = {"jobs": 2, "tokens": 2, "more_fail": "context_length_exceeded"}
        self.assertEqual(request(self.server.port, "POST", "/generate", body).status, 422)
        with self.open(body) as client:
            self.assertEqual(client.head().status, 200)
            frames = list(client.frames())
            self.assertEqual(len(frames), 3)
            self.assertIn('"error_type":"validation"', frames[2])

    def test_failure_of_a_job(self):
        body = {"jobs": 3, "tokens": 2, "fail": "non_finite", "fail_after": 1}
        self.assertEqual(request(self.server.port, "POST", "/generate", body).status, 424)
        with self.open(body) as client:
            self.assertEqual(client.head().status, 200)
            frames = list(client.frames())
            self.assertEqual(len(frames), 2)
            self.assertIn('"error_type":"backend"', frames[1])

    def test_one_deadline_for_all_jobs(self):
        for path in ("/generate", "/generate_stream"):
            began = time.monotonic()
            body = {"jobs": 20, "tokens": 1, "step_ms": 60, "timeout_ms": 400}
            with self.open(body, path) as client:
                reply = client.reply()
                took = time.monotonic() - began
                self.assertAlmostEqual(took, 0.4, delta=0.2)
                self.assertEqual(reply.status, 504 if path == "/generate" else 200)
                if path == "/generate_stream":
                    self.assertIn(b'"error_type":"timeout"', reply.body)

    def test_leaving_at_any_moment(self):
        """Inside a job, between two, while the next is planned: the chain ends there."""
        for path in ("/generate", "/generate_stream"):
            for moment_ms in range(0, 140, 7):
                client = self.open({"jobs": 1000, "tokens": 1, "step_ms": 20, "more_ms": 20}, path)
                time.sleep(moment_ms / 1000)
                client.close()
        time.sleep(LEFT_S)
        wait_for(lambda: all_at_rest(self.server), "gauges at zero")


class Drain(unittest.TestCase):
    BODY = {"jobs": 6, "tokens": 2, "step_ms": 50, "more_ms": 20}

    def start(self, *flags):
        server = Server(*flags)
        stream, whole = Client(server.port), Client(server.port)
        stream.send_request("POST", "/generate_stream", self.BODY)
        self.assertEqual(stream.head().status, 200)
        whole.send_request("POST", "/generate", self.BODY)
        time.sleep(0.1)
        server.stop()
        return server, stream, whole

    def test_a_chain_is_finished_before_the_end(self):
        server, stream, whole = self.start("--drain-timeout-ms", "10000")
        self.assertEqual(list(stream.frames())[-1], 'data: {"last":true,"tokens":12}')
        self.assertEqual(whole.reply().json()["tokens"], 12)
        self.assertEqual(server.wait(), 0)

    def test_or_cancelled_when_time_is_up(self):
        server, stream, whole = self.start("--drain-timeout-ms", "150")
        self.assertIn("stopping", list(stream.frames())[-1])
        self.assertEqual(whole.reply().status, 503)
        self.assertEqual(server.wait(), 0)


if __name__ == "__main__":
    unittest.main()
