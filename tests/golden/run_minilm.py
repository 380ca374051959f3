"""Runs the program on the command line on all-MiniLM-L6-v2, if deploy/fetch_model.sh put it here:
its folder, then the GGUF files that make_bert_gguf.py writes from it. Files so large are not kept.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

TYPES = ("f32", "bf16", "q8_0")


def main():
    program = sys.argv[1]
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    model = os.environ.get("MAGNETD_MINILM") or cache / "magnetd" / "all-MiniLM-L6-v2"
    if not pathlib.Path(model).exists():
        return subprocess.run([program], check=False).returncode
    with tempfile.TemporaryDirectory() as out:
        script = pathlib.Path(__file__).with_name("make_bert_gguf.py")
        subprocess.run([sys.executable, script, model, out, "--types", ",".join(TYPES)], check=True)
        files = [str(pathlib.Path(out) / f"{kind}.gguf") for kind in TYPES]
        return subprocess.run([program, str(model), *files], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
