"""Goal: `magnetd embed|infill|generate|classify` answers lines of a file as the server answers
bodies, in their order and in constant memory, and is as good a member of a pipe as sort or cat.

Method: what it writes is held against a server of the same binary, byte for byte but for times and
ids; lines of every kind of end, size and badness; signals and closed pipes; a peak of memory that
does not depend on the number of lines. Arrays are read by a few lines here, and by numpy if it is
there.
"""
import json
import os
import pathlib
import pty
import random
import re
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import real

MODEL = sys.argv.pop(1)
FLAGS = ["--context", "1024"] if MODEL == "default" else []
LINE_BYTES = 4 << 20
COUNT = 60 if MODEL == "tiny" else 8
WORDS = "the of a fox ran red blue 7 zz , . home market fell rain Ä né".split()


def command(verb, *flags, path=None):
    return [real.BINARY, verb, "--model", str(path or real.model_path(MODEL)), *FLAGS, *flags]


def environment():
    return {name: value for name, value in os.environ.items() if not name.startswith("MAGNETD_")}


def run(verb, data, *flags, path=None, **options):
    data = data if isinstance(data, bytes) else data.encode()
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "input": data, **options}
    return subprocess.run(command(verb, *flags, path=path), timeout=60 * real.SCALE, check=False,
                          env=environment(), **options)


def settled(text):
    """A reply without what another run of the same request has different: times, and what of a
    prompt was cached."""
    text = re.sub(r'"timings":\{[^}]*\}', '"timings":{}', text)
    return re.sub(r'"cached_tokens":\d+', '"cached_tokens":0', text)


