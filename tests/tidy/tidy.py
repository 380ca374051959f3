"""Goal: what reviewers should not have to look for is looked for here.

Method: each check reads the tree as text and yields findings; any finding fails the test. Lengths
are held by a ratchet: ratchet.txt lists what is too long today with its length, which may only
shrink; so are the lines that multiply sizes without engine/base/checked.h where files are read,
each of which was looked at once. test_tidy.py shows that each check finds what it is for.
"""

import ast
import re
import sys
from pathlib import Path

from edges import check_includes
from tree import Tree, without_comments

FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 70
COLUMNS_MAX = 100
RATCHET = "tests/tidy/ratchet.txt"

# Written in pieces, so that this file does not name what it forbids.
WORKPLACE = re.compile("|".join(("/wo" + "rk/", "/tmp/w" + "t/", "/tmp/ca" + "che/",
                                 r"\.lib" + "rary/")))
FAST_MATH = re.compile("-f" + "fast-math|-O" + "fast|-funsafe" + "-math|FP_CONTRACT +ON"
                       r"|__attribute__\(\(optimize")
# The guard in the build, and the test that shows it works.
FAST_MATH_HOMES = ("meson.build", "tests/tidy/", "docs/", "NEWS.md")
# A factor that counts bytes or records. What is read may state any number of them.
SIZE = (r"(?:sizeof\([^)]*\)|\(size_t\)[\w.>\-\[\]]+"
        r"|\b[\w.>\-]*(?:bytes|count|offset|size|rows)\b)")
RAW_PRODUCT = re.compile(rf"{SIZE} (?:\*|<<) |[\w)\]] (?:\*|<<) {SIZE}")
READERS = "engine/load/"
BINARY_ENDINGS = (".bin", ".gguf", ".npz", ".png")


def check_whitespace(tree):
    for path in tree.text_files():
        data = (tree.root / path).read_bytes()
        if data and not data.endswith(b"\n"):
            yield f"{path}: no newline at the end"
        for number, line in enumerate(data.split(b"\n"), 1):
            if line.endswith((b" ", b"\t", b"\r")):
                yield f"{path}:{number}: space at the end of the line"
            if b"\t" in line and not path.startswith("tests/golden/"):
                yield f"{path}:{number}: a tab"


def check_columns(tree):
    for path in tree.c_files() + tree.ending_in(".py"):
        for number, line in enumerate(tree.lines(path), 1):
            if len(line) > COLUMNS_MAX:
                yield f"{path}:{number}: {len(line)} columns, {COLUMNS_MAX} at most"


def check_workplace(tree):
    for path in tree.text_files():
        for number, line in enumerate(tree.lines(path), 1):
            if WORKPLACE.search(line):
                yield f"{path}:{number}: names a folder of somebody's machine"


def check_fast_math(tree):
    for path in tree.text_files():
        if path.startswith(FAST_MATH_HOMES):
            continue
        for number, line in enumerate(tree.lines(path), 1):
            if FAST_MATH.search(line):
                yield f"{path}:{number}: breaks bit-identical results"


def check_opening(tree):
    """A file opens with a comment that says what it owns; a header is guarded by its path."""
    for path in tree.c_files():
        text = tree.text(path)
        if not text.startswith("/*"):
            yield f"{path}:1: does not open with a comment"
        if path.endswith(".h"):
            guard = re.sub(r"[/.]", "_", path).upper()
            if f"#ifndef {guard}\n#define {guard}\n" not in text:
                yield f"{path}: the include guard is not {guard}"


def check_idiom(tree):
    """House style that a compiler has no warning for."""
    forbidden = ((r"\btypedef\s+(?:struct|union|enum)\b(?![^;{]*\()",
                  "typedef of a struct, union or enum"),
                 (r"\balloca\s*\(", "alloca"),
                 (r"\b(?:strcpy|strcat|sprintf|gets|strtok|atoi|atof)\s*\(", "an unbounded or "
                  "unchecked function"))
    heap = r"\b(?:malloc|calloc|realloc|free|strdup|strndup|asprintf)\s*\("
    for path in tree.c_files():
        if path.startswith("tests/"):
            continue
        rules = forbidden
        if path.startswith(("engine/", "api/")) and path != "engine/base/mem.c":
            rules += ((heap, "the heap, past engine/base/mem.h"),)
        for number, line in enumerate(without_comments(tree.text(path)).splitlines(), 1):
            for pattern, what in rules:
                if re.search(pattern, line):
                    yield f"{path}:{number}: {what}"


