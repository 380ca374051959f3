"""The published descriptions of the API, made from the JSON Schemas of this folder.

openapi.json is OpenAPI 3.1, whose schemas are JSON Schema 2020-12 itself: each file becomes a
component, each $def one of its own, references follow. What only the generator of C tables needs
(x-form and its like) is left out. The first of several forms that fits is taken, so they become
anyOf: an empty list fits two of them. docs/api.md is the same for people. Both are committed, and a
test makes them again.
"""
import json
import pathlib
import re

FAMILIES = {"tei": "TEI", "openai": "OpenAI", "llama": "llama.cpp"}
ERRORS = {"tei": "error_tei.json", "openai": "error_openai.json", "llama": "error_llama.json"}
# What only the generator of C tables reads.
PRIVATE = ("x-form", "x-json", "x-name", "x-words", "x-max-bytes", "$schema", "$id")


def component_name(file, pointer=""):
    stem = pathlib.Path(file).stem
    return f"{stem}_{pointer.rsplit('/', 1)[1]}" if pointer.strip("/") else stem


def refused(schema):
    """A field that is known and not built: null is the same as its absence."""
    neutral = schema["enum"] + [None]
    return {"enum": neutral, "description": "Not built: any other value is refused by name."}


class Components:
    """Schemas by component name; those that are referred to follow."""

    def __init__(self, schemas):
        self.schemas = schemas
        self.found = {}

    def add(self, file, pointer=""):
        name = component_name(file, pointer)
        if name not in self.found:
            self.found[name] = None  # a schema may refer to itself
            node = self.schemas.load(file)
            for part in pointer.strip("/").split("/") if pointer else []:
                node = node[part]
            self.found[name] = self.convert(node, file)
        return {"$ref": f"#/components/schemas/{name}"}

    def convert(self, node, file):
        if isinstance(node, list):
            return [self.convert(one, file) for one in node]
        if not isinstance(node, dict):
            return node
        if node.get("x-idle"):
            return {"description": "Accepted, without effect."}
        if node.get("x-refused"):
            return refused(node)
        if "$ref" in node:
            target, _, pointer = node["$ref"].partition("#")
            rest = {key: self.convert(value, file) for key, value in node.items()
                    if key != "$ref" and key not in PRIVATE}
            return {**self.add(target or file, pointer), **rest}
        if any("$ref" in part for part in node.get("allOf", [])):
            return self.mixture(node, file)
        return {"anyOf" if key == "oneOf" else key: self.convert(value, file)
                for key, value in node.items() if key not in PRIVATE and key != "$defs"}

    def mixture(self, node, file):
        """Fields of shared parts become the object's own, unless it has them itself."""
        fields = {}
        for part in node["allOf"]:
            shared, part_file, _ = self.schemas.follow(part, file)
            fields.update(self.convert(shared["properties"], part_file))
        rest = {key: value for key, value in node.items() if key not in ("allOf", "properties")}
        return {**self.convert(rest, file),
                "properties": {**fields, **self.convert(node["properties"], file)}}

# ---- openapi.json --------------------------------------------------------------------------------

def operation(route, components, schemas):
    name = re.sub(r"\W+", "_", route["path"].strip("/")).strip("_") or "page"
    result = {"summary": route["summary"], "operationId": name,
              "tags": [FAMILIES[route["family"]]]}
    parameters = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
                  for name in path_parameters(route["path"])]
    if parameters:
        result["parameters"] = parameters
    if "request" in route:
        content = {"schema": components.add(route["request"])}
        examples = schemas.load(route["request"]).get("examples", [])
        if examples:
            content["examples"] = {f"example_{index + 1}": {"value": value}
                                   for index, value in enumerate(examples)}
        result["requestBody"] = {"required": True, "content": {"application/json": content}}
    content = {}
    if "reply" in route:
        content["application/json"] = {"schema": components.add(route["reply"])}
    error = components.add(ERRORS[route["family"]])
    if "frame" in route:
        content["text/event-stream"] = {"schema": {
            "anyOf": [components.add(route["frame"]), error]}}
    if "media" in route:
        content[route["media"]] = {"schema": {"type": "string"}}
    result["responses"] = {
        "200": {"description": "The answer; of a stream, one event.", "content": content},
        "default": {"description": "An error of this family's form.",
                    "content": {"application/json": {"schema": error}}}}
    return result


