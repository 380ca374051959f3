#!/usr/bin/env python3
"""Makes the C side of the API from the JSON Schemas of this folder. Standard library only.

    generate.py routes FOLDER OUT.c            the route table
    generate.py tables FOLDER OUT.h OUT.c      request structs, tables for api/bind.c
    generate.py cases  FOLDER OUT.tsv          bodies with their verdicts, for the tests
    generate.py reference FOLDER VERSION OUT.json OUT.md    openapi.json and docs/api.md

Beside the keywords of draft 2020-12 the schemas use a few of their own:
    x-form       name of an alternative in a oneOf
    x-name       name of an element in prefixItems
    x-words      words of an enum that is written as a pattern because any case is accepted
    x-max-bytes  maxLength counts characters; this bounds the bytes
    x-json       an object of any content, kept as text
    x-idle       accepted, no effect
    x-refused    known and not built; `enum` lists the values that change nothing
An allOf of a $ref into common.json becomes a member of that name: its fields stay flat in JSON.
"""
import json
import math
import pathlib
import sys

NOTICE = "/* Made by schemas/generate.py from the schemas beside it; edit those. */\n"
INT32_MIN, INT32_MAX = -2**31, 2**31 - 1
INT64_MIN, INT64_MAX = -2**63, 2**63 - 1


def quoted(text):
    return json.dumps(text, ensure_ascii=True)


class Schemas:
    """Files of the folder, with references followed."""

    def __init__(self, folder):
        self.folder = folder
        self.files = {}

    def load(self, name):
        if name not in self.files:
            self.files[name] = json.loads((self.folder / name).read_text())
        return self.files[name]

    def requests(self):
        return sorted(path.name for path in self.folder.glob("*_request.json"))

    def follow(self, schema, file):
        """The schema with its $ref merged in, the file it stands in, and a shared name or None."""
        name = None
        while "$ref" in schema:
            target, _, pointer = schema["$ref"].partition("#")
            target = target or file
            node = self.load(target)
            for part in filter(None, pointer.split("/")):
                node = node[part]
            stem = pathlib.Path(target).stem
            name = name or "_".join(filter(None, (stem, pointer.rpartition("/")[2])))
            siblings = {key: value for key, value in schema.items() if key != "$ref"}
            schema, file = {**node, **siblings}, target
        return schema, file, name


# ---- kinds of schemas ----------------------------------------------------------------------------

def kind_of(schema):
    if "oneOf" in schema:
        return "UNION"
    if "x-json" in schema:
        return "JSON"
    if "x-words" in schema or "enum" in schema:
        return "ENUM"
    kind = schema.get("type")
    if kind == "array":
        return "TUPLE" if "prefixItems" in schema else "LIST"
    if kind == "object":
        return "MAP" if isinstance(schema.get("additionalProperties"), dict) else "OBJECT"
    return {"string": "STRING", "integer": "INTEGER", "number": "NUMBER",
            "boolean": "BOOLEAN"}[kind]


PLURALS = {"STRING": "strings", "INTEGER": "integers", "NUMBER": "numbers", "BOOLEAN": "booleans",
           "OBJECT": "objects", "MAP": "objects", "TUPLE": "pairs", "ENUM": "words"}


def what_range(noun, schema, low, high, open_low=False):
    """'an integer from 1 to 16'; bounds that the type itself has are not worth a word."""
    if low is not None and high is not None:
        return (f"{noun} above {low} and at most {high}" if open_low
                else f"{noun} from {low} to {high}")
    if low is not None:
        return f"{noun} above {low}" if open_low else f"{noun} of at least {low}"
    return f"{noun} of at most {high}" if high is not None else noun


def what_list(schemas, schema, file):
    items, file, _ = schemas.follow(schema["items"], file)
    kind = kind_of(items)
    inner = ("lists of " + PLURALS.get(kind_of(schemas.follow(items["items"], file)[0]), "values")
             if kind == "LIST" else PLURALS.get(kind, "values"))
    low, high = schema.get("minItems"), schema.get("maxItems")
    text = f"a list of {inner}"
    if low is not None and high is not None:
        return f"{text} with {low} to {high} elements"
    if high is not None:
        return f"{text} with at most {high} elements"
    return f"{text} with at least {low}" if low else text


