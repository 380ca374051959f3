"""Goal: no file of the project is compiled with products and sums fused behind our back.

Method: read the commands the build really uses. gcc fuses by default outside of ISO mode, clang
within expressions, and only where the instruction set has fused multiply-add, so a missing flag
would show on some machines and not on others; its absence is looked for instead of its effect.
"""

import json
import shlex
import sys
from pathlib import Path

OURS = ("engine", "api", "batch", "eval", "server")
WANTED = "-ffp-contract=off"


def finding(command):
    """What is wrong with one compile command; None when nothing is."""
    flags = [word for word in command if word.startswith("-ffp-contract=")]
    if not flags or flags[-1] != WANTED:
        return f"compiled with {flags[-1] if flags else 'no -ffp-contract'}"
    return None


def main():
    root, build = Path(sys.argv[1]), Path(sys.argv[2])
    entries = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    found, count = set(), 0
    for entry in entries:
        path = (Path(entry["directory"]) / entry["file"]).resolve()
        if not path.is_relative_to(root) or path.relative_to(root).parts[0] not in OURS:
            continue
        count += 1
        wrong = finding(shlex.split(entry["command"]))
        if wrong:
            found.add(f"{path.relative_to(root)}: {wrong}")
    if count < 50:
        found.add(f"{count} compile commands: this test reads the wrong file")
    print("\n".join(sorted(found)) if found else f"{count} files")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
