"""Request bodies with the verdict the schemas demand, one a line: schema, error, place, body.

Every field of every request, wherever it stands in the request's examples, is set to null, to a
value of each JSON type, to its bounds and one past them, to 1e308, -0 and an integer past int64.
The verdict comes from a small validator written here from the JSON Schema specification, not from
the C tables, so that table and interpreter are checked against a second reading of the schema.
"""
import json
import math

INT64_MAX = 2**63 - 1
HUGE = "99999999999999999999"  # no int64: refused by the JSON reader itself


class Bad(Exception):
    """Not what the schema says; where is a JSON pointer."""

    def __init__(self, where, err="invalid"):
        super().__init__(where)
        self.where, self.err = where, err


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def integral(value):
    if not is_number(value):
        return None
    if isinstance(value, float):
        return int(value) if math.isfinite(value) and value == int(value) else None
    return value


def same(a, b):
    """JSON equality: true is not 1, 1.0 is 1; a null member is none."""
    if isinstance(a, dict) and isinstance(b, dict):
        a, b = ({key: value for key, value in one.items() if value is not None} for one in (a, b))
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    return a == b


class Checker:
    def __init__(self, schemas):
        self.schemas = schemas

    def properties(self, schema, file):
        """Properties by name, those of allOf parts included, each with its file."""
        found = {}
        for part in schema.get("allOf", []):
            node, part_file, _ = self.schemas.follow(part, file)
            found.update({name: (value, part_file) for name, value in node["properties"].items()})
        found.update({name: (value, file) for name, value in schema.get("properties", {}).items()})
        return found

    def check(self, schema, file, value, where):
        schema, file, _ = self.schemas.follow(schema, file)
        if "oneOf" in schema:
            return self.check_union(schema, file, value, where)
        if "x-words" in schema:
            if not isinstance(value, str) or value.lower() not in schema["x-words"]:
                raise Bad(where)
            return None
        if "enum" in schema:
            if not any(same(value, word) for word in schema["enum"]):
                raise Bad(where)
            return None
        return getattr(self, "check_" + schema["type"])(schema, file, value, where)

    def check_union(self, schema, file, value, where):
        """The first alternative of the value's shape decides; a list has its first element's.
        Without one, the only alternative of its type says what is wrong inside."""
        for one in schema["oneOf"]:
            if self.shaped(one, file, value):
                return self.check(one, file, value, where)
        near = [one for one in schema["oneOf"] if self.typed(one, file, value)]
        if len(near) == 1:
            return self.check(near[0], file, value, where)
        raise Bad(where)

    def typed(self, schema, file, value):
        node, _, _ = self.schemas.follow(schema, file)
        types = {"array": list, "object": dict}
        if node.get("type") in types:
            return isinstance(value, types[node["type"]])
        return self.shaped(schema, file, value)

    def shaped(self, schema, file, value):
        schema, file, _ = self.schemas.follow(schema, file)
        kind = schema.get("type")
        if "oneOf" in schema:
            return any(self.shaped(one, file, value) for one in schema["oneOf"])
        if kind == "array":
            return isinstance(value, list) and (
                not value or "prefixItems" in schema
                or self.shaped(schema["items"], file, value[0]))
        if kind == "object":
            return isinstance(value, dict) and all(
                value.get(name) is not None for name in schema.get("required", []))
        if kind in ("integer", "number"):
            return is_number(value)
        return isinstance(value, {"string": str, "boolean": bool}[kind])

    def check_string(self, schema, file, value, where):
        if not isinstance(value, str) or len(value) < schema.get("minLength", 0):
            raise Bad(where)
        if len(value.encode()) > schema.get("x-max-bytes", INT64_MAX):
            raise Bad(where)

    def check_integer(self, schema, file, value, where):
        number = integral(value)
        low, high = schema.get("minimum", -INT64_MAX - 1), schema.get("maximum", INT64_MAX)
        if number is None or not low <= number <= high:
            raise Bad(where)

    def check_number(self, schema, file, value, where):
        if not is_number(value):
            raise Bad(where)
        if value < schema.get("minimum", -math.inf) or value > schema.get("maximum", math.inf):
            raise Bad(where)
        if value <= schema.get("exclusiveMinimum", -math.inf):
            raise Bad(where)

    def check_boolean(self, schema, file, value, where):
        if not isinstance(value, bool):
            raise Bad(where)

    def check_array(self, schema, file, value, where):
        if not isinstance(value, list):
            raise Bad(where)
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", INT64_MAX):
            raise Bad(where)
        for index, element in enumerate(value):
            element_schema = schema.get("items")
            if "prefixItems" in schema:
                element_schema = schema["prefixItems"][index]
            self.check(element_schema, file, element, f"{where}/{index}")

    def check_object(self, schema, file, value, where):
        if not isinstance(value, dict):
            raise Bad(where)
        if isinstance(schema.get("additionalProperties"), dict):
            for element in value.values():  # keys are the client's text: the map is named
                if element is None:
                    continue
                self.check(schema["additionalProperties"], file, element, where)
            return
        properties = self.properties(schema, file)
        for name, member in value.items():
            if name not in properties or member is None:
                continue
            member_schema, member_file = properties[name]
            if member_schema.get("x-idle"):
                continue
            if member_schema.get("x-refused"):
                if not any(same(member, neutral) for neutral in member_schema["enum"]):
                    raise Bad(f"{where}/{name}", "unsupported_field")
                continue
            self.check(member_schema, member_file, member, f"{where}/{name}")
        for name in schema.get("required", []):
            if value.get(name) is None:
                raise Bad(f"{where}/{name}")


