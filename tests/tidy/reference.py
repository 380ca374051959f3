"""Goal: schemas/openapi.json and docs/api.md say what the schemas say.

Method: both are made again and compared with what is committed; and openapi.json holds together:
every reference has a target, every component is used.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

COMMITTED = ("schemas/openapi.json", "docs/api.md")


def made(root, version):
    with tempfile.TemporaryDirectory() as folder:
        outputs = [pathlib.Path(folder) / pathlib.Path(name).name for name in COMMITTED]
        subprocess.run([sys.executable, "-B", root / "schemas/generate.py", "reference",
                        root / "schemas", version, *outputs], check=True)
        return [path.read_text() for path in outputs]


def main():
    root, version = pathlib.Path(sys.argv[1]), sys.argv[2]
    findings = [f"{name} is not what the schemas say: ninja reference makes it again"
                for name, text in zip(COMMITTED, made(root, version), strict=True)
                if not (root / name).exists() or (root / name).read_text() != text]
    document = json.loads((root / COMMITTED[0]).read_text())
    targets = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document)))
    components = set(document["components"]["schemas"])
    findings += [f"openapi.json: no schema {name}" for name in targets - components]
    findings += [f"openapi.json: {name} is not used" for name in components - targets]
    print("\n".join(findings))
    sys.exit(bool(findings))


if __name__ == "__main__":
    main()
