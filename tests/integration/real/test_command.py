"""Goal: the command line of the real program does what --help says, and its mistakes name the flag
or the file without a crash.

Method: each run is a process that must end by itself; what it prints is read.
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

import real

MODEL = sys.argv.pop(1)
PATH = str(real.model_path(MODEL))


def run(*flags):
    # The flags alone count: a MAGNETD_MODEL of the caller's would be a model nobody named here.
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith("MAGNETD_")}
    return subprocess.run([real.BINARY, *flags], capture_output=True, text=True, env=clean,
                          timeout=20 * real.SCALE)


class Command(unittest.TestCase):
    def refuse(self, word, *flags):
        ended = run(*flags)
        self.assertEqual(ended.returncode, 1, flags)
        self.assertEqual(ended.stdout, "")
        self.assertTrue(ended.stderr.startswith("magnetd: "), ended.stderr)
        self.assertIn(word, ended.stderr)
        self.assertLess(len(ended.stderr), 1000)

    def test_version_and_help(self):
        ended = run("--version")
        self.assertEqual(ended.returncode, 0)
        self.assertRegex(ended.stdout, r"^magnetd \d+\.\d+\.\d+\n$")
        text = run("--help").stdout
        for flag in re.findall(r"^  --([a-z-]+)", text, re.M):
            if flag not in ("help", "version", "print-plan", "allow-remote"):
                self.refuse(flag, f"--{flag}")  # each of them wants a value
        self.assertGreater(len(re.findall(r"^  --", text, re.M)), 20)

    def test_check_model(self):
        ended = run("--check-model", PATH)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(ended.stdout.splitlines()[-1], "ok")
        self.assertIn("llama", ended.stdout)

    def test_check_model_refuses(self):
        data = open(PATH, "rb").read()
        for name, part in (("empty", b""), ("cut head", data[:100]), ("cut data", data[:-1000]),
                           ("magic", b"XXXX" + data[4:]),
                           ("version", data[:4] + b"\x09" + data[5:]),
                           ("text", b"hello " * 1000)):
            with self.subTest(name), tempfile.NamedTemporaryFile(suffix=".gguf") as file:
                file.write(part)
                file.flush()
                self.refuse("", "--check-model", file.name)
                self.refuse("", "--model", file.name, "--port", "0")
        for path in ("/nonexistent.gguf", "/dev/null", "/dev/zero", "/proc/self/status"):
            self.refuse("", "--check-model", path)
        self.refuse("config.json", "--check-model", "/")

    def make_folder(self, out):
        subprocess.run([sys.executable, real.SOURCE / "tests/golden/make_folder.py", PATH, out],
                       check=True)

    @unittest.skipIf(MODEL != "tiny", "the default model has no numbers for safetensors")
    def test_folder(self):
        """A folder answers as the GGUF file of the same numbers does, to the bit."""
        with tempfile.TemporaryDirectory() as folder:
            self.make_folder(folder)
            ended = run("--check-model", folder)
            self.assertEqual(ended.returncode, 0, ended.stderr)
            lines = ended.stdout.splitlines()
            self.assertEqual(lines[-1], "ok")
            self.assertIn(f"model {os.path.basename(folder)}: llama, ", lines[0])
            for line in ("tokenizer 272 tokens", "  before a text 1 <s>", "  behind a text none",
                         "  ends of an answer 2 </s>", "profile generate embed infill classify",
                         "  vectors of 48, bidirectional, pooled by mean", "memory plan"):
                self.assertIn(line, lines)
            answers = []
            for path in (PATH, folder):
                with real.Server("--context", "64", model=path, binary=real.BINARY) as server:
                    vectors = real.ok(server, "/embed", {"inputs": [[1, 40, 50], [7, 8, 9, 10]]})
                    tokens = real.ok(server, "/tokenize", {"inputs": "zz 9\n\u00e9"})
                    text = {"inputs": "zz", "parameters": {"max_new_tokens": 12}}
                    answers.append((vectors.value, tokens.value,
                                    real.ok(server, "/generate", text).value))
            self.assertEqual(*answers)

    @unittest.skipIf(MODEL != "tiny", "as above")
    def test_folder_refused(self):
        for word, name, change in (
                ("tokenizer.json", "tokenizer.json", None),
                ("tokenizer.json", "tokenizer.json", ('"BPE"', '"WordLevel"')),
                ("config.json: hidden_act", "config.json", ("silu", "relu")),
                ("model.safetensors", "model.safetensors", None)):
            with tempfile.TemporaryDirectory() as folder:
                self.make_folder(folder)
                path = os.path.join(folder, name)
                text = open(path, encoding="latin-1").read()
                os.unlink(path)
                if change is not None:
                    with open(path, "w", encoding="latin-1") as file:
                        file.write(text.replace(*change))
                self.refuse(word, "--check-model", folder)
                self.refuse(word, "--model", folder, "--port", "0")

    def test_print_plan(self):
        ended = run("--model", PATH, "--print-plan")
        self.assertEqual(ended.returncode, 0)
        sizes = dict(re.findall(r"^  (\w+) +([0-9.]+) MiB", ended.stdout, re.M))
        parts = sum(float(size) for name, size in sizes.items() if name != "total")
        self.assertAlmostEqual(parts, float(sizes["total"]), delta=0.5)
        self.assertEqual(set(sizes), {"weights", "cache", "scratch", "jobs", "tokenizer", "total"})
        f32 = run("--model", PATH, "--print-plan", "--kv-type", "f32").stdout
        double = float(re.search(r"cache +([0-9.]+) MiB", f32).group(1))
        self.assertAlmostEqual(double, 2 * float(sizes["cache"]), delta=0.2)

    def test_bad_values(self):
        for word, flags in (("--port", ["--port", "65536"]), ("--kv-type", ["--kv-type", "q8"]),
                            ("--threads", ["--threads", "-1"]), ("--jobs", ["--jobs", "0"]),
                            ("--activations", ["--activations", "int4"]),
                            ("activations", ["--activations", "int8", "--kernels", "blas"]),
                            ("--kernels", ["--kernels", "sse9"]), ("argument", ["serve"]),
                            ("--host", ["--host", "0.0.0.0"]), ("none", ["--profile", "/none"]),
                            ("context", ["--context", "999999"]), ("argument", ["--nope"])):
            self.refuse(word, "--model", PATH, *flags, "--print-plan")
        self.refuse("--model")

    def test_activations(self):
        """A file with blocks serves 8-bit activations and says so; one of floats refuses them."""
        path = PATH
        if MODEL == "tiny":
            self.refuse("activations", "--model", PATH, "--activations", "int8", "--print-plan")
            path = PATH.replace("tied.gguf", "quant.gguf")
        plan = run("--model", path, "--activations", "int8", "--print-plan").stdout
        self.assertIn("int8 activations", plan)
        with real.Server("--activations", "int8", "--context", "64", model=path,
                         binary=real.BINARY) as server:
            self.assertEqual(real.ok(server, "/info").value["activations"], "int8")
            body = {"inputs": "the", "parameters": {"max_new_tokens": 4}}
            real.ok(server, "/generate", body)

    def test_kernels(self):
        """Every instruction set that this machine has answers, with the same token ids."""
        answers = set()
        for kernels in ("ref", "avx2", "auto"):
            try:
                server = real.start(MODEL, "--kernels", kernels)
            except AssertionError:
                self.assertEqual(kernels, "avx2")
                continue
            with server:
                body = {"inputs": "the", "parameters": {"max_new_tokens": 8}}
                answers.add(real.ok(server, "/generate", body).value["generated_text"])
        self.assertEqual(len(answers), 1)


if __name__ == "__main__":
    unittest.main()