class Raw(str):
    """JSON text that Python's writer would not produce: -0, integers past int64."""


def dump(value):
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        members = (f"{json.dumps(key)}:{dump(member)}" for key, member in value.items())
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(dump(element) for element in value) + "]"
    return json.dumps(value)


def sample(schemas, schema, file):
    """Some valid value."""
    schema, file, _ = schemas.follow(schema, file)
    if "oneOf" in schema:
        return sample(schemas, schema["oneOf"][0], file)
    if "x-words" in schema or "enum" in schema:
        return (schema.get("x-words") or schema["enum"])[0]
    kind = schema["type"]
    if kind == "object":
        properties = Checker(schemas).properties(schema, file)
        return {name: sample(schemas, *properties[name]) for name in schema.get("required", [])}
    if kind == "array":
        if "prefixItems" in schema:
            return [sample(schemas, element, file) for element in schema["prefixItems"]]
        return [sample(schemas, schema["items"], file)] * max(schema.get("minItems", 0), 1)
    return {"string": "x", "integer": max(schema.get("minimum", 1), 1),
            "number": schema.get("maximum", 1), "boolean": True}[kind]


EVERYWHERE = [None, True, False, 0, 1, -1, 1.0, 1.5, 1e308, -1e308, "", "x", "1", [], [None], {},
              Raw("-0"), Raw("-0.0"), Raw(HUGE), Raw("1e308"), 2**31, 2**31 - 1, -2**31 - 1,
              2**63 - 1]


def border_values(schemas, schema, file):
    """Bounds of a field and one past them."""
    schema, file, _ = schemas.follow(schema, file)
    values = []
    for one in schema.get("oneOf", []):
        values += border_values(schemas, one, file)
    for word in schema.get("x-words", schema.get("enum", [])):
        values.append(word)
        if isinstance(word, str):
            values += [word.upper(), word + "x"]
    step = 1 if schema.get("type") == "integer" else 0.125
    for key in ("minimum", "maximum", "exclusiveMinimum"):
        if key in schema and abs(schema[key]) < 2**53:
            values += [schema[key] - step, schema[key], schema[key] + step]
    for key in ("minLength", "x-max-bytes"):
        if key in schema:
            values += ["x" * max(schema[key] + extra, 0) for extra in (-1, 0, 1)]
            values += ["\u00e9" * (schema[key] // 2 + extra) for extra in (0, 1)]
    if schema.get("type") == "array" and "items" in schema and schema["items"]:
        element = sample(schemas, schema["items"], file)
        for key in ("minItems", "maxItems"):
            if key in schema:
                values += [[element] * max(schema[key] + extra, 0) for extra in (-1, 0, 1)]
        values += [[element], [element, None], [element, {}]]
    return values


class Walk:
    """All places of an example where a schema describes a value, and the body with it replaced."""

    def __init__(self, schemas, file):
        self.schemas, self.file = schemas, file
        self.checker = Checker(schemas)
        self.bodies = []

    def run(self):
        root = self.schemas.load(self.file)
        for example in root["examples"]:
            self.visit(root, self.file, example, lambda value: value)
        return self.bodies

    def visit(self, schema, file, value, rebuild):
        schema, file, _ = self.schemas.follow(schema, file)
        if "oneOf" in schema:
            for one in schema["oneOf"]:
                try:
                    self.checker.check(one, file, value, "")
                except Bad:
                    continue
                return self.visit(one, file, value, rebuild)
            raise SystemExit(f"cases.py: an example of {self.file} fits no alternative")
        if isinstance(value, list) and value:
            self.replace(schema["items"], file, lambda new: rebuild([new] + value[1:]))
            for index, element in enumerate(value):
                self.visit(schema["items"], file, element, lambda new, index=index: rebuild(
                    value[:index] + [new] + value[index + 1:]))
        if isinstance(value, dict) and not isinstance(schema.get("additionalProperties"), dict):
            for name, (member, member_file) in self.checker.properties(schema, file).items():
                put = lambda new, name=name: rebuild({**value, name: new})
                if member.get("x-idle") or member.get("x-refused"):
                    self.bodies += [put(new) for new in EVERYWHERE + member.get("enum", [])]
                    continue
                self.replace(member, member_file, put)
                if name in value:
                    self.visit(member, member_file, value[name], put)
                elif kind_is_object(self.schemas, member, member_file):
                    self.visit(member, member_file, {}, put)
            self.bodies.append(rebuild({**value, "no_such_field": 1}))
        return None

    def replace(self, schema, file, put):
        self.bodies += [put(new) for new in EVERYWHERE + border_values(self.schemas, schema, file)]


def kind_is_object(schemas, schema, file):
    schema, _, _ = schemas.follow(schema, file)
    return schema.get("type") == "object" and "properties" in schema


def emit_cases(schemas):
    lines = []
    for file in schemas.requests():
        checker = Checker(schemas)
        root = schemas.load(file)
        bodies = dict.fromkeys(dump(body) for body in Walk(schemas, file).run())
        for body in bodies:
            err, where = "ok", ""
            try:
                checker.check(root, file, json.loads(body), "")
            except Bad as bad:
                err, where = bad.err, bad.where
            if HUGE in body:
                err, where = "json_invalid", ""
            lines.append(f"{file.removesuffix('.json')}\t{err}\t{where}\t{body}\n")
    return "".join(lines)
