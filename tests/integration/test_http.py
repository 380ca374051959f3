"""Ordinary HTTP: routes and their errors, HEAD, request ids, keep-alive, pipelining, headers.

Method: one scripted server; replies are read byte by byte, so a wrong length or a second status
line cannot hide.
"""
import shutil
import subprocess
import unittest

from harness import Client, Server, all_at_rest, compose, request, wait_for

PATHS = ["/embed", "/embed_all", "/infill", "/generate", "/generate_stream", "/classify",
         "/tokenize", "/detokenize", "/decode"]
TEI = ["/embed", "/embed_all", "/generate", "/generate_stream", "/classify", "/decode", "/info"]


NUMBER = r"[0-9]+(\.[0-9]+)?(e[+-][0-9]+)?"
LINE = (r"^(# HELP [a-z_]+ [^\n]+|# TYPE [a-z_]+ (counter|gauge|histogram)|"
        r'[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? ' + NUMBER + ")$")


def check_error(test, reply, path, status):
    """The body has the shape of the route's dialect."""
    test.assertEqual(reply.status, status, reply)
    test.assertEqual(reply.field("content-type"), "application/json")
    body = reply.json()
    if path in TEI:
        test.assertEqual(set(body) - {"line", "column", "offset"},
                         {"error", "error_type", "code", "param"})
        test.assertIsInstance(body["error"], str)
    elif path.startswith("/v1/"):
        test.assertEqual(set(body), {"error"})
        test.assertEqual(set(body["error"]), {"message", "type", "param", "code"})
    else:
        test.assertEqual(set(body), {"error"})
        test.assertEqual(body["error"]["code"], status)
        test.assertLessEqual({"message", "type", "param"}, set(body["error"]))


