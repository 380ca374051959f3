"""Each limit of the front at its value and one past it: body, queue, connections, descriptors.

Method: a server started with small limits where a flag allows, the real ones where not.
"""
import resource
import socket
import time
import unittest

from harness import TIMEOUT_S, Client, Server, all_at_rest, compose, request, together, wait_for

MIB = 1 << 20


class Body(unittest.TestCase):
    def padded(self, size):
        body = b'{"tokens":1}'
        return body[:-1] + b" " * (size - len(body)) + b"}"

    def test_at_the_limit_and_one_past(self):
        with Server() as server:
            at = request(server.port, "POST", "/generate", self.padded(4 * MIB))
            self.assertEqual(at.status, 200)
            past = request(server.port, "POST", "/generate", self.padded(4 * MIB + 1))
            self.assertEqual(past.status, 413)
            self.assertIn(str(4 * MIB), past.json()["error"])
            self.assertIn(str(4 * MIB + 1), past.json()["error"])
            wait_for(lambda: all_at_rest(server), "gauges at zero")

    def chunked(self, client, sizes):
        client.send(b"POST /generate HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
        for data in sizes:
            client.send(b"%x\r\n%s\r\n" % (len(data), data))
        client.send(b"0\r\n\r\n")

    def test_chunked_is_counted(self):
        with Server("--max-body-bytes", "1024") as server:
            with Client(server.port) as client:
                body = self.padded(1024)
                self.chunked(client, [body[:500], body[500:]])
                self.assertEqual(client.reply().status, 200)
            with Client(server.port) as client:
                body = self.padded(1025)
                self.chunked(client, [body[:500], body[500:]])
                reply = client.reply()
                self.assertEqual((reply.status, reply.field("connection")), (413, "close"))
                self.assertTrue(client.at_end())

    def test_one_byte_chunks(self):
        with Server() as server, Client(server.port) as client:
            body = self.padded(200_000)
            client.send(b"POST /generate HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
            client.send(b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n")
            self.assertEqual(client.reply().status, 200)

    def test_expect_is_refused_before_anything_is_uploaded(self):
        with Server("--max-body-bytes", "1024") as server, Client(server.port) as client:
            client.send(b"POST /generate HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n"
                        b"Content-Length: 1025\r\n\r\n")
            self.assertEqual(client.reply().status, 413)
            self.assertTrue(client.at_end())

    def test_refusal_is_readable_by_a_client_that_sends_first(self):
        """Small: the connection goes on. Larger: read, answered, closed. Huge: answered at once."""
        with Server("--max-body-bytes", "1024") as server:
            with Client(server.port) as client:
                for _ in range(3):
                    client.send_request("POST", "/generate", self.padded(60_000))
                    self.assertEqual(client.reply().status, 413)
            for _ in range(50):
                with Client(server.port) as client:
                    client.send_request("POST", "/generate", self.padded(2 * MIB))
                    self.assertEqual(client.reply().status, 413)
                    self.assertTrue(client.at_end())
            with Client(server.port) as client:
                client.send(b"POST /generate HTTP/1.1\r\nHost: h\r\n"
                            b"Content-Length: 20000000\r\n\r\n")
                self.assertEqual(client.reply().status, 413)
                self.assertTrue(client.at_end())
            with Client(server.port) as client:  # says 1 MiB, sends half of it and waits
                client.send(b"POST /generate HTTP/1.1\r\nHost: h\r\nContent-Length: 1048576\r\n\r\n"
                            + b"x" * (MIB // 2))
                began = time.monotonic()
                self.assertEqual(client.reply().status, 413)
                self.assertLess(time.monotonic() - began, 3.5)
                self.assertTrue(client.at_end())

    def test_all_bodies_together(self):
        """64 bodies of 4 MiB, held back by their last byte, fill the 256 MiB; the next is 503."""
        with Server() as server:
            body = self.padded(4 * MIB)
            clients = []
            for _ in range(64):  # connected only now: a silent connection has 10 s
                clients.append(Client(server.port))
                clients[-1].send(compose("POST", "/generate", body)[:-1])

            def is_full():  # asks by its head alone: a body of its own would count as well
                with Client(server.port) as client:
                    client.send(b"POST /generate HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n"
                                b"Expect: 100-continue\r\n\r\n")
                    reply = client.reply()
                return reply.status == 503 and reply.field("retry-after") is not None
            wait_for(is_full, "bodies at their bound", timeout=3 * TIMEOUT_S)
            for client in clients:
                client.send(body[-1:])
                self.assertEqual(client.reply().status, 200)
                client.close()
            self.assertEqual(request(server.port, "POST", "/generate", {}).status, 200)
            wait_for(lambda: all_at_rest(server), "gauges at zero")


class Queue(unittest.TestCase):
    def test_o5_queue_bound_is_429_from_the_head(self):
        with Server("--jobs", "4", "--sequences", "2") as server:
            clients = [Client(server.port) for _ in range(4)]
            for client in clients:
                client.send_request("POST", "/generate", {"tokens": 5, "step_ms": 100})
            wait_for(lambda: server.metrics()["magnetd_tasks_in_use"] == 4, "full")
            for path in ("/generate", "/embed", "/tokenize"):
                reply = request(server.port, "POST", path, {})
                self.assertEqual(reply.status, 429, path)
                self.assertIn(int(reply.field("retry-after")), range(1, 61))
            with Client(server.port) as client:  # refused although its body never comes
                client.send(b"POST /infill HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n"
                            b"Content-Length: 100\r\n\r\n")
                self.assertEqual(client.reply().status, 429)
            self.assertEqual(request(server.port, "GET", "/health").status, 200)
            for client in clients:
                self.assertEqual(client.reply().status, 200)
                client.close()
            self.assertEqual(request(server.port, "POST", "/embed", {}).status, 200)
            wait_for(lambda: all_at_rest(server), "gauges at zero")
            values = server.metrics()
            self.assertEqual(values['magnetd_rejected_total{reason="queue_full"}'], 4)


class Connections(unittest.TestCase):
    def test_cap_answers_503_and_recovers(self):
        with Server("--max-connections", "10") as server:
            held = []

            def hold_one_more():
                client = Client(server.port)
                client.send_request("GET", "/live")
                if client.reply().status == 200:
                    held.append(client)
                else:  # the place of an earlier connection is not free yet
                    client.close()
                return len(held) == 10
            wait_for(hold_one_more, "10 connections")
            for _ in range(100):
                began = time.monotonic()
                reply = request(server.port, "GET", "/live")
                self.assertEqual((reply.status, reply.json()["error"]["code"]), (503, 503))
                self.assertEqual(reply.field("retry-after"), "1")
                self.assertLess(time.monotonic() - began, 1)
            held.pop().close()

            def recovered():
                return request(server.port, "GET", "/live").status == 200
            wait_for(recovered, "a connection after the cap", 2)
            for client in held:
                client.send_request("GET", "/live")
                self.assertEqual(client.reply().status, 200)
                client.close()
            wait_for(recovered, "recovered")
            refused = server.metrics()['magnetd_http_connections_refused_total{reason="full"}']
            self.assertGreaterEqual(refused, 100)

    def test_s9_burst_is_served_or_told(self):
        """500 connects at once: each is answered, none is reset or left hanging (S9)."""
        with Server("--max-connections", "100") as server:
            statuses = []

            def one():
                statuses.append(request(server.port, "POST", "/embed", {}).status)
            together([one] * 500)
            self.assertEqual(len(statuses), 500)
            self.assertLessEqual(set(statuses), {200, 503})
            self.assertGreater(statuses.count(200), 0)

    def test_few_descriptors(self):
        """With `ulimit -n 64` the cap shrinks to fit; 500 connects cost no CPU and are answered."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        sockets = []
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
            server = LimitedServer(ready=False)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        with server:
            server.wait_ready()
            for _ in range(500):
                one = socket.socket()
                one.settimeout(5)
                one.connect(("127.0.0.1", server.port))
                sockets.append(one)
            before = server.cpu_seconds()
            time.sleep(2)
            self.assertLess(server.cpu_seconds() - before, 0.2)
            for one in sockets:
                one.close()
            wait_for(lambda: request(server.port, "GET", "/live").status == 200, "recovery", 3)


class LimitedServer(Server):
    """The server raises its soft limit to the hard one, so the hard one has to be low."""

    def __init__(self, **arguments):
        import subprocess
        original = subprocess.Popen

        def lowered(command, **options):
            return original(["sh", "-c", 'ulimit -n 64; exec "$0" "$@"', *command], **options)
        subprocess.Popen = lowered
        try:
            super().__init__(**arguments)
        finally:
            subprocess.Popen = original


if __name__ == "__main__":
    unittest.main()
