#!/usr/bin/env python3
"""How good the fills of /infill are, by mode, against continuing the text before the gap alone.

    python3 tests/bench/eval_infill.py http://127.0.0.1:8080 [--data DIR] [--limit 200]
        [--sets wikitext,humaneval,time] [--modes left,rerank,hybrid] [--seconds 3600] [--seed 1]
        [--clients 1] [--rows FILE]

Needs a running server and the data sets of tests/README (../shared/data, or MAGNETD_DATA).

wikitext    gaps of 1 to 3 words cut from WikiText-2's valid text at places drawn by the seed.
            Counted: fills that are the words that stood there, and the log-likelihood of the whole
            excerpt, scored by /generate and so in the same way whatever filled the gap.
humaneval   lines cut from programs (HumanEval-Infilling, single-line), behind their indentation,
            where an editor's cursor is: fills that are the line that stood there, and programs
            that pass their tests.
time        a fill of 8 tokens with the defaults against decoding 8 sequences of 8 tokens.

`left` is greedy continuation by /generate. It cannot know where to stop; in wikitext it is told how
many words are missing, the modes are not. In humaneval all stop at the end of the line.

--rows FILE keeps what came of every case; a later run with the same seed and modes goes on from
there.

Programs that a model wrote run in a network namespace of their own, as nobody, with limits on
time, memory and files. Where that cannot be had, they do not run and humaneval is refused.
"""
import argparse
import concurrent.futures
import gzip
import http.client
import json
import os
import pathlib
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse

WIKITEXT = "wikitext2-tinyshakespeare/word_language_model/data/wikitext-2/valid.txt"
HUMANEVAL = "humaneval-infilling/data/HumanEval-SingleLineInfilling.jsonl.gz"
MODES = ("left", "rerank", "hybrid")
LEFT_WORDS, RIGHT_WORDS, GAP_WORDS = 40, 16, 3
WORD_TOKENS, LINE_TOKENS = 8, 32
NOBODY = 65534
RUN_SECONDS, RUN_BYTES, FILE_BYTES = 5, 1 << 30, 1 << 20
ROUNDS = 9
RETRIES = 20


class Server:
    def __init__(self, url):
        parts = urllib.parse.urlsplit(url)
        self.address = (parts.hostname, parts.port or 80)

    def ask(self, path, body):
        """The reply; a server that is too busy is asked again."""
        for _ in range(RETRIES):
            connection = http.client.HTTPConnection(*self.address, timeout=600)
            try:
                head = {"Content-Type": "application/json"}
                connection.request("POST", path, json.dumps(body), head)
                reply = connection.getresponse()
                data = reply.read()
            finally:
                connection.close()
            if reply.status == 200:
                return json.loads(data)
            if reply.status not in (429, 503, 504):
                break
            time.sleep(int(reply.headers.get("Retry-After", "1")))
        raise RuntimeError(f"{path}: {reply.status} {data[:200]!r}")

    def fill(self, mode, left, right, options):
        """What the mode puts between left and right."""
        if mode == "left":
            parameters = {"max_new_tokens": options["max_tokens"], "stop": options.get("stop", [])}
            text = left.removesuffix(" ")
            fill = self.ask("/generate", {"inputs": text, "parameters": parameters})
            fill = fill["generated_text"]
            return fill.removeprefix(" ") if text != left else fill
        segments = [{"text": left}, {"gap": options}, {"text": right}]
        return self.ask("/infill", {"segments": segments, "mode": mode})["gaps"][0]["text"]

    def log_likelihood(self, text):
        """Sum over all tokens but the first, and how many they are."""
        details = self.ask("/generate", {"inputs": text, "parameters": {
            "max_new_tokens": 1, "details": True, "decoder_input_details": True}})["details"]
        values = [token["logprob"] for token in details["prefill"][1:]]
        return sum(values), len(values)


# ---- wikitext --------------------------------------------------------------------------------


def plain_text(line):
    """Undoes WikiText's spacing of punctuation."""
    for spaced, joined in ((" @-@ ", "-"), (" @,@ ", ","), (" @.@ ", "."), (" ,", ","), (" .", "."),
                           (" ;", ";"), (" :", ":"), (" 's", "'s"), (" n't", "n't"), ("( ", "("),
                           (" )", ")"), (" %", "%"), (" ' ", "' "), (" !", "!"), (" ?", "?")):
        line = line.replace(spaced, joined)
    parts = line.split(' " ')
    return "".join(part + ((' "' if i % 2 == 0 else '" ') if i + 1 < len(parts) else "")
                   for i, part in enumerate(parts))


