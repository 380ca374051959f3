"""Starting and stopping: ready only after a forward pass, the order of draining, exit codes.

Method: the scripted engine loads and works as slowly as a case needs; each case is a process of its
own that must end by itself.
"""
import os
import signal
import subprocess
import time
import unittest

from harness import Client, Server, request, wait_for


class Start(unittest.TestCase):
    def test_not_ready_while_loading(self):
        with Server(model="fake:load_ms=1500", ready=False) as server:
            for path in ("/health", "/ready"):
                reply = request(server.port, "GET", path)
                self.assertEqual((reply.status, reply.json()["error"]["message"]),
                                 (503, "Loading model"))
                self.assertIsNotNone(reply.field("retry-after"))
            self.assertEqual(request(server.port, "GET", "/live").status, 200)
            for path in ("/embed", "/tokenize"):
                self.assertEqual(request(server.port, "POST", path, {}).status, 503)
            self.assertEqual(request(server.port, "GET", "/info").status, 503)
            values = server.metrics()
            self.assertEqual(values["magnetd_ready"], 0)
            server.wait_ready()
            self.assertEqual(request(server.port, "POST", "/embed", {}).status, 200)
            self.assertEqual(server.metrics()["magnetd_ready"], 1)

    def test_stop_while_loading(self):
        with Server(model="fake:load_ms=500", ready=False) as server:
            server.stop()
            self.assertEqual(server.wait(), 0)

    def test_broken_file_ends_with_a_failure(self):
        for model in ("fake:load=fail", "fake:first_pass=fail"):
            server = Server(model=model, ready=False)
            self.assertEqual(server.wait(), 1)
            self.assertIn("scripted", server.log())

    def test_taken_port(self):
        with Server() as server:
            ended = subprocess.run(
                [os.environ["MAGNETD_FAKE"], "--model", "fake", "--port", str(server.port)],
                capture_output=True, timeout=20)
            self.assertEqual(ended.returncode, 1)
            self.assertIn(b"cannot listen", ended.stderr)
            self.assertEqual(ended.stdout, b"")


class Drain(unittest.TestCase):
    def test_idle(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            server = Server("--drain-delay-ms", "300")
            idle = Client(server.port)
            idle.send_request("GET", "/live")
            idle.reply()
            began = time.monotonic()
            server.stop(number)
            self.assertTrue(idle.at_end(3))
            self.assertEqual(server.wait(), 0)
            self.assertAlmostEqual(time.monotonic() - began, 0.3, delta=0.2)

    def test_delay_serves_but_is_not_ready(self):
        server = Server("--drain-delay-ms", "1000")
        server.stop()
        wait_for(lambda: request(server.port, "GET", "/ready").status == 503, "not ready", 0.5)
        reply = request(server.port, "GET", "/health")
        self.assertEqual(reply.json()["error"]["message"], "Draining")
        self.assertEqual(request(server.port, "GET", "/live").status, 200)
        self.assertEqual(request(server.port, "POST", "/embed", {}).status, 200)
        self.assertEqual(server.wait(), 0)

    def test_running_work_finishes_and_new_work_is_refused(self):
        server = Server("--drain-delay-ms", "100", "--drain-timeout-ms", "10000")
        stream = Client(server.port)
        stream.send_request("POST", "/generate_stream", {"tokens": 10, "step_ms": 100})
        self.assertEqual(stream.head().status, 200)
        whole = Client(server.port)
        whole.send_request("POST", "/generate", {"tokens": 10, "step_ms": 100})
        uploading = Client(server.port)
        uploading.send(b"POST /embed HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{")
        time.sleep(0.1)
        server.stop()
        time.sleep(0.4)
        with self.assertRaises(OSError):
            Client(server.port)
        uploading.send(b"}")  # admitted before: still answered, and told to close
        reply = uploading.reply()
        self.assertEqual((reply.status, reply.field("connection")), (200, "close"))
        frames = list(stream.frames())
        self.assertEqual(frames[-1], 'data: {"last":true,"tokens":10}')
        self.assertEqual(whole.reply().status, 200)
        self.assertTrue(whole.at_end())
        self.assertEqual(server.wait(), 0)

    def test_live_connection_is_told_503(self):
        server = Server("--drain-delay-ms", "0", "--drain-timeout-ms", "10000")
        stream = Client(server.port)
        stream.send_request("POST", "/generate_stream", {"tokens": 10, "step_ms": 100})
        stream.head()
        late = Client(server.port)  # its head is on the way when the stop comes
        late.send(b"POST /embed HTTP/1.1\r\nHost: h\r\n")
        time.sleep(0.1)
        server.stop()
        time.sleep(0.2)
        late.send(b"Content-Length: 2\r\n\r\n{}")
        reply = late.reply()
        self.assertEqual((reply.status, reply.field("connection")), (503, "close"))
        self.assertIsNotNone(reply.field("retry-after"))
        self.assertEqual(list(stream.frames())[-1], 'data: {"last":true,"tokens":10}')
        self.assertEqual(server.wait(), 0)

    def check_cancelled(self, stop):
        server = Server("--drain-delay-ms", "0", "--drain-timeout-ms", "500")
        stream = Client(server.port)
        stream.send_request("POST", "/generate_stream", {"tokens": 1000, "step_ms": 50})
        stream.head()
        whole = Client(server.port)
        whole.send_request("POST", "/generate", {"tokens": 1000, "step_ms": 50})
        waiting = [Client(server.port) for _ in range(10)]
        for client in waiting:
            client.send_request("POST", "/embed", {"tokens": 1, "prompt_ms": 1500})
        uploading = Client(server.port)
        uploading.send(b"POST /embed HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{")
        time.sleep(0.2)
        began = time.monotonic()
        stop(server)
        frames = list(stream.frames())
        self.assertIn('"error_type":"unhealthy"', frames[-1])
        for client in [whole, uploading, *waiting]:
            reply = client.reply()
            self.assertEqual((reply.status, reply.field("connection")), (503, "close"))
        answered = time.monotonic() - began
        self.assertEqual(server.wait(), 0)
        return answered

    def test_timeout_cancels_with_an_answer_for_everybody(self):
        self.assertAlmostEqual(self.check_cancelled(lambda server: server.stop()), 0.5, delta=0.3)

    def test_second_signal_does_not_wait(self):
        def twice(server):
            server.stop()
            time.sleep(0.05)
            server.stop()
        self.assertLess(self.check_cancelled(twice), 0.3)

    def test_client_that_reads_nothing_cannot_hold_the_process(self):
        server = Server("--drain-delay-ms", "0", "--drain-timeout-ms", "300")
        client = Client(server.port, receive_buffer=8192)
        client.send_request("POST", "/generate_stream", {"tokens": 8000, "bytes": 4000})
        client.head()
        time.sleep(0.2)
        began = time.monotonic()
        server.stop()
        self.assertEqual(server.wait(), 0)
        self.assertLess(time.monotonic() - began, 3.5)


if __name__ == "__main__":
    unittest.main()
