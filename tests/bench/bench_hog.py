#!/usr/bin/env python3
"""Throughput beside a CPU hog that is pinned to one of the engine's cores.

    python3 tests/bench/bench_hog.py BENCH_ENGINE MODEL [--cpus 0,1] [--rounds 5] [--lines a,b]

Runs bench_engine on the given cores, alternately alone and beside a process that never sleeps and
may run only on the first of them, and prints the medians and their ratio. A fair kernel gives the
hog half of its core, so 75 % of the machine are left; a program whose threads wait for each other
at every step gets 50 %. The target is 45 %.
"""
import argparse
import csv
import os
import statistics
import subprocess
import sys


def start_hog(cpu):
    return subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"],
                            preexec_fn=lambda: os.sched_setaffinity(0, {cpu}))


def rates(options, cpus):
    """{line: tokens per second} of one run of bench_engine."""
    command = [options.bench_engine, options.model, "--threads", str(len(cpus)), "--csv",
               *options.lines.split(",")]
    text = subprocess.run(command, check=True, capture_output=True, text=True,
                          preexec_fn=lambda: os.sched_setaffinity(0, set(cpus))).stdout
    lines = text.splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("name,"))
    return {row["name"]: float(row["tokens_per_second"]) for row in csv.DictReader(lines[head:])}


def measure(options, cpus):
    alone, beside = {}, {}
    for _ in range(options.rounds):
        for line, rate in rates(options, cpus).items():
            alone.setdefault(line, []).append(rate)
        hog = start_hog(cpus[0])
        try:
            for line, rate in rates(options, cpus).items():
                beside.setdefault(line, []).append(rate)
        finally:
            hog.kill()
            hog.wait()
    return alone, beside


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench_engine")
    parser.add_argument("model")
    parser.add_argument("--cpus", default="0,1")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lines", default="prefill-512,decode-1,batch-16")
    options = parser.parse_args()
    cpus = [int(cpu) for cpu in options.cpus.split(",")]
    alone, beside = measure(options, cpus)
    print("| line | alone, tokens/s | beside the hog | kept |\n|---|---|---|---|")
    for line in alone:
        before, after = statistics.median(alone[line]), statistics.median(beside[line])
        print(f"| {line} | {before:.1f} | {after:.1f} | {100 * after / before:.0f} % |")


if __name__ == "__main__":
    main()