def wikitext_gaps(path, count, seed):
    """(left, gap, right) triples: whole words, no <unk> among them."""
    rng = random.Random(seed)
    runs = [plain_text(run).split() for line in path.read_text().splitlines()
            if not line.strip().startswith("=") for run in line.split("<unk>")]
    need = LEFT_WORDS + GAP_WORDS + RIGHT_WORDS
    runs = [run for run in runs if len(run) >= need]
    gaps = []
    while len(gaps) < count:
        run = rng.choice(runs)
        at = rng.randrange(LEFT_WORDS, len(run) - GAP_WORDS - RIGHT_WORDS + 1)
        words = rng.randint(1, GAP_WORDS)
        gap = run[at:at + words]
        if all(word.isalpha() for word in gap):
            gaps.append((" ".join(run[at - LEFT_WORDS:at]) + " ", " ".join(gap),
                         " " + " ".join(run[at + words:at + words + RIGHT_WORDS])))
    return gaps


def wikitext_case(server, modes, case):
    left, gap, right = case
    scored = {gap: server.log_likelihood(left + gap + right)}  # fills are often the same
    row = {"true": scored[gap]}
    for mode in modes:
        fill = server.fill(mode, left, right, {"max_tokens": WORD_TOKENS})
        if mode == "left":
            fill = " ".join(fill.split()[:len(gap.split())])
        if fill not in scored:
            scored[fill] = server.log_likelihood(left + fill + right)
        total, tokens = scored[fill]
        row[mode] = {"exact": fill.strip() == gap, "total": total, "tokens": tokens}
    return row


def wikitext_table(rows, modes):
    print(f"\nWikiText-2 valid, {len(rows)} gaps of 1 to {GAP_WORDS} words\n")
    print("| fill | exact | log-likelihood of the text | a token | better than left | worse |")
    print("|---|---|---|---|---|---|")
    true = [row["true"] for row in rows]
    print(f"| what stood there | - | {statistics.mean(t[0] for t in true):.2f} | "
          f"{sum(t[0] for t in true) / sum(t[1] for t in true):.3f} | - | - |")
    for mode in modes:
        of_mode = [row[mode] for row in rows]
        exact = sum(one["exact"] for one in of_mode)
        better = sum(row[mode]["total"] > row["left"]["total"] + 1e-3 for row in rows)
        worse = sum(row[mode]["total"] < row["left"]["total"] - 1e-3 for row in rows)
        versus = "| - | - |" if mode == "left" else f"| {better} | {worse} |"
        print(f"| {mode} | {exact} ({100 * exact / len(rows):.1f} %) | "
              f"{statistics.mean(one['total'] for one in of_mode):.2f} | "
              f"{sum(one['total'] for one in of_mode) / sum(one['tokens'] for one in of_mode):.3f} "
              + versus)


# ---- humaneval -------------------------------------------------------------------------------


