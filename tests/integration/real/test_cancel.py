"""Goal: a request whose client has left stops within one step, whatever it was doing, and every
request is accounted for (cases S2 S3 S4 S10, requirements R17, R18 and R46).

Method: the default model is slow enough to be met in each phase: queued behind another, in a long
prefill, while decoding, and with a writer nobody reads from. The client goes by FIN, RST or half
close. Steps that end after the loop has seen it are counted: at most the one in progress and one
that was being put together. The tiny model does the same at random, many times over.
"""
import random
import signal
import socket
import sys
import tempfile
import threading
import time
import unittest

import real
from harness import Client, compose, queue_depth, together, wait_for
from real import ok
from variants import Variant

MODEL = sys.argv.pop(1)
TINY = MODEL == "tiny"
STEPS_AFTER = 2
LONG_PROMPT = "the red fox eats an onion in the rain. " * 450  # about 4,500 tokens
FRAMES_HELD = 800  # of 1.4 KB: 256 KiB in the stream, its ring, the kernel's share

STREAM = ("/generate_stream", {"inputs": "on", "parameters": {"max_new_tokens": 5000}})
WHOLE = ("/generate", {"inputs": "on", "parameters": {"max_new_tokens": 5000}})
PREFILLS = [("/generate", {"inputs": LONG_PROMPT, "parameters": {"max_new_tokens": 5}}),
            ("/generate_stream", {"inputs": LONG_PROMPT}),
            ("/embed", {"inputs": LONG_PROMPT}),
            ("/infill", {"text": LONG_PROMPT + "[gap].", "mode": "hybrid"}),
            ("/classify", {"prompt": LONG_PROMPT})]


def steps(server):
    return server.metrics()["magnetd_step_seconds_count"]


def cancelled(server):
    return sum(value for name, value in server.metrics().items()
               if name.startswith("magnetd_requests_finished_total") and "cancelled" in name)


def leave(client, how):
    if how == "fin":
        client.close()
    elif how == "rst":
        client.reset()
    else:
        client.socket.shutdown(socket.SHUT_WR)


class Base(unittest.TestCase):
    def begin(self, path, body):
        client = Client(self.server.port)
        client.send(compose("POST", path, body))
        return client

    def running(self, count=1):
        wait_for(lambda: self.server.metrics()["magnetd_sequences_running"] == count, "running")


@unittest.skipIf(TINY, "the tiny model is too fast to be met in a phase")
class Phases(Base):
    @classmethod
    def setUpClass(cls):
        cls.server = real.start(MODEL, "--context", "8192", "--sequences", "2",
                                "--step-rows", "256")

    @classmethod
    def tearDownClass(cls):
        real.settled(cls.server)
        with cls.server:
            pass

    def expect_end(self, client, how, running_after=0):
        """The client goes; the engine must let go within a step, and the metrics say cancelled."""
        before = cancelled(self.server)
        leave(client, how)
        at = steps(self.server)
        wait_for(lambda: cancelled(self.server) == before + 1, "cancelled")
        self.running(running_after)
        if running_after == 0:
            self.assertLessEqual(steps(self.server) - at, STEPS_AFTER)
            real.settled(self.server)
            now = steps(self.server)
            time.sleep(0.1)
            self.assertEqual(steps(self.server), now)
        client.close()

    def test_s2_decode(self):
        for path, body in (STREAM, WHOLE):
            for how in ("fin", "rst", "half"):
                with self.subTest(path=path, how=how):
                    client = self.begin(path, body)
                    at = steps(self.server)
                    wait_for(lambda: steps(self.server) >= at + 5, "five tokens")
                    self.expect_end(client, how)

    def test_s3_prefill(self):
        for index, (path, body) in enumerate(PREFILLS):
            with self.subTest(path=path):
                at = steps(self.server)
                client = self.begin(path, body)
                wait_for(lambda: steps(self.server) > at, "a first chunk", 60)
                self.expect_end(client, ("fin", "rst", "half")[index % 3])

    def test_queued_and_nobody_else_is_touched(self):
        """Two run, one waits and leaves: it never starts, and the two finish unchanged (R18)."""
        body = {"inputs": "on the road", "parameters": {"max_new_tokens": 60, "details": True}}
        alone = ok(self.server, "/generate", body).value
        for how in ("fin", "rst", "half"):
            runners = [self.begin("/generate", body) for _ in range(2)]
            self.running(2)
            waiting = self.begin(*STREAM)
            depth = 'magnetd_queue_depth{class="generate"}'
            wait_for(lambda: self.server.metrics()[depth] == 1, "queued")
            before = cancelled(self.server)
            leave(waiting, how)
            wait_for(lambda: cancelled(self.server) == before + 1, "cancelled")
            wait_for(lambda: self.server.metrics()[depth] == 0, "out of the queue")
            for runner in runners:
                self.assertEqual(real.check_reply("/generate", runner.reply()).value, alone)
                runner.close()
            waiting.close()
        real.settled(self.server)

    def test_s10_slow_reader_pauses_only_itself(self):
        """Frames of 1.5 KB that nobody reads: the sequence pauses at its bound, another goes on,
        and the reader's end is seen although the writer is blocked."""
        client = Client(self.server.port, receive_buffer=4096)
        client.send(compose("POST", "/generate_stream", {"inputs": "on", "parameters": {
            "max_new_tokens": 5000, "top_n_tokens": 20}}))
        self.running(1)
        at = steps(self.server)

        def paused():
            now = steps(self.server)
            time.sleep(0.5)
            return steps(self.server) == now

        wait_for(paused, "the blocked stream pauses", 60 * real.SCALE)
        self.assertLess(steps(self.server) - at, FRAMES_HELD)
        body = {"inputs": "on the road", "parameters": {"max_new_tokens": 8}}
        for _ in range(3):
            ok(self.server, "/generate", body)
        self.assertTrue(paused())
        self.expect_end(client, "rst")


