"""Goal: what a request may not be is refused by its exact status, at its exact place, and the next
request is served (E10 E11 E12 I7 L5 L6 U5 U6 U9 and rules 1-8 of the wire format, over a socket).

Method: tables. Those of fields are made from the schemas, so that a new field is covered when it
is written down.
"""
import json
import pathlib
import sys
import tempfile
import unittest

import real
from harness import Client, compose
from real import ask, ok, refused

MODEL = sys.argv.pop(1)
BODIES = {
    "/embed": {"inputs": "a"},
    "/embed_all": {"inputs": "a"},
    "/similarity": {"inputs": {"source_sentence": "a", "sentences": ["a"]}},
    "/rerank": {"query": "a", "texts": ["a"]},
    "/v1/rerank": {"query": "a", "documents": ["a"]},
    "/v1/embeddings": {"input": "a"},
    "/generate": {"inputs": "a", "parameters": {"max_new_tokens": 1}},
    "/generate_stream": {"inputs": "a", "parameters": {"max_new_tokens": 1}},
    "/infill": {"text": "a [gap]", "max_tokens": 1},
    "/completion": {"prompt": "a", "n_predict": 1, "temperature": 0},
    "/classify": {"inputs": "a", "labels": ["x", "y"]},
    "/v1/completions": {"prompt": "a", "max_tokens": 1, "temperature": 0},
    "/v1/decisions": {"input": "a", "questions": [{"type": "predicate", "instructions": "x"}]},
    "/tokenize": {"content": "a"},
    "/detokenize": {"tokens": [5]},
    "/decode": {"ids": [5]},
}
LLAMA = {"input_prefix": "a", "input_suffix": "b", "n_predict": 1}
VOCAB = 272
WIDTH = 48


def properties(schema):
    """Name to schema of a node's own fields and those of its allOf parts."""
    found = dict(schema.get("properties", {}))
    for part in schema.get("allOf", []):
        file, _, pointer = part["$ref"].partition("#")
        node = real.SCHEMAS.store[file]
        for key in pointer.strip("/").split("/"):
            node = node[key]
        found.update({key: value for key, value in node["properties"].items() if key not in found})
    return found


