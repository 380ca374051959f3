"""Goal: no model file does more than be refused: every hazard on the list of hostile files (R31,
and R32 for arrays) ends in an error that names the key, the tensor or the file, soon, in little
memory and without a crash.

Method: hostile_files.py writes them; `magnetd --check-model` is run on each. Time is processor
time, which neighbours do not spoil: every error within a second, most within 100 ms; what they took
is printed. Memory is bounded by the system (ulimit -v), where no sanitizer needs it for itself.
Good files beside them show that it is the one change that is refused.
"""

import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import unittest

import chat_cases
import hostile_files

BINARY = os.environ["MAGNETD_BINARY"]
SCALE = max(1, int(os.environ.get("MAGNETD_TEST_SCALE", "1")))  # sanitizers are slow
KILL_S = 20 * SCALE
MEMORY_BYTES = 1 << 31  # of addresses; a good tiny file needs a quarter
LINE_BYTES = 600
CHAT_S = 5  # a template is rendered twice when it is opened, for a second each at most
# The list's own words; every one has a case, and no case has others.
WORDS = set("""\
Magic; version 1 (32-bit counts); big-endian; n_tensors > bytes left; n_kv > bytes left
Strings: longer than bytes left; Strings: longer than 64 MiB; NUL; bad UTF-8; empty names
Arrays: count x size overflow; nesting; 2^32 empty strings; wrong element type (UINT8 scores)
Known key of wrong type; duplicate keys, tensors; general.alignment 0, odd, huge, wrong type
n_dims outside 1-4; dim 0 or negative; product overflow (also x type size)
ne[0] not a multiple of the block; Type id unknown, negative, removed
Offset unaligned, past EOF, overlapping, + size overflow; Data start past EOF
Layers, heads 0 or absurd; heads_kv > heads or not dividing; odd head_dim with RoPE
vocabulary != embedding rows; theta 0 or NaN; eps NaN; context absurd
Tokens: count mismatch; merges naming unknown tokens; byte tokens outside 0-255; NaN scores
special ids out of range; 1 GB token; NaN or Inf scales in weights
Header > file; Header > 100 MB; Header < 2; not starting with {; duplicate keys; deep nesting
data_offsets negative; end before begin; end past the file; size != shape x type; product overflow
overlaps; holes; uncovered tail; empty tensor sharing an offset; unknown dtype
NaN or Inf in weights; shard names with ../; shard names or absolute
plain names in the directory of their index; size caps; regexes; added-token cycles
long normaliser chains; unknown value that changes results
FIFO; device; /proc entry; a link to one; sparse; truncated; a folder; no file
unchanged; Links are followed""".replace("\n", "; ").split("; "))


def limit_memory():
    if SCALE == 1:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def check(path):
    """(exit status, standard output, standard error, processor seconds) of --check-model."""
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith("MAGNETD_")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run([BINARY, "--check-model", path], stdin=subprocess.DEVNULL,
                           capture_output=True, env=clean, timeout=KILL_S,
                           preexec_fn=limit_memory)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return ended.returncode, ended.stdout.decode(), ended.stderr.decode(), spent


class CheckModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.cases = list(hostile_files.write_all(pathlib.Path(cls.folder.name)))
        cls.addClassCleanup(cls.folder.cleanup)

    def refuse(self, case):
        status, out, error, spent = check(case.path)
        self.assertEqual((status, out), (1, ""), error)
        start = f"magnetd: {case.where}"
        self.assertTrue(error.startswith(start), f"{error!r} does not start with {start!r}")
        self.assertEqual(error[len(start):][:2], ": " if case.where else error[len(start):][:2])
        self.assertEqual(error.count("\n"), 1, error)  # one error, one line
        self.assertLess(len(error), LINE_BYTES)
        self.assertTrue(error.isprintable() or error[:-1].isprintable(), ascii(error))
        self.assertNotIn(self.folder.name, error)
        self.assertLess(spent, SCALE, error)
        return spent

    def test_every_case(self):
        """R31, R32."""
        spent = []
        for case in self.cases:
            with self.subTest(case):
                if case.where is None:
                    status, out, error, _ = check(case.path)
                    self.assertEqual((status, out.splitlines()[-1:]), (0, ["ok"]), error)
                else:
                    spent.append(self.refuse(case))
        spent = [1000 * one for one in spent]
        print(f"{len(spent)} refused: {statistics.median(spent):.0f} ms each by the median, "
              f"{max(spent):.0f} at most")
        self.assertLess(statistics.median(spent), 100 * SCALE)

    def test_chat_templates(self):
        """A model whose template is refused serves; --check-model says why."""
        folder = pathlib.Path(self.folder.name) / "chat"
        shutil.copytree(pathlib.Path(self.folder.name) / "good", folder)
        for what, source, line in chat_cases.CASES:
            with self.subTest(what):
                (folder / "chat_template.jinja").write_text(source)
                status, out, error, spent = check(folder)
                self.assertEqual((status, out.splitlines()[-1:]), (0, ["ok"]), error)
                self.assertIn(line, out.splitlines())
                self.assertLess(spent, CHAT_S * SCALE)
        (folder / "chat_template.jinja").unlink()
        self.assertIn("chat template none", check(folder)[1].splitlines())
        for what, name, text, where in chat_cases.ERRORS:
            with self.subTest(what):
                (folder / name).write_text(text)
                self.refuse(hostile_files.Case("", what, where, folder))
                (folder / name).unlink()

    def test_every_word_has_a_case(self):
        self.assertEqual({case.words for case in self.cases}, WORDS)
        self.assertGreater(len(self.cases), 120)


if __name__ == "__main__":
    unittest.main()
