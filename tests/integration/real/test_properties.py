"""Goal: whatever schemas/openapi.json permits or forbids, the server answers as it says: no 5xx,
every reply as its schema has it, and nothing that a request's schema forbids is answered 200.

Method: 10,000 bodies drawn from the document's request schemas, from a fixed seed. Half keep to the
schema; in the other half one value, drawn by chance, is replaced, doubled or left out, and the
schema itself then says whether the body is still one it permits. real.check_reply validates each
reply. A null counts as absent, so it is taken out before a body is judged. The draw is this file's
own because it takes microseconds, where the package schemathesis takes tens of milliseconds.
"""
import copy
import json
import random
import sys
import tempfile
import unittest

import real
from harness import Client, Server, compose
from variants import Variant

sys.argv.pop(1)  # tiny, with a chat template
CASES = 10000 // min(real.SCALE, 10)
SEED = 20261201
LONGEST_MS = 3600000
DOCUMENT = json.loads((real.SOURCE / "schemas/openapi.json").read_text())
STRINGS = ["", "a", "the tea", " ", "the [gap] in", "\u00e9\U0001f98a", "</s>", "\\\"\n", "Left",
           "q" * 32]
NUMBERS = [-2, -1, 0, 1, 2, 5, 255, 271, 0.25, 0.5, 1.5, 2**31 - 1, 2**31, 2**63 - 1]
ANY = [None, True, 0, -1, 2.5, 1e300, "", "x", [], ["x"], [0], [[]], {}, {"x": 1}]


class Draw:
    """Values a schema permits. Only keywords that requests use; another one is an error here."""

    KNOWN = {"type", "required", "properties", "$ref", "enum", "minimum", "maximum", "minLength",
             "maxLength", "minItems", "maxItems", "items", "anyOf", "maxProperties", "pattern",
             "additionalProperties", "exclusiveMinimum", "prefixItems", "title", "description",
             "default", "examples"}

    def __init__(self, rng):
        self.rng = rng

    def value(self, schema):
        if schema is True:
            return self.rng.choice(ANY)
        unknown = set(schema) - self.KNOWN
        assert not unknown, f"the draw knows no {unknown}"
        if "$ref" in schema:
            return self.value(resolve(schema["$ref"]))
        if "anyOf" in schema:
            return self.value(self.rng.choice(schema["anyOf"]))
        if "enum" in schema:
            return self.rng.choice(schema["enum"])
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = self.rng.choice(kind)
        return getattr(self, f"draw_{kind}")(schema) if kind else self.rng.choice(ANY)

    def draw_null(self, _):
        return None

    def draw_boolean(self, _):
        return self.rng.random() < 0.5

    def draw_integer(self, schema):
        low, high = schema.get("minimum", -2**63), schema.get("maximum", 2**63 - 1)
        return self.rng.choice([low, high, *(number for number in NUMBERS if
                                             isinstance(number, int) and low <= number <= high)])

    def draw_number(self, schema):
        low = schema.get("exclusiveMinimum", schema.get("minimum", -1e9))
        high = schema.get("maximum", 1e9)
        return self.rng.choice([high, self.rng.uniform(low, high) or high,
                                *(number for number in NUMBERS if low < number <= high)])

    def draw_string(self, schema):
        if "pattern" in schema:  # the only one: truncation_direction's
            return self.rng.choice(["Left", "right", "RIGHT"])
        low, high = schema.get("minLength", 0), schema.get("maxLength", 100)
        return self.rng.choice([text for text in STRINGS if low <= len(text.encode()) <= high])

    def draw_array(self, schema):
        first = schema.get("prefixItems", [])
        if first:
            return [self.value(part) for part in first]
        low = schema.get("minItems", 0)
        high = min(schema.get("maxItems", low + 3), low + 3)
        return [self.value(schema.get("items", True)) for _ in range(self.rng.randint(low, high))]

    def draw_object(self, schema):
        required, share = schema.get("required", ()), self.rng.choice((0.02, 0.1, 0.3))
        drawn = {name: self.value(part) for name, part in schema.get("properties", {}).items()
                 if name in required or self.rng.random() < share}
        if isinstance(schema.get("additionalProperties"), dict):
            for _ in range(self.rng.randint(0, 2)):
                drawn[str(self.rng.randint(0, 271))] = self.value(schema["additionalProperties"])
        return drawn


