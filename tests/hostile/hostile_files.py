#!/usr/bin/env python3
"""Writes every hostile model file of the list of hazards, each with the place its error must name.

    python3 tests/hostile/hostile_files.py FOLDER

The cases are tables: gguf_cases.py and folder_cases.py, and below what is no model file at all.
Each is a good file or folder of the golden tests with one thing wrong. Files are sparse where size
is the hazard. Only the Python standard library.
"""

import os
import pathlib
import shutil
import socket
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import folder_cases  # noqa: E402
import gguf_cases  # noqa: E402
from gguf_file import File  # noqa: E402

SOURCE = pathlib.Path(__file__).resolve().parents[2]
LLAMA = SOURCE / "tests/golden/fixtures/tiny_llama"
WHOLE = "file"  # what errors call a file that was named on the command line


class Case:
    """`where` is what the error names; None: the file is good."""

    def __init__(self, words, what, where, path):
        self.words, self.what, self.where, self.path = words, what, where, path

    def __repr__(self):
        return f"{self.words}: {self.what}"


def make_gguf(file, path):
    path.write_bytes(file.pack())
    if file.sparse_bytes > 0:
        os.truncate(path, file.sparse_bytes)


def gguf_files(folder):
    def bpe():
        file = File(LLAMA / "tied.gguf")
        gguf_cases.to_bpe(file)
        return file

    bases = (("float", lambda: File(LLAMA / "tied.gguf"), gguf_cases.CASES),
             ("quant", lambda: File(LLAMA / "quant.gguf"), gguf_cases.QUANT),
             ("bpe", bpe, gguf_cases.BPE))
    for base, make, cases in bases:
        path = folder / f"{base}.gguf"
        make_gguf(make(), path)
        yield Case("unchanged", base, None, path)
        for index, (words, what, where, change) in enumerate(cases):
            file, path = make(), folder / f"{base}-{index:03}.gguf"
            change(file)
            make_gguf(file, path)
            yield Case(words, what, where, path)


def folders(folder):
    good = folder / "good"
    subprocess.run([sys.executable, SOURCE / "tests/golden/make_folder.py", LLAMA / "tied.gguf",
                    good], check=True)
    yield Case("unchanged", "folder", None, good)
    for index, (words, what, where, change) in enumerate(folder_cases.CASES):
        path = folder / f"folder-{index:03}"
        shutil.copytree(good, path)
        change(path)
        yield Case(words, what, where, path)


def odd_files(folder):
    """What is no regular file, by its own path and through a link."""
    fifo, place, self_link = folder / "fifo.gguf", folder / "socket.gguf", folder / "self.gguf"
    os.mkfifo(fifo)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(place))
    listener.close()
    self_link.symlink_to(self_link)
    odd = [("FIFO", fifo, WHOLE), ("FIFO", place, WHOLE), ("a link to one", self_link, WHOLE),
           ("device", "/dev/zero", WHOLE), ("device", "/dev/null", WHOLE),
           ("device", "/dev/tty", WHOLE), ("device", "/dev/stdin", WHOLE),
           ("/proc entry", "/proc/self/status", "magic"), ("/proc entry", "/proc/version", "magic"),
           ("/proc entry", "/proc/self/fd", "config.json"), ("a folder", "/proc", "config.json")]
    for index, (words, target, where) in enumerate(odd):
        yield Case(words, str(target), where, target)
        if target not in (self_link, "/dev/stdin"):
            link = folder / f"link-{index}.gguf"
            link.symlink_to(target)
            yield Case("a link to one", str(target), where, link)
    link = folder / "link-good.gguf"
    link.symlink_to(LLAMA / "tied.gguf")
    yield Case("Links are followed", "a link to a good file", None, link)
    hole = folder / "hole.gguf"
    hole.touch()
    os.truncate(hole, 1 << 40)
    yield Case("sparse", "1 TB of nothing", "magic", hole)
    yield Case("no file", "a name that nobody has", WHOLE, folder / "nothing.gguf")


def truncated(folder):
    """Cut in the head, among the keys, among the tensors, in the data."""
    whole = File(LLAMA / "tied.gguf").pack()
    for part in range(16):
        path = folder / f"cut-{part}.gguf"
        path.write_bytes(whole[:len(whole) * part // 16 if part > 4 else 500 * part])
        yield Case("truncated", f"{path.stat().st_size} of {len(whole)} bytes", "", path)


def write_all(folder):
    """Every case, its file written."""
    folder.mkdir(parents=True, exist_ok=True)
    for make in (gguf_files, folders, odd_files, truncated):
        yield from make(folder)


def main():
    for case in write_all(pathlib.Path(sys.argv[1])):
        print(f"{case.path}\t{case}\t{case.where}")


if __name__ == "__main__":
    main()
