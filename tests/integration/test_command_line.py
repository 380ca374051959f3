"""The command line: bounds, environment, and the commands that only print."""
import os
import subprocess
import unittest

from harness import Server

BINARY = os.environ["MAGNETD_FAKE"]


def run(*flags, environment=None):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MAGNETD_")}
    return subprocess.run([BINARY, *flags], capture_output=True, text=True, timeout=20,
                          env={**clean, **(environment or {})})


class CommandLine(unittest.TestCase):
    def test_help_and_version(self):
        text = run("--help").stdout
        for flag in ("--model", "--host", "--port", "--threads", "--kv-type", "--print-plan",
                     "--check-model", "--allow-remote", "--drain-timeout-ms"):
            self.assertIn(flag, text)
        self.assertRegex(run("--version").stdout, r"^magnetd \d+\.\d+\.\d+\n$")

    def test_mistakes_name_the_flag(self):
        for flags, word in [(["--nonsense", "1"], "argument 1"), (["--port", "65536"], "--port"),
                            (["--port", "-1"], "--port"), (["--port", "x"], "--port"),
                            (["--port"], "--port"), (["--kv-type", "f64"], "--kv-type"),
                            (["--kv-type", ""], "--kv-type"),
                            (["--jobs", "0"], "--jobs"), (["--jobs", "65537"], "--jobs"),
                            (["--max-body-bytes", "1023"], "--max-body-bytes"),
                            (["--allow-remote=2"], "--allow-remote"),
                            (["--model", "x" * 1024], "--model"), ([], "--model"),
                            (["fake"], "argument")]:
            with self.subTest(flags):
                ended = run(*flags)
                self.assertEqual(ended.returncode, 1)
                self.assertIn(word, ended.stderr)
                self.assertEqual(ended.stdout, "")

    def test_remote_needs_a_word(self):
        for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
            ended = run("--model", "fake", "--host", host)
            self.assertEqual(ended.returncode, 1)
            self.assertIn("--allow-remote", ended.stderr)
        for host in ("127.0.0.1", "127.9.9.9", "localhost"):
            with self.subTest(host):
                ended = run("--model", "fake", "--host", host, "--print-plan")
                self.assertEqual(ended.returncode, 0)

    def test_remote_is_possible(self):
        with self.assertRaisesRegex(AssertionError, "http://0.0.0.0:"):
            Server("--host", "0.0.0.0", "--allow-remote")  # the harness insists on loopback

    def test_environment(self):
        good = run("--print-plan", environment={"MAGNETD_MODEL": "fake", "MAGNETD_STEP_ROWS": "77"})
        self.assertIn("77 rows a step", good.stdout)
        flag_wins = run("--print-plan", "--step-rows=78",
                        environment={"MAGNETD_MODEL": "fake", "MAGNETD_STEP_ROWS": "77"})
        self.assertIn("78 rows a step", flag_wins.stdout)
        bad = run("--print-plan", environment={"MAGNETD_MODEL": "fake", "MAGNETD_JOBS": "many"})
        self.assertEqual(bad.returncode, 1)

    def test_plan_and_check(self):
        plan = run("--model", "fake", "--print-plan")
        self.assertEqual(plan.returncode, 0)
        for word in ("weights", "cache", "scratch", "jobs", "total", "MiB"):
            self.assertIn(word, plan.stdout)
        self.assertEqual(run("--check-model", "fake").stdout.splitlines()[-1], "ok")
        broken = run("--check-model", "fake:load=fail")
        self.assertEqual(broken.returncode, 1)
        self.assertIn("tensor", broken.stderr)
        self.assertEqual(run("--model", "missing", "--print-plan").returncode, 1)


if __name__ == "__main__":
    unittest.main()
