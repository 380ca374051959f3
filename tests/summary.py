"""Adds up the results of the last test run of each build folder named on the command line, names
what failed, what skipped and what took longest, and closes with "N passed, N failed, N skipped". A
run without a single passed test is a failure, whatever else it says."""

import json
import sys
from pathlib import Path

PASSED = ("OK", "EXPECTEDFAIL")
LONGEST = 10


def results(build):
    log = Path(build) / "meson-logs" / "testlog.json"
    if log.exists():
        for line in log.read_text(encoding="utf-8").splitlines():
            if line:
                test = json.loads(line)
                yield test["name"], test["result"], test["duration"]


def main():
    passed = failed = skipped = 0
    times = []
    for build in sys.argv[1:]:
        ran = False
        for name, result, seconds in results(build):
            ran = True
            times.append((seconds, build, name))
            if result in PASSED:
                passed += 1
            elif result == "SKIP":
                skipped += 1
                print(f"{build}: skipped: {name}")
            else:
                failed += 1
                print(f"{build}: {result}: {name}")
        if not ran:
            failed += 1
            print(f"{build}: no test ran")
    for seconds, build, name in sorted(times, reverse=True)[:LONGEST]:
        print(f"{build}: {seconds:.1f} s: {name}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