def what(schemas, schema, file):
    kind = kind_of(schema)
    if kind == "UNION":
        texts = [what(schemas, *schemas.follow(one, file)[:2]) for one in schema["oneOf"]]
        texts = list(dict.fromkeys(texts))
        return ", ".join(texts[:-1]) + " or " + texts[-1] if len(texts) > 1 else texts[0]
    if kind == "ENUM":
        return "one of " + ", ".join(str(word) for word in words_of(schema))
    if kind == "INTEGER":
        low, high = schema.get("minimum"), schema.get("maximum")
        return what_range("an integer", schema, None if low == INT64_MIN else low,
                          None if high in (INT32_MAX, INT64_MAX) else high)
    if kind == "NUMBER":
        open_low = "exclusiveMinimum" in schema
        low = schema.get("exclusiveMinimum", schema.get("minimum"))
        return what_range("a number", schema, low, schema.get("maximum"), open_low)
    if kind == "STRING":
        low, high = schema.get("minLength"), schema.get("x-max-bytes")
        if high is not None:
            return f"a string of {low or 0} to {high} bytes"
        return "a string that is not empty" if low == 1 else "a string"
    if kind == "LIST":
        return what_list(schemas, schema, file)
    return {"BOOLEAN": "true or false", "TUPLE": "a pair", "MAP": "an object", "JSON": "an object",
            "OBJECT": "an object"}[kind]


def words_of(schema):
    return schema["x-words"] if "x-words" in schema else schema["enum"]


# ---- C tables ------------------------------------------------------------------------------------

def c_integer(value):
    return "INT64_MIN" if value == INT64_MIN else f"INT64_C({value})"


def constant(ctype_name, word):
    return f"{ctype_name}_{word}".upper().replace("-", "_").replace(".", "_")