def array(path):
    """Rows of a .npy file, read as its format's description has it."""
    data = pathlib.Path(path).read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\x00" and data[127:128] == b"\n", data[:128]
    assert struct.unpack("<H", data[8:10]) == (118,)
    match = re.fullmatch(r"\{'descr': '<f4', 'fortran_order': False, 'shape': \((\d+), (\d+)\), \}",
                         data[10:127].decode().rstrip(" "))
    rows, dim = int(match[1]), int(match[2])
    values = struct.unpack(f"<{rows * dim}f", data[128:])
    try:
        import numpy
        loaded = numpy.load(path)
        assert loaded.shape == (rows, dim) and loaded.dtype == numpy.float32
        assert loaded.tobytes() == data[128:]
    except ImportError:
        pass
    return [values[row * dim:(row + 1) * dim] for row in range(rows)]


ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def end_by_signals():
    """Without a core file; and a suite in the background passes on that it ignores some."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)


def single(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def answers(self, ended, failed=0):
        """The lines of the output; with `failed`, so many hold an error."""
        self.assertEqual(ended.returncode, 1 if failed else 0, ended.stderr)
        text = ended.stdout.decode()
        self.assertTrue(text == "" or text.endswith("\n"))
        lines = text.split("\n")[:-1]
        errors = [line for line in map(real.strict_json, lines)
                  if isinstance(line, dict) and "error" in line]
        self.assertEqual(len(errors), failed)
        self.assertEqual(ended.stderr.count(b"\n"), 1 if failed else 0, ended.stderr)
        return lines

    def texts(self, count, seed=3):
        dice = random.Random(seed)
        return [" ".join(dice.choice(WORDS) for _ in range(dice.randint(1, 30)))
                for _ in range(count)]


class Same(Case):
    """What the server answers."""

    @classmethod
    def setUpClass(cls):
        cls.server = real.start(MODEL)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        cls.server.wait()

    def over_http(self, path, bodies):
        return [real.ok(self.server, path, body).body.decode() for body in bodies]

    def compare(self, verb, bodies, *flags, texts=None):
        lines = texts if texts is not None else [json.dumps(body) for body in bodies]
        flags = flags if texts is not None else ("--jsonl", *flags)
        ended = run(verb, "".join(line + "\n" for line in lines), *flags)
        self.assertEqual([settled(line) for line in self.answers(ended)],
                         [settled(text) for text in self.over_http("/" + verb, bodies)])

    def test_embed(self):
        texts = self.texts(COUNT)
        bodies = [{"inputs": text, "dimensions": 8, "details": True} for text in texts]
        self.compare("embed", bodies, "--body", ' {"dimensions":8, "details":true}\n', texts=texts)
        self.compare("embed", [{"inputs": text} for text in texts], texts=texts)
        self.compare("embed", bodies + [{"inputs": texts[:5], "encoding_format": "base64"}])
        self.compare("embed", [{"inputs": "a"}], "--body", "{ }", texts=["a"])

    def test_array(self):
        texts = self.texts(COUNT)
        out = self.folder / "a.npy"
        ended = run("embed", "\n".join(texts), "--output", str(out))
        self.assertEqual(self.answers(ended), [])
        vectors = [real.strict_json(text)[0] for text in
                   self.over_http("/embed", [{"inputs": text} for text in texts])]
        self.assertEqual(array(out), [tuple(map(single, vector)) for vector in vectors])
        # Lists of inputs are rows one after another.
        body = json.dumps({"inputs": texts[:7], "encoding_format": "base64"}) + "\n"
        run("embed", body * 2, "--jsonl", "--output", str(out))
        self.assertEqual(array(out), [tuple(map(single, vector)) for vector in vectors[:7] * 2])
        self.assertEqual([path.name for path in self.folder.iterdir()], ["a.npy"])

    def test_generate(self):
        texts = self.texts(COUNT // 4)
        parameters = {"max_new_tokens": 6, "details": True}
        bodies = [{"inputs": text, "parameters": parameters} for text in texts]
        self.compare("generate", bodies, "--body", json.dumps({"parameters": parameters}),
                     texts=texts)
        self.compare("generate", [{"inputs": text, "parameters": {
            "max_new_tokens": 4, "do_sample": True, "seed": i}} for i, text in enumerate(texts)])

    def test_infill(self):
        """Some are chains of several jobs; they end in any order and stand in theirs."""
        texts = [f"{text} [gap] the {text[:i]}" for i, text in enumerate(self.texts(COUNT // 4))]
        bodies = [{"text": text, "max_tokens": 3} for text in texts]
        self.compare("infill", bodies, "--body", '{"max_tokens":3}', texts=texts)
        self.compare("infill", [{"input_prefix": "the", "input_suffix": "fox", "n_predict": 3},
                                {"text": "no gap", "max_tokens": 1, "gap": " "}, *bodies[:3]])

    def test_classify(self):
        texts = self.texts(COUNT // 4)
        if MODEL == "default":
            self.compare("classify", [{"prompt": text} for text in texts], texts=texts)
        for extra, key in (({"labels": ["a", "b"]}, "inputs"),
                           ({"questions": [{"type": "predicate", "instructions": "Fox?"}]},
                            "input")):
            bodies = [{**extra, key: text} for text in texts]
            with self.subTest(key):
                try:
                    real.ok(self.server, "/classify", bodies[0])
                except AssertionError:
                    self.assertEqual(MODEL, "tiny")  # it may have no token for an answer
                    continue
                self.compare("classify", bodies, "--body", json.dumps(extra), texts=texts)

    @unittest.skipIf(MODEL != "tiny", "it takes long, and it is the engine that is asked")
    def test_settings_change_nothing(self):
        texts = "\n".join(self.texts(40))
        for verb in ("embed", "generate"):
            plain = run(verb, texts).stdout
            self.assertEqual(run(verb, texts, "--threads", "1", "--sequences", "3", "--step-rows",
                                 "64").stdout, plain)


@unittest.skipIf(MODEL != "tiny", "what every model shares is tested on a tiny one")
class Lines(Case):
    def test_ends(self):
        for data, count in ((b"", 0), (b"fox", 1), (b"fox\n", 1), (b"a\r\nb", 2), (b"a\nb\r\n", 2)):
            self.assertEqual(len(self.answers(run("embed", data))), count)
        a, b = self.answers(run("embed", b"fox ran\r\nfox ran"))
        self.assertEqual(a, b)

    def test_bad_lines(self):
        """Each costs itself, at its place; the message names the first."""
        ended = run("embed", b"fox\n\nred\xff\n\nblue\na\x00b\nfox")
        lines = self.answers(ended, failed=4)
        self.assertEqual(lines[0], lines[6])
        self.assertEqual(["error" in line for line in lines],
                         [False, True, True, True, False, True, False])
        self.assertEqual(json.loads(lines[1])["param"], "/inputs")
        self.assertIn("UTF-8", lines[2])
        self.assertRegex(ended.stderr.decode(), r"^magnetd: line 2: /inputs: .*\(4 of 7 lines\)")
        ended = run("generate", '{"inputs":"a"}\nfox\n\n[]\n{"inputs":"a","inputs":"b"}\n'
                    '{"inputs":"a","stream":true}\n{"inputs":"a","parameters":{"top_p":7}}\n',
                    "--jsonl")
        lines = self.answers(ended, failed=6)
        for line in lines[1:]:
            real.SCHEMAS.check("error_tei.json", json.loads(line))
        self.assertEqual(json.loads(lines[5])["param"], "/stream")
        self.assertIn("line 2: ", ended.stderr.decode())
        # The family's own form of an error.
        real.SCHEMAS.check("error_llama.json", json.loads(
            self.answers(run("infill", "fox", "--body", '{"mode":"x"}'), failed=1)[0]))

    def test_long_lines(self):
        mib = "fox " * (1 << 18)
        body = json.dumps({"inputs": "fox"})
        fits = body + " " * (LINE_BYTES - len(body))
        lines = self.answers(run("embed", f"{body}\n{fits}\r\n{fits} \n{body}", "--jsonl"),
                             failed=1)
        self.assertEqual([lines[0], lines[0]], [lines[1], lines[3]])
        self.assertIn("4194304 bytes", lines[2])
        ended = run("embed", f"red\n{mib}\nred\n")
        self.assertEqual(ended.returncode, 0)
        self.assertEqual(ended.stderr, b"magnetd: line 2: inputs were cut to the context "
                                       b"(1 lines)\n")
        lines = ended.stdout.decode().splitlines()
        self.assertEqual((len(lines), lines[0]), (3, lines[2]))

    def test_what_was_ignored_is_told(self):
        ended = run("embed", '{"inputs":"a"}\n{"inputs":"a","foo":1}\n', "--jsonl")
        self.assertEqual(ended.returncode, 0)
        self.assertEqual(ended.stderr, b"magnetd: line 2: unknown fields: foo (1 lines)\n")

    def test_names_of_the_model(self):
        lines = "".join(json.dumps({"inputs": "fox", "model": name, "details": True}) + "\n"
                        for name in ("mine", "a", "b", "c"))
        ended = run("embed", lines, "--jsonl", "--served-model-name", "mine", "--model-alias",
                    "a,b")
        replies = [json.loads(line) for line in self.answers(ended, failed=1)]
        self.assertEqual([reply.get("model") for reply in replies], ["mine"] * 3 + [None])
        self.assertEqual(replies[3]["param"], "/model")

    def test_flat_memory(self):
        """10,000 lines take what 1,000 take. A sanitizer's memory says nothing: there 1,000 do."""
        data = "".join(text + "\n" for text in self.texts(1000))
        peaks = []
        for times in (1, 10) if real.SCALE == 1 else (1,):
            with open(self.folder / "lines.txt", "w", encoding="utf-8") as file:
                file.write(data * times)
            process = subprocess.Popen(
                command("embed", "--input", file.name, "--output", str(self.folder / "out.jsonl")),
                env=environment())
            _, status, usage = os.wait4(process.pid, 0)  # of this child alone
            process.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(process.returncode, 0)
            peaks.append(usage.ru_maxrss)
        lines = (self.folder / "out.jsonl").read_text().splitlines()
        self.assertEqual(len(lines), 1000 * times)
        self.assertEqual(lines[:1000], lines[-1000:])
        if real.SCALE == 1:
            self.assertLess(peaks[1] - peaks[0], 4096)


