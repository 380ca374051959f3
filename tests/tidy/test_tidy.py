"""Goal: every tidy check finds what it is for, and is silent about a clean tree.

Method: a clean tree of a few files is made in a temporary folder; each case spoils one thing and
expects one finding that names it.
"""

import tempfile
import unittest
from pathlib import Path

import symbols
import tidy
from tree import Tree

HEADER = """/* Owns x. */
#ifndef ENGINE_BASE_X_H
#define ENGINE_BASE_X_H
int x_get(void);
#endif
"""
SOURCE = '/* The workings. */\n#include "engine/base/x.h"\n\nint x_get(void)\n{\n    return 1;\n}\n'
CLEAN = {
    "README.md": "# Read me\n",
    "engine/base/x.h": HEADER,
    "engine/base/x.c": SOURCE,
    "server/http.c": "/* The front. */\n#include <microhttpd.h>\n",
    "tests/tidy/ratchet.txt": "# nothing\n",
}


def long_function(lines):
    return "/* Long. */\nvoid x_long(void)\n{\n" + "    ;\n" * (lines - 2) + "}\n"


# (what is spoilt, {path: text}, part of the finding)
CASES = (
    ("edge upwards", {"engine/base/x.c": '/* a */\n#include "engine/types.h"\n'},
     "no allowed edge"),
    ("edge past the door", {"api/a.c": '/* a */\n#include "engine/model/model.h"\n'},
     "no allowed edge"),
    ("tests from outside", {"server/a.c": '/* a */\n#include "tests/t.h"\n'}, "no allowed edge"),
    ("relative include", {"engine/base/x.c": '/* a */\n#include "x.h"\n'}, "path from the root"),
    ("microhttpd elsewhere", {"server/a.c": "/* a */\n#include <microhttpd.h>\n"}, "is kept to"),
    ("jansson elsewhere", {"api/a.c": "/* a */\n#include <jansson.h>\n"}, "is kept to"),
    ("tab", {"README.md": "a\tb\n"}, "a tab"),
    ("trailing space", {"README.md": "a \n"}, "space at the end"),
    ("carriage return", {"README.md": "a\r\n"}, "space at the end"),
    ("no last newline", {"README.md": "a"}, "no newline"),
    ("columns", {"engine/base/x.c": SOURCE + "/* " + "a" * 100 + " */\n"}, "columns"),
    ("workplace", {"README.md": "see /wo" + "rk/x\n"}, "somebody's machine"),
    ("fast math", {"engine/meson.build": "c_args: '-f" + "fast-math'\n"}, "bit-identical"),
    ("no opening", {"engine/base/x.c": "int x;\n"}, "does not open"),
    ("guard", {"engine/base/y.h": HEADER}, "ENGINE_BASE_Y_H"),
    ("typedef", {"engine/base/x.c": "/* a */\ntypedef struct a {\n"}, "typedef"),
    ("heap", {"engine/base/x.c": "/* a */\nvoid *p = malloc(1);\n"}, "mem.h"),
    ("unbounded", {"server/a.c": "/* a */\nstrcpy(a, b);\n"}, "unbounded"),
    ("binary", {"engine/base/x.inc": b"\xff\xfe"}, "not UTF-8"),
    ("long file", {"engine/base/x.c": SOURCE + "\n" * 801}, "x.c: 808 lines, 800 at most"),
    ("long function", {"engine/base/x.c": long_function(71)}, "x_long: 71 lines, 70 at most"),
    ("raw product", {"engine/load/x.c": "/* a */\nint y = count * sizeof(int);\n"},
     "unchecked-products: 1 lines, 0 at most"),
    ("long python", {"tests/a.py": "def f():\n" + "    pass\n" * 70}, "a.py:f: 71 lines"),
    ("grown entry", {"engine/base/x.c": long_function(91),
                     "tests/tidy/ratchet.txt": "engine/base/x.c:x_long 90\n"}, "91 lines, 90 at"),
    ("stale entry", {"engine/base/x.c": long_function(80),
                     "tests/tidy/ratchet.txt": "engine/base/x.c:x_long 90\n"}, "lower or drop"),
    ("case without a test", {"tests/integration/a.py": "def test_e1_e2_both():\n    pass\n"},
     "no test is named after the cases D1, D2, D3, E3, E4"),
    ("gone entry", {"tests/tidy/ratchet.txt": "engine/base/x.c:gone 90\n"}, "lower or drop"),
)

SILENT = (
    ("at the limit", {"engine/base/x.c": long_function(70)}),
    ("listed", {"engine/base/x.c": long_function(90),
                "tests/tidy/ratchet.txt": "engine/base/x.c:x_long 90\n"}),
    ("words in comments and text", {
        "engine/base/x.c": '/* malloc( and strcpy( */\nconst char *x = "free(";\n'}),
    ("library in a test", {"tests/unit/a.c": "/* a */\n#include <jansson.h>\n"}),
)


class Checks(unittest.TestCase):
    def found(self, spoilt):
        with tempfile.TemporaryDirectory() as folder:
            for path, text in {**CLEAN, **spoilt}.items():
                file = Path(folder) / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(text if isinstance(text, bytes) else text.encode())
            try:
                return list(tidy.findings(folder))
            except UnicodeDecodeError:
                tree = Tree(folder)
                return list(tidy.check_utf8(tree))

    def test_clean(self):
        self.assertEqual(self.found({}), [])

    def test_each_case_is_found(self):
        for name, spoilt, expected in CASES:
            with self.subTest(name):
                found = self.found(spoilt)
                self.assertEqual(len(found), 1, found)
                self.assertIn(expected, found[0])

    def test_no_false_alarm(self):
        for name, spoilt in SILENT:
            with self.subTest(name):
                self.assertEqual(self.found(spoilt), [])


class Symbols(unittest.TestCase):
    def test_state(self):
        self.assertIsNone(symbols.check_state("engine/a.c", "table", ".data.rel.ro.local"))
        self.assertIsNone(symbols.check_state("engine/a.c", "text", ".rodata"))
        self.assertIsNone(symbols.check_state("engine/base/log.c", "state", ".data"))
        for section in (".data", ".bss", ".tbss", ".data.x"):
            self.assertIn("mutable", symbols.check_state("engine/a.c", "count", section))

    def test_sources(self):
        sources = ["engine/base/a.c", "engine/kernels/ref/a.c"]
        self.assertEqual(symbols.source_of("base_a.c.o", sources), "engine/base/a.c")
        self.assertEqual(symbols.source_of("kernels_ref_a.c.o", sources), "engine/kernels/ref/a.c")
        self.assertIsNone(symbols.source_of("meson-generated_.._b.c.o", sources))


if __name__ == "__main__":
    unittest.main()
