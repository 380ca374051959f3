"""The project's files, and the small vocabulary that the tidy checks share.

A check is a function that takes a Tree and yields findings: "path:line: what is wrong". The tree is
read from disk, not from git, so that a file is checked before it is committed.
"""

import re
from pathlib import Path

SOURCE_ROOTS = ("engine", "api", "batch", "eval", "server", "schemas", "tests", "deploy", "docs",
                ".ci")
TEXT_ENDINGS = (".c", ".h", ".py", ".sh", ".md", ".build", ".txt", ".json", ".yml", ".conf", ".js",
                ".inc", ".options", ".service", "")
C_ENDINGS = (".c", ".h")


class Tree:
    """Paths are relative to the root, with forward slashes."""

    def __init__(self, root):
        self.root = Path(root)
        self.paths = sorted(self._walk())

    def _walk(self):
        for path in self.root.iterdir():
            if path.is_file() and path.name != ".git":  # a file in a git worktree
                yield path.name
        for name in SOURCE_ROOTS:
            for path in (self.root / name).rglob("*"):
                relative = path.relative_to(self.root)
                if path.is_file() and "__pycache__" not in relative.parts:
                    yield relative.as_posix()

    def ending_in(self, *endings):
        return [path for path in self.paths if Path(path).suffix in endings]

    def c_files(self):
        return self.ending_in(*C_ENDINGS)

    def text_files(self):
        return self.ending_in(*TEXT_ENDINGS)

    def text(self, path):
        return (self.root / path).read_text(encoding="utf-8")

    def lines(self, path):
        return self.text(path).splitlines()


def without_comments(text):
    """C source with comments and the insides of string literals blanked, line numbers kept."""

    def blank(match):
        found = match.group(0)
        if found.startswith(("\"", "'")):
            return found[0] + " " * (len(found) - 2) + found[-1]
        return re.sub(r"[^\n]", " ", found)

    return re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", blank, text,
                  flags=re.DOTALL)
