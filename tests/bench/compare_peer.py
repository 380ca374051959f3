#!/usr/bin/env python3
"""The engine beside llama.cpp: same files, same cores, one after the other, medians of the ratio.

    python3 tests/bench/compare_peer.py BENCH_ENGINE LLAMA_BENCH MODEL...
        [--batched LLAMA_BATCHED_BENCH] [--cpus 0,1] [--rounds 5] [--cpu-time]

LLAMA_BENCH and LLAMA_BATCHED_BENCH are llama.cpp's programs of these names, built outside the
project (docs/performance.md). A round runs one program, then the other, on the same file and cores,
so that a slow minute of the machine hits both; the printed ratio is the median of the rounds' own.
Prefill computes one row of logits, as theirs does; decode starts from an empty context; N sequences
decode together behind prompts of 128 tokens each.

--cpu-time is for a machine that is busy with other work, where threads that wait for each other are
slow for that reason alone: one thread on the first core, tokens per second of processor time. What
llama-bench spends on loading and warming up is taken off by a run with fewer repeats.
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess

DECODE_TOKENS = 24
BATCH_PROMPT = 128
BATCHES = (16,)
LINES = {"prefill-64": (64, 0), "prefill-512": (512, 0), "decode-1": (0, DECODE_TOKENS)}
CPU_REPEATS = 5  # of llama-bench, beyond the first


def run(command, cpus):
    return subprocess.run(command, check=True, capture_output=True, text=True,
                          preexec_fn=lambda: os.sched_setaffinity(0, set(cpus))).stdout


def engine_rates(options, model, cpus):
    words = list(LINES)
    if options.batched and not options.cpu_time:
        words += [f"batch-{count}" for count in BATCHES]
    how = ["--cpu-time"] if options.cpu_time else ["--threads", str(len(cpus))]
    text = run([options.bench_engine, model, *how, "--csv", *words], cpus)
    rows = [line.split(",") for line in text.splitlines()]
    return {row[0]: float(row[3]) for row in rows if len(row) == 5 and row[0] in words}


def peer_rates(options, model, cpus):
    threads = str(len(cpus))
    text = run([options.llama_bench, "-m", model, "-t", threads, "-p", "64,512",
                "-n", str(DECODE_TOKENS), "-r", str(options.repeats), "-o", "json"], cpus)
    found = {}
    for test in json.loads(text):
        name = f"prefill-{test['n_prompt']}" if test["n_gen"] == 0 else "decode-1"
        found[name] = test["avg_ts"]
    if not options.batched:
        return found
    slots = str(max(BATCHES) * (BATCH_PROMPT + DECODE_TOKENS))
    text = run([options.batched, "-m", model, "-t", threads, "-tb", threads, "-c", slots,
                "-npp", str(BATCH_PROMPT), "-ntg", str(DECODE_TOKENS),
                "-npl", ",".join(map(str, BATCHES)), "--output-format", "jsonl"], cpus)
    for line in text.splitlines():
        if line.startswith("{"):
            test = json.loads(line)
            found[f"batch-{test['pl']}"] = test["speed_tg"]
    return found


def cpu_seconds(command, cpus):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(command, cpus)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def peer_cpu_rates(options, model, cpus):
    found = {}
    for name, (prompt, generated) in LINES.items():
        command = [options.llama_bench, "-m", model, "-t", "1", "-p", str(prompt),
                   "-n", str(generated), "-r"]
        once = cpu_seconds([*command, "1"], cpus)
        more = cpu_seconds([*command, str(1 + CPU_REPEATS)], cpus)
        found[name] = CPU_REPEATS * (prompt + generated) / (more - once)
    return found


def compare(options, model, cpus):
    ours, theirs = [], []
    for _ in range(options.rounds):
        ours.append(engine_rates(options, model, cpus))
        theirs.append((peer_cpu_rates if options.cpu_time else peer_rates)(options, model, cpus))
    for name in ours[0]:
        pairs = [(a[name], b[name]) for a, b in zip(ours, theirs)]
        ratios = sorted(a / b for a, b in pairs)
        mine = statistics.median(a for a, _ in pairs)
        peer = statistics.median(b for _, b in pairs)
        print(f"| {pathlib.Path(model).name} | {name} | {mine:.1f} | {peer:.1f} | "
              f"{statistics.median(ratios):.2f} | {ratios[0]:.2f} to {ratios[-1]:.2f} |",
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench_engine")
    parser.add_argument("llama_bench")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--batched")
    parser.add_argument("--cpus", default="0,1")
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3, help="of llama-bench within a round")
    options = parser.parse_args()
    cpus = [int(cpu) for cpu in options.cpus.split(",")]
    if options.cpu_time:
        cpus = cpus[:1]
    print("| file | line | magnetd, tokens/s | llama.cpp | ratio | of the rounds |\n"
          "|---|---|---|---|---|---|")
    for model in options.models:
        compare(options, model, cpus)


if __name__ == "__main__":
    main()
