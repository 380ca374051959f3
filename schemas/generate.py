#!/usr/bin/env python3
"""Makes the C tables of api/ from the JSON Schemas of this folder. Standard library only.

    generate.py routes FOLDER OUT.c
"""
import json
import pathlib
import sys

NOTICE = "/* Made by schemas/generate.py from the schemas beside it; edit those. */\n"


def quoted(text):
    return json.dumps(text, ensure_ascii=True)


def emit_routes(folder):
    routes = json.loads((folder / "routes.json").read_text())["routes"]
    lines = [NOTICE, '#include "api/routes.h"\n\n',
             "const struct endpoint_route endpoint_routes[] = {\n"]
    for route in routes:
        fields = [f'.path = {quoted(route["path"])}', f'.method = {quoted(route["method"])}',
                  f'.family = FAMILY_{route["family"].upper()}']
        if "endpoint" in route:
            fields += [".handler = ROUTE_COMPUTE", f'.endpoint = &endpoint_{route["endpoint"]}']
        elif "direct" in route:
            fields += [".handler = ROUTE_DIRECT", f'.direct = endpoint_{route["direct"]}']
        else:
            fields += [".handler = ROUTE_PAGE", f'.page = PAGE_{route["page"].upper()}']
        lines.append("    {" + ", ".join(fields) + "},\n")
    lines.append("};\n")
    lines.append(f"const int32_t endpoint_route_count = {len(routes)};\n")
    return "".join(lines)


def main():
    what, folder, *outputs = sys.argv[1:]
    if what != "routes":
        sys.exit(f"generate.py: unknown output {what}")
    pathlib.Path(outputs[0]).write_text(emit_routes(pathlib.Path(folder)))


main()