class Tables:
    """Walks requests, children first, and collects a header and a source file."""

    def __init__(self, schemas):
        self.schemas = schemas
        self.header, self.source, self.done = [], [], {}

    def table(self, name, kind, schema, file, size, members):
        members = [f".type = SCHEMA_{kind}", f".what = {quoted(what(self.schemas, schema, file))}",
                   f".bytes = {size}"] + members
        self.source.append(f"static const struct schema S_{name} = {{\n    "
                           + ",\n    ".join(members) + "};\n\n")

    def rows(self, row_type, letter, name, rows):
        self.source.append(f"static const struct {row_type} {letter}_{name}[] = {{\n"
                           f"{''.join(rows)}}};\n")

    def emit(self, schema, file, name):
        """Emits a schema under a name; returns its C type and the name of its table."""
        schema, file, shared = self.schemas.follow(schema, file)
        name = shared or name
        kind = kind_of(schema)
        if name in self.done: # shared by reference, or a member of a mixin
            return self.done[name], name
        ctype = getattr(self, "emit_" + kind.lower())(schema, file, name)
        self.done[name] = ctype
        return ctype, name

    def emit_string(self, schema, file, name):
        counts = [f".count_min = {schema.get('minLength', 0)}",
                  f".count_max = {schema.get('x-max-bytes', INT32_MAX)}"]
        self.table(name, "STRING", schema, file, "sizeof(struct bound_text)", counts)
        return "struct bound_text"

    def emit_json(self, schema, file, name):
        self.table(name, "JSON", schema, file, "sizeof(struct bound_text)", [])
        return "struct bound_text"

    def emit_integer(self, schema, file, name):
        low, high = schema.get("minimum", INT64_MIN), schema.get("maximum", INT64_MAX)
        wide = low < INT32_MIN or high > INT32_MAX
        ctype = "int64_t" if wide else "int32_t"
        self.table(name, "INTEGER", schema, file, f"sizeof({ctype})",
                   [f".wide = {str(wide).lower()}", f".integer_min = {c_integer(low)}",
                    f".integer_max = {c_integer(high)}"])
        return ctype

    def emit_number(self, schema, file, name):
        low = schema.get("exclusiveMinimum", schema.get("minimum", "-INFINITY"))
        self.table(name, "NUMBER", schema, file, "sizeof(double)",
                   [f".number_min = {low}", f".number_max = {schema.get('maximum', 'INFINITY')}",
                    f".number_min_open = {str('exclusiveMinimum' in schema).lower()}"])
        return "double"

    def emit_boolean(self, schema, file, name):
        self.table(name, "BOOLEAN", schema, file, "sizeof(bool)", [])
        return "bool"

    def emit_enum(self, schema, file, name):
        words = words_of(schema)
        names = ",\n    ".join(constant(name, word) for word in words)
        self.header.append(f"enum {name} {{\n    {names}\n}};\n\n")
        self.source.append(f"static const char *const W_{name}[] = {{"
                           + ", ".join(quoted(word) for word in words) + "};\n")
        self.table(name, "ENUM", schema, file, "sizeof(int32_t)",
                   [f".words = W_{name}", f".word_count = {len(words)}",
                    f".any_case = {str('x-words' in schema).lower()}"])
        return f"enum {name}"

    def emit_list(self, schema, file, name):
        item_type, item = self.emit(schema["items"], file, f"{name}_item")
        ctype = {"struct bound_text": "struct bound_texts",
                 "int32_t": "struct bound_ints"}.get(item_type)
        if ctype is None:
            ctype = f"struct {name}"
            self.header.append(f"{ctype} {{\n    const {item_type} *items;\n"
                               "    int32_t count;\n};\n\n")
        self.table(name, "LIST", schema, file, f"sizeof({ctype})",
                   [f".items = &S_{item}", f".item_bytes = sizeof({item_type})",
                    f".count_min = {schema.get('minItems', 0)}",
                    f".count_max = {schema.get('maxItems', INT32_MAX)}"])
        return ctype

    def emit_map(self, schema, file, name):
        value_type, value = self.emit(schema["additionalProperties"], file, f"{name}_value")
        self.header.append(f"struct {name}_entry {{\n    struct bound_text key;\n"
                           f"    {value_type} value;\n}};\n\n"
                           f"struct {name} {{\n    const struct {name}_entry *items;\n"
                           "    int32_t count;\n};\n\n")
        self.table(name, "MAP", schema, file, f"sizeof(struct {name})",
                   [f".items = &S_{value}", f".item_bytes = sizeof(struct {name}_entry)",
                    f".value_offset = offsetof(struct {name}_entry, value)",
                    f".count_max = {schema.get('maxProperties', INT32_MAX)}"])
        return f"struct {name}"

    def emit_tuple(self, schema, file, name):
        members, rows = [], []
        for element in schema["prefixItems"]:
            member = element["x-name"]
            ctype, table = self.emit(element, file, f"{name}_{member}")
            members.append(f"    {ctype} {member};\n")
            rows.append(f"    {{.name = {quoted(member)}, .schema = &S_{table}, "
                        f".offset = offsetof(struct {name}, {member}), "
                        ".has_offset = SCHEMA_NO_OFFSET},\n")
        self.header.append(f"struct {name} {{\n{''.join(members)}}};\n\n")
        self.rows("schema_field", "F", name, rows)
        self.table(name, "TUPLE", schema, file, f"sizeof(struct {name})",
                   [f".fields = F_{name}", f".field_count = {len(rows)}"])
        return f"struct {name}"

    def emit_union(self, schema, file, name):
        members, rows, forms = [], [], []
        for one in schema["oneOf"]:
            form = one["x-form"]
            ctype, table = self.emit(one, file, f"{name}_{form}")
            members.append(f"        {ctype} {form};\n")
            rows.append(f"    {{&S_{table}, offsetof(struct {name}, {form})}},\n")
            forms.append(constant(name, form))
        self.header.append(f"enum {name}_form {{\n    " + ",\n    ".join(forms) + "\n};\n\n"
                           f"struct {name} {{\n    enum {name}_form form;\n    union {{\n"
                           f"{''.join(members)}    }};\n}};\n\n")
        self.rows("schema_alternative", "A", name, rows)
        self.table(name, "UNION", schema, file, f"sizeof(struct {name})",
                   [f".alternatives = A_{name}", f".alternative_count = {len(rows)}"])
        return f"struct {name}"

    # Objects: parts named by allOf become members of their own, whose fields stay flat in JSON.

    def emit_object(self, schema, file, name):
        rows, members, defaults = [], [], []
        own = dict(schema.get("properties", {}))
        for part in schema.get("allOf", []):
            node, part_file, part_name = self.schemas.follow(part, file)
            member = part_name.split("_", 1)[1]
            self.part(node, part_file, part_name)
            members.append(f"    struct {part_name} {member};\n")
            for field, value in node["properties"].items():
                overridden = field in own
                value, value_file = (own.pop(field), file) if overridden else (value, part_file)
                table_name = f"{name if overridden else part_name}_{field}"
                self.field(rows, defaults, value, value_file, table_name, name, f"{member}.",
                           field, False)
        for field, value in own.items():
            self.field(rows, defaults, value, file, f"{name}_{field}", name, "", field,
                       field in schema.get("required", []), members)
        self.finish_object(schema, file, name, rows, members, defaults)
        return f"struct {name}"

    def part(self, node, file, name):
        """The struct of a part; its fields' tables are emitted here and used by the whole."""
        if name in self.done:
            return
        members = []
        for field, value in node["properties"].items():
            self.field([], [], value, file, f"{name}_{field}", name, "", field, False, members)
        self.header.append(f"struct {name} {{\n{''.join(members)}}};\n\n")
        self.done[name] = f"struct {name}"

    def field(self, rows, defaults, schema, file, table_name, struct, prefix, field, required,
              members=None):
        if schema.get("x-idle"):
            rows.append(f"    {{.name = {quoted(field)}, .use = SCHEMA_IDLE}},\n")
            return
        if schema.get("x-refused"):
            self.refused(rows, schema, table_name, field)
            return
        ctype, table = self.emit(schema, file, table_name)
        if members is not None:
            members.append(f"    {ctype} {field};\n")
            if not required:
                members.append(f"    bool has_{field};\n")
        has = f"offsetof(struct {struct}, {prefix}has_{field})"
        has = "SCHEMA_NO_OFFSET" if required else has
        rows.append(f"    {{.name = {quoted(field)}, .required = {str(required).lower()}, "
                    f".schema = &S_{table},\n"
                    f"     .offset = offsetof(struct {struct}, {prefix}{field}), "
                    f".has_offset = {has}}},\n")
        text = self.default(schema, file, table)
        if text is not None:
            defaults.append(f".{prefix}{field} = {text}")

    def refused(self, rows, schema, table_name, field):
        kinds = {bool: "BOOL", int: "INTEGER", str: "STRING", list: "ARRAY", dict: "OBJECT"}
        values = schema["enum"]
        neutrals = "NULL"
        if values:
            neutrals = f"N_{table_name}"
            items = ", ".join(f"{{JSON_IN_{kinds[type(value)]}, "
                              f"{int(value) if isinstance(value, int) else 0}, "
                              f"{quoted(value) if isinstance(value, str) else 'NULL'}}}"
                              for value in values)
            if neutrals not in self.done:
                self.source.append(f"static const struct schema_neutral {neutrals}[] = "
                                   f"{{{items}}};\n")
                self.done[neutrals] = None
        rows.append(f"    {{.name = {quoted(field)}, .use = SCHEMA_REFUSED, "
                    f".neutrals = {neutrals}, .neutral_count = {len(values)}}},\n")

    def default(self, schema, file, table):
        schema, file, _ = self.schemas.follow(schema, file)
        if kind_of(schema) == "OBJECT":
            return self.done.get(f"defaults of {table}")
        if "default" not in schema:
            return None
        value = schema["default"]
        kind = kind_of(schema)
        if kind == "ENUM":
            return constant(table, value)
        if kind == "STRING":
            return f"{{{quoted(value)}, {len(value.encode())}}}"
        return str(value).lower()

    def finish_object(self, schema, file, name, rows, members, defaults):
        if not members:
            members = ["    char nothing;\n"]
        self.header.append(f"struct {name} {{\n{''.join(members)}}};\n\n")
        self.rows("schema_field", "F", name, rows)
        initial = "{" + (", ".join(defaults) or "0") + "}"
        if defaults:
            self.done[f"defaults of {name}"] = initial
        self.source.append(f"static const struct {name} D_{name} = {initial};\n")
        self.table(name, "OBJECT", schema, file, f"sizeof(struct {name})",
                   [f".fields = F_{name}", f".field_count = {len(rows)}", f".defaults = &D_{name}"])

    def run(self):
        names = []
        for file in self.schemas.requests():
            name = pathlib.Path(file).stem
            self.emit(self.schemas.load(file), file, name)
            self.header.append(f"extern const struct schema schema_{name};\n\n")
            self.source.append(f"const struct schema schema_{name} = {{\n    "
                               + self.copy_of(name) + "};\n\n")
            names.append(name)
        entries = "".join(f"    {{{quoted(name)}, &schema_{name}}},\n" for name in names)
        self.source.append(f"const struct schema_entry schema_requests[] = {{\n{entries}}};\n"
                           f"const int32_t schema_request_count = {len(names)};\n")

    def copy_of(self, name):
        """The initializer of the static table `name`, which was emitted last."""
        text = self.source.pop()
        return text[text.index("{\n    ") + 6:text.rindex("};")]


