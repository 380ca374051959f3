"""Other people's packages, for the tests that let them talk to the server.

Each set is pinned and installed once, with what it needs, into a folder of its own under the cache
($XDG_CACHE_HOME or ~/.cache, magnetd/clients): it belongs to no environment and is only put on the
path of the test that asks. Without a network, without pip, or after INSTALL_S seconds of
installing, that test skips and says so. Packages of hundreds of megabytes take minutes, so they are
installed only with MAGNETD_CLIENTS=all; once installed they are used without. Under a sanitizer all
of them skip: the same requests come from tests without packages.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

SKIPPED = 77
INSTALL_S, INSTALL_HEAVY_S = 90, 400
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def install(folder, packages, limit_s):
    """Whole or not at all: another test run may look at the same moment."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as fresh:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--retries", "0", "--timeout",
                   "10", "--disable-pip-version-check", "--no-compile", "--target",
                   f"{fresh}/packages", *packages]
        try:
            done = subprocess.run(command, capture_output=True, timeout=limit_s, check=False)
        except subprocess.TimeoutExpired:
            skip(f"{' '.join(packages)} was not installed within {limit_s} s")
        if done.returncode != 0:
            skip(f"pip cannot install {' '.join(packages)} here (offline?)")
        try:
            os.rename(f"{fresh}/packages", folder)
        except OSError:  # the other one came first
            if not folder.exists():
                raise


def load(*packages, heavy=False):
    """Makes these packages (name==version) importable, the first of them naming the folder."""
    if int(os.environ.get("MAGNETD_TEST_SCALE", "1")) > 1:
        skip("a sanitizer makes this too slow")
    name = f"{packages[0].replace('==', '-')}-{sys.implementation.cache_tag}"
    folder = CACHE / "magnetd" / "clients" / name
    if not folder.exists():
        if heavy and os.environ.get("MAGNETD_CLIENTS") != "all":
            skip(f"{packages[0]} is large: MAGNETD_CLIENTS=all installs it")
        install(folder, packages, INSTALL_HEAVY_S if heavy else INSTALL_S)
    sys.path.insert(0, str(folder))
    sys.modules.pop("typing_extensions", None)  # jsonschema has brought the system's, an older one
