#!/usr/bin/env python3
"""Writes the kept corpus of fuzz_template: the short templates of the golden test, and broken ones.

    make_template_corpus.py FOLDER
"""
import hashlib
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "golden" / "template"))
import cases  # noqa: E402

BROKEN = [b"", b"{", b"{{", b"{%", b"{#", b"{{'", b"{{'\\", b"{{'\\x4", b"{%-", b"{{-}}", b"{%%}",
          b"\xff", b"{{ \xc3\xa9 }}", b"{% for %}", b"{% set %}", b"{% macro %}", b"{{ a[ }}",
          b"{{ a[:::] }}", b"{{ (((((( }}", b"{% if", b"{% if 1 %}{% elif", b"\r", b"\r\n{%\r%}",
          b"{{ messages }}", b"{% for m in messages %}{{ m.content }}{% endfor %}",
          b"{% for m in messages %}{{ m.content|tojson(indent=2)|indent }}{% endfor %}",
          b"{% for m in messages %}{{ m|tojson }}{{ m.content[::-1] }}{% endfor %}",
          b"{% for m in messages %}{{ m.content|replace(' ', m.content).split() }}{% endfor %}"]


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    sources = [source.encode() for source, _ in cases.SHORT]
    for data in sources[::3] + [source.encode() for source in cases.REFUSED[::2]] + BROKEN:
        (folder / f"{hashlib.sha1(data).hexdigest()[:12]}.bin").write_bytes(data)


if __name__ == "__main__":
    main()
