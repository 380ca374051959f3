"""Goal: the output has the form that its request asks for (docs/constrained.md), sampled
at temperature 1.

Method: many seeds over the random tiny model, or a few over the default one, judged by Python's own
`re` and `json`. Cases by name: U7.
"""
import json
import re
import sys
import unittest
from concurrent import futures

import real  # skips where jsonschema is missing
import jsonschema
from real import ok

MODEL = sys.argv.pop(1)
real.need_model(MODEL)
SEEDS, TOKENS = (40 // min(real.SCALE, 4), 200) if MODEL == "tiny" else (3, 40)
EXPRESSIONS = [r"[0-9]{1,3}", r"(yes|no|perhaps), (because|although) .{3,20}", r"\d{4}-\d\d-\d\d",
               r"[a-zäöü]+ [^a-y]{2}", r"(ab|a)(c|bcd)(d*)!", r"\w+@\w+\.(com|org)", r"€{2,4}|日本+語"]


class Served(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = real.start(MODEL, "--log-level", "warn")

    @classmethod
    def tearDownClass(cls):
        real.settled(cls.server)
        with cls.server:
            pass

    def ask(self, path, body):
        return ok(self.server, path, body).value

    def choice(self, seed, **fields):
        """A sampled answer of /v1/completions and why it ended."""
        reply = self.ask("/v1/completions", {"prompt": "The answer is ", "seed": seed,
                                             "max_tokens": TOKENS, **fields})
        return reply["choices"][0]["text"], reply["choices"][0]["finish_reason"]


class Texts(Served):
    def test_expressions(self):
        for expression in EXPRESSIONS:
            whole = 0
            for seed in range(SEEDS):
                text, finish = self.choice(seed, guided_regex=expression)
                if finish == "stop":
                    whole += 1
                    self.assertIsNotNone(re.fullmatch(expression, text), (expression, text))
            if MODEL == "tiny":
                self.assertGreater(whole, 0, expression)

    def test_one_text_of_a_list(self):
        choices = ["red", "reddish", "green", "dark green"]
        seen = set()
        for seed in range(SEEDS):
            text, finish = self.choice(seed, guided_choice=choices)
            self.assertEqual(finish, "stop")
            seen.add(text)
        self.assertLessEqual(seen, set(choices))
        self.assertGreater(len(seen), 1)

    def test_any_object(self):
        whole = 0
        for seed in range(SEEDS):
            text, finish = self.choice(seed, response_format={"type": "json_object"})
            if finish == "stop":
                whole += 1
                self.assertIsInstance(json.loads(text), dict)
        if MODEL == "tiny":
            self.assertGreater(whole, 0)

    def test_ends_the_model_may_not_choose(self):
        """Nothing can follow: the answer ends although ends are banned; stops and bans hold."""
        text, finish = self.choice(1, guided_choice=["abc"], ignore_eos=True, min_tokens=50)
        self.assertEqual((text, finish), ("abc", "stop"))
        text, finish = self.choice(1, guided_choice=["abc"], stop=["b"])
        self.assertEqual((text, finish), ("a", "stop"))

    def test_nothing_left_is_an_error_of_the_request(self):
        """What fits the form is held off as an end: 400 and no 500."""
        if MODEL != "tiny":  # one token alone spells a Q there, the byte's own
            return
        for temperature in (0, 1):
            body = {"prompt": "a", "guided_choice": ["Q"], "temperature": temperature,
                    "stop_token_ids": [3 + ord("Q")]}
            error = real.refused(self.server, "/v1/completions", body, 400)
            self.assertEqual(error["code"], "unsatisfiable")
        form = {"type": "regex", "value": "Q+"}
        self.assertEqual(self.ask("/generate", {"inputs": "a", "parameters": {
            "grammar": form, "max_new_tokens": 3}})["generated_text"], "QQQ")

    def test_more_ways_than_there_is_room_for(self):
        """256 texts at once may begin alike in an expression; one more is an error, not a loss."""
        for count in (256, 257):
            words = "|".join("a" + chr(0x4E00 + i) for i in range(count))
            if count == 256:
                self.assertIn(self.choice(1, guided_regex=words)[0], words.split("|"))
            else:
                body = {"prompt": "a", "guided_regex": words}
                error = real.refused(self.server, "/v1/completions", body, 400)
                self.assertIn("256 ways", error["message"])

    def test_alone_and_together(self):
        """Other answers beside one, and masks made before it, change nothing."""
        bodies = [{"prompt": "A list: ", "seed": seed, "temperature": seed % 2, "max_tokens": 24,
                   **form} for seed in range(4) for form in (
                       {"response_format": {"type": "json_object"}},
                       {"guided_regex": "([a-z]{2,6}, )+[A-Z]{3}"})]
        alone = [self.ask("/v1/completions", body)["choices"] for body in bodies]
        with futures.ThreadPoolExecutor(len(bodies)) as pool:
            together = list(pool.map(
                lambda body: self.ask("/v1/completions", body)["choices"], bodies))
        self.assertEqual(alone, together)

    def test_greedy_streams_and_samples(self):
        body = {"prompt": "A dog or a cat?", "temperature": 0, "guided_choice": ["a dog", "a cat"],
                "n": 2}
        texts = {one["text"] for one in self.ask("/v1/completions", body)["choices"]}
        self.assertEqual(len(texts), 1)
        self.assertIn(texts.pop(), body["guided_choice"])
        reply = self.ask("/generate", {"inputs": "1 + 1 =", "parameters": {
            "grammar": {"type": "regex", "value": "[0-9]{2} "}, "details": True}})
        self.assertRegex(reply["generated_text"], r"\A[0-9]{2} \Z")
        if MODEL == "tiny":  # it has no chat template
            return
        reply = self.ask("/v1/chat/completions", {
            "messages": [{"role": "user", "content": "A dog or a cat?"}],
            "guided_choice": ["a dog", "a cat"], "max_tokens": 8})
        self.assertIn(reply["choices"][0]["message"]["content"], body["guided_choice"])
        reply = self.ask("/v1/responses", {"input": "An object.", "max_output_tokens": 60,
                                           "text": {"format": {"type": "json_object"}}})
        self.assertEqual(reply["text"]["format"], {"type": "json_object"})
        self.assertEqual(reply["output"][0]["content"][0]["text"][0], "{")

    def refuse(self, expression):
        body = {"prompt": "a", "guided_regex": expression}
        return real.refused(self.server, "/v1/completions", body, 400, "/guided_regex")["message"]

    def test_u7_expressions_that_break_parsers(self):
        """Nesting, repetition of repetitions and syntax that is not built: errors with a place."""
        deep = "(" * 65 + "a" + ")" * 65
        for expression in (deep, "((((a{900}){900}){900}){900})", "(a", "a)", "[a", "a{2", "*a",
                           "a**", "(?=a)b", r"(a)\1", "a^b", r"a\b", "[[:alpha:]]", "[z-a]",
                           "a{3,2}", "a{1001}", "\\", "()", r"\u0000"):
            with self.subTest(expression[:20]):
                self.refuse(expression)
        self.assertIn("at byte 3", self.refuse("ab*+"))
        self.assertIsNotNone(self.choice(1, guided_regex="(" * 64 + "a" + ")" * 64))
        for path, field in (("/completion", "grammar"), ("/v1/completions", "guided_grammar")):
            real.refused(self.server, path, {"prompt": "a", field: "root ::= root"}, 400,
                         f"/{field}")


SCHEMAS = [
    {"type": "object", "properties": {"name": {"type": "string", "maxLength": 5},
                                      "age": {"type": "integer", "minimum": 0, "maximum": 120},
                                      "mood": {"enum": ["good", "b\"d", None, 1.5, [1, {"a": 2}]]}},
     "required": ["name", "mood"], "additionalProperties": False},
    {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "integer", "minimum": -17,
                                                              "exclusiveMaximum": 205}},
    {"type": ["boolean", "null", "number"]},
    {"prefixItems": [{"const": "x"}, {"type": "boolean"}], "items": False, "minItems": 1},
    {"$ref": "#/$defs/node", "$defs": {"node": {
        "type": "object", "required": ["v"], "additionalProperties": False,
        "properties": {"v": {"type": "boolean"}, "next": {"$ref": "#/$defs/node"}}}}},
    {"type": "string", "pattern": "^[a-c]+\\\\?\"[0-9]{2}$"},
    {"type": "string", "pattern": "b"},
    {"type": "string", "minLength": 2, "maxLength": 4},
    {"type": "string", "format": "date"},
    {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]},
    {"oneOf": [{"type": "integer", "maximum": -1000}, {"type": "boolean"}]},
    {"type": "object", "additionalProperties": {"type": "boolean"}},
    {"type": "object", "properties": {"a": True, "b": {"allOf": [{"type": "null"}]}},
     "required": ["b"], "title": "T", "description": "D"},
]


