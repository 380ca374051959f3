"""Goal: the service around the answers: when it is ready, what it shows while busy, how it stops
and what it writes down (cases O1 O2 O4 O7 O8, requirements R20, R24, access log).

Method: probes beside load on the default model; promtool reads the metrics idle and busy; the log
is searched for a word that every request carried.
"""
import json
import math
import shutil
import subprocess
import sys
import time
import unittest

import real
from harness import Client, compose, request, together, wait_for
from real import ask, ok

MODEL = sys.argv.pop(1)
TINY = MODEL == "tiny"
CANARY = "zyzzogeton"
PROBES = 40
PROBE_P99_S = 0.05  # O1; slower machines and builds get SCALE times as much
LONG = "the red fox eats an onion. " * 400
LOG_KEYS = {"time", "level", "area", "id", "method", "route", "status", "outcome", "phase",
            "total_ms", "queue_ms", "prompt_ms", "decode_ms", "tokens_in", "tokens_cached",
            "tokens_out", "bytes_out"}


def promtool(text):
    return subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True,
                          timeout=60)


def scrape(server):
    return request(server.port, "GET", "/metrics").body


class Life(unittest.TestCase):
    def test_o2_ready_only_after_a_forward_pass(self):
        server = real.start(MODEL, ready=False)
        seen = []
        while not seen or seen[-1] != 200:
            reply = ask(server, "/ready")
            seen.append(reply.status)
            if reply.status == 503:
                self.assertEqual(reply.value["error"]["message"], "Loading model")
            self.assertEqual(ask(server, "/live").status, 200)
            self.assertLess(len(seen), 100000)
        self.assertEqual(set(seen) - {503}, {200})
        self.assertGreaterEqual(server.metrics()["magnetd_step_seconds_count"], 1)
        ok(server, "/embed", {"inputs": "a"})
        server.stop()
        self.assertEqual(server.wait(), 0)

    def test_o4_live_is_not_ready(self):
        server = real.start(MODEL, "--drain-delay-ms", "1500")
        server.stop()
        wait_for(lambda: ask(server, "/ready").status == 503, "not ready", 1)
        self.assertEqual(ask(server, "/ready").value["error"]["message"], "Draining")
        self.assertEqual(ask(server, "/live").status, 200)
        ok(server, "/embed", {"inputs": "a"})
        self.assertEqual(server.wait(), 0)

    def test_o7_o8_metrics(self):
        """No NaN before the first request; the format holds idle, busy and at rest again."""
        with real.start(MODEL) as server:
            texts = [scrape(server)]
            clients = [Client(server.port) for _ in range(4)]
            for client in clients:
                client.send(compose("POST", "/generate_stream", {
                    "inputs": "on", "parameters": {"max_new_tokens": 100}}))
            texts.append(scrape(server))
            for client in clients:
                real.check_reply("/generate_stream", client.reply())
                client.close()
            real.settled(server)
            texts.append(scrape(server))
        for text in texts:
            for line in text.decode().splitlines():
                if not line.startswith("#"):
                    self.assertTrue(math.isfinite(float(line.rsplit(" ", 1)[1])), line)
            names = [line.split()[2] for line in text.decode().splitlines()
                     if line.startswith("# TYPE")]
            self.assertEqual(len(names), len(set(names)))
            for name in ("magnetd_ready", "magnetd_step_kinds", "magnetd_queue_wait_seconds",
                         "process_cpu_seconds_total", "process_resident_memory_bytes"):
                self.assertIn(name, names)
        if shutil.which("promtool") is None:
            self.skipTest("promtool is not installed")
        for text in texts:
            checked = promtool(text)
            self.assertEqual(checked.returncode, 0, checked.stderr)

    def test_access_log(self):
        """One line for each request, whole or broken, and none holds a word of a user."""
        bodies = [
            ("/embed", {"inputs": CANARY}), ("/embed_all", {"inputs": CANARY}),
            ("/infill", {"text": CANARY + "[gap]", "max_tokens": 1}),
            ("/infill", {"input_prefix": CANARY, "input_suffix": CANARY, "n_predict": 1}),
            ("/generate", {"inputs": CANARY, "parameters": {"max_new_tokens": 1, "stop": CANARY}}),
            ("/generate_stream", {"inputs": CANARY, "parameters": {"max_new_tokens": 2}}),
            ("/classify", {"inputs": CANARY, "labels": [CANARY, "b"]}),
            ("/tokenize", {"content": CANARY}), ("/detokenize", {"tokens": [5]}),
            ("/decode", {"ids": [5]}),
        ]
        with real.start(MODEL) as server:
            expected = {}

            def send(path, body, method="POST", target=None):
                name = f"id-{len(expected)}"
                reply = request(server.port, method, target or path, body, [
                    ("X-Request-Id", name), ("X-Other", CANARY), ("User-Agent", CANARY)])
                expected[name] = (path, reply.status)

            for path, body in bodies:
                send(path, body)
                send(path, {**body, CANARY: CANARY})
                send(path, {CANARY: 1})
                send(path, ('{"%s' % CANARY).encode())
                send(path, {**body, "model": CANARY})
                send(path, None, "GET")
            for path in ("/info", "/props", "/health", "/live", "/ready", "/metrics"):
                send(path, None, "GET")
                send(path, None, "GET", f"{path}?{CANARY}")
            send("none", {"a": CANARY}, "POST", f"/{CANARY}")
            real.settled(server)
            wait_for(lambda: len(expected) <= sum(
                line["id"] in expected for line in server.access_lines()), "lines")
            log = server.log()
            lines = {}
            for line in server.access_lines():
                self.assertNotIn(line["id"], lines if line["id"] in expected else ())
                lines[line["id"]] = line
            self.assertNotIn(CANARY, log)
            for line in log.splitlines():
                if line.startswith("{"):
                    self.assertIn("level", json.loads(line))
        for name, (path, status) in expected.items():
            self.assertEqual((lines[name]["route"], lines[name]["status"]), (path, status))
            self.assertEqual(set(lines[name]), LOG_KEYS)
            self.assertEqual(lines[name]["outcome"],
                             "completed" if status == 200 else "rejected")

    def test_full_queue_says_when_to_come_back(self):
        with real.start(MODEL, "--jobs", "2", "--sequences", "1") as server:
            body = {"inputs": ["a" * 200] * 200} if TINY else {"inputs": [LONG[:600]] * 3}
            statuses = []

            def one():
                statuses.append(ask(server, "/embed", body).status)  # checks Retry-After

            together([one] * 12)
            self.assertEqual(set(statuses), {200, 429})
            metrics = real.settled(server)
            self.assertEqual(metrics['magnetd_rejected_total{reason="queue_full"}'],
                             statuses.count(429))

    @unittest.skipIf(TINY, "nothing lasts long enough on the tiny model")
    def test_o1_health_while_busy(self):
        with real.start(MODEL, "--context", "4096") as server:
            clients = [Client(server.port) for _ in range(9)]
            for client in clients[1:]:
                client.send(compose("POST", "/generate_stream", {
                    "inputs": "on", "parameters": {"max_new_tokens": 400}}))
            clients[0].send(compose("POST", "/embed", {"inputs": LONG}))
            wait_for(lambda: server.metrics()["magnetd_sequences_running"] >= 8, "busy")
            times = []
            with Client(server.port) as probe:
                for _ in range(PROBES):
                    began = time.monotonic()
                    probe.send_request("GET", "/health")
                    self.assertEqual(probe.reply().status, 200)
                    times.append(time.monotonic() - began)
                    time.sleep(0.02)
            self.assertGreaterEqual(server.metrics()["magnetd_sequences_running"], 1)
            for client in clients:
                client.reset()
            real.settled(server)
        times.sort()
        print(f"/health while busy: median {times[PROBES // 2] * 1000:.1f} ms, "
              f"worst {times[-1] * 1000:.1f} ms")
        self.assertLess(times[int(PROBES * 0.9)], PROBE_P99_S * real.SCALE)

    def test_stop_under_load(self):
        """SIGTERM while streams and whole answers run: each ends as if nothing had happened."""
        count = 250 if TINY else 40
        body = {"inputs": "on the road", "parameters": {"max_new_tokens": count, "details": True}}
        server = real.start(MODEL, "--drain-timeout-ms", "60000")
        alone = ok(server, "/generate", body).value
        clients = []
        for index in range(8):
            path = "/generate_stream" if index % 2 else "/generate"
            client = Client(server.port, 60 * real.SCALE)
            client.send(compose("POST", path, body))
            clients.append((path, client))
        wait_for(lambda: sum(server.metrics()[
            f'magnetd_http_requests_total{{route="{path}",code="200"}}'] for path in
            ("/generate", "/generate_stream")) > 1 or server.metrics()[
            'magnetd_requests_in_flight{kind="generate"}'] == 8, "admitted")
        server.stop()
        for path, client in clients:
            reply = real.check_reply(path, client.reply())
            self.assertEqual(reply.status, 200)
            if path == "/generate":
                self.assertEqual(reply.value, alone)
            else:
                self.assertEqual(reply.frames[-1]["generated_text"], alone["generated_text"])
            client.close()
        self.assertEqual(server.wait(60 * real.SCALE), 0)

    @unittest.skipIf(TINY, "nothing lasts long enough on the tiny model")
    def test_deadline_is_504(self):
        with real.start(MODEL) as server:
            body = {"inputs": "on", "parameters": {"max_new_tokens": 1000}, "timeout_ms": 300}
            reply = ask(server, "/generate", body)
            self.assertEqual((reply.status, reply.value["error_type"]), (504, "timeout"))
            real.settled(server)
            last = ask(server, "/generate_stream", body).frames[-1]
            self.assertEqual(last["error_type"], "timeout")
            real.settled(server)


if __name__ == "__main__":
    if not TINY:
        real.need_default_model()
    unittest.main()