def emit_tables(folder):
    tables = Tables(Schemas(folder))
    tables.run()
    header = (NOTICE + "#ifndef SCHEMAS_TABLES_H\n#define SCHEMAS_TABLES_H\n\n"
              + '#include "api/schema.h"\n\n' + "".join(tables.header) + "#endif\n")
    source = (NOTICE + '#include "schemas/tables.h"\n\n#include <math.h>\n\n'
              + "".join(tables.source))
    return header, source


# ---- routes --------------------------------------------------------------------------------------

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
    what_to_make, folder, *outputs = sys.argv[1:]
    folder = pathlib.Path(folder)
    if what_to_make == "routes":
        texts = [emit_routes(folder)]
    elif what_to_make == "tables":
        texts = emit_tables(folder)
    elif what_to_make == "cases":
        import cases
        texts = [cases.emit_cases(Schemas(folder))]
    elif what_to_make == "reference":
        import openapi
        version, *outputs = outputs
        texts = [openapi.emit_openapi(Schemas(folder), version),
                 openapi.emit_reference(Schemas(folder), what)]
    else:
        sys.exit(f"generate.py: unknown output {what_to_make}")
    for path, text in zip(outputs, texts, strict=True):
        pathlib.Path(path).write_text(text)


if __name__ == "__main__":
    main()
