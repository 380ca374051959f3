"""Goal: the process takes what its memory plan says and no more, loaded and under load (R21).

Method: resident memory against what --print-plan gives, plus 5 % and the program's own libraries:
after load without the jobs, which nobody has used yet, then with the longest prompts and many
requests at once against the total, and flat after that. Cache and jobs are touched as they are
used, so the plan is an upper bound.
"""
import re
import subprocess
import sys
import unittest

import real
from harness import together
from real import ok

MODEL = sys.argv.pop(1)
FLAGS = ["--context", "1024", "--jobs", "32", "--sequences", "16"]
PROGRAM_BYTES = 24 << 20  # code, libraries, log ring, connections, bodies and replies in work
GROWTH_BYTES = 16 << 20  # pages and jobs touched for the first time


class Memory(unittest.TestCase):
    @unittest.skipIf(real.SCALE > 1, "a sanitizer's own memory is not in the plan")
    def test_resident_within_the_plan(self):
        path = str(real.model_path(MODEL))
        text = subprocess.run([real.BINARY, "--model", path, *FLAGS, "--print-plan"],
                              capture_output=True, text=True, timeout=20, check=True).stdout
        plan = {name: float(size) * (1 << 20)
                for name, size in re.findall(r"^  (\w+) +([0-9.]+) MiB", text, re.M)}

        generate = {"inputs": "a", "parameters": {"max_new_tokens": 20, "details": True}}

        def load():
            long = "the red fox eats an onion. " * 70
            together([lambda: ok(server, "/embed", {"inputs": [long[:400]] * 4}),
                      lambda: ok(server, "/embed", {"inputs": long}),
                      lambda: ok(server, "/classify", {"prompt": "a", "response": "b"}),
                      lambda: ok(server, "/infill", {"text": "a [gap] b", "max_tokens": 20,
                                                     "mode": "hybrid"}),
                      lambda: ok(server, "/infill", {"text": "a [gap] b", "max_tokens": 8}),
                      *[lambda: ok(server, "/generate", generate)] * 6])
            return server.resident_bytes()

        with real.start(MODEL, *FLAGS, "--log-level", "warn") as server:
            sizes = [server.resident_bytes(), load(), load(), load()]
            real.settled(server)
        print(f"plan {plan['total'] / 2**20:.0f} MiB, resident "
              + ", ".join(f"{size / 2**20:.0f}" for size in sizes))
        self.assertGreater(sizes[0], plan["weights"])
        self.assertLess(sizes[0], (plan["total"] - plan["jobs"]) * 1.05 + PROGRAM_BYTES)
        self.assertLess(max(sizes), plan["total"] * 1.05 + PROGRAM_BYTES)
        self.assertLess(sizes[3] - sizes[2], GROWTH_BYTES)


if __name__ == "__main__":
    real.need_default_model()
    unittest.main()
