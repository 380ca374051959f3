"""Goal: one client's many requests do not keep another's waiting (R22), a class is what header and
size say, and priority is an order among one client's own.

Method: a single sequence, so that one request runs and the others wait until its client leaves.
Clients are told apart by their addresses on the loopback interface, of which there are many. The
order in which answers come is the order of service. All is over before anybody has aged.
"""
import http.client
import json
import sys
import threading
import unittest

import real
from harness import Client, wait_for

MODEL = sys.argv.pop(1)
CROWD = 12


class Fair(unittest.TestCase):
    def setUp(self):
        self.server = real.start(MODEL, "--sequences", "1")
        self.order, self.lock, self.threads = [], threading.Lock(), []
        self.first = Client(self.server.port)
        self.first.send_request("POST", "/generate", {
            "inputs": "on", "parameters": {"max_new_tokens": 5000}})
        wait_for(lambda: self.server.metrics()["magnetd_sequences_running"] == 1, "running")

    def tearDown(self):
        with self.server:
            real.settled(self.server)

    def ask(self, name, address="127.0.0.2", fields=(), **body):
        """Asks from `address`; returns once the request has been received."""
        def run():
            connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=120,
                                                    source_address=(address, 0))
            connection.request("POST", "/generate", json.dumps({
                "inputs": "on the road", "parameters": {"max_new_tokens": 2}, **body}),
                dict(fields))
            reply = connection.getresponse()
            reply.read()
            connection.close()
            with self.lock:
                self.order.append((name, reply.status))
        before = self.received()
        self.threads.append(threading.Thread(target=run))
        self.threads[-1].start()
        wait_for(lambda: self.received() > before, "received")

    def received(self):
        return sum(value for name, value in self.server.metrics().items()
                   if name.startswith("magnetd_requests_received_total"))

    def depth(self, word):
        return self.server.metrics()[f'magnetd_queue_depth{{class="{word}"}}']

    def finish(self):
        """The first client leaves, the others are served."""
        self.assertEqual(self.order, [])
        self.first.close()
        for thread in self.threads:
            thread.join()
        self.assertEqual({status for _, status in self.order}, {200})
        return [name for name, _ in self.order]

    def test_a_crowd_of_one_client(self):
        for _ in range(CROWD):
            self.ask("crowd")
        for _ in range(2):
            self.ask("other", "127.0.0.3")
        wait_for(lambda: self.depth("generate") == CROWD + 2, "all wait")
        order = self.finish()
        self.assertIn("other", order[:3])
        self.assertEqual(order[:6].count("other"), 2, order)

    def test_classes(self):
        self.ask("bulk", fields={"X-Priority": "bulk"})
        self.ask("normal", "127.0.0.3", fields={"X-Priority": "normal"})
        self.ask("interactive", "127.0.0.4", fields={"X-Priority": "interactive"})
        for word in ("bulk", "generate", "interactive"):
            wait_for(lambda: self.depth(word) == 1, word)
        self.assertEqual(self.finish(), ["interactive", "normal", "bulk"])

    def test_priorities(self):
        self.ask("late", priority=100)
        self.ask("normal")
        self.ask("early", priority=-100)
        wait_for(lambda: self.depth("generate") == 3, "all wait")
        self.assertEqual(self.finish(), ["early", "normal", "late"])


if __name__ == "__main__":
    if MODEL == "default":
        real.need_default_model()
    unittest.main()