class Refusals(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        profile = pathlib.Path(cls.folder.name) / "p.json"
        profile.write_text('{"prompts": {"query": "q: {text}", "passage": "p: {text}"}}')
        cls.server = real.start(MODEL, "--profile", str(profile))

    @classmethod
    def tearDownClass(cls):
        real.settled(cls.server)
        with cls.server:
            cls.folder.cleanup()

    def tearDown(self):
        real.still_serves(self.server)

    def refuse(self, path, body, status, where=None, code=None):
        error = refused(self.server, path, body, status, where)
        if code is not None:
            self.assertEqual(error["code"], code, (path, str(body)[:200]))
        return error

    # ---- JSON and Unicode ----

    def test_u6_deep_json(self):
        for path in BODIES:
            for body in (b"[" * 100000, b'{"inputs":' + b"[" * 100000,
                         b'{"a":' * 65 + b"1" + b"}" * 65):
                self.refuse(path, body, 400)
        deep = {"inputs": "a", "metadata": None}
        for _ in range(62):
            deep["metadata"] = [deep["metadata"]]
        ok(self.server, "/embed", deep)

    def test_u9_odd_unicode(self):
        """One byte sequence after another that is no text, in a value and in a key."""
        bad = [b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\u0000"', b'"\x00"', b'"\xff"', b'"\xc3"',
               b'"\xed\xa0\x80"', b'"\xf4\x90\x80\x80"', b'"\xc0\x80"', b'"a\nb"']
        for path, body in BODIES.items():
            field = next(iter(body)).encode()
            for text in bad:
                for data in (b'{"%s":%s}' % (field, text), b'{%s:1}' % text):
                    error = self.refuse(path, data, 400)
                    self.assertIn("offset", error, (path, data))
            self.refuse(path, b"\xef\xbb\xbf" + json.dumps(body).encode(), 400)
        ok(self.server, "/embed", b'{"inputs":"\\ud83e\\udd8a"}')

    def test_json_grammar(self):
        for text in (b"", b" ", b"null", b"[]", b'"a"', b"1", b"{", b"{}x", b"{}{}", b"{'a':1}",
                     b'{"a":1,}', b'{"a" 1}', b'{"inputs":"a","inputs":"a"}', b'{"inputs":NaN}',
                     b'{"inputs":Infinity}', b'{"inputs":01}', b'{"inputs":1e999}',
                     b'{"inputs":99999999999999999999}', b'{"inputs":"a","x":-1e999}',
                     b'{"inputs":"a" /* */}'):
            for path in BODIES:
                error = self.refuse(path, text, 400)
                if text not in (b"null", b"[]", b'"a"', b"1"):
                    self.assertEqual(error["line"], 1, (path, text))
        error = self.refuse("/embed", b'{"inputs":\n  "a",\n  x}', 400, code="json_invalid")
        self.assertEqual((error["line"], error["offset"]), (3, 21))  # behind the bad token

    def test_elements(self):
        """524288 elements pass the reader; one more does not."""
        def body(count):
            return b'{"inputs":"a","metadata":[' + b",".join([b"0"] * count) + b"]}"
        ok(self.server, "/embed", body(524288 - 100))
        self.refuse("/embed", body(524288 + 1), 400)
        before = self.server.resident_bytes()
        for _ in range(8):  # a tree of them is about 17 MiB; none may stay
            ok(self.server, "/embed", body(524288 - 100))
        self.assertLess(self.server.resident_bytes() - before, (48 << 20) * real.SCALE)

    # ---- fields ----

    def test_i7_required_fields(self):
        for path, where, body in (
                ("/embed", "/inputs", {}), ("/embed_all", "/inputs", {}),
                ("/v1/embeddings", "/input", {}),
                ("/similarity", "/inputs", {}), ("/rerank", "/query", {"texts": ["a"]}),
                ("/generate", "/inputs", {}), ("/generate_stream", "/inputs", {}),
                ("/detokenize", "/tokens", {}), ("/decode", "/ids", {}),
                ("/tokenize", "/content", {}), ("/predict", "/inputs", {}),
                ("/v1/decisions", "/input", {"questions": [
                    {"type": "predicate", "instructions": "x"}]}),
                ("/v1/decisions", "/questions", {"input": "a"}),
                ("/v1/moderations", "/input", {}),
                ("/completion", "/prompt", {}),
                ("/infill", "/input_suffix", {"input_prefix": "a"}),
                ("/infill", "/input_prefix", {"input_suffix": "a"}),
                ("/classify", "/inputs", {"labels": ["a", "b"]}),
                ("/classify", "/input", {"questions": [
                    {"type": "predicate", "instructions": "x"}]})):
            field = where[1:]
            self.refuse(path, body, 400, where)
            self.refuse(path, {**body, field: None}, 400, where)
            for wrong in (True, 1.5, {"a": 1}):
                error = self.refuse(path, {**body, field: wrong}, 400)
                self.assertTrue(error["param"].startswith(real.param_of(path, where)), error)
        for body in ({}, {"prompt": None}, {"prompt": "a", "items": [{"prompt": "b"}]}):
            self.refuse("/classify", body, 400)
        self.refuse("/infill", {}, 400)
        self.refuse("/classify", {"items": [{"prompt": "a"}, {}]}, 400, "/items/1/prompt")
        self.refuse("/classify", {"items": [{"prompt": None}]}, 400, "/items/0/prompt")
        self.refuse("/classify", {"inputs": "a", "labels": ["a", None]}, 400, "/labels/1")

    def test_u5_null_is_absent(self):
        for path, body in [*BODIES.items(), ("/infill", LLAMA)]:
            schema = real.SCHEMAS.store[real.SCHEMAS.routes[path]["request"]]
            plain = real.without_timings(self.answer(path, body))
            for name in properties(schema):
                if name not in body:
                    with self.subTest(path=path, field=name):
                        given = real.without_timings(self.answer(path, {**body, name: None}))
                        self.assertEqual(given, plain)
        parameters = properties(real.SCHEMAS.store["generate_request.json"])["parameters"]
        plain = self.answer("/generate", BODIES["/generate"])
        for name in properties(parameters):
            if name != "max_new_tokens":
                body = {"inputs": "a", "parameters": {"max_new_tokens": 1, name: None}}
                self.assertEqual(self.answer("/generate", body), plain, name)

    def answer(self, path, body):
        reply = ok(self.server, path, body)
        self.assertIsNone(reply.field("x-ignored-fields"), (path, body))
        value = reply.value if reply.frames is None else reply.frames
        if isinstance(value, dict):
            value.pop("generation_settings", None)  # holds a fresh seed
        return value

    def test_wrong_types_name_their_field(self):
        """1.0 is an integer; "1", true and [] are none; 0 and 1 are no booleans."""
        wrong = {"string": [1, True, {}, []], "integer": ["1", True, 1.5, [], {}],
                 "number": ["1", True, [], {}], "boolean": [0, 1, "true", [], {}]}
        for path, body in BODIES.items():
            schema = real.SCHEMAS.store[real.SCHEMAS.routes[path]["request"]]
            for name, field in properties(schema).items():
                for value in wrong.get(field.get("type"), []):
                    error = self.refuse(path, {**body, name: value}, 400)
                    self.assertEqual(error["param"], real.param_of(path, f"/{name}"),
                                     (path, name, value))
        ok(self.server, "/embed", {"inputs": "a", "dimensions": 8.0})

    def test_decisions_are_about_one_input(self):
        body = BODIES["/v1/decisions"]
        for value, where in ((["a"], "/input/0"), ([["a"]], "/input/0"), (5, "/input"),
                             ([{"role": "assistant", "content": "a"}], "/input/0/role")):
            refused(self.server, "/v1/decisions", {**body, "input": value}, 400, where)
        user = {"role": "user", "content": "a"}
        ok(self.server, "/v1/decisions", {**body, "input": [user, user]})

    def test_ranges(self):
        for path, name, low, high in (("/embed", "timeout_ms", 0, 3600001),
                                      ("/infill", "top_k", -2, 2**31),
                                      ("/completion", "n_indent", -1, 257),
                                      ("/infill", "temperature", -0.01, 10.01),
                                      ("/infill", "repeat_penalty", 0, 10.01),
                                      ("/infill", "presence_penalty", -2.01, 2.01),
                                      ("/infill", "top_p", 0, 1.01),
                                      ("/infill", "seed", None, 2**63),
                                      ("/infill", "candidates", 0, 33),
                                      ("/v1/completions", "n", 0, 17),
                                      ("/v1/completions", "logprobs", -1, 6),
                                      ("/v1/completions", "max_tokens", -1, 2**63),
                                      ("/v1/completions", "repetition_penalty", 0, 10.01)):
            for value in (low, high):
                if value is not None:
                    error = self.refuse(path, {**BODIES[path], name: value}, 400)
                    self.assertIn(error["param"], (real.param_of(path, f"/{name}"), None),
                                  (name, value))
        for name, low, high in (("max_new_tokens", 0, 2**63), ("truncate", 0, 2**31),
                                ("top_n_tokens", -1, 21), ("typical_p", 0, 1.01),
                                ("repetition_penalty", 0, 10.01), ("min_p", -0.01, 1.01)):
            for value in (low, high):
                error = self.refuse("/generate", {"inputs": "a", "parameters": {name: value}}, 400)
                self.assertIn(error["param"], (f"/parameters/{name}", None), (name, value))

    def test_refused_and_neutral(self):
        for path, name, value, neutral in (
                ("/generate", "best_of", 2, 1), ("/generate", "watermark", True, False),
                ("/generate", "adapter_id", "x", None)):
            body = {"inputs": "a", "parameters": {"max_new_tokens": 1}}
            body["parameters"][name] = value
            self.refuse(path, body, 400, f"/parameters/{name}", "unsupported_field")
            body["parameters"][name] = neutral
            ok(self.server, path, body)
        self.refuse("/embed", {"inputs": "a", "layer": 1}, 400, "/layer", "unsupported_field")
        self.refuse("/embed", {"inputs": "a", "priority": 101}, 400, "/priority")
        for salt in ("", "a" * 33, "\u00e9" * 17):
            self.refuse("/embed", {"inputs": "a", "cache_salt": salt}, 400, "/cache_salt")
        ok(self.server, "/embed", {"inputs": "a", "cache_salt": "\u00e9" * 16})
        self.refuse("/infill", {**LLAMA, "lora": [{"id": 0}]}, 400, "/lora")
        ok(self.server, "/infill", {**LLAMA, "lora": []})

    def test_counts(self):
        """Each limit on a list, and one past it."""
        def stops(count):
            return {"inputs": "a", "parameters": {
                "max_new_tokens": 1, "stop": [chr(0x100 + i) for i in range(count)]}}
        ok(self.server, "/generate", stops(16))
        self.refuse("/generate", stops(17), 400, "/parameters/stop")
        for text, good in (("x" * 256, True), ("x" * 257, False), ("\u00e9" * 128, True),
                           ("\u00e9" * 129, False), ("", False)):
            body = {"inputs": "a", "parameters": {"max_new_tokens": 1, "stop": text}}
            self.assertEqual(ask(self.server, "/generate", body).status, 200 if good else 400, text)
        ok(self.server, "/embed", {"inputs": ["a"] * 2048, "encoding_format": "base64"})
        self.refuse("/embed", {"inputs": ["a"] * 2049}, 422, "/inputs", "too_many_inputs")
        ok(self.server, "/infill", {**LLAMA, "logit_bias": [[i % VOCAB, 0] for i in range(1024)]})
        self.refuse("/infill", {**LLAMA, "logit_bias": [[5, 0]] * 1025}, 400, "/logit_bias")
        for name, low, high in (("n_cmpl", 0, 17), ("n_probs", -1, 101)):
            for value in (low, high):
                self.refuse("/infill", {**LLAMA, name: value}, 400, f"/{name}")
        ok(self.server, "/infill", {"text": "a" + " [gap]b" * 64, "max_tokens": 1, "reserve": 1})
        self.refuse("/infill", {"text": "a" + " [gap]b" * 65, "max_tokens": 1}, 400, "/text")
        labels = [f"l{i}" for i in range(256)]
        self.refuse("/classify", {"inputs": "a", "labels": labels}, 400, "/labels")
        question = {"type": "predicate", "instructions": "x"}
        self.refuse("/classify", {"input": "a", "questions": [question] * 201}, 400, "/questions")
        level = {"type": "score", "instructions": "x", "levels": [{"label": "a"}]}
        self.refuse("/classify", {"input": "a", "questions": [level]}, 400, "/questions/0/levels")

    # ---- cases of other servers' users ----

    def test_e10_foreign_ids(self):
        self.assertEqual(ok(self.server, "/embed", {"inputs": [[5, 6]]}).value,
                         ok(self.server, "/embed", {"inputs": [5, 6]}).value)
        self.assertEqual(len(ok(self.server, "/embed_all", {"inputs": [[5, 6]]}).value[0]), 2)
        for path, key in (("/embed", "inputs"), ("/embed_all", "inputs"),
                          ("/detokenize", "tokens"), ("/decode", "ids")):
            ok(self.server, path, {key: [VOCAB - 1]})
            for bad in (VOCAB, -1, 2**31, -2**31):
                self.refuse(path, {key: [5, bad]}, 400, f"/{key}/1")
                if path != "/detokenize":
                    self.refuse(path, {key: [[5], [5, 6, bad]]}, 400, f"/{key}/1/2")
        for mixed in ([5, "a"], ["a", 5], [[5], "a"], [[5, "a"]], [5, [5]], [None], [["a"]]):
            self.refuse("/embed", {"inputs": mixed}, 400)
        self.refuse("/infill", {**LLAMA, "logit_bias": {str(VOCAB): 1}}, 400)
        self.refuse("/infill", {**LLAMA, "logit_bias": [[-1, 1]]}, 400)

    def test_e11_empty_text(self):
        for path in ("/embed", "/embed_all"):
            for inputs, where in (("", "/inputs"), ([], "/inputs"), (["a", ""], "/inputs/1"),
                                  ("   ", "/inputs"), (["\n\t \u3000"], "/inputs/0"),
                                  ([[5], []], "/inputs/1")):
                error = self.refuse(path, {"inputs": inputs}, 400, where, "empty")
                self.assertEqual(error["error_type"], "empty")
        self.refuse("/classify", {"inputs": ["a", " "], "labels": ["x", "y"]}, 400, "/inputs/1",
                    "empty")
        self.refuse("/classify", {"inputs": [], "labels": ["x", "y"]}, 400, "/inputs", "empty")

    def test_e12_dimensions(self):
        for size in (1, 8, WIDTH):
            vector = ok(self.server, "/embed", {"inputs": "the", "dimensions": size}).value[0]
            self.assertEqual(len(vector), size)
            self.assertAlmostEqual(sum(x * x for x in vector), 1, delta=1e-5)
        for size in (0, -1):
            self.refuse("/embed", {"inputs": "a", "dimensions": size}, 400, "/dimensions")
        self.refuse("/embed", {"inputs": "a", "dimensions": WIDTH + 1}, 422, "/dimensions",
                    "dimensions_too_large")

    def test_l5_body_over_the_limit(self):
        for path in BODIES:
            reply = ask(self.server, path, b'{"inputs":"' + b"x" * (4 << 20) + b'"}')
            self.assertEqual(reply.status, 413)
            text = json.dumps(reply.value)
            self.assertIn(str(4 << 20), text)
            self.assertIn(str((4 << 20) + 13), text)

    def test_l6_prompt_name(self):
        for path in ("/embed", "/embed_all"):
            error = self.refuse(path, {"inputs": "a", "prompt_name": "no"}, 422, "/prompt_name")
            for name in ("query", "passage"):
                self.assertIn(name, error["error"])
            ok(self.server, path, {"inputs": "a", "prompt_name": "query"})
            self.refuse(path, {"inputs": "a", "prompt_name": "query", "instruction": "b"}, 400)
        self.assertEqual(ok(self.server, "/info").value["embedding"]["prompts"],
                         ["query", "passage"])
        self.assertEqual(ok(self.server, "/embed", {"inputs": "a", "prompt_name": "query"}).value,
                         ok(self.server, "/embed", {"inputs": "q: a"}).value)

    def test_model_names(self):
        name = ok(self.server, "/info").value["served_model_name"]
        for path, body in BODIES.items():
            for given in ("", None, name):
                ok(self.server, path, {**body, "model": given})
            error = self.refuse(path, {**body, "model": "other"}, 404, "/model")
            if real.SCHEMAS.family(path) == "tei":
                self.assertEqual((error["error_type"], error["code"]), ("http", "model_not_found"))
            elif real.SCHEMAS.family(path) == "openai":
                self.assertEqual(error["code"], "model_not_found")
            else:
                self.assertEqual(error["type"], "not_found_error")

    def test_infill_forms(self):
        for body, where in (({"text": "no gap"}, "/text"), ({"text": "[gap] a"}, None),
                            ({"text": "a [gap][gap]"}, "/text"),
                            ({**LLAMA, "text": "a [gap]"}, None),
                            ({"text": "a [gap]", "segments": []}, None),
                            ({"segments": [{"text": "a"}]}, "/segments"),
                            ({"text": "a [gap]", "gap": "x" * 65}, "/gap"),
                            ({"text": "a [gap]", "reserve": 17}, "/reserve"),
                            ({"text": "a [gap]", "until": "word"}, "/until")):
            if body == {"text": "[gap] a"}:
                ok(self.server, "/infill", body)  # a BOS stands before it
                continue
            error = self.refuse("/infill", body, 400)
            if where is not None:
                self.assertEqual(error["param"], where, body)
        for mode in ("fim", "glm"):
            error = self.refuse("/infill", {**BODIES["/infill"], "mode": mode}, 501, "/mode")
            self.assertEqual(error["type"], "not_supported_error")

    def test_many_mistakes_on_one_connection(self):
        """A refusal leaves the connection usable: 200 requests, good and bad by turns."""
        with Client(self.server.port) as client:
            for i in range(100):
                client.send(compose("POST", "/embed", {"inputs": i}))
                self.assertEqual(client.reply().status, 400)
                client.send(compose("POST", "/tokenize", {"content": "a"}))
                self.assertEqual(client.reply().status, 200)


if __name__ == "__main__":
    unittest.main()
