#!/usr/bin/env python3
"""Time from starting the program to its first whole answer, on the default model.

Measures, from the spawn of a fresh process: the line "listening on" (listening), the first
200 of /ready (ready), and a whole /generate answer of one token (answered), sent the moment it is
ready. Prints the median of the rounds and each part's share, as seconds. The file is in the page
cache after the first round, which is not counted.

    python3 tests/bench/bench_start.py [--binary build/server/magnetd] [--model FILE] [--rounds 7]
"""
import argparse
import http.client
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

SKIPPED = 77
DEADLINE_S = 60
TARGET_S = 1.0


def default_model():
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    return os.environ.get("MAGNETD_MODEL",
                          str(cache / "magnetd" / "SmolLM2-135M-Instruct.Q4_1.gguf"))


def wait_ready(connection, end):
    while time.monotonic() < end:
        connection.request("GET", "/ready")
        reply = connection.getresponse()
        reply.read()
        if reply.status == 200:
            return
        time.sleep(0.002)
    raise SystemExit("not ready in time")


def one_round(binary, model):
    """Seconds after the spawn: listening, ready, answered."""
    began = time.monotonic()
    process = subprocess.Popen(
        [binary, "--model", model, "--port", "0", "--drain-delay-ms", "0", "--log-level", "warn"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        line = process.stdout.readline().decode()
        if not line.startswith("listening on "):
            raise SystemExit("the server did not start")
        listening = time.monotonic() - began
        connection = http.client.HTTPConnection("127.0.0.1", int(line.rsplit(":", 1)[1]),
                                                timeout=DEADLINE_S)
        wait_ready(connection, began + DEADLINE_S)
        ready = time.monotonic() - began
        connection.request("POST", "/generate", json.dumps(
            {"inputs": "Once upon a time", "parameters": {"max_new_tokens": 1}}))
        reply = connection.getresponse()
        if reply.status != 200 or not json.loads(reply.read())["generated_text"]:
            raise SystemExit("no answer")
        answered = time.monotonic() - began
        connection.close()
    finally:
        process.terminate()
        process.wait(DEADLINE_S)
        process.stdout.close()
    return listening, ready, answered


def main():
    parser = argparse.ArgumentParser()
    binary = os.environ.get("MAGNETD_BINARY", "build/server/magnetd")
    parser.add_argument("--binary", default=binary)
    parser.add_argument("--model", default=default_model())
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    if not pathlib.Path(options.model).exists():
        print("skipped: the default model is not here (deploy/fetch_model.sh)")
        sys.exit(SKIPPED)
    one_round(options.binary, options.model)
    rounds = [one_round(options.binary, options.model) for _ in range(options.rounds)]
    listening, ready, answered = (statistics.median(part) for part in zip(*rounds))
    print(f"start to first answer: {answered:.3f} s (median of {len(rounds)}, best "
          f"{min(total for _, _, total in rounds):.3f}, target {TARGET_S:.1f})")
    print(f"  listening {listening:.3f}, then ready {ready - listening:.3f}, "
          f"then answered {answered - ready:.3f}")


main()
