#!/usr/bin/env python3
"""Does one task starve another? Over HTTP, with whatever is beside it.

    MAGNETD_BINARY=build/server/magnetd python3 tests/bench/bench_fair.py MODEL [FLAG...]

Eight clients generate back to back, and then
    a  one client embeds four tokens at a time: latency in steps and in ms
    b  others embed 10,000 texts in bulk: time between two tokens of the streams
    c  a prompt of 4,000 tokens comes: the same
Each is held against the streams alone, measured just before it. Targets: an embedding within 3
steps of its arrival, and a 99th percentile between tokens of at most twice that of the streams
alone. A step is counted when it ends, so an arrival in the middle of one sees that one end too. The
clients share the machine with the server: on a busy one read the ratios, not the times.
"""
import argparse
import http.client
import json
import os
import pathlib
import socket
import statistics
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from harness import Server  # noqa: E402

STREAMS = 8
TOKENS = 64


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


class Streams:
    """Clients that generate back to back and note the time between two tokens."""

    def __init__(self, port):
        self.port = port
        self.stopped = threading.Event()
        self.lock = threading.Lock()
        self.gaps = []
        self.failures = []
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(STREAMS)]
        for thread in self.threads:
            thread.start()

    def run(self, number):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
            turn = 0
            while not self.stopped.is_set():
                self.one(connection, number * 1000 + turn)
                turn += 1
            connection.close()
        except Exception as failure:  # noqa: BLE001 - told by the main thread
            self.failures.append(failure)

    def one(self, connection, seed):
        body = {"inputs": "Once upon a time there was a small town by the sea.",
                "parameters": {"max_new_tokens": TOKENS, "seed": seed, "temperature": 1,
                               "ignore_eos": True}}
        connection.request("POST", "/generate_stream", json.dumps(body),
                           {"Content-Type": "application/json"})
        reply = connection.getresponse()
        assert reply.status == 200, reply.read()
        last = None
        while True:
            line = reply.readline()
            if not line:
                return
            if line.startswith(b"data:"):
                now = time.monotonic()
                if last is not None:
                    with self.lock:
                        self.gaps.append(now - last)
                last = now

    def take(self):
        with self.lock:
            gaps, self.gaps = self.gaps, []
        if self.failures:
            raise self.failures[0]
        return gaps

    def stop(self):
        self.stopped.set()
        for thread in self.threads:
            thread.join()


OPEN = []  # connections whose reply may still be awaited


def post(port, path, body):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    OPEN.append(connection.sock)
    try:
        reply = connection.getresponse()
        return reply.status, reply.read()
    except (OSError, http.client.HTTPException):
        return 0, b""  # abandoned
    finally:
        connection.close()


def abandon():
    """The server cancels what is left of it, so that the next part has the streams to itself."""
    for sock in OPEN:
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
    OPEN.clear()
    time.sleep(1)


def steps(server):
    return server.metrics()["magnetd_step_seconds_count"]


def embeddings(server, count):
    """Latencies of single short texts: steps that ended meanwhile, and milliseconds. The two
    scrapes lie around the request, so the steps are an upper bound."""
    found = []
    for i in range(count):
        before, began = steps(server), time.monotonic()
        status, text = post(server.port, "/embed", {"inputs": [[11 + i, 12, 13, 14]]})
        ms = (time.monotonic() - began) * 1000
        assert status == 200, text
        found.append((steps(server) - before, ms))
    return found


WORDS = "the sea and the town and a boat that came home late at night".split()


def embed_bulk(port):
    """10,000 texts of eight words, in five requests at once."""
    body = {"inputs": [" ".join(WORDS[i % 7:i % 7 + 8]) for i in range(2000)]}
    threads = [threading.Thread(target=post, daemon=True, args=(port, "/embed", body))
               for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def prompt(port):
    post(port, "/generate", {"inputs": " ".join(WORDS[i % len(WORDS)] for i in range(4000)),
                             "parameters": {"max_new_tokens": 1}})


def beside(streams, work, seconds):
    """Gaps of the streams while `work` runs, or for some seconds of it."""
    thread = threading.Thread(target=work, daemon=True)
    streams.take()
    began = time.monotonic()
    thread.start()
    while thread.is_alive() and time.monotonic() - began < seconds:
        time.sleep(0.05)
    gaps, seconds = streams.take(), time.monotonic() - began
    abandon()
    return gaps, seconds


def tell(name, alone, gaps, seconds):
    ratio = percentile(gaps, 0.99) / percentile(alone, 0.99)
    print(f"{name:28} {statistics.median(gaps) * 1000:8.1f} {percentile(gaps, 0.99) * 1000:8.1f} "
          f"{ratio:6.2f}   {len(gaps)} gaps in {seconds:.1f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--seconds", type=float, default=10, help="of each part")
    parser.add_argument("--embeddings", type=int, default=50)
    options, flags = parser.parse_known_args()
    with Server(*flags, model=options.model, binary=os.environ["MAGNETD_BINARY"]) as server:
        idle = [ms for _, ms in embeddings(server, 10)]
        streams = Streams(server.port)
        try:
            time.sleep(2)
            measured = embeddings(server, options.embeddings)
            print(f"a  /embed of 4 tokens beside {STREAMS} streams, {len(measured)} times: "
                  f"{statistics.median(idle):.1f} ms alone")
            for name, values in (("steps", [count for count, _ in measured]),
                                 ("ms", [ms for _, ms in measured])):
                print(f"   {name:6} median {statistics.median(values):.1f}, "
                      f"p99 {percentile(values, 0.99):.1f}, most {max(values):.1f}")
            print(f"{'b, c  between tokens, ms':28} {'median':>8} {'p99':>8} {'ratio':>6}")
            for name, work in (("beside 10,000 texts", lambda: embed_bulk(server.port)),
                               ("beside a 4,000-token prompt", lambda: prompt(server.port))):
                alone, seconds = beside(streams, lambda: time.sleep(options.seconds),
                                        options.seconds)
                tell("streams alone", alone, alone, seconds)
                gaps, seconds = beside(streams, work, options.seconds * 3)
                tell(name, alone, gaps, seconds)
        finally:
            streams.stop()


main()
