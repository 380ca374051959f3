#!/usr/bin/env python3
"""How good the fills of /infill are, by mode, against continuing the text before the gap alone.

    python3 tests/bench/eval_infill.py http://127.0.0.1:8080 [--data DIR] [--limit 200]
        [--sets wikitext,humaneval,time] [--modes left,rerank,hybrid] [--seconds 3600] [--seed 1]
        [--clients 4] [--rows FILE]

Needs a running server and the data sets of tests/README (../shared/data, or MAGNETD_DATA).

wikitext    gaps of 1 to 3 words cut from WikiText-2's valid text at places drawn by the seed.
            Counted: fills that are the words that stood there, and the log-likelihood of the whole
            excerpt, scored by /generate and so in the same way whatever filled the gap.
humaneval   lines cut from programs (HumanEval-Infilling, single-line), behind their indentation,
            where an editor's cursor is: fills that are the line that stood there, and programs
            that pass their tests. One line of each of the 164 tasks before a second of any.
time        a fill of 8 tokens with the defaults against decoding 8 sequences of 8 tokens.

`left` is greedy continuation by /generate. It cannot know where to stop; in wikitext it is told how
many words are missing, the modes are not. In humaneval all stop at the end of the line.

Each mode is compared with `left` case by case: how many are better : how many worse, with the
two-sided sign test, and the mean difference of the log-likelihoods with the 95 % interval of 10,000
bootstrap samples of the cases.

--rows FILE keeps what came of every case and mode. A later run with the same seed goes on from
there, and a mode that changed is measured again by taking its lines out.

Programs that a model wrote run in a network namespace of their own, as nobody, with limits on
time, memory, files and processes. Where that cannot be had, they do not run and humaneval is
refused.
"""
import argparse
import collections
import concurrent.futures
import gzip
import http.client
import json
import math
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
TRUE = "true"
NAMES = {TRUE: "what stood there", "left": "left alone, greedy"}
LEFT_WORDS, RIGHT_WORDS, GAP_WORDS = 40, 16, 3
WORD_TOKENS, LINE_TOKENS = 8, 32
NOBODY = 65534
RUN_SECONDS, RUN_BYTES, FILE_BYTES, RUN_PROCESSES = 5, 1 << 30, 1 << 20, 64
WALL_SECONDS = 60  # for a machine with more to do; seconds of the CPU are what is bounded
ROUNDS = 9
RETRIES = 20


class Server:
    def __init__(self, url):
        parts = urllib.parse.urlsplit(url)
        self.address = (parts.hostname, parts.port or 80)
        self.scored = {}  # fills are often the same

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
            return self.continued(left, options)
        segments = [{"text": left}, {"gap": options}, {"text": right}]
        return self.ask("/infill", {"segments": segments, "mode": mode})["gaps"][0]["text"]

    def continued(self, left, options):
        """Greedily: without the space that ends it, since tokens begin with theirs, or behind it
        where the model goes on with something else."""
        parameters = {"max_new_tokens": options["max_tokens"], "stop": options.get("stop", [])}
        ask = lambda text: self.ask("/generate", {"inputs": text, "parameters": parameters})
        if left.endswith(" "):
            fill = ask(left[:-1])["generated_text"]
            if fill.startswith(" "):
                return fill[1:]
        return ask(left)["generated_text"]

    def log_likelihood(self, text):
        """Sum over all tokens but the first, and how many they are."""
        if text not in self.scored:
            details = self.ask("/generate", {"inputs": text, "parameters": {
                "max_new_tokens": 1, "details": True, "decoder_input_details": True}})["details"]
            values = [token["logprob"] for token in details["prefill"][1:]]
            self.scored[text] = sum(values), len(values)
        return self.scored[text]


# ---- statistics -----------------------------------------------------------------------------


def share(rows, what):
    count = sum(row[what] for row in rows)
    return f"{count} ({100 * count / len(rows):.1f} %)"


def interval(values):
    """Of their mean: 95 % of 10,000 bootstrap samples."""
    rng = random.Random(0)
    means = sorted(statistics.fmean(rng.choices(values, k=len(values))) for _ in range(10000))
    return means[249], means[9750]


def p_value(better, worse):
    """The sign test's, two-sided: so few on the lesser side, or fewer, by tossing a coin."""
    count = better + worse
    tail = sum(math.comb(count, k) for k in range(min(better, worse) + 1)) / 2 ** count
    p = min(2 * tail, 1)
    return f"p = {p:.2g}" if p >= 1e-4 else "p < 0.0001"


def versus(rows, mode, score):
    """Cases where the mode is better than left : where it is worse."""
    if mode in (TRUE, "left"):
        return "-"
    gains = [score(row[mode]) - score(row["left"]) for row in rows]
    better, worse = sum(gain > 1e-3 for gain in gains), sum(gain < -1e-3 for gain in gains)
    return f"{better} : {worse}, {p_value(better, worse)}"


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


def wikitext_case(server, mode, case):
    left, gap, right = case
    fill = gap
    if mode != TRUE:
        fill = server.fill(mode, left, right, {"max_tokens": WORD_TOKENS})
    if mode == "left":
        fill = " ".join(fill.split()[:len(gap.split())])
    total, tokens = server.log_likelihood(left + fill + right)
    return {"exact": fill.strip() == gap, "total": total, "tokens": tokens, "fill": fill}


