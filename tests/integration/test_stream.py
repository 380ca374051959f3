"""Streams and clients that leave: frames, endings, errors, back pressure, cancels.

Method: the scripted engine produces tokens at a stated pace; the gauges of /metrics must be back at
zero after every way of leaving, and no more than a step's tokens may follow.
"""
import os
import pathlib
import random
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

from harness import Client, Server, all_at_rest, request, wait_for

GENERATED = 'magnetd_requests_finished_total{kind="generate",outcome="%s"}'


class Streams(unittest.TestCase):
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

    def test_frames_come_one_by_one(self):
        with self.open({"tokens": 5, "step_ms": 60}) as client:
            head = client.head()
            self.assertEqual(head.status, 200)
            self.assertEqual(head.field("content-type"), "text/event-stream; charset=utf-8")
            self.assertEqual(head.field("cache-control"), "no-cache")
            self.assertEqual(head.field("x-accel-buffering"), "no")
            self.assertIsNone(head.field("content-length"))
            times, frames = [], []
            for frame in client.frames():
                times.append(time.monotonic())
                frames.append(frame)
            self.assertEqual(len(frames), 6)
            self.assertEqual(frames[2], 'data: {"index":2,"text":"c"}')
            self.assertEqual(frames[5], 'data: {"last":true,"tokens":5}')
            self.assertTrue(all(later - sooner > 0.02 for sooner, later in
                                zip(times[:5], times[1:5])), times)
            client.send_request("GET", "/live")  # the connection is still good
            self.assertEqual(client.reply().status, 200)

    def test_stream_flag_equals_stream_route(self):
        with self.open({"tokens": 2, "stream": True}, "/generate") as client:
            self.assertEqual(client.reply().body.count(b"data: "), 3)

    def test_failure_before_the_first_frame_has_a_status(self):
        for body, status in [({"fail": "non_finite"}, 424), ({"plan_fail": "invalid"}, 400),
                             ({"fail": "no_memory"}, 503)]:
            with self.open(body) as client:
                reply = client.reply()
                self.assertEqual((reply.status, reply.field("content-type")),
                                 (status, "application/json"))

    def test_failure_after_it_is_a_frame(self):
        for path, shape in [("/generate_stream", '"error_type":"backend"'),
                            ("/infill", '"error":{')]:
            body = {"tokens": 5, "fail": "non_finite", "fail_after": 2, "step_ms": 10,
                    "stream": True}
            with self.open(body, path) as client:
                self.assertEqual(client.head().status, 200)
                frames = list(client.frames())
                self.assertEqual(len(frames), 3, frames)
                self.assertIn(shape, frames[2])
                self.assertTrue(frames[2].startswith("data: "))

    def test_deadline_before_the_first_frame(self):
        """The engine is in the middle of a long step: the answer does not wait for it."""
        for path in ("/generate", "/generate_stream"):
            began = time.monotonic()
            with self.open({"tokens": 1, "prompt_ms": 2000, "timeout_ms": 300}, path) as client:
                self.assertEqual(client.reply().status, 504)
                self.assertAlmostEqual(time.monotonic() - began, 0.3, delta=0.15)

    def test_deadline_inside_a_stream(self):
        began = time.monotonic()
        with self.open({"tokens": 100, "step_ms": 100, "timeout_ms": 450}) as client:
            self.assertEqual(client.head().status, 200)
            frames = list(client.frames())
            self.assertAlmostEqual(time.monotonic() - began, 0.45, delta=0.15)
            self.assertIn('"error_type":"timeout"', frames[-1])
            self.assertEqual(sum("error" in frame for frame in frames), 1)

    def test_slow_reader_pauses_its_own_stream_only(self):
        """64 MB of frames for a client that does not read: what is held stays near its bound, the
        neighbour is not slowed, and what is read later is complete."""
        before = self.server.resident_bytes()
        with self.open({"tokens": 8000, "bytes": 4000}, receive_buffer=8192) as slow:
            slow.head()
            began = time.monotonic()
            with self.open({"tokens": 50, "step_ms": 10}) as fast:
                self.assertEqual(fast.reply().body.count(b"data: "), 51)
            self.assertLess(time.monotonic() - began, 2)
            time.sleep(0.5)
            values = self.server.metrics()
            self.assertEqual(values["magnetd_sequences_running"], 1)
            # Its text lies in the job's results, 32 MB; frames on top of that are bounded. A
            # sanitizer's shadow memory grows with every byte touched and is not ours.
            if os.environ.get("MAGNETD_TEST_SCALE", "1") == "1":
                self.assertLess(self.server.resident_bytes() - before, 48 << 20)
            count = sum(1 for _ in slow.frames())
            self.assertEqual(count, 8001)

    def leave(self, how, body, after_frames, path, arrived=False):
        """`arrived`: only once the server has the request. A reset takes unread bytes with it."""
        client = self.open(body, path)
        if arrived:
            wait_for(lambda: self.server.metrics()["magnetd_tasks_in_use"] >= 1, "arrived")
        if after_frames > 0:
            client.head()
            frames = client.frames()
            for _ in range(after_frames):
                next(frames)
        elif after_frames == 0:
            time.sleep(random.random() * 0.05)
        if how == "half":
            client.socket.shutdown(socket.SHUT_WR)
        elif how == "reset":
            client.reset()
        else:
            client.close()
        return client

    def test_every_way_of_leaving_stops_the_work(self):
        body = {"tokens": 5000, "step_ms": 5}
        cases = [(how, path, frames, extra)
                 for how in ("close", "reset", "half")
                 for path, frames, extra in [
                     ("/generate_stream", 0, {"prompt_ms": 200}),    # queued or in prefill
                     ("/generate_stream", 3, {}),                    # in decode
                     ("/generate", 0, {}),                           # unstreamed
                     ("/embed", 0, {"decode_ms": 60}),               # with a front worker
                     ("/infill", 3, {"stream": True})]]
        for how, path, frames, extra in cases:
            with self.subTest(how=how, path=path, frames=frames):
                before = sum(value for name, value in self.server.metrics().items()
                             if name.startswith("magnetd_cancelled_total"))
                client = self.leave(how, {**body, **extra}, frames, path, arrived=True)
                wait_for(lambda: all_at_rest(self.server), "gauges at zero", 1.5)
                after = sum(value for name, value in self.server.metrics().items()
                            if name.startswith("magnetd_cancelled_total"))
                self.assertEqual(after, before + 1)
                client.close()

    def test_leaving_while_blocked_on_write(self):
        body = {"tokens": 8000, "bytes": 4000}
        for how in ("close", "reset", "half"):
            with self.subTest(how):
                client = self.open(body, receive_buffer=8192)
                client.head()
                time.sleep(0.3)
                if how == "half":
                    client.socket.shutdown(socket.SHUT_WR)
                elif how == "reset":
                    client.reset()
                else:
                    client.close()
                wait_for(lambda: all_at_rest(self.server), "gauges at zero", 1.5)
                client.close()

    def test_at_most_one_step_after_leaving(self):
        with Server() as server:
            client = Client(server.port)
            client.send_request("POST", "/generate_stream", {"tokens": 1000, "step_ms": 50})
            client.head()
            frames = client.frames()
            for _ in range(3):
                next(frames)
            client.close()
            wait_for(lambda: all_at_rest(server), "gauges at zero", 1)
            wait_for(lambda: server.access_lines()[-1]["route"] == "/metrics", "log")
            line = [one for one in server.access_lines() if one["route"] == "/generate_stream"][0]
            self.assertEqual(line["outcome"], "cancelled")
            self.assertLess(line["total_ms"], 400)
            self.assertEqual(server.metrics()[GENERATED % "cancelled"], 1)

    def test_cancels_touch_nobody_else(self):
        """200 clients that leave at random moments beside one stream, which stays as it was."""
        expected = None
        for disturbed in (False, True):
            with self.open({"tokens": 60, "step_ms": 20}) as marked:
                marked.head()
                frames = marked.frames()
                seen = []
                for i in range(61):
                    seen.append(next(frames))
                    for _ in range(4 if disturbed and i < 50 else 0):
                        how = random.choice(["close", "reset"])
                        self.leave(how, {"tokens": 100, "step_ms": 3}, -1, "/generate")
            expected = expected or seen
            self.assertEqual(seen, expected)
        wait_for(lambda: all_at_rest(self.server), "gauges at zero", 2)

    def test_probe_is_quick_beside_streams(self):
        clients = [self.open({"tokens": 200, "step_ms": 5}) for _ in range(40)]
        times = []
        for _ in range(50):
            began = time.monotonic()
            self.assertEqual(request(self.server.port, "GET", "/health").status, 200)
            times.append(time.monotonic() - began)
        self.assertLess(sorted(times)[45], 0.05)
        for client in clients:
            client.close()