@unittest.skipIf(MODEL != "tiny", "what every model shares is tested on a tiny one")
class Arrays(Case):
    def test_no_lines(self):
        out = self.folder / "none.npy"
        self.assertEqual(self.answers(run("embed", b"", "--output", str(out))), [])
        self.assertEqual(array(out), [])

    def test_a_bad_line_leaves_nothing(self):
        out = self.folder / "a.npy"
        out.write_text("before")
        for data, *words in (("fox\n" * 300 + "\n" + "fox\n" * 300, "line 301: /inputs", "no text"),
                             (b"fox\n\xff", "line 2", "UTF-8")):
            ended = run("embed", data, "--output", str(out))
            self.assertEqual((ended.returncode, ended.stdout), (1, b""))
            for word in words:
                self.assertIn(word, ended.stderr.decode())
        ended = run("embed", '{"inputs":"a"}\n{"inputs":"a","dimensions":2}', "--jsonl", "--output",
                    str(out))
        self.assertIn("line 2: its vector has 2 numbers, those before ", ended.stderr.decode())
        self.assertEqual(out.read_text(), "before")
        self.assertEqual(len(list(self.folder.iterdir())), 1)

    def test_what_an_array_cannot_say(self):
        out = self.folder / "a.npy"
        for body, field in (({"encoding_format": "float16"}, "/encoding_format"),
                            ({"encoding_format": "int8"}, "/encoding_format"),
                            ({"encoding_format": "binary"}, "/encoding_format"),
                            ({"on_error": "report"}, "/on_error")):
            ended = run("embed", "fox", "--output", str(out), "--body", json.dumps(body))
            self.assertEqual(ended.returncode, 1)
            self.assertIn(f"line 1: {field}: ", ended.stderr.decode())
        ended = run("embed", '{"inputs":["fox",""],"on_error":"report"}', "--jsonl", "--output",
                    str(out))
        self.assertIn("line 1: /on_error: ", ended.stderr.decode())
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_only_of_embed(self):
        ended = run("generate", "fox", "--output", str(self.folder / "a.npy"))
        self.assertEqual((ended.returncode, ended.stderr),
                         (1, b"magnetd: output: only embed writes .npy\n"))


