"""A page as C: its bytes, and a Content-Security-Policy that lets only its own script run.

    embed.py PAGE.html OUT.c
"""
import base64
import hashlib
import pathlib
import re
import sys


def source_of(html, tag):
    """Hashes of the page's inline parts as CSP names them (W3C CSP Level 3, section 2.3.1)."""
    parts = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.S)
    digests = (base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
               for part in parts)
    return " ".join(f"'sha256-{digest}'" for digest in digests)


def main():
    html = pathlib.Path(sys.argv[1]).read_text()
    policy = ("default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; "
              f"form-action 'none'; frame-ancestors 'none'; "
              f"script-src {source_of(html, 'script')}; style-src {source_of(html, 'style')}")
    data = html.encode()
    rows = (", ".join(map(str, data[at:at + 24])) for at in range(0, len(data), 24))
    pathlib.Path(sys.argv[2]).write_text(
        "/* Made by server/page/embed.py. */\n"
        '#include "server/page/page.h"\n\n'
        f'const char page_policy[] = "{policy}";\n'
        f"const size_t page_bytes = {len(data)};\n"
        "const unsigned char page_html[] = {\n    " + ",\n    ".join(rows) + "};\n")


if __name__ == "__main__":
    main()