NGINX = """
daemon off;
error_log {folder}/error.log;
pid {folder}/pid;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{listen};
        location / {{ proxy_pass http://127.0.0.1:{port}; }}
    }}
}}
"""


@unittest.skipIf(shutil.which("nginx") is None, "nginx is not installed")
class Proxy(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def start(self, port):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.listen = free.getsockname()[1]
        config = self.folder / "nginx.conf"
        config.write_text(NGINX.format(folder=self.folder, listen=self.listen, port=port))
        process = subprocess.Popen(
            ["nginx", "-p", str(self.folder), "-e", str(self.folder / "error.log"), "-c",
             str(config), "-g", "master_process off;"], stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)

        def answers():
            try:
                return request(self.listen, "GET", "/live").status == 200
            except (ConnectionError, EOFError):
                return False
        wait_for(answers, "nginx answers")

    def test_s1_frames_come_one_by_one_through_nginx(self):
        """nginx as it is installed, which holds replies back unless they say otherwise."""
        with Server() as server:
            self.start(server.port)
            with Client(self.listen) as client:
                client.send_request("POST", "/generate_stream", {"tokens": 5, "step_ms": 60},
                                    [("Connection", "keep-alive")])
                self.assertEqual(client.head().status, 200)
                times, frames = [], []
                for frame in client.frames():
                    times.append(time.monotonic())
                    frames.append(frame)
            self.assertEqual(frames[5], 'data: {"last":true,"tokens":5}')
            self.assertTrue(all(later - sooner > 0.02 for sooner, later in
                                zip(times[:5], times[1:5])), times)
            wait_for(lambda: all_at_rest(server), "gauges at zero")


if __name__ == "__main__":
    unittest.main()