@unittest.skipIf(MODEL != "tiny", "what every model shares is tested on a tiny one")
class Pipes(Case):
    def start(self, verb, *flags, **options):
        options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
                   **options}
        process = subprocess.Popen(command(verb, *flags), env=environment(), **options)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        for file in (process.stdin, process.stdout, process.stderr):
            if file is not None:
                self.addCleanup(file.close)
        return process

    def test_an_open_pipe_gets_its_answers(self):
        process = self.start("embed", bufsize=0)
        for text in (b"fox\n", b"red ", b"fox\n"):
            process.stdin.write(text)
            if text.endswith(b"\n"):
                self.assertTrue(select.select([process.stdout], [], [], 20 * real.SCALE)[0])
                self.assertTrue(process.stdout.readline().startswith(b"[["))
        process.stdin.close()
        self.assertEqual((process.stdout.read(), process.wait(20 * real.SCALE)), (b"", 0))

    def test_what_was_written_is_whole_lines(self):
        """Each is one write, so an interrupted run leaves no half of one in a file."""
        reader, writer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with reader, writer:
            process = self.start("embed", stdout=writer)
            writer.close()
            process.stdin.write(b"fox\nred\n" * 20)
            process.stdin.close()
            writes = list(iter(lambda: reader.recv(1 << 20), b""))
        self.assertEqual(process.wait(20 * real.SCALE), 0)
        self.assertEqual([write.count(b"\n") for write in writes], [1] * 40)
        self.assertTrue(all(write.endswith(b"\n") for write in writes))

    def test_a_closed_pipe(self):
        """As with any tool before `head`: SIGPIPE, in silence."""
        with open(self.folder / "lines.txt", "w", encoding="utf-8") as file:
            file.write("fox\n" * 5000)
        process = self.start("embed", "--input", file.name)
        self.assertTrue(process.stdout.readline().startswith(b"[["))
        process.stdout.close()
        self.assertEqual(process.wait(20 * real.SCALE), -signal.SIGPIPE)
        self.assertEqual(process.stderr.read(), b"")

    def test_signals_leave_no_file(self):
        for number in ENDING:
            process = self.start("embed", "--output", str(self.folder / "a.npy"),
                                 preexec_fn=end_by_signals)
            process.stdin.write(b"fox\n" * 10)
            process.stdin.flush()
            end = time.monotonic() + 20 * real.SCALE
            while not list(self.folder.iterdir()) and time.monotonic() < end:
                time.sleep(0.01)
            self.assertRegex(str(list(self.folder.iterdir())), r"a\.npy\.\d+\.part")
            process.send_signal(number)
            self.assertEqual(process.wait(20 * real.SCALE), -number)
            self.assertEqual(list(self.folder.iterdir()), [])

    def test_outputs_that_cannot_be(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            ended = run("embed", "fox", stdout=full)
        self.assertEqual(ended.returncode, 1)
        self.assertIn(b"output: cannot be written: No space", ended.stderr)
        link = self.folder / "link"
        link.symlink_to("/dev/null")
        for path, word in (("/nonexistent/a", "No such file"), ("/dev/null", "no regular file"),
                           (str(link), "no regular file"), (str(self.folder), "no regular file")):
            ended = run("embed", "fox", "--output", path)
            self.assertEqual((ended.returncode, ended.stdout), (1, b""))
            self.assertIn(word, ended.stderr.decode())
        self.assertEqual(list(self.folder.iterdir()), [link])

    def test_a_limit_of_files(self):
        """As by `ulimit -f`; SIGXFSZ comes in the midst of a write."""
        def limit():
            end_by_signals()
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # which Python ignores
        ended = run("embed", "fox\n" * 50, "--output", str(self.folder / "a"), preexec_fn=limit)
        self.assertEqual(ended.returncode, -signal.SIGXFSZ)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_streams_that_are_closed(self):
        """No file that is opened later takes their place."""
        for fd, word in ((0, "input: cannot be read: Bad"), (1, "output: cannot be written: Bad")):
            ended = run("embed", b"fox", preexec_fn=lambda fd=fd: os.close(fd))
            self.assertEqual((ended.returncode, ended.stdout), (1, b""))
            self.assertIn(word, ended.stderr.decode())
        ended = run("embed", b"fox", preexec_fn=lambda: os.close(2))
        self.assertEqual((ended.returncode, ended.stderr), (0, b""))
        self.assertTrue(ended.stdout.startswith(b"[["))

    def test_inputs_that_cannot_be(self):
        for path in ("/nonexistent", "/"):
            ended = run("embed", "", "--input", path)
            self.assertEqual((ended.returncode, ended.stdout), (1, b""))
            self.assertIn(b"magnetd: input: cannot be read", ended.stderr)

    def test_progress(self):
        data = "fox\n" * 50
        line = r"\d+ lines, \d+ a second, \d+ tokens a second"
        ended = run("embed", data, "--progress")
        self.assertRegex(ended.stderr.decode(), rf"^({line}\n)*50 lines, .*\n$")
        ours, theirs = pty.openpty()
        run("embed", data, stderr=theirs)
        os.close(theirs)
        self.assertRegex(os.read(ours, 65536).decode(), rf"^(\r{line}\x1b\[K)+\r\n$")
        os.close(ours)
        self.assertEqual(run("embed", data).stderr, b"")


@unittest.skipIf(MODEL != "tiny", "what every model shares is tested on a tiny one")
class Flags(Case):
    def refuse(self, ended, *words):
        self.assertEqual((ended.returncode, ended.stdout), (1, b""))
        for word in words:
            self.assertIn(word, ended.stderr.decode())

    def test_body(self):
        self.refuse(run("embed", "a", "--body", "[]"), "body: ")
        self.refuse(run("embed", "a", "--body", '{"a":'), "body: ")
        self.refuse(run("embed", "a", "--body", '{"inputs":"b"}'), '--body has "inputs"')
        self.refuse(run("embed", "a", "--body", "{}", "--jsonl"), "--body is for lines of text")
        room = 16384 - len('{"user":""}') - 1
        for bytes_, fits in ((room, True), (room + 1, False)):
            ended = run("embed", "a", "--body", json.dumps({"user": "u" * bytes_},
                                                           separators=(",", ":")))
            if fits:
                self.answers(ended)
            else:
                self.refuse(ended, "--body is longer than 16383 bytes")

    def test_others(self):
        for flags in (["--port", "0"], ["--data", "x"], ["--version"], ["lines.txt"]):
            self.refuse(run("embed", "a", *flags), "argument")
        self.refuse(run("embed", "a", path="/nonexistent.gguf"), "magnetd: ")
        bare = subprocess.run([real.BINARY, "embed"], capture_output=True, env=environment(),
                              timeout=20, check=False)
        self.refuse(bare, "--model FILE is required")

    def test_help(self):
        for verb in ("embed", "infill", "generate", "classify"):
            ended = run(verb, "", "--help")
            self.assertEqual((ended.returncode, ended.stderr), (0, b""))
            text = ended.stdout.decode()
            self.assertTrue(text.startswith(f"magnetd {verb} --model PATH"))
            for flag in ("--input", "--output", "--body", "--jsonl", "--progress", "--threads"):
                self.assertIn(flag, text)
            for flag in ("--port", "--data"):
                self.assertNotIn(flag, text)


if __name__ == "__main__":
    real.need_model(MODEL)
    unittest.main()
