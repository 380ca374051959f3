#!/usr/bin/env python3
"""How much of what reads other people's bytes do the tests run? At least 95 % of its lines, or this
fails.

    python3 tests/coverage.py [BUILD]

BUILD (default build-coverage) is set up with counters if it is not there; the tests of the suites
and areas below are built in it and run, and gcov's counts are added up for the sources below.
Lines that no test ran are listed, so that each can be given one or be taken out.
"""

import collections
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
LEAST = 95.0  # per cent of each group
SOURCES = {
    "loaders": ("engine/load/*.c", "engine/adapters.c", "engine/checkpoint_chat.c",
                "engine/checkpoint_text.c"),
    "tokenizer files": ("engine/text/json_*.c", "engine/text/tokenizer_json.c",
                        "engine/text/tokenizer_gguf.c", "engine/text/vocab.c"),
    "requests": ("api/bind.c", "api/json_in.c", "api/validate.c"),
}
# Tests by the start of their names: unit tests, golden tests, replayed fuzz corpora.
TESTS = ("load_", "text_", "api_", "model_open", "fuzz_", "golden_folder", "golden_tiny_",
         "golden_fields_", "golden_moments", "golden_adapter", "golden_tokenizer")


def run(*command, **options):
    return subprocess.run(command, check=True, cwd=ROOT, **options)


def introspect(build, what):
    return json.loads(run("meson", "introspect", build, what, stdout=subprocess.PIPE).stdout)


def run_tests(build):
    if not (build / "build.ninja").exists():
        run("meson", "setup", build, "-Db_coverage=true", "-Doptimization=0")
    run("ninja", "-C", build, "build.ninja", stdout=subprocess.DEVNULL)  # what it knows is of today
    tests = [test for test in introspect(build, "--tests")
             if test["name"].startswith(TESTS) and
             not any(suite.endswith(":slow") for suite in test["suite"])]
    programs = {test["cmd"][0] for test in tests}
    targets = [os.path.relpath(program, build) for program in sorted(programs)
               if program.startswith(str(build))]
    outputs = {target["id"]: target["filename"] for target in introspect(build, "--targets")}
    for test in tests:
        for name in test.get("depends", ()):
            targets += [os.path.relpath(path, build) for path in outputs.get(name, ())]
    run("ninja", "-C", build, *sorted(set(targets)), stdout=subprocess.DEVNULL)
    for old in build.rglob("*.gcda"):
        old.unlink()
    run("meson", "test", "-C", build, "--no-rebuild", "--print-errorlogs", "--quiet",
        "--timeout-multiplier", "10", *sorted({test["name"] for test in tests}))


def counts_of(build):
    """{source: {line: times run}} of everything that left counters."""
    found = collections.defaultdict(collections.Counter)
    data = [str(path) for path in build.rglob("*.gcda")
            if path.parts[len(build.parts)] in ("engine", "api")]
    text = run("gcov", "--json-format", "--stdout", *data, stdout=subprocess.PIPE,
               stderr=subprocess.DEVNULL).stdout
    for line in text.splitlines():
        for file in json.loads(line)["files"]:
            source = os.path.relpath((build / file["file"]).resolve(), ROOT)
            for one in file["lines"]:
                found[source][one["line_number"]] += one["count"]
    return found


def share(lines):
    return 100 * sum(count > 0 for count in lines) / max(1, len(lines))


def main():
    build = (ROOT / (sys.argv[1] if len(sys.argv) > 1 else "build-coverage")).resolve()
    run_tests(build)
    counts = counts_of(build)
    missed = False
    for group, patterns in SOURCES.items():
        together = []
        for path in sorted(path for pattern in patterns for path in ROOT.glob(pattern)):
            name = str(path.relative_to(ROOT))
            lines = counts[name]
            together += lines.values() or [0]  # a source that no test runs at all has no counters
            never = sorted(line for line, count in lines.items() if count == 0)
            print(f"{share(lines.values()):6.1f} %  {name}" +
                  (f"  not run: {', '.join(map(str, never))}" if never else ""))
        print(f"{share(together):6.1f} %  {group}, {len(together)} lines\n")
        missed |= share(together) < LEAST
    if missed:
        print(f"less than {LEAST:.0f} %")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