def wikitext_table(rows, modes):
    print(f"\nWikiText-2 valid, {len(rows)} gaps of 1 to {GAP_WORDS} words\n")
    print("| fill | exact | against left | log-likelihood of the text | a token | "
          "more than left (95 %) | against left |")
    print("|---|---|---|---|---|---|---|")
    for mode in (TRUE, *modes):
        of_mode = [row[mode] for row in rows]
        gain = "-"
        if mode not in (TRUE, "left"):
            gains = [row[mode]["total"] - row["left"]["total"] for row in rows]
            low, high = interval(gains)
            gain = f"{statistics.mean(gains):+.2f} ({low:+.2f} to {high:+.2f})"
        print(f"| {NAMES.get(mode, mode)} | {'-' if mode == TRUE else share(of_mode, 'exact')} | "
              f"{versus(rows, mode, lambda row: row['exact'])} | "
              f"{statistics.mean(one['total'] for one in of_mode):.2f} | "
              f"{sum(one['total'] for one in of_mode) / sum(one['tokens'] for one in of_mode):.3f} "
              f"| {gain} | {versus(rows, mode, lambda row: row['total'])} |")


# ---- humaneval -------------------------------------------------------------------------------


def limits():
    for what, value in ((resource.RLIMIT_CPU, RUN_SECONDS), (resource.RLIMIT_AS, RUN_BYTES),
                        (resource.RLIMIT_FSIZE, FILE_BYTES), (resource.RLIMIT_CORE, 0),
                        (resource.RLIMIT_NPROC, RUN_PROCESSES)):
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
                preexec_fn=limits, timeout=WALL_SECONDS, check=False).returncode
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
    """Lines in an order drawn by the seed: the first of every task, then the second, ..."""
    with gzip.open(path, "rt") as lines:
        cases = [json.loads(line) for line in lines]
    random.Random(seed).shuffle(cases)
    seen = collections.Counter()
    turns = []
    for case in cases:
        task = case["task_id"].rsplit("/", 1)[0]  # SingleLineInfilling/HumanEval/0/L3
        turns.append(seen[task])
        seen[task] += 1
    order = sorted(range(len(cases)), key=lambda i: turns[i])  # stable
    return [cases[i] for i in order[:count]]


def humaneval_case(server, mode, case):
    line = case["canonical_solution"].removesuffix("\n")
    fill = line
    if mode != TRUE:
        indent = line[:len(line) - len(line.lstrip(" "))]
        fill = indent + server.fill(mode, case["prompt"] + indent, "\n" + case["suffix"],
                                    {"max_tokens": LINE_TOKENS, "stop": ["\n"]})
    whole = f"{case['prompt']}{fill}\n{case['suffix']}"
    passed = sandboxed(f"{whole}{case['test']}\ncheck({case['entry_point']})\n") == 0
    return {"exact": fill.rstrip() == line.rstrip(), "pass": passed, "fill": fill}


def humaneval_table(rows, modes):
    print(f"\nHumanEval-Infilling single-line, {len(rows)} of 1,033 lines\n")
    print("| fill | exact | against left | pass@1 | against left |")
    print("|---|---|---|---|---|")
    for mode in (TRUE, *modes):
        of_mode = [row[mode] for row in rows]
        print(f"| {NAMES.get(mode, mode)} | {'-' if mode == TRUE else share(of_mode, 'exact')} | "
              f"{versus(rows, mode, lambda row: row['exact'])} | {share(of_mode, 'pass')} | "
              f"{versus(rows, mode, lambda row: row['pass'])} |")


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
    """What came of the cases of a set, by their number and mode, in memory and in a file."""

    def __init__(self, path, name):
        self.path, self.name, self.rows = path, name, collections.defaultdict(dict)
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                kept = json.loads(line)
                if kept["set"] == name:
                    self.rows[kept["case"]][kept["mode"]] = kept["row"]

    def add(self, case, mode, row):
        self.rows[case][mode] = row
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps({"set": self.name, "case": case, "mode": mode, "row": row})
                           + "\n")


def run_cases(name, cases, one, modes, options):
    """Rows of as many cases as the time allows, with a line of progress now and then. A case whose
    modes are not all known is in no table."""
    rows, end, shown = Rows(options.rows, name), time.monotonic() + options.seconds, 0
    todo = [(case, mode) for case in range(len(cases)) for mode in (TRUE, *modes)
            if mode not in rows.rows[case]]
    left = iter(todo)
    with concurrent.futures.ThreadPoolExecutor(options.clients) as pool:
        running = {}
        while True:
            while len(running) < options.clients and time.monotonic() < end:
                work = next(left, None)
                if work is None:
                    break
                running[pool.submit(one, work[1], cases[work[0]])] = work
            if not running:
                break
            done, _ = concurrent.futures.wait(running, return_when="FIRST_COMPLETED")
            for future in done:
                rows.add(*running.pop(future), future.result())
            if time.monotonic() - shown > 15:
                shown = time.monotonic()
                missing = sum(mode not in rows.rows[case] for case, mode in todo)
                print(f"{name}: {missing} fills to go", file=sys.stderr, flush=True)
    whole = [rows.rows[case] for case in range(len(cases))
             if all(mode in rows.rows[case] for mode in (TRUE, *modes))]
    if len(whole) < len(cases):
        print(f"{name}: the time was up after {len(whole)} of {len(cases)}", file=sys.stderr)
    return whole


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
    parser.add_argument("--clients", type=int, default=4)
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
        rows = run_cases("wikitext", gaps[:options.limit], lambda mode, case: wikitext_case(
            server, mode, case), modes, options)
        wikitext_table(rows, modes)
    if "humaneval" in sets:
        cases = humaneval_cases(data / HUMANEVAL, options.limit, options.seed)
        rows = run_cases("humaneval", cases, lambda mode, case: humaneval_case(
            server, mode, case), modes, options)
        humaneval_table(rows, modes)


if __name__ == "__main__":
    main()