def members(count, last="last"):
    """Optional members in a row, and one that is required behind them."""
    names = [f"key {i}" for i in range(count)]
    return {"type": "object", "required": [last],
            "properties": {**dict.fromkeys(names, {"type": "boolean"}), last: {"type": "null"}}}


class Schemas(Served):
    def formatted(self, schema, seed):
        form = {"type": "json_schema", "json_schema": {"name": "x", "strict": True,
                                                       "schema": schema}}
        return self.choice(seed, response_format=form)

    def test_sampled_values_are_valid(self):
        for schema in SCHEMAS:
            jsonschema.Draft202012Validator.check_schema(schema)
            checker = jsonschema.Draft202012Validator(schema)
            whole = 0
            for seed in range(SEEDS):
                text, finish = self.formatted(schema, seed)
                if finish == "stop":
                    whole += 1
                    checker.validate(json.loads(text))
            if MODEL == "tiny":
                self.assertGreater(whole, 0, schema)

    def test_other_routes(self):
        schema = {"type": "integer", "minimum": 5, "maximum": 7}
        reply = self.ask("/generate", {"inputs": "A number:", "parameters": {
            "grammar": {"type": "json", "value": schema}}})
        self.assertIn(json.loads(reply["generated_text"]), (5, 6, 7))
        if MODEL == "tiny":  # it has no chat template
            return
        reply = self.ask("/v1/responses", {"input": "A number.", "text": {"format": {
            "type": "json_schema", "name": "x", "schema": schema}}})
        self.assertIn(json.loads(reply["output"][0]["content"][0]["text"]), (5, 6, 7))
        self.assertEqual(reply["text"]["format"], {"type": "json_schema"})

    def test_u7_schemas_that_are_not_built(self):
        """Each is refused by name; among them one that is itself, and one without an end."""
        deep = {"type": "null"}
        for _ in range(20):
            deep = {"type": "array", "minItems": 1, "items": deep}
        endless = {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}
        for schema, where in (
                ({"type": "object", "minProperties": 1}, "/minProperties"),
                ({"properties": {"a": {"multipleOf": 2}}}, "/properties/a/multipleOf"),
                ({"type": "number", "minimum": 1}, "/minimum"),
                ({"items": {"not": {}}}, "/items/not"),
                ({"format": "email"}, "/format"),
                ({"pattern": "(?=a)"}, "/pattern"),
                ({"pattern": "a", "minLength": 1}, "/pattern"),
                ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "/oneOf"),
                ({"allOf": [{}, {}]}, "/allOf"),
                ({"anyOf": []}, "/anyOf"),
                ({"enum": []}, "/enum"),
                ({"required": ["a"]}, "/required/0"),
                ({"type": "strin"}, "/type"),
                ({"$ref": "#/nowhere"}, "/$ref"),
                ({"$ref": "http://a/b"}, "/$ref"),
                ({"$ref": "#"}, ""),
                ({"anyOf": [{"$ref": "#"}, {"type": "null"}]}, ""),
                (endless, ""),
                ({"type": "string", "minLength": 40000}, ""),
                (members(256), "/properties"),
                ({"anyOf": [{"const": i} for i in range(129)]}, "/anyOf"),
                ({"prefixItems": [{"enum": [i]} for i in range(2048)]}, "/prefixItems/2047"),
                ({"type": "integer", "minimum": 2, "maximum": 1}, "")):
            with self.subTest(schema):
                place = "/response_format/json_schema/schema" + where
                real.refused(self.server, "/v1/completions", {
                    "prompt": "a", "response_format": {
                        "type": "json_schema", "json_schema": {"schema": schema}}}, 400, place)
        self.formatted(deep, 1)

    def test_limits_of_a_schema(self):
        """One more of each is refused above."""
        many = {"prefixItems": [{"enum": [i]} for i in range(2047)]}
        alternatives = [{"type": "object", "properties": {"a": {
            "type": "object", "properties": {"b": {"const": i}}}}} for i in range(128)]
        for schema in (many, {"anyOf": alternatives}, members(255)):
            text, finish = self.formatted(schema, 1)
            if finish == "stop":
                jsonschema.Draft202012Validator(schema).validate(json.loads(text))


if __name__ == "__main__":
    unittest.main()
