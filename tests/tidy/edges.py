"""Which file may include which: the layers of docs/architecture.md as a table.

The longest matching prefix of the including file decides; an include is good when one of that
row's prefixes begins it. A new edge is a decision about the architecture: add it here and there.
"""

import re

BASE = ("engine/base/",)
LIMITS = ("engine/engine_limits.h",)
TYPES = ("engine/types.h",)
# What api/ and server/ see of the engine: the one door, the structs that pass it, the tokenizer,
# the chat template, the grammars of constrained output, the borders of what is sampled.
DOOR = ("engine/engine.h", "engine/job.h", "engine/text/tokenizer.h",
        "engine/template/chat_template.h", "engine/sample/grammar.h",
        "engine/sample/grammar_build.h", "engine/sample/border.h") + TYPES + LIMITS + BASE
MODEL = ("engine/model/", "engine/arch/", "engine/blocks/", "engine/attn/", "engine/cache/",
         "engine/kernels/", "engine/load/") + TYPES + LIMITS + BASE

EDGES = {
    "engine/base/": BASE,
    "engine/engine_limits.h": (),
    "engine/types.h": LIMITS + BASE,
    "engine/attn/": ("engine/attn/",) + LIMITS + BASE,
    "engine/kernels/": ("engine/kernels/", "engine/attn/mask.h") + LIMITS + BASE,
    "engine/cache/": ("engine/cache/", "engine/kernels/", "engine/attn/") + LIMITS + BASE,
    "engine/load/": ("engine/load/", "engine/kernels/") + TYPES + LIMITS + BASE,
    "engine/template/": ("engine/template/",) + LIMITS + BASE,
    "engine/text/": ("engine/text/", "engine/load/gguf.h", "engine/load/meta_json.h") + LIMITS
    + BASE,
    "engine/blocks/": MODEL,
    "engine/arch/": MODEL,
    "engine/model/": MODEL,
    "engine/sample/": ("engine/sample/", "engine/kernels/", "engine/text/tokenizer.h",
                       "engine/text/char_class.h") + TYPES + LIMITS + BASE,
    "engine/sched/": ("engine/sched/", "engine/sample/", "engine/text/", "engine/job.h",
                      "engine/engine.h", "engine/plan_check.h") + MODEL,
    "engine/": ("engine/",),
    "api/": ("api/", "schemas/") + DOOR,
    "batch/": ("batch/", "api/", "schemas/") + DOOR,
    "eval/": ("eval/", "batch/", "api/", "schemas/") + DOOR,
    "server/": ("server/", "api/", "schemas/") + DOOR,
    # The command line: serving, measuring or working through a file.
    "server/main.c": ("server/", "eval/eval.h", "batch/batch.h", "api/", "schemas/") + DOOR,
    "tests/": ("",),
    "schemas/": ("schemas/", "api/") + DOOR,
}

# Libraries that are kept behind a few files each, so that replacing one touches only those.
# Tests may include what they like.
LIBRARIES = {
    "microhttpd.h": ("server/http.c", "server/stream.c", "server/http_mhd.h"),
    "jansson.h": ("api/json_in.c", "engine/load/meta_json.c"),
    "cblas.h": ("engine/kernels/blas/",),
    "utf8proc.h": ("engine/text/",),
    "immintrin.h": ("engine/kernels/lanes/lanes_x86.h", "engine/kernels/x86/"),
    "arm_neon.h": ("engine/kernels/lanes/lanes_neon.h",),
    "linux/futex.h": ("engine/base/threads.c",),
    "sys/socket.h": ("server/",),
    "sys/epoll.h": ("server/",),
    "math.h": ("engine/", "api/", "eval/", "server/"),
}

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')


def row_of(path):
    """The row of EDGES for an including file; None when no layer owns the file."""
    owners = [prefix for prefix in EDGES if path.startswith(prefix)]
    return EDGES[max(owners, key=len)] if owners else None


def check_quoted(path, included):
    allowed = row_of(path)
    if allowed is None:
        return f"{path} belongs to no layer of tests/tidy/edges.py"
    if "/" not in included:
        return f'"{included}" is not written as a path from the root'
    if not any(included.startswith(prefix) for prefix in allowed):
        return f'"{included}" is no allowed edge of the architecture'
    return None


def check_library(path, included):
    homes = LIBRARIES.get(included)
    if homes is None or path.startswith("tests/"):
        return None
    if not any(path.startswith(home) for home in homes):
        return f"<{included}> is kept to {', '.join(homes)}"
    return None


def check_includes(tree):
    for path in tree.c_files():
        for number, line in enumerate(tree.lines(path), 1):
            match = INCLUDE.match(line)
            if match is None:
                continue
            quoted, library = match.groups()
            finding = check_quoted(path, quoted) if quoted else check_library(path, library)
            if finding:
                yield f"{path}:{number}: {finding}"
