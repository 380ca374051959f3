#!/usr/bin/env python3
"""Many clients that stream text at once: tokens a second, times to the first token and between two.

    python3 tests/bench/bench_serve.py MODEL [--binary build/server/magnetd] [--peer LLAMA_SERVER]

Each of 32 clients sends a prompt of 59 tokens of its own and reads 64 generated tokens as they
come, then the next, until all have done their share. With --peer llama.cpp's server answers the
same prompts on the same model, in alternating rounds; docs/performance.md says how to build it.
Prompts are random words, one token each in most vocabularies, so that none can be reused. The
clients share the machine with the server: read the ratio.
"""
import argparse
import http.client
import json
import pathlib
import random
import socket
import statistics
import subprocess
import sys
import threading
import time

START_S = 60
WORDS = ("the sea and town boat that came home late at night with a small dog who ran over green "
         "hills to find water before winter while people made bread near old trees").split()


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def prompt(client, turn, options):
    """No two prompts begin alike; the same words in every round and for every server."""
    words = random.Random(client * 1000 + turn).choices(WORDS, k=options.prompt)
    return "The " + " ".join(words[1:])


class Magnetd:
    name = "magnetd"
    path = "/generate_stream"

    def __init__(self, options):
        self.process = subprocess.Popen(
            [options.binary, "--model", options.model, "--port", "0", "--threads",
             str(options.threads), "--log-level", "warn", "--drain-delay-ms", "0"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        line = self.process.stdout.readline().decode()
        assert line.startswith("listening on "), "the server did not start"
        self.port = int(line.rsplit(":", 1)[1])

    @staticmethod
    def body(text, options):
        return {"inputs": text, "parameters": {"max_new_tokens": options.tokens, "seed": 1,
                                              "ignore_eos": True, "temperature": 0}}

    @staticmethod
    def tokens(frame):
        return 1 if frame.get("token") else 0


class Peer:
    name = "llama.cpp"
    path = "/completion"

    def __init__(self, options):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        context = options.clients * (options.prompt + options.tokens + 16)
        self.process = subprocess.Popen(
            [options.peer, "-m", options.model, "--host", "127.0.0.1", "--port", str(self.port),
             "-t", str(options.threads), "-np", str(options.clients), "-c", str(context)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    @staticmethod
    def body(text, options):
        return {"prompt": text, "n_predict": options.tokens, "stream": True, "ignore_eos": True,
                "temperature": 0, "cache_prompt": False, "return_tokens": True}

    @staticmethod
    def tokens(frame):
        return len(frame.get("tokens") or []) if not frame.get("stop") else 0


def wait_ready(server):
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        assert server.process.poll() is None, f"{server.name} ended"
        time.sleep(0.05)
    raise SystemExit(f"{server.name} is not ready")


def one_text(server, connection, client, turn, options, found):
    began = last = time.monotonic()
    connection.request("POST", server.path, json.dumps(
        server.body(prompt(client, turn, options), options)), {"Content-Type": "application/json"})
    reply = connection.getresponse()
    assert reply.status == 200, reply.read()
    count = 0
    for line in iter(reply.readline, b""):
        if not line.startswith(b"data:") or line.strip() == b"data: [DONE]":
            continue
        new = server.tokens(json.loads(line[5:]))
        if new == 0:
            continue
        now = time.monotonic()
        found["first" if count == 0 else "between"].append(now - (began if count == 0 else last))
        last = now
        count += new
    assert count == options.tokens, f"{server.name}: {count} tokens"


def run_round(server, options):
    found = {"first": [], "between": []}
    failures = []

    def run(client):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
            for turn in range(options.turns):
                one_text(server, connection, client, turn, options, found)
            connection.close()
        except Exception as failure:  # noqa: BLE001 - told by the main thread
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(options.clients)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - began
    if failures:
        raise failures[0]
    return {"tokens/s": options.clients * options.turns * options.tokens / seconds,
            "first p50, s": statistics.median(found["first"]),
            "first p99, s": percentile(found["first"], 0.99),
            "between p50, ms": statistics.median(found["between"]) * 1000,
            "between p99, ms": percentile(found["between"], 0.99) * 1000}


def measure(kinds, options):
    rounds = {kind.name: [] for kind in kinds}
    for number in range(options.rounds):
        for kind in kinds:
            server = kind(options)
            try:
                wait_ready(server)
                rounds[kind.name].append(run_round(server, options))
            finally:
                server.process.terminate()
                server.process.wait()
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    return rounds


def tell(rounds):
    names = list(rounds)
    print(f"{'median of the rounds':22}" + "".join(f"{name:>12}" for name in names) +
          (f"{'ratio':>8}{'least':>8}{'most':>8}" if len(names) == 2 else ""))
    for line in rounds[names[0]][0]:
        values = {name: [one[line] for one in rounds[name]] for name in names}
        text = f"{line:22}" + "".join(f"{statistics.median(values[n]):12.2f}" for n in names)
        if len(names) == 2:
            ratios = [a / b for a, b in zip(values[names[0]], values[names[1]])]
            text += f"{statistics.median(ratios):8.2f}{min(ratios):8.2f}{max(ratios):8.2f}"
        print(text)


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--binary", default=str(root / "build/server/magnetd"))
    parser.add_argument("--peer", help="llama.cpp's llama-server")
    for flag, value in (("threads", 2), ("clients", 32), ("turns", 1), ("rounds", 5),
                        ("prompt", 59), ("tokens", 64)):
        parser.add_argument(f"--{flag}", type=int, default=value)
    options = parser.parse_args()
    tell(measure([Magnetd] + ([Peer] if options.peer else []), options))


main()