def c_functions(text):
    """(name, lines) of each function; clang-format puts its braces alone in column one."""
    lines = without_comments(text).splitlines()
    start = None
    for number, line in enumerate(lines):
        if line == "{":
            start = number
        elif line == "}" and start is not None:
            head = " ".join(lines[max(0, start - 8):start]).split(";")[-1].split("}")[-1]
            names = re.findall(r"(\w+)\s*\(", head)
            yield (names[0] if names else f"line {start + 1}"), number - start + 1
            start = None


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.end_lineno - node.lineno + 1


def lengths(tree):
    """Every length that is over its limit: {name: (length, limit)}."""
    found = {}
    for path in tree.c_files() + tree.ending_in(".py", ".sh"):
        text = tree.text(path)
        count = len(text.splitlines())
        if count > FILE_LINES_MAX:
            found[path] = (count, FILE_LINES_MAX)
        functions = ()
        if path.endswith((".c", ".h")):
            functions = c_functions(text)
        elif path.endswith(".py"):
            functions = python_functions(text)
        for name, count in functions:
            if count > FUNCTION_LINES_MAX:
                found[f"{path}:{name}"] = (count, FUNCTION_LINES_MAX)
        products = raw_products(path, text)
        if products > 0:
            found[f"{path}:unchecked-products"] = (products, 0)
    return found


def raw_products(path, text):
    """Lines of a reader that multiply sizes without checked_mul."""
    if not (path.startswith(READERS) and path.endswith((".c", ".h"))):
        return 0
    return sum(bool(RAW_PRODUCT.search(line)) for line in without_comments(text).splitlines())


def read_ratchet(tree):
    allowed = {}
    if RATCHET in tree.paths:
        for line in tree.lines(RATCHET):
            if line and not line.startswith("#"):
                name, count = line.rsplit(None, 1)
                allowed[name] = int(count)
    return allowed


def check_lengths(tree):
    found, allowed = lengths(tree), read_ratchet(tree)
    for name, (count, limit) in sorted(found.items()):
        if count > allowed.get(name, limit):
            yield f"{name}: {count} lines, {allowed.get(name, limit)} at most"
    for name, count in sorted(allowed.items()):
        now = found.get(name, (0, 0))[0]
        if now < count:
            yield (f"{RATCHET}: {name} is listed with {count} lines and has "
                   f"{now or 'few enough'} now; lower or drop the entry")


def check_utf8(tree):
    """Files of unknown kind are looked at too: binaries only where fixtures live."""
    for path in tree.paths:
        if path.endswith(BINARY_ENDINGS) or path.startswith(("tests/golden/", "tests/fuzz/")):
            continue
        try:
            tree.text(path)
        except UnicodeDecodeError:
            yield f"{path}: not UTF-8 text"


# Cases of real users that have a test over sockets; test_e1_... is of E1. Of M, S and O only some
# are kept by one test.
CASES = {"D": range(1, 4), "E": range(1, 13), "I": range(1, 10), "L": range(1, 11),
         "M": (1, 2, 4, 6, 7, 9, 10), "O": (1, 2, 3, 4, 5, 6, 7, 8, 10, 15),
         "S": range(1, 11), "U": range(1, 10)}


def check_cases(tree):
    """A case has a test as long as one bears its name: a test that is renamed or lost is missed."""
    texts = [tree.text(path) for path in tree.ending_in(".py")
             if path.startswith("tests/integration/")]
    names = [name for text in texts for run in re.findall(r"def test_((?:[a-z]\d+_)+)", text)
             for name in run.upper().split("_")]
    missing = [f"{letter}{number}" for letter, numbers in CASES.items() for number in numbers
               if f"{letter}{number}" not in names]
    if texts and missing:
        yield f"tests/integration: no test is named after the cases {', '.join(missing)}"


CHECKS = (check_utf8, check_cases, check_whitespace, check_columns, check_workplace,
          check_fast_math, check_opening, check_idiom, check_includes, check_lengths)


def findings(root):
    tree = Tree(root)
    for check in CHECKS:
        yield from check(tree)


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parents[2])
    found = list(findings(root))
    print("\n".join(found) if found else "nothing found")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
