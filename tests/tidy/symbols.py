"""Goal: exported names say where they live, and the engine has no mutable globals.

Method: read the symbols of every object in the project's static libraries. A function or table that
other objects can see begins with the stem of its file or of a header beside it (or the stem's first
word), with a struct declared there, or with the name of its folder. Writable data is allowed where
ALLOWED_STATE says why. Sanitizers add data of their own, so their builds skip the test.
"""

import re
import subprocess
import sys
from pathlib import Path

SKIPPED = 77
LAYERS = ("engine", "api", "batch", "eval", "server")

# Once per process by nature: the heap's counters and the one stderr.
ALLOWED_STATE = {
    "engine/base/mem.c": ("pool_bytes", "fail_countdown", "fail_forever", "thread_sealed"),
    "engine/base/log.c": ("state",),
    # Hooks of jansson have no context; the arena of the parse under way on this thread.
    "api/json_in.c": ("parse",),
}
WRITABLE = re.compile(r"^\.(data|bss|tdata|tbss)(?!\.rel\.ro)")


def read_symbols(archive):
    """(object, name, is_global, section) of every defined symbol."""
    text = subprocess.run(["nm", "--defined-only", "--format=sysv", archive], check=True,
                          capture_output=True, text=True).stdout
    member = None
    for line in text.splitlines():
        match = re.match(r"^Symbols from .*\[(.+)\]:$", line)
        if match:
            member = Path(match.group(1)).name  # thin archives name the whole path
        parts = [part.strip() for part in line.split("|")]
        if member and len(parts) == 7 and parts[0] != "Name":
            name, _, kind, _, _, _, section = parts
            yield member, name, kind.isupper() or kind in "uvw", section


def archives(build):
    return sorted(build.glob("engine/**/*.a")) + sorted(build.glob("api/**/*.a"))


def source_of(member, sources):
    """Meson names the object of kernels/ref/a.c "kernels_ref_a.c.o"; the longest path that ends so
    is the source. Generated sources and other folders' tests have none."""
    flat = member.removesuffix(".o")
    found = [source for source in sources
             if source.replace("/", "_").endswith("_" + flat) or source.endswith("/" + flat)]
    return min(found, key=len) if found else None


def prefixes_of(root, source):
    """What an exported name of this file may begin with."""
    folder = Path(source).parent
    stems = {Path(source).stem, folder.name}
    structs = set()
    for header in (root / folder).glob("*.h"):
        stems.add(header.stem)
        structs |= set(re.findall(r"^struct (\w+)", header.read_text(), re.MULTILINE))
    short = {stem.split("_")[0] for stem in stems} | {stem.removesuffix("s") for stem in stems}
    return stems | short | structs


def check_name(root, source, name):
    for prefix in prefixes_of(root, source):
        if name == prefix or name.startswith(prefix + "_"):
            return None
    return f"{source}: {name} begins with no stem of its file, a header beside it or its folder"


def check_state(source, name, section):
    if not WRITABLE.match(section) or name in ALLOWED_STATE.get(source, ()):
        return None
    return f"{source}: {name} in {section} is a mutable global"


def findings(root, build):
    sources = [path.relative_to(root).as_posix() for layer in LAYERS
               for path in (root / layer).rglob("*.c")]
    seen = set()
    for archive in archives(build):
        for member, name, is_global, section in read_symbols(archive):
            source = source_of(member, sources)
            if source is None:
                continue
            seen.add(source)
            if is_global:
                yield check_name(root, source, name)
            if source.startswith(("engine/", "api/")):
                yield check_state(source, name, section)
    if "engine/base/mem.c" not in seen:
        yield "the symbols of engine/base/mem.c were not found: this test reads the wrong files"


def main():
    root, build, sanitizer = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    if sanitizer != "none":
        print("skipped: a sanitizer build holds the sanitizer's own data")
        return SKIPPED
    found = sorted({finding for finding in findings(root, build) if finding})
    print("\n".join(found) if found else "nothing found")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
