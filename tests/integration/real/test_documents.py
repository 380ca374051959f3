"""Goal: what README and docs/ tell people to type works as it stands there.

Method: each line of a shell block that begins with curl is given to curl, with the port of the
server under test in the place of 8080, and its reply owes what every reply of its path owes.
"""
import re
import shlex
import shutil
import subprocess
import sys
import unittest

import real
from harness import Reply

MODEL = sys.argv.pop(1)
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.M | re.S)


def curl_lines():
    """(document, line) of every curl line, continued lines joined."""
    for path in [real.SOURCE / "README.md", *sorted((real.SOURCE / "docs").glob("*.md"))]:
        for block in BLOCK.findall(path.read_text()):
            for line in block.replace("\\\n", " ").splitlines():
                if line.startswith("curl "):
                    yield path.name, line


def curl(line, port):
    """The path a line asks for and its reply."""
    words = shlex.split(line.replace("localhost:8080", f"127.0.0.1:{port}"))
    url = next(word for word in words if word.startswith(f"127.0.0.1:{port}/"))
    ended = subprocess.run([*words, "--silent", "--show-error", "--include", "--no-buffer"],
                           capture_output=True, timeout=60 * real.SCALE, check=True)
    head, _, body = ended.stdout.partition(b"\r\n\r\n")
    status, *fields = head.decode().split("\r\n")
    pairs = (field.split(": ", 1) for field in fields)
    return "/" + url.partition("/")[2], Reply(
        int(status.split()[1]), {name.lower(): value for name, value in pairs}, body)


class Documents(unittest.TestCase):
    def test_curl_lines(self):
        paths = set()
        with real.start(MODEL) as server:
            for document, line in curl_lines():
                with self.subTest(document=document, line=line):
                    path, reply = curl(line, server.port)
                    self.assertEqual(reply.status, 200, reply)
                    real.check_reply(path, reply)
                    paths.add(path)
        self.assertLessEqual({"/embed", "/infill", "/generate", "/classify"}, paths)
        posts = {path for path, route in real.SCHEMAS.routes.items() if route["method"] == "POST"}
        self.assertEqual(posts - paths, set(), "routes without an example")


if __name__ == "__main__":
    if shutil.which("curl") is None:
        print("skipped: curl is not installed")
        sys.exit(real.SKIPPED)
    real.need_default_model()
    unittest.main()
