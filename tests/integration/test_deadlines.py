"""Deadlines are total: a peer that drips bytes is cut as surely as one that sends nothing. And a
stream with nothing to send is kept alive.

Method: one server, every slow client in a thread of its own, all at once, so that the file takes as
long as the longest deadline (about 30 s). A good client's latency is watched meanwhile.
"""
import time
import unittest

from harness import Client, Server, all_at_rest, request, together, wait_for

HEAD_S, BODY_S, QUEUE_S, DROP_S, PING_S = 10, 30, 30, 2, 15


class Deadlines(unittest.TestCase):
    def setUp(self):
        self.server = Server()

    def drip(self, client, data, pause):
        """Sends a byte at a time until the peer has enough of it."""
        client.socket.setblocking(False)
        for i in range(10 ** 6):
            try:
                client.socket.send(data[i % len(data):i % len(data) + 1])
            except (BrokenPipeError, ConnectionResetError):
                return
            try:
                part = client.socket.recv(65536)
                client.held += part
                if not part:
                    return
            except BlockingIOError:
                pass
            except ConnectionResetError:
                return
            time.sleep(pause)

    def check_408(self, client, began, seconds, dialect):
        client.socket.settimeout(60)
        try:
            while client.more():
                pass
        except ConnectionResetError:
            pass
        self.assertAlmostEqual(time.monotonic() - began, seconds, delta=1.2)
        self.assertTrue(client.held.startswith(b"HTTP/1.1 408 "), client.held[:200])
        self.assertEqual(client.held.count(b"HTTP/1.1"), 1)
        self.assertIn({"llama": b'"code":408', "tei": b'"error_type":"http"'}[dialect], client.held)

    def silent(self):
        with Client(self.server.port) as client:
            self.check_408(client, time.monotonic(), HEAD_S, "llama")

    def dripped_head(self):
        with Client(self.server.port) as client:
            began = time.monotonic()
            client.send(b"GET /live HTTP/1.1\r\nHost: h\r\n")
            self.drip(client, b"X-Field: value\r\n", 0.2)
            self.check_408(client, began, HEAD_S, "llama")

    def second_head(self):
        with Client(self.server.port) as client:
            client.send_request("GET", "/live")
            client.reply()
            time.sleep(3)
            client.send(b"GET /live HTTP/1.1\r\nHost: h\r\n")
            self.check_408(client, time.monotonic(), HEAD_S, "llama")

    def silent_body(self):
        with Client(self.server.port) as client:
            began = time.monotonic()
            client.send(b"POST /embed HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n{")
            self.check_408(client, began, BODY_S, "tei")

    def dripped_chunks(self):
        """A chunked body of unknown length may take 64 s more for its 4 MiB, no longer."""
        with Client(self.server.port) as client:
            client.send(b"POST /embed HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
            end = time.monotonic() + BODY_S + 3
            while time.monotonic() < end:
                client.send(b"1\r\n \r\n")
                time.sleep(0.3)
            client.send(b"2\r\n{}\r\n0\r\n\r\n")
            self.assertEqual(client.reply().status, 400)

    def stuck_after_continue(self):
        with Client(self.server.port) as client:
            began = time.monotonic()
            client.send(b"POST /infill HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n"
                        b"Content-Length: 10\r\n\r\n")
            self.assertEqual(client.until(b"\r\n\r\n"), b"HTTP/1.1 100 Continue")
            self.check_408(client, began, BODY_S, "llama")

    def refused_and_slow(self):
        with Client(self.server.port) as client:
            began = time.monotonic()
            client.send(b"POST /nothing HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n")
            reply = client.reply()
            self.assertEqual(reply.status, 404)
            self.assertAlmostEqual(time.monotonic() - began, DROP_S, delta=0.5)
            self.assertTrue(client.at_end())

    def first_ping(self):
        """A stream with nothing to say commits itself with a ping; failures are frames from then
        on."""
        with Client(self.server.port, timeout=25) as client:
            began = time.monotonic()
            client.send_request("POST", "/generate_stream", {
                "tokens": 2, "prompt_ms": (PING_S + 1) * 1000, "fail": "non_finite",
                "fail_after": 0})
            self.assertEqual(client.head().status, 200)
            self.assertAlmostEqual(time.monotonic() - began, PING_S, delta=0.5)
            frames = list(client.frames())
            self.assertEqual(frames[0], ": ping")
            self.assertIn('"error_type":"backend"', frames[1])
            self.assertEqual(len(frames), 2)

    def queued(self):
        """One sequence, taken for longer than a job may wait for it."""
        with Server("--sequences", "1") as server:
            with Client(server.port) as first, Client(server.port, timeout=60) as second:
                first.send_request("POST", "/generate", {"prompt_ms": (QUEUE_S + 3) * 1000})
                wait_for(lambda: server.metrics()["magnetd_sequences_running"] == 1, "running")
                began = time.monotonic()
                second.send_request("POST", "/generate", {})
                self.assertEqual(second.reply().status, 504)
                self.assertAlmostEqual(time.monotonic() - began, QUEUE_S, delta=1.2)

    def good_client(self):
        times = []
        end = time.monotonic() + BODY_S
        while time.monotonic() < end:
            began = time.monotonic()
            self.assertEqual(request(self.server.port, "POST", "/embed", {}).status, 200)
            times.append(time.monotonic() - began)
            time.sleep(0.05)
        self.assertLess(sorted(times)[len(times) * 99 // 100], 0.25)

    def test_all_at_once(self):
        with self.server:
            together([self.silent] * 50 + [self.dripped_head] * 20 +
                     [self.second_head, self.silent_body, self.silent_body, self.dripped_chunks,
                      self.stuck_after_continue, self.refused_and_slow, self.first_ping,
                      self.queued, self.good_client])
            wait_for(lambda: all_at_rest(self.server), "gauges at zero")
            values = self.server.metrics()
            self.assertEqual(values['magnetd_http_requests_total{route="none",code="408"}'], 71)
            self.assertEqual(values['magnetd_http_requests_total{route="/embed",code="408"}'], 2)
            wait_for(lambda: self.server.metrics()["magnetd_http_connections"] == 1, "connections")


if __name__ == "__main__":
    unittest.main()