class Http(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        wait_for(lambda: all_at_rest(cls.server), "gauges at zero")
        with cls.server:
            pass

    def ask(self, *arguments):
        return request(self.server.port, *arguments)

    def test_every_compute_route_answers(self):
        for path in PATHS:
            with self.subTest(path):
                reply = self.ask("POST", path, {"tokens": 2})
                self.assertEqual(reply.status, 200, reply)

    def test_unknown_path_is_404_in_the_dialect_of_its_prefix(self):
        for path in ["//", "/nothing", "/embed/", "/EMBED", "/%65mbed", "/v1/nothing", "/embed%00"]:
            with self.subTest(path):
                check_error(self, self.ask("POST", path, {}), path, 404)

    def test_wrong_method_is_405_with_allow(self):
        for path in PATHS:
            for method in ("GET", "HEAD"):
                reply = self.ask(method, path)
                self.assertEqual((reply.status, reply.field("allow")), (405, "POST"), path)
            check_error(self, self.ask("PUT", path, {}), path, 405)
        for path in ("/info", "/health", "/metrics"):
            reply = self.ask("POST", path, {})
            check_error(self, reply, path, 405)
            self.assertEqual(reply.field("allow"), "GET, HEAD")

    def test_media_types(self):
        for path in PATHS:
            bad = self.ask("POST", path, {}, [("Content-Type", "text/plain")])
            check_error(self, bad, path, 415)
            bad = self.ask("POST", path, {}, [("Content-Encoding", "gzip")])
            check_error(self, bad, path, 415)
            bad = self.ask("POST", path, {}, [("Accept", "text/html")])
            check_error(self, bad, path, 406)
        for accept in ("*/*", "application/*;q=0.5", "text/html, application/json",
                       "text/event-stream"):
            reply = self.ask("POST", "/embed", {}, [("Accept", accept)])
            self.assertEqual(reply.status, 200, accept)
        good = self.ask("POST", "/embed", {}, [("Content-Type", "Application/JSON; charset=utf-8")])
        self.assertEqual(good.status, 200)
        self.assertEqual(self.ask("GET", "/metrics", None, [("Accept", "text/plain")]).status, 200)

    def test_query_is_not_part_of_the_path(self):
        self.assertEqual(self.ask("GET", "/health?a=%20b&c").status, 200)

    def test_errors_of_a_request_name_place_and_position(self):
        reply = self.ask("POST", "/embed", b"nonsense")
        check_error(self, reply, "/embed", 400)
        self.assertEqual([reply.json()[key] for key in ("offset", "line", "column")], [0, 1, 1])
        reply = self.ask("POST", "/generate", b'{"plan_fail":"invalid"}')
        check_error(self, reply, "/generate", 400)
        self.assertEqual(reply.json()["param"], "/inputs")

    def test_errors_of_the_engine(self):
        for path, word, status in [("/embed", "non_finite", 424), ("/infill", "non_finite", 500),
                                   ("/generate", "no_memory", 503), ("/classify", "internal", 500),
                                   ("/generate", "context_length_exceeded", 422),
                                   ("/infill", "context_length_exceeded", 400)]:
            with self.subTest(path=path, word=word):
                reply = self.ask("POST", path, {"fail": word})
                check_error(self, reply, path, status)
                self.assertEqual(reply.field("retry-after") is not None, status == 503)

    def test_request_id(self):
        for good in ("a", "A.b_c-9", "x" * 64):
            reply = self.ask("GET", "/live", None, [("X-Request-Id", good)])
            self.assertEqual(reply.field("x-request-id"), good)
        seen = set()
        for bad in ("x" * 65, "a b", "", "a/b", "<script>"):
            reply = self.ask("GET", "/live", None, [("X-Request-Id", bad)])
            self.assertRegex(reply.field("x-request-id"), r"^[0-9a-f]{16}$")
            seen.add(reply.field("x-request-id"))
        self.assertEqual(len(seen), 5)
        self.assertIsNotNone(self.ask("GET", "/nothing").field("x-request-id"))

    def test_headers_of_a_compute_reply(self):
        reply = self.ask("POST", "/generate", {"tokens": 2, "step_ms": 20, "unknown": 1})
        self.assertEqual(reply.field("x-ignored-fields"), "unknown")
        self.assertEqual(reply.field("x-compute-type"), "cpu")
        self.assertEqual(reply.field("x-compute-tokens"), "3")
        self.assertEqual(reply.field("x-compute-characters"), "11")
        self.assertGreaterEqual(int(reply.field("x-inference-time")), 20)
        self.assertGreaterEqual(int(reply.field("x-total-time")), 20)
        for name in ("x-compute-time", "x-tokenization-time", "x-queue-time"):
            self.assertRegex(reply.field(name), r"^\d+$")

    def test_head_is_get_without_the_body(self):
        with Client(self.server.port) as client:
            for path in ("/health", "/info", "/nothing"):
                client.send_request("HEAD", path)
                head = client.reply("HEAD")
                client.send_request("GET", path)
                body = client.reply()
                self.assertEqual(head.status, body.status)
                self.assertEqual(head.field("content-length"), str(len(body.body)))

    def test_http_1_0(self):
        with Client(self.server.port) as client:
            client.send(b"GET /live HTTP/1.0\r\n\r\n")
            reply = client.reply()
            self.assertEqual((reply.status, reply.json()), (200, {"status": "ok"}))
            self.assertTrue(client.at_end())
        with Client(self.server.port) as client:
            body = b'{"tokens":3}'
            client.send(b"POST /generate_stream HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s"
                        % (len(body), body))
            reply = client.reply()
            self.assertEqual(reply.body.count(b"data: "), 4, reply)

    def test_many_requests_on_one_connection(self):
        with Client(self.server.port) as client:
            for i in range(3000):
                client.send_request("GET", "/live", None, [("X-Request-Id", f"k{i}")])
                self.assertEqual(client.reply().field("x-request-id"), f"k{i}")

    def test_pipelining_keeps_order(self):
        with Client(self.server.port) as client:
            for batch in range(20):
                asked = b""
                for i in range(16):
                    fields = [("X-Request-Id", f"p{batch}-{i}")]
                    if i % 2 == 0:
                        asked += compose("POST", "/embed", {"tokens": 1, "step_ms": i % 3}, fields)
                    else:
                        asked += compose("GET", "/live", None, fields)
                client.send(asked)
                for i in range(16):
                    reply = client.reply()
                    self.assertEqual(reply.status, 200)
                    self.assertEqual(reply.field("x-request-id"), f"p{batch}-{i}")

    def test_split_delivery_changes_nothing(self):
        asked = compose("POST", "/generate", {"tokens": 3}, [("X-Request-Id", "split")])
        with Client(self.server.port) as client:
            for i in range(len(asked)):
                client.send(asked[i:i + 1])
            reply = client.reply()
            self.assertEqual((reply.status, reply.json()), (200, {"text": "abc"}))

    def test_large_reply_is_whole(self):
        reply = self.ask("POST", "/embed", {"reply_bytes": 20_000_000})
        self.assertEqual(len(reply.json()["padding"]), 20_000_000)

    def test_chunked_body(self):
        with Client(self.server.port) as client:
            client.send(b"POST /generate HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
                        b"5\r\n{\"tok\r\n7\r\nens\":2}\r\n0\r\n\r\n")
            self.assertEqual(client.reply().json(), {"text": "ab"})

    def test_expect_continue(self):
        body = b'{"tokens":1}'
        with Client(self.server.port) as client:
            client.send(b"POST /generate HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n"
                        b"Content-Length: %d\r\n\r\n" % len(body))
            self.assertEqual(client.until(b"\r\n\r\n"), b"HTTP/1.1 100 Continue")
            client.send(body)
            self.assertEqual(client.reply().status, 200)

    def test_info_and_probes(self):
        info = self.ask("GET", "/info").json()
        self.assertEqual(info["served_model_name"], "fake")
        self.assertIn("/embed", info["endpoints"])
        for path in ("/health", "/ready", "/live"):
            self.assertEqual(self.ask("GET", path).json(), {"status": "ok"})

    def test_log_has_one_line_per_request_and_no_text(self):
        marker = "SECRETMARKER"
        self.ask("POST", "/generate", {"tokens": 1, "text": marker}, [("X-Request-Id", "logged")])
        self.ask("POST", f"/{marker}", {})
        self.ask("POST", "/embed", marker.encode(), [("X-Custom", marker)])
        wait_for(lambda: any(line["id"] == "logged" for line in self.server.access_lines()), "log")
        lines = [line for line in self.server.access_lines() if line["id"] == "logged"]
        self.assertEqual(len(lines), 1)
        self.assertEqual((lines[0]["route"], lines[0]["status"], lines[0]["outcome"]),
                         ("/generate", 200, "completed"))
        self.assertEqual((lines[0]["tokens_in"], lines[0]["tokens_out"]), (3, 1))
        self.assertNotIn(marker, self.server.log())

    def test_metrics_format(self):
        """By Prometheus' own checker where it is installed; the shape of each line anyhow."""
        with Server() as idle:
            for server in (idle, self.server):
                text = request(server.port, "GET", "/metrics").body
                for line in text.decode().splitlines():
                    self.assertRegex(line, LINE)
                if shutil.which("promtool") is not None:
                    checked = subprocess.run(["promtool", "check", "metrics"], input=text,
                                             capture_output=True, timeout=20)
                    self.assertEqual((checked.returncode, checked.stderr), (0, b""))

    def test_metrics_before_and_after(self):
        with Server() as fresh:
            values = fresh.metrics()
            self.assertTrue(all(value == value for value in values.values()), "NaN")
            self.assertEqual(values['magnetd_requests_received_total{kind="embed"}'], 0)
            self.assertEqual(values["magnetd_ready"], 1)
            request(fresh.port, "POST", "/embed", {})
            request(fresh.port, "POST", "/embed", b"[")
            values = fresh.metrics()
            self.assertEqual(values['magnetd_http_requests_total{route="/embed",code="200"}'], 1)
            self.assertEqual(values['magnetd_http_requests_total{route="/embed",code="400"}'], 1)
            self.assertEqual(
                values['magnetd_requests_finished_total{kind="embed",outcome="completed"}'], 1)
            self.assertEqual(
                values['magnetd_requests_finished_total{kind="embed",outcome="rejected"}'], 1)
            self.assertGreater(values["process_resident_memory_bytes"], 1 << 20)
            self.assertGreater(values["magnetd_step_kinds_count"], 0)


if __name__ == "__main__":
    unittest.main()
