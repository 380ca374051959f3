#!/usr/bin/env python3
"""Goal: our interpreter renders chat templates to the byte as the reference does.

Method: every template of the reference data, and every short one in cases.py, with every
conversation, by ours and by jinja2. What the reference renders, ours renders to the same text, or
refuses as not supported where cases.py says so; where the reference fails, ours fails. What a
client said, and nothing else, is marked as such. Skipped where jinja2 is not installed.

    check_templates.py RENDER_TEMPLATE
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import jinja2  # noqa: F401
except ImportError:
    print("skipped: python3-jinja2 is not installed")
    sys.exit(77)

import cases
import reference


# A list or mapping as Python writes it, which we refuse to write.
PYTHON = re.compile(r"[\[{]['\]}]")


def ours(program, path, values):
    lines = "".join(json.dumps(value) + "\n" for value in values)
    run = subprocess.run([program, path, str(reference.SECONDS)], input=lines, check=True,
                         capture_output=True, text=True)
    replies = [json.loads(line) for line in run.stdout.split("\n") if line]
    return replies if len(replies) == len(values) else replies * len(values)


def judge(wanted, reply):
    """None when the reply is right, else what is wrong."""
    kind, text = wanted
    if kind == "text" and reply.get("error") == "not_supported" and PYTHON.search(text):
        return None
    if kind == "text":
        if reply.get("text") != text:
            return f"\n  wanted {text!r}\n  got    {reply.get('text', reply)!r}"
    elif "error" not in reply:
        return f"\n  wanted {kind}: {text}\n  got    {reply['text']!r}"
    elif reply["error"] != "invalid" and kind == "raised":
        return f"\n  wanted an exception: {text}\n  got    {reply}"
    return None


def misjudged(value, reply):
    """None unless what the client said is not what counts as the client's."""
    if value.get("messages") != cases.MARKED or value.get("tools") or "text" not in reply:
        return None
    said = "".join(char for char in reply["text"] if char == cases.CLIENT)
    return None if reply["client"] == said else f"\n  the client said {reply['client']!r}"


def check(program, name, path, values):
    source = pathlib.Path(path).read_bytes().decode()
    bad = 0
    rendered = 0
    for value, reply in zip(values, ours(program, path, values)):
        wanted = reference.render(source, value)
        rendered += wanted[0] == "text"
        wrong = judge(wanted, reply) or misjudged(value, reply)
        if wrong:
            bad += 1
            print(f"{name}: {json.dumps(value)[:300]}{wrong}")
    return bad, rendered


def check_short(program, folder):
    bad = 0
    for number, (source, values) in enumerate(cases.SHORT):
        path = pathlib.Path(folder) / f"{number}.jinja"
        path.write_bytes(source.encode())
        wrong, _ = check(program, repr(source), path, [values])
        bad += wrong
    for number, source in enumerate(cases.REFUSED):
        path = pathlib.Path(folder) / f"refused{number}.jinja"
        path.write_bytes(source.encode())
        reply = ours(program, path, [{}])[0]
        if reply.get("error") not in ("unsupported", "not_supported"):
            bad += 1
            print(f"{source!r}: is to be refused, got {reply}")
    return bad


def default_model():
    """The model's file, or None."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    path = pathlib.Path(os.environ.get("MAGNETD_MODEL") or
                        cache / "magnetd" / "SmolLM2-135M-Instruct.Q4_1.gguf")
    return path if path.exists() else None


def check_default_model(program, folder):
    model = default_model()
    if model is None:
        print("the default model is not there: its template was not checked")
        return 0
    source = subprocess.run([program, model], check=True, capture_output=True).stdout
    path = pathlib.Path(folder) / "default.jinja"
    path.write_bytes(source)
    wrong, rendered = check(program, path.name, path, cases.conversations())
    print(f"the default model's: {rendered} rendered, {wrong} wrong")
    return wrong + (rendered == 0)


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        bad = check_short(program, folder)
        print(f"{len(cases.SHORT)} short templates, {len(cases.REFUSED)} refused: {bad} wrong")
        bad += check_default_model(program, folder)
    root = pathlib.Path(__file__).resolve().parents[3]
    data = pathlib.Path(os.environ.get("MAGNETD_DATA", root.parent / "shared" / "data"))
    files = sorted((data / "llama-vocabs" / "models" / "templates").glob("*.jinja"))
    values = cases.conversations()
    for path in files:
        wrong, rendered = check(program, path.name, path, values)
        print(f"{path.name}: {len(values)} conversations, {rendered} rendered, {wrong} wrong")
        bad += wrong
    if not files:
        print("the reference templates are not there: only the short ones were checked")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