def path_parameters(path):
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]


def emit_openapi(schemas, version):
    components = Components(schemas)
    paths = {}
    for route in schemas.load("routes.json")["routes"]:
        entry = paths.setdefault(route["path"], {})
        entry[route["method"].lower()] = operation(route, components, schemas)
    document = {
        "openapi": "3.1.0",
        "info": {"title": "magnetd", "version": version,
                 "description": "Vectors, gaps, continuations and verdicts from one set of "
                                "weights. A field whose value is null counts as absent.",
                 "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"}},
        "servers": [{"url": "http://127.0.0.1:8080"}],
        "paths": paths,
        "components": {"schemas": dict(sorted(components.found.items()))}}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


# ---- docs/api.md ---------------------------------------------------------------------------------

INTRODUCTION = """# API

Made from the schemas in `schemas/` by `ninja -C build reference`; `schemas/openapi.json` says the
same as OpenAPI 3.1.

* A body is one JSON object in UTF-8. A key whose value is `null` counts as absent. A wrong type, a
  value out of its range or a key that is known and not built is a 400 that names the field. Keys
  that nobody knows are ignored and named in the reply header `X-Ignored-Fields`.
* Text is text: the spelling of a control token in it is not parsed, except where `parse_special`
  says so. Token ids are taken as they are.
* Errors come in the form of the family whose route was called. Status codes: 400 and 422 for what
  the request says, 404, 405, 413, 415 for how it was sent, 424 or 501 for what the model cannot do,
  429 and 503 with `Retry-After` when there is no room, 504 when its time is up.
* A stream is made of server-sent events: `data: `, one line of JSON, a blank line.
"""


def sentence(text):
    text = text.strip()
    return text if not text or text.endswith(".") else text + "."