def limits():
    for what, value in ((resource.RLIMIT_CPU, RUN_SECONDS), (resource.RLIMIT_AS, RUN_BYTES),
                        (resource.RLIMIT_FSIZE, FILE_BYTES), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(what, (value, value))


def sandboxed(program, arguments=()):
    """Runs a Python program without network and rights; its exit status, or None when it ran out
    of time."""
    namespaces = ["--net", "--ipc", "--pid", "--fork", "--kill-child"]
    command = ["unshare", *namespaces, "setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY),
               "--clear-groups", "--no-new-privs"] if os.geteuid() == 0 else \
        ["unshare", "--map-root-user", *namespaces]
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        try:
            return subprocess.run(
                [*command, "/usr/bin/python3", "-I", "-c", program, *arguments], cwd=folder, env={},
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                preexec_fn=limits, timeout=2 * RUN_SECONDS, check=False).returncode
        except subprocess.TimeoutExpired:
            return None


def check_sandbox(server):
    """A program must run there, and must not reach the server that we reach."""
    reach = ("import socket, sys\n"
             "try:\n    socket.create_connection((sys.argv[1], int(sys.argv[2])), 2)\n"
             "except OSError:\n    sys.exit(7)\n")
    host, port = server.address
    found = subprocess.run([sys.executable, "-c", reach, host, str(port)], check=False).returncode
    if found != 0 or sandboxed("pass") != 0 or sandboxed(reach, (host, str(port))) != 7:
        sys.exit("humaneval: no sandbox without network here (unshare, setpriv): programs that a "
                 "model wrote are not run")


def humaneval_cases(path, count, seed):
    with gzip.open(path, "rt") as lines:
        cases = [json.loads(line) for line in lines]
    return random.Random(seed).sample(cases, min(count, len(cases)))


def humaneval_case(server, modes, case):
    line = case["canonical_solution"].removesuffix("\n")
    indent = line[:len(line) - len(line.lstrip(" "))]
    row = {"true": passes(case, line)}
    for mode in modes:
        fill = indent + server.fill(mode, case["prompt"] + indent, "\n" + case["suffix"],
                                    {"max_tokens": LINE_TOKENS, "stop": ["\n"]})
        row[mode] = {"exact": fill.rstrip() == line.rstrip(), "pass": passes(case, fill)}
    return row


def passes(case, line):
    whole = f"{case['prompt']}{line}\n{case['suffix']}"
    return sandboxed(f"{whole}{case['test']}\ncheck({case['entry_point']})\n") == 0


def humaneval_table(rows, modes):
    print(f"\nHumanEval-Infilling single-line, {len(rows)} of 1,033 lines\n")
    print("| fill | exact | pass@1 |")
    print("|---|---|---|")
    print(f"| what stood there | - | {100 * sum(row['true'] for row in rows) / len(rows):.1f} % |")
    for mode in modes:
        exact, passed = (sum(row[mode][what] for row in rows) for what in ("exact", "pass"))
        print(f"| {mode} | {exact} ({100 * exact / len(rows):.1f} %) | "
              f"{passed} ({100 * passed / len(rows):.1f} %) |")


# ---- time ------------------------------------------------------------------------------------


def time_table(server, cases):
    """Each round on a text of its own, so that no prompt is in the cache; either goes first."""
    def fill(left, right):
        server.ask("/infill", {"segments": [{"text": left}, {"gap": {"max_tokens": 8}},
                                            {"text": right}], "mode": "rerank"})

    def decode(left, _):
        server.ask("/infill", {"input_prefix": left, "input_suffix": "", "mode": "rerank",
                               "n_cmpl": 8, "n_predict": 8, "ignore_eos": True, "temperature": 1})

    ratios, times = [], {fill: [], decode: []}
    for i in range(min(ROUNDS, len(cases) // 2)):
        seconds = {}
        for k, call in enumerate((fill, decode) if i % 2 else (decode, fill)):
            left, _, right = cases[2 * i + k]
            begun = time.monotonic()
            call(left, right)
            seconds[call] = time.monotonic() - begun
            times[call].append(seconds[call])
        ratios.append(seconds[fill] / seconds[decode])
    print(f"\nA fill of 8 tokens {1000 * statistics.median(times[fill]):.0f} ms, 8 sequences x 8 "
          f"tokens {1000 * statistics.median(times[decode]):.0f} ms: "
          f"{statistics.median(ratios):.2f} times as long (median of {len(ratios)}, "
          f"{min(ratios):.2f} to {max(ratios):.2f})")


# ----------------------------------------------------------------------------------------------


class Rows:
    """What came of the cases of a set, by their number, in memory and in a file."""

    def __init__(self, path, name):
        self.path, self.name, self.rows = path, name, {}
        if path is not None and path.exists():
            kept = [json.loads(line) for line in path.read_text().splitlines()]
            self.rows = {row["case"]: row["row"] for row in kept if row["set"] == name}

    def add(self, case, row):
        self.rows[case] = row
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps({"set": self.name, "case": case, "row": row}) + "\n")


def run_cases(name, cases, one, options):
    """Rows of as many cases as the time allows, with a line of progress now and then."""
    rows, end, shown = Rows(options.rows, name), time.monotonic() + options.seconds, 0
    todo = iter([index for index in range(len(cases)) if index not in rows.rows])
    with concurrent.futures.ThreadPoolExecutor(options.clients) as pool:
        running = {}
        while True:
            while len(running) < options.clients and time.monotonic() < end:
                index = next(todo, None)
                if index is None:
                    break
                running[pool.submit(one, cases[index])] = index
            if not running:
                break
            done, _ = concurrent.futures.wait(running, return_when="FIRST_COMPLETED")
            for future in done:
                rows.add(running.pop(future), future.result())
            if time.monotonic() - shown > 15:
                shown = time.monotonic()
                print(f"{name}: {len(rows.rows)} of {len(cases)}", file=sys.stderr, flush=True)
    if len(rows.rows) < len(cases):
        print(f"{name}: the time was up after {len(rows.rows)} of {len(cases)}", file=sys.stderr)
    return [row for index, row in sorted(rows.rows.items()) if index < len(cases)]


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("url")
    parser.add_argument("--data", type=pathlib.Path,
                        default=os.environ.get("MAGNETD_DATA") or root.parent / "shared" / "data")
    parser.add_argument("--limit", type=int, default=200, help="cases of each set")
    parser.add_argument("--sets", default="wikitext,humaneval,time")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--seconds", type=float, default=3600, help="for each set")
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", type=pathlib.Path)
    options = parser.parse_args()
    server, data = Server(options.url), pathlib.Path(options.data)
    modes = [mode for mode in MODES if mode in options.modes.split(",") or mode == "left"]
    sets = options.sets.split(",")
    gaps = wikitext_gaps(data / WIKITEXT, max(options.limit, 2 * ROUNDS), options.seed)
    if "humaneval" in sets:
        check_sandbox(server)
    if "time" in sets:
        time_table(server, wikitext_gaps(data / WIKITEXT, 2 * ROUNDS, options.seed + 1))
    if "wikitext" in sets:
        wikitext_table(run_cases("wikitext", gaps[:options.limit], lambda case: wikitext_case(
            server, modes, case), options), modes)
    if "humaneval" in sets:
        cases = humaneval_cases(data / HUMANEVAL, options.limit, options.seed)
        humaneval_table(run_cases("humaneval", cases, lambda case: humaneval_case(
            server, modes, case), options), modes)


if __name__ == "__main__":
    main()
