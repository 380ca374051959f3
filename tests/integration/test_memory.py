"""Each allocation of a request's way fails once: an honest answer, no crash, and the next request
is served as if nothing had happened.

Method: the scripted endpoint arms mem_fail_after while it decodes, so that the nth allocation from
there fails, in a front worker, the engine or the loop alike. n grows well past the number of
allocations. Before the decode lies only the body's buffer; test_raw and test_limits cover it.
"""
import unittest

from harness import Client, Server, all_at_rest, request, wait_for


class Memory(unittest.TestCase):
    def ask(self, server, path, n):
        """The status, or None for a stream that was broken off after its head."""
        body = {"alloc_fail": n, "tokens": 3, "bytes": 600, "reply_bytes": 5000}
        with Client(server.port) as client:
            client.send_request("POST", path, body)
            try:
                reply = client.reply()
            except EOFError:
                return None
            if path == "/generate_stream" and reply.status == 200:
                frames = reply.body.decode().split("\n\n")
                return 200 if '"last":true' in frames[-2] else None
            return reply.status

    def test_one_allocation_fails(self):
        with Server("--log-level", "warn") as server:
            for path in ("/embed", "/infill", "/generate_stream", "/tokenize"):
                seen = []
                for n in range(1, 40):
                    seen.append(self.ask(server, path, n))
                    request(server.port, "POST", "/embed", {"alloc_fail": 0})
                    self.assertEqual(request(server.port, "POST", path, {}).status, 200)
                self.assertLessEqual(set(seen), {200, 500, 503, None}, seen)
                self.assertEqual(seen[-1], 200, "39 allocations were not enough")
                if path != "/tokenize":  # its scripted stand-in does not arm anything
                    self.assertIn(503, seen)
            wait_for(lambda: all_at_rest(server), "gauges at zero")


if __name__ == "__main__":
    unittest.main()