class Reference:
    """The Markdown of all routes. `what` describes the values of a schema in words."""

    def __init__(self, schemas, what):
        self.schemas, self.what = schemas, what
        self.lines = []
        self.described = {}  # request -> the path that shows it

    def emit(self):
        self.lines.append(INTRODUCTION)
        routes = self.schemas.load("routes.json")["routes"]
        self.shared_fields("Fields of every route that computes", "basics")
        self.shared_fields("Sampling fields", "sampling")
        self.shared_fields("Fields of OpenAI's text routes", "openai_text")
        self.shared_fields("Fields of llama.cpp's routes", "llama")
        for route in routes:
            self.route(route)
        return "\n".join(self.lines).rstrip("\n") + "\n"

    def shared_fields(self, title, name):
        node = self.schemas.load("common.json")["$defs"][name]
        self.lines.append(f"## {title}\n")
        self.table(node, "common.json")

    def route(self, route):
        self.lines.append(f"## {route['method']} {route['path']}\n")
        family = FAMILIES[route["family"]]
        self.lines.append(f"{sentence(route['summary'])} Errors in the form of {family}.\n")
        if "request" in route:
            self.request(route, self.schemas.load(route["request"]))
        elif not path_parameters(route["path"]):
            self.lines.append(f"```sh\ncurl localhost:8080{route['path']}\n```\n")
        for key, title in (("reply", "Reply"), ("frame", "Event of a stream")):
            if key in route:
                shape = self.shape(self.schemas.load(route[key]), route[key], 0)
                self.lines.append(f"{title}:\n\n```\n{shape}\n```\n")

    def request(self, route, schema):
        """The table of the fields stands at the first of the routes that take them."""
        first = self.described.setdefault(route["request"], route["path"])
        examples = schema.get("examples", [])
        if first == route["path"]:
            if "description" in schema:
                self.lines.append(sentence(schema["description"]) + "\n")
            self.table(schema, route["request"])
        else:
            anchor = "post-" + first.replace("/", "")
            self.lines.append(f"The fields are those of [POST {first}](#{anchor}).\n")
            examples = examples[:1]
        self.examples(route, examples)

    def examples(self, route, examples):
        for example in examples:
            body = json.dumps(example, ensure_ascii=False).replace("'", "\\u0027")
            self.lines.append(f"```sh\ncurl localhost:8080{route['path']} --json '{body}'\n```\n")

    # The table of a request: a row a field, those of objects within by their path.

    def table(self, schema, file):
        rows, idle, refused_names, parts = [], [], [], []
        self.rows(schema, file, "", rows, idle, refused_names, parts)
        if rows:
            self.lines.append("| field | value | default | meaning |\n|---|---|---|---|")
            self.lines += [f"| {' | '.join(row)} |" for row in rows]
            self.lines.append("")
        if parts:
            self.lines.append("And " + " and ".join(dict.fromkeys(parts)) + ".\n")
        if idle:
            self.lines.append(f"Accepted without effect: {', '.join(idle)}.\n")
        if refused_names:
            self.lines.append(f"Known and not built: {', '.join(refused_names)}.\n")

    def rows(self, schema, file, prefix, rows, idle, refused_names, parts):
        links = {"basics": "the [fields of every route](#fields-of-every-route-that-computes)",
                 "sampling": "the [sampling fields](#sampling-fields)",
                 "openai_text": "the [fields of OpenAI's text routes]"
                                "(#fields-of-openais-text-routes)",
                 "llama": "the [fields of llama.cpp's routes](#fields-of-llamacpps-routes)"}
        for part in schema.get("allOf", []):
            name = part["$ref"].rsplit("/", 1)[1]
            parts.append((f"in `{prefix[:-1]}` " if prefix else "") + links[name])
        for field, value in schema.get("properties", {}).items():
            name = f"{prefix}{field}"
            if value.get("x-idle"):
                idle.append(f"`{name}`")
                continue
            if value.get("x-refused"):
                refused_names.append(f"`{name}`")
                continue
            value, value_file, _ = self.schemas.follow(value, file)
            required = field in schema.get("required", [])
            default = "required" if required else self.default(value)
            rows.append((f"`{name}`", self.what(self.schemas, value, value_file), default,
                         sentence(value.get("description", ""))))
            for inner, inner_file, mark in self.objects(value, value_file):
                self.rows(inner, inner_file, f"{name}{mark}.", rows, idle, refused_names, parts)

    def default(self, value):
        return f"`{json.dumps(value['default'])}`" if "default" in value else ""

    def objects(self, value, file):
        """Objects with fields of their own inside a value, and how a path says it enters them."""
        value, file, _ = self.schemas.follow(value, file)
        if "oneOf" in value:
            for one in value["oneOf"]:
                yield from self.objects(one, file)
        elif value.get("type") == "array" and value.get("items"):
            for inner, inner_file, mark in self.objects(value["items"], file):
                yield inner, inner_file, "[]" + mark
        elif "properties" in value or "allOf" in value:
            yield value, file, ""

    # The shape of a reply: JSON with types for values.

    def shape(self, schema, file, depth):
        schema, file, _ = self.schemas.follow(schema, file)
        for key in ("oneOf", "anyOf"):
            if key in schema:
                shapes = [self.shape(one, file, depth) for one in schema[key]]
                border = "\nor " if depth == 0 else " | "
                return border.join(dict.fromkeys(shapes))
        if "enum" in schema:
            return " | ".join(json.dumps(word) for word in schema["enum"])
        if "const" in schema:
            return json.dumps(schema["const"])
        kind = schema.get("type")
        if kind == "array":
            if "prefixItems" in schema:
                return "[" + ", ".join(self.shape(one, file, depth + 1)
                                       for one in schema["prefixItems"]) + "]"
            return f"[{self.shape(schema.get('items') or {}, file, depth + 1)}, ...]"
        if kind == "object" or "properties" in schema:
            return self.object_shape(schema, file, depth)
        return kind if isinstance(kind, str) else " | ".join(kind) if kind else "any"

    def object_shape(self, schema, file, depth):
        indent = "  " * (depth + 1)
        members = []
        required = schema.get("required", [])
        for name, value in schema.get("properties", {}).items():
            mark = "" if name in required else "?"
            members.append(f'{indent}"{name}"{mark}: {self.shape(value, file, depth + 1)}')
        extra = schema.get("additionalProperties")
        if isinstance(extra, dict):
            members.append(f"{indent}string: {self.shape(extra, file, depth + 1)}")
        if not members:
            return "{}"
        text = "{" + ", ".join(member.strip() for member in members) + "}"
        if len(text) + len(indent) <= 96 and "\n" not in text:
            return text
        return "{\n" + ",\n".join(members) + "\n" + "  " * depth + "}"


def emit_reference(schemas, what):
    return Reference(schemas, what).emit()
