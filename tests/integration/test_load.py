"""Many clients at once, through the strict parser of tests/http_client.

Goal: under load every reply is well framed, every stream ends whole, overload is refused with 429
and nothing else, and afterwards every request is accounted for.
"""
import os
import re
import subprocess
import unittest

from harness import Server, all_at_rest, wait_for


def load(server, connections, seconds, path, body):
    done = subprocess.run([os.environ["MAGNETD_LOAD"], str(server.port), str(connections),
                           str(seconds), path, body], capture_output=True, text=True, timeout=60)
    statuses = {int(status): int(count)
                for status, count in re.findall(r"status (\d+): (\d+)", done.stdout)}
    return done.returncode, statuses, done.stdout


class Load(unittest.TestCase):
    def check(self, server, connections, path, body, admitted):
        code, statuses, text = load(server, connections, 2, path, body)
        print(f"{path}, {connections} connections:\n{text}")
        self.assertEqual(code, 0, text)
        self.assertLessEqual(set(statuses), admitted, text)
        self.assertGreater(statuses.get(200, 0), 0, text)
        wait_for(lambda: all_at_rest(server), "gauges at zero")
        return statuses

    def test_load(self):
        with Server("--log-level", "warn") as server:
            self.check(server, 64, "/embed", '{"tokens":1}', {200})
            self.check(server, 64, "/generate_stream", '{"tokens":20,"step_ms":10}', {200})
            self.check(server, 8, "/embed", '{"reply_bytes":300000}', {200})

    def test_overload(self):
        with Server("--log-level", "warn", "--jobs", "8", "--sequences", "4") as server:
            for path in ("/generate", "/generate_stream"):
                statuses = self.check(server, 64, path, '{"tokens":3,"step_ms":5}', {200, 429})
                self.assertGreater(statuses.get(429, 0), 0)
            values = server.metrics()
            received = values['magnetd_requests_received_total{kind="generate"}']
            rejected = values[
                'magnetd_requests_finished_total{kind="generate",outcome="rejected"}']
            completed = values[
                'magnetd_requests_finished_total{kind="generate",outcome="completed"}']
            self.assertEqual(received, rejected + completed)


if __name__ == "__main__":
    unittest.main()