def resolve(reference):
    assert reference.startswith("#/components/schemas/"), reference
    return DOCUMENT["components"]["schemas"][reference.rsplit("/", 1)[1]]


def places(value, path=()):
    """The path of every value inside."""
    items = value.items() if isinstance(value, dict) else \
        enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        yield (*path, key)
        yield from places(part, (*path, key))


def spoiled(rng, body):
    """The body with one value replaced, doubled or left out."""
    body = copy.deepcopy(body)
    found = list(places(body))
    if not found:
        return body
    *path, last = rng.choice(found)
    node = body
    for key in path:
        node = node[key]
    what = rng.randrange(6)
    if what == 0:
        del node[last]
    elif what == 1 and isinstance(node, list):
        node.append(copy.deepcopy(node[last]))
    elif what == 2 and isinstance(node[last], (int, float)):
        node[last] = rng.choice([-2**63, -1, 0.5, 17, 1e6, 2**40])
    else:
        node[last] = copy.deepcopy(rng.choice(ANY))
    return body


def without_nulls(value):
    """As the server reads it: a key whose value is null is absent, in maps too."""
    if isinstance(value, dict):
        return {key: without_nulls(part) for key, part in value.items() if part is not None}
    return [without_nulls(part) for part in value] if isinstance(value, list) else value


class Properties(unittest.TestCase):
    def setUp(self):
        self.statuses = {}

    @staticmethod
    def start(folder):
        return Server("--log-level", "warn", model=str(Variant().chatting().write(folder)),
                      binary=real.BINARY)

    def ask(self, path, body, permitted):
        data = json.dumps(body).encode()
        self.client.send(compose("POST", path, data))
        reply = real.check_reply(path, self.client.reply(), whole=b"response_fields" not in data)
        self.statuses[reply.status] = self.statuses.get(reply.status, 0) + 1
        self.assertTrue(reply.status < 500 or reply.status == 501, (path, data, reply))
        if reply.status == 200:
            self.assertTrue(permitted, (path, data, "the schema forbids this"))
        elif permitted:
            error = reply.value if "error_type" in reply.value else reply.value["error"]
            if (path, error.get("param")) != ("/classify", "/input"):  # the form says which type
                self.assertNotEqual(error.get("code"), "wrong_type", (path, data, reply))
        if reply.field("connection") == "close":
            self.client.close()
            self.client = Client(self.server.port)

    def test_bodies(self):
        rng = random.Random(SEED)
        draw = Draw(rng)
        requests = [(path, route["post"]["requestBody"]["content"]["application/json"]["schema"])
                    for path, route in DOCUMENT["paths"].items() if "post" in route]
        resolver = real.jsonschema.RefResolver("", DOCUMENT)
        judges = {path: real.jsonschema.Draft202012Validator(schema, resolver=resolver)
                  for path, schema in requests}
        forbidden = 0
        with tempfile.TemporaryDirectory() as folder, self.start(folder) as self.server:
            self.client = Client(self.server.port)
            for case in range(CASES):
                path, schema = requests[case % len(requests)]
                body = draw.value(schema)
                if body.get("model") and rng.random() < 0.9:
                    del body["model"]  # another model is a 404, and seen often enough
                if case // len(requests) % 2:
                    body = spoiled(rng, body)
                timeout = body.get("timeout_ms")
                if isinstance(timeout, (int, float)) and 0 < timeout < LONGEST_MS:
                    body["timeout_ms"] = LONGEST_MS  # that time is up is no error of the server's
                permitted = judges[path].is_valid(without_nulls(body))
                forbidden += not permitted
                self.ask(path, body, permitted)
            self.client.close()
            real.settled(self.server)
            real.still_serves(self.server)
        print(f"{forbidden} forbidden; answered: {dict(sorted(self.statuses.items()))}")
        self.assertGreater(forbidden, CASES // 10)
        self.assertGreater(self.statuses[200], CASES // 10)


if __name__ == "__main__":
    unittest.main()
