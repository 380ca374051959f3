#!/usr/bin/env python3
"""What it costs to hold an answer to a form: tokens per second of processor time, constrained
beside free, on the default model with one thread.

Every round asks for the same prompt free and in each form, one after the other; printed is the
median over the rounds of constrained rate / free rate, greedy and sampled at temperature 1. Times
are the server process's own (user and system), so that other work on the machine does not count.
--peer takes llama.cpp's llama-server, asked for the same schema in its own field.

    python3 tests/bench/bench_constrained.py [--binary build/server/magnetd] [--model FILE]
        [--rounds 5] [--tokens 48] [--peer LLAMA_SERVER]
"""
import argparse
import contextlib
import http.client
import json
import os
import pathlib
import socket
import statistics
import subprocess
import time

DEADLINE_S = 120
PERSON = {"type": "object", "required": ["name", "age", "tags"], "additionalProperties": False,
          "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0},
                         "tags": {"type": "array", "items": {"type": "string"}}}}
PEOPLE = {"type": "array", "items": PERSON, "minItems": 8}
FORMS = {"json_object": {"response_format": {"type": "json_object"}},
         "schema": {"response_format": {"type": "json_schema", "json_schema": {"schema": PEOPLE}}},
         "regex": {"guided_regex": "([A-Z][a-z]+ ([a-z]+ ){2,5}[a-z]+\\. ){20,}"}}
PEER_FORMS = {"schema": {"json_schema": PEOPLE}}
PROMPT = "A list of people as JSON, each with a name, an age and tags:\n"


def default_model():
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    return os.environ.get("MAGNETD_MODEL",
                          str(cache / "magnetd" / "SmolLM2-135M-Instruct.Q4_1.gguf"))


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@contextlib.contextmanager
def served(command, port):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + DEADLINE_S
        while ask(port, "GET", "/health")[0] != 200:
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"{command[0]} did not start")
            time.sleep(0.1)
        yield process.pid
    finally:
        process.terminate()
        process.wait(DEADLINE_S)


def ask(port, method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
    try:
        connection.request(method, path, json.dumps(body) if body is not None else None,
                           {"Content-Type": "application/json"})
        reply = connection.getresponse()
        return reply.status, reply.read()
    except ConnectionError:
        return 0, b""
    finally:
        connection.close()


def rate(port, pid, path, fields):
    """Tokens per second of processor time of one answer."""
    before = cpu_seconds(pid)
    status, reply = ask(port, "POST", path, fields)
    if status != 200:
        raise SystemExit(f"{status}: {reply[:300]}")
    reply = json.loads(reply)
    tokens = reply.get("tokens_predicted") or reply["usage"]["completion_tokens"]
    return tokens / (cpu_seconds(pid) - before)


def compare(name, command, port, path, forms, counted, options):
    with served(command, port) as pid:
        for temperature in (0, 1):
            ratios = {form: [] for form in forms}
            free_rates = []
            for turn in range(options.rounds + 1):
                asked = {"prompt": PROMPT, "temperature": temperature, "seed": turn,
                         counted: options.tokens}
                free = rate(port, pid, path, {**asked, "ignore_eos": True})
                free_rates.append(free)
                for form, fields in forms.items():
                    ratio = rate(port, pid, path, {**asked, **fields}) / free
                    if turn > 0:  # the first round warms up
                        ratios[form].append(ratio)
            for form, found in ratios.items():
                print(f"{name:8} temperature {temperature}  {form:12} "
                      f"{statistics.median(found):.3f} of {statistics.median(free_rates):.0f} "
                      f"tokens/s free", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", default="build/server/magnetd")
    parser.add_argument("--model", default=default_model())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--peer")
    options = parser.parse_args()
    port = free_port()
    compare("magnetd", [options.binary, "--model", options.model, "--port", str(port), "--threads",
                        "1", "--drain-delay-ms", "0", "--log-level", "warn"],
            port, "/v1/completions", FORMS, "max_tokens", options)
    if options.peer:
        port = free_port()
        compare("peer", [options.peer, "-m", options.model, "--port", str(port), "-t", "1", "-np",
                         "1", "-c", "2048", "--no-webui"],
                port, "/completion", PEER_FORMS, "n_predict", options)


if __name__ == "__main__":
    main()