@unittest.skipIf(not TINY, "many times over needs the tiny model")
class Random(Base):
    def test_end_that_comes_with_the_last_bytes(self):
        """The process is held while a client connects, sends a part and leaves: bytes and end are
        there at once when it goes on. No connection may be left waiting for its deadline."""
        data = compose("POST", "/embed", {"inputs": "a" * 100})
        head = data.index(b"\r\n\r\n") + 4
        with real.start(MODEL) as self.server:
            for cut in (1, 20, head, head + 9, len(data) - 1, len(data)):
                for how in ("fin", "half"):
                    self.server.process.send_signal(signal.SIGSTOP)
                    clients = [Client(self.server.port) for _ in range(3)]
                    for client in clients:
                        client.send(data[:cut])
                        leave(client, how)
                    self.server.process.send_signal(signal.SIGCONT)
                    wait_for(lambda: self.server.metrics()["magnetd_http_connections"] == 1,
                             f"closed after {cut} bytes by {how}", 3 * real.SCALE)
                    for client in clients:
                        client.close()
            real.settled(self.server)


@unittest.skipIf(not TINY, "many times over needs the tiny model")
class Thousand(Base):
    """Cancels in every phase, some met for certain and some by chance, beside clients who stay."""

    SEQUENCES = 6
    ROUNDS, WAITING = 10 // min(real.SCALE, 5), 10  # of cancels while nobody reads
    BY_CHANCE = 1000 // min(real.SCALE, 5) - ROUNDS * (SEQUENCES + WAITING)
    STAYS = [("/embed", {"inputs": ["the red fox", "a"], "encoding_format": "base64"}),
             ("/infill", {"text": "the fox [gap] hen [gap].", "max_tokens": 5, "mode": "hybrid"}),
             ("/generate", {"inputs": "at the sea", "parameters": {
                 "max_new_tokens": 12, "details": True, "temperature": 1.4, "seed": 21}}),
             ("/classify", {"inputs": ["good tea", "bad tea"], "labels": ["x", "y"]})]
    PROMPT = "the red fox eats tea. " * 150  # in slices and in crumbs: many steps
    TABLE = [("/embed", {"inputs": PROMPT}),
             ("/embed", {"inputs": PROMPT, "attention": "bidirectional"}),
             ("/embed", {"inputs": ["a" * 100] * 40}), ("/embed_all", {"inputs": "a" * 200}),
             ("/infill", {"text": "a [gap] b", "max_tokens": 200, "stream": True,
                          "mode": "hybrid"}),
             ("/infill", {"input_prefix": "a", "input_suffix": "b", "n_cmpl": 8, "mode": "hybrid"}),
             ("/infill", {"text": "a[gap]b [gap]c", "max_tokens": 20, "mode": "rerank"}),
             ("/generate", {"inputs": PROMPT, "parameters": {"max_new_tokens": 2}}),
             ("/generate", {"inputs": "a", "parameters": {"max_new_tokens": 250}}),
             ("/generate_stream", {"inputs": "a", "parameters": {"max_new_tokens": 250}}),
             ("/classify", {"inputs": ["a"] * 20, "labels": ["x", "y"]}),
             ("/tokenize", {"content": "a" * 5000})]
    UNREAD = ("/generate_stream", {"inputs": "a", "parameters": {
        "max_new_tokens": 3000, "top_n_tokens": 20}})

    def setUp(self):
        """The tiny model, told that it has a context long enough to fill every buffer."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Variant().context(4096).write(folder.name)
        self.rng = random.Random(20260602)
        self.sent = self.certain = self.answered = 0  # heads; those not ended by RST

    def send(self, path, body, whole=True, **options):
        data = compose("POST", path, body)
        cut = len(data) if whole else self.rng.randrange(len(data))
        client = Client(self.server.port, **options)
        client.send(data[:cut])
        client.counts = cut >= data.index(b"\r\n\r\n") + 4 and path != "/tokenize"
        return client

    def end(self, client, hows=("fin", "rst", "half")):
        how = self.rng.choice(hows)
        self.sent += client.counts
        self.certain += client.counts and how != "rst"
        leave(client, how)
        client.close()

    def while_nobody_reads(self):
        """Streams that nobody reads have all sequences, others wait; all leave, in any order."""
        clients = [self.send(*self.UNREAD, receive_buffer=4096) for _ in range(self.SEQUENCES)]
        self.running(self.SEQUENCES)
        last = [None]

        def paused():
            before, last[0] = last[0], steps(self.server)
            time.sleep(0.02)
            return before == last[0]

        wait_for(paused, "all streams pause")
        clients += [self.send(*self.rng.choice(self.TABLE[:-1])) for _ in range(self.WAITING)]
        wait_for(lambda: queue_depth(self.server.metrics()) == self.WAITING, "queued")
        self.assertEqual(self.server.metrics()["magnetd_sequences_running"], self.SEQUENCES)
        self.rng.shuffle(clients)
        for client in clients:
            self.end(client)
        wait_for(lambda: queue_depth(self.server.metrics()) == 0, "nobody waits")
        self.running(0)

    def by_chance(self):
        held = []
        for index in range(self.BY_CHANCE):
            held.append(self.send(*self.rng.choice(self.TABLE), whole=self.rng.random() > 0.1))
            if self.rng.random() < 0.7:
                time.sleep(self.rng.random() * 0.004)
            while held and (len(held) > 12 or self.rng.random() < 0.6):
                self.end(held.pop(0))
            if index % 50 == 0:
                self.check_in_flight()
        for client in held:
            self.end(client)

    def check_in_flight(self):
        now = self.server.metrics()
        in_flight = sum(now[f'magnetd_requests_in_flight{{kind="{kind}"}}'] for kind in real.KINDS)
        self.assertLessEqual(in_flight, now["magnetd_http_connections"])

    def stay(self, over):
        while not over.is_set():
            for (path, body), answer in zip(self.STAYS, self.alone):
                self.assertEqual(real.without_timings(ok(self.server, path, body).value), answer)
                self.answered += 1

    def storm(self, over):
        try:
            self.by_chance()
        finally:
            over.set()

    def test_s4_thousand_cancels(self):
        flags = ("--jobs", "64", "--sequences", str(self.SEQUENCES), "--step-rows", "32",
                 "--cache-mib", "2", "--step-ms", "1", "--log-level", "warn")
        with real.Server(*flags, model=str(self.path), binary=real.BINARY) as self.server:
            self.alone = [real.without_timings(ok(self.server, path, body).value)
                          for path, body in self.STAYS]
            self.answered = len(self.STAYS)
            for _ in range(self.ROUNDS):
                self.while_nobody_reads()
            real.settled(self.server)
            over = threading.Event()
            together([lambda: self.stay(over), lambda: self.storm(over)])
            metrics = real.settled(self.server)
            wait_for(lambda: self.server.metrics()["magnetd_http_connections"] == 1, "all closed")
        self.check_counts(metrics)

    def check_counts(self, metrics):
        def total(name, *words):
            return sum(value for key, value in metrics.items() if
                       key.startswith(f"magnetd_{name}{{") and all(word in key for word in words))
        self.assertGreaterEqual(total("requests_received_total"), self.answered + self.certain)
        self.assertLessEqual(total("requests_received_total"), self.answered + self.sent)
        self.assertGreaterEqual(total("requests_finished_total", "completed"), self.answered)
        self.assertEqual(total("requests_finished_total", "failed"), 0)
        waited = self.ROUNDS * self.WAITING
        started = total("queue_wait_seconds_count")
        self.assertGreater(total("requests_received_total") - started, waited * 9 // 10)
        self.assertGreaterEqual(total("cancelled_total", "stream"), self.ROUNDS * self.SEQUENCES)
        self.assertGreater(total("cancelled_total", "engine"), waited * 9 // 10)


if __name__ == "__main__":
    if not TINY:
        real.need_default_model()
    unittest.main()
