"""Goal: every route of schemas/routes.json answers as the wire format says, over a socket.

Method: a table of requests that must succeed, at least one for every route and form;
real.check_reply validates each reply and frame. No schema may be left that nothing was held to.
Then the header fields, one by one, on successes and on errors.
"""
import math
import re
import sys
import unittest
import urllib.parse

import real
from real import ask, ok, refused

MODEL = sys.argv.pop(1)
QUESTIONS = [
    {"type": "predicate", "name": "refund", "instructions": "Money back?"},
    {"type": "choice", "name": "team", "instructions": "Which team?",
     "choices": [{"value": "billing", "description": "money"}, {"value": True}]},
    {"type": "score", "instructions": "How angry?",
     "levels": [{"label": "calm"}, {"label": "mad"}]},
]
GAPS = {"mode": "hybrid",
        "segments": [{"text": "the "}, {"gap": {"max_tokens": 3, "id": "who"}}, {"text": " in "},
                     {"gap": {"max_tokens": 2, "reserve": 1, "stop": ["q"]}}, {"text": "."}]}
LLAMA = {"mode": "hybrid", "input_prefix": "int a", "input_suffix": ";\n", "prompt": " = ",
         "n_predict": 4, "input_extra": [{"filename": "a.h", "text": "int b;\n"}], "id_slot": 0}
RERANK = {"mode": "rerank", "text": "the [gap] in [gap].", "max_tokens": 2, "candidates": 3}
RERANK_LLAMA = {"mode": "rerank", "input_prefix": "int a =", "input_suffix": ";", "n_predict": 2,
                "candidates": 3}
TIMING = ["timings/prompt_n", "content", "no_such"]

# (path, body): each must be answered 200.
TABLE = [
    ("/embed", {"inputs": "the tea"}), ("/embed", {"inputs": ["the", "tea"]}),
    ("/embed", {"inputs": [5, 6, 7]}), ("/embed", {"inputs": [[5, 6], [7]]}),
    ("/embed", {"inputs": ["a"], "details": True}),
    ("/embed", {"inputs": ["a"], "encoding_format": "base64"}),
    ("/embed", {"inputs": ["a"], "encoding_format": "base64", "details": True}),
    ("/embed", {"inputs": ["a"], "encoding_format": "float16"}),
    ("/embed", {"inputs": ["a", ""], "encoding_format": "int8", "on_error": "report"}),
    ("/v1/embeddings", {"input": ["a"], "encoding_format": "binary"}),
    ("/embed", {"inputs": "a", "normalize": False, "dimensions": 8, "instruction": "Find:"}),
    ("/embed", {"inputs": "a", "timeout_ms": 3600000, "model": "", "user": "u", "metadata": {}}),
    ("/embed_all", {"inputs": "the tea"}), ("/embed_all", {"inputs": ["a", "the"]}),
    ("/similarity", {"inputs": {"source_sentence": "the", "sentences": ["tea", "a"]}}),
    ("/rerank", {"query": "the", "texts": ["tea", "a"], "return_text": True}),
    ("/rerank", {"query": "the", "texts": ["tea", "a"], "raw_scores": True, "top_n": 1}),
    ("/rerank", {"query": "the", "documents": ["tea", {"text": "a"}]}),
    ("/v1/rerank", {"query": "the", "documents": ["tea", "a"], "return_documents": True}),
    ("/v1/embeddings", {"input": "the tea"}), ("/v1/embeddings", {"input": [[5, 6], [7]]}),
    ("/v1/embeddings", {"input": ["a", "the"], "encoding_format": "base64", "dimensions": 8}),
    ("/generate", {"inputs": "the", "parameters": {
        "max_new_tokens": 3, "details": True, "decoder_input_details": True, "top_n_tokens": 2}}),
    ("/generate", {"inputs": "the", "stream": True, "parameters": {"max_new_tokens": 3}}),
    ("/generate", {"inputs": "the", "parameters": {
        "max_new_tokens": 3, "do_sample": True, "temperature": 0.7, "top_k": 50, "top_p": 0.9,
        "min_p": 0.01, "typical_p": 0.9, "seed": 1, "repetition_penalty": 1.1, "stop": ["q", "zz"],
        "presence_penalty": 0.5, "frequency_penalty": -0.5, "truncate": 1, "details": True,
        "return_full_text": True, "best_of": 1, "watermark": False,
        "samplers": ["penalties", "top_k", "typ_p", "top_p", "min_p", "temperature"]}}),
    ("/generate_stream", {"inputs": "the", "parameters": {"max_new_tokens": 3, "top_n_tokens": 2}}),
    ("/generate_stream", {"inputs": "the", "parameters": {"max_new_tokens": 1}}),
    ("/completion", {"prompt": "the", "n_predict": 3, "n_probs": 2, "return_tokens": True}),
    ("/completion", {"prompt": "the", "n_predict": 3, "n_probs": 1, "stream": True}),
    ("/completion", {"prompt": ["the", [5, "tea"]], "n_predict": 2, "n_cmpl": 2, "seed": 1,
                     "stop": "zz", "logit_bias": [[5, 1.5], ["the", False]]}),
    ("/completion", {"prompt": ["the", 5, "tea"], "n_predict": 2, "n_cmpl": 2, "stream": True}),
    ("/completion", {"prompt": [5, 6], "n_predict": 0, "parse_special": True}),
    ("/completion", {"prompt": "the", "n_predict": 9, "json_schema": {"type": "boolean"}}),
    ("/infill", GAPS), ("/infill", {**GAPS, "stream": True}), ("/infill", {**GAPS, "n": 2}),
    ("/infill", {"text": "the __ in", "gap": "__", "max_tokens": 0}),
    ("/infill", LLAMA), ("/infill", {**LLAMA, "stream": True}), ("/infill", {**LLAMA, "n_cmpl": 2}),
    ("/infill", {**LLAMA, "n_probs": 3}), ("/infill", {**LLAMA, "n_predict": 0}),
    ("/infill", {**LLAMA, "n_predict": 0, "stream": True}),
    ("/infill", {**LLAMA, "n_cmpl": 2, "n_probs": 1, "stream": True}),
    ("/infill", {"input_prefix": "a", "input_suffix": "", "n_predict": 2, "samplers": [],
                 "logit_bias": [[5, 1.5], ["the", False]], "ignore_eos": True}),
    ("/infill", {"input_prefix": "a", "input_suffix": "", "n_predict": 2, "logit_bias": {"5": -1}}),
    ("/infill", RERANK), ("/infill", {**RERANK, "stream": True}),
    ("/infill", {**RERANK, "spans": "independent", "until": "length"}),
    ("/infill", {**RERANK, "spans": "independent", "heal": False, "stream": True}),
    ("/infill", {"text": "the [gap]", "max_tokens": 2}),
    ("/infill", RERANK_LLAMA), ("/infill", {**RERANK_LLAMA, "stream": True}),
    ("/infill", {**RERANK_LLAMA, "n_cmpl": 3, "n_probs": 2}),
    ("/infill", {**RERANK_LLAMA, "n_cmpl": 16, "stream": True}),
    ("/classify", {"inputs": "good", "labels": ["pos", "neg"], "instructions": "Mood?"}),
    ("/classify", {"inputs": ["good", "bad"], "labels": ["pos", "neg"]}),
    ("/classify", {"input": ["good"], "labels": ["pos", "neg"]}),
    ("/classify", {"inputs": "good", "labels": ["pos"], "raw_scores": True}),
    ("/classify", {"inputs": "good", "labels": ["a", "b", "c"], "multi_label": True}),
    ("/classify", {"input": "Late.", "questions": QUESTIONS}),
    ("/classify", {"input": [{"role": "user", "content": "Late."}], "questions": QUESTIONS[:1]}),
    ("/v1/completions", {"prompt": "the", "max_tokens": 3, "logprobs": 2, "echo": True}),
    ("/v1/completions", {"prompt": ["the", "a"], "max_tokens": 2, "n": 2, "logprobs": 0}),
    ("/v1/completions", {"prompt": [[5, 6], [7]], "max_tokens": 0, "echo": True, "logprobs": 1}),
    ("/v1/completions", {"max_tokens": 2, "stream": True}),
    ("/v1/completions", {"prompt": "the", "max_tokens": 3, "logprobs": 1, "echo": True,
                         "stream": True, "stream_options": {"include_usage": True}}),
    ("/v1/completions", {"prompt": ["the", "a"], "max_tokens": 2, "n": 2, "logprobs": 0,
                         "stream": True, "stream_options": {"include_usage": True}}),
    ("/v1/completions", {"prompt": "the", "suffix": " in", "max_tokens": 2, "n": 2, "logprobs": 1}),
    ("/v1/completions", {"prompt": "the", "suffix": " in", "max_tokens": 2, "stream": True}),
    ("/v1/completions", {
        "prompt": "the", "max_tokens": 9, "max_completion_tokens": 2, "temperature": 0.5,
        "top_p": 0.9, "top_k": 5, "min_p": 0.1, "seed": 3, "stop": ["zz"], "best_of": 1,
        "presence_penalty": 1, "frequency_penalty": 1, "repetition_penalty": 1.2, "min_tokens": 1,
        "ignore_eos": True, "stop_token_ids": [7], "logit_bias": {"5": 1}, "suffix": ""}),
    ("/v1/decisions", {"input": "Late.", "questions": QUESTIONS}),
    ("/v1/decisions", {"input": [{"role": "user", "content": "Late."}],
                       "questions": QUESTIONS[:1]}),
    ("/tokenize", {"content": "the tea"}), ("/tokenize", {"content": ""}),
    ("/tokenize", {"content": "\u00e9", "with_pieces": True, "add_special": True}),
    ("/tokenize", {"inputs": "the"}), ("/tokenize", {"inputs": ["the", "tea"]}),
    ("/detokenize", {"tokens": [5, 6]}), ("/detokenize", {"tokens": []}),
    ("/decode", {"ids": [5, 6]}), ("/decode", {"ids": [[5], [6]], "skip_special_tokens": False}),
    ("/", None),
    ("/info", None), ("/props", None), ("/v1/models", None),
    ("/health", None), ("/live", None), ("/ready", None), ("/metrics", None),
]
# What needs a chat template.
CHATS = [
    ("/apply-template", {"messages": [{"role": "user", "content": "Hi"}]}),
    ("/apply-template", {"messages": [{"role": "developer", "content": [
        {"type": "text", "text": "Be"}, {"type": "text", "text": "short"}]},
        {"role": "user", "content": "Hi", "name": "ann"}], "add_generation_prompt": False}),
]
# More of the same, where a token costs microseconds.
THOROUGH = [
    ("/generate", {"inputs": "the"}),
    *[("/embed", {"inputs": "the tea", "pooling": pooling, "attention": attention})
      for pooling in ("mean", "cls", "last", "eos", "weighted_mean")
      for attention in ("causal", "bidirectional")],
    *[("/infill", {"text": "the [gap] in [gap].", "max_tokens": 2, "mode": mode, "spans": spans,
                   "until": until, "stream": stream})
      for mode in ("rerank", "hybrid") for spans in ("sequential", "independent")
      for until in ("model", "length") for stream in (False, True)],
]
MODERATION = [
    ("/classify", {"prompt": "How do I boil an egg?"}),
    ("/classify", {"prompt": "How do I boil an egg?", "response": "In water."}),
    ("/classify", {"items": [{"prompt": "a"}, {"prompt": "b", "response": "c"}]}),
    ("/predict", {"inputs": "How do I boil an egg?"}),
    ("/predict", {"inputs": ["How do I boil an egg?", "In water."], "raw_scores": True}),
    ("/predict", {"inputs": [["a"], ["b", "c"]], "truncate": False}),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi."}], "max_tokens": 3}),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi."}], "max_tokens": 3,
                              "n": 2, "logprobs": True, "top_logprobs": 1, "stream": True}),
    ("/apply-template", {"messages": [{"role": "user", "content": "Hi."}]}),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi."}], "max_tokens": 3,
                              "moderation": {}}),
    ("/v1/chat/completions/input_tokens", {"messages": [{"role": "user", "content": "Hi."}]}),
    ("/v1/responses/input_tokens", {"input": "Hi.", "stream": True}),
    ("/v1/responses", {"input": "Hi.", "max_output_tokens": 3}),
    ("/v1/responses", {"input": "Hi.", "max_output_tokens": 3, "stream": True}),
    ("/v1/moderations", {"input": "I baked bread."}),
    ("/v1/moderations", {"input": ["a", "b"], "model": "omni-moderation-latest"}),
    ("/v1/moderations", {"input": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}),
]


class Routes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = real.start(MODEL, "--jobs", "8")

    @classmethod
    def tearDownClass(cls):
        real.settled(cls.server)
        with cls.server:
            pass

    def test_every_route_and_form(self):
        table = TABLE + (MODERATION + CHATS if MODEL == "default" else THOROUGH)
        real.SCHEMAS.used.clear()
        for path, body in table:
            with self.subTest(path=path, body=str(body)):
                for schema in real.SCHEMAS.of(path, "request"):
                    real.SCHEMAS.check(schema, body)
                ok(self.server, path, body)
        name = ok(self.server, "/info").value["served_model_name"]
        ok(self.server, f"/v1/models/{urllib.parse.quote(name)}")
        for path in ("/embed", "/tokenize", "/v1/embeddings"):  # one of each family
            refused(self.server, path, {}, 400)
        paths = {path for path, _ in TABLE + MODERATION + CHATS} | {"/v1/models/{id}"}
        self.assertEqual(paths, set(real.SCHEMAS.routes))
        self.check_schemas({path for path, _ in table} | {"/v1/models/{id}"})

    def test_props(self):
        """What it calls default is what /completion takes; and no path is told."""
        reply = ok(self.server, "/props")
        props = reply.value
        made = ok(self.server, "/completion", {"prompt": "a"}).value["generation_settings"]
        params = props["default_generation_settings"]["params"]
        self.assertEqual((params["seed"], params["n_predict"]), (-1, -1))
        self.assertEqual({**params, "seed": 0, "n_predict": 0},
                         {**made, "seed": 0, "n_predict": 0})
        info = ok(self.server, "/info").value
        self.assertEqual(props["default_generation_settings"]["n_ctx"], info["max_input_length"])
        self.assertEqual(props["model_path"], info["served_model_name"])
        self.assertEqual(props["total_slots"], 64)
        self.assertNotIn(b"gguf", reply.body)
        for key in ("bos_token", "eos_token"):
            ids = ok(self.server, "/tokenize", {"content": props[key]}).value["tokens"]
            self.assertEqual(len(ids), 1, key)
        if MODEL == "default":
            self.assertIn("add_generation_prompt", props["chat_template"])
        else:
            self.assertIsNone(props["chat_template"])

    def check_schemas(self, paths):
        """Every file of schemas/ belongs to a route, and these routes' were all held to."""
        schemas = real.SCHEMAS
        errors = {f"error_{family}.json" for family in ("tei", "openai", "llama")}
        owed = errors.union(*(schemas.of(path) for path in paths))
        self.assertEqual(owed - schemas.used, set())
        everything = errors.union(*(schemas.of(path) for path in schemas.routes))
        self.assertEqual(everything | {"common.json", "openapi.json"}, set(schemas.store))

    def test_tiny_model_cannot_moderate(self):
        """Its vocabulary has no token for each answer: 424 and not a made-up verdict."""
        if MODEL == "tiny":
            error = refused(self.server, "/classify", {"prompt": "a"}, 424)
            self.assertEqual(error["error_type"], "backend")
            error = refused(self.server, "/predict", {"inputs": "a"}, 424)
            self.assertEqual(error["error_type"], "backend")
            error = refused(self.server, "/v1/moderations", {"input": "a"}, 501)
            self.assertEqual(error["type"], "not_supported_error")

    def test_stream_equals_whole(self):
        for path, body in TABLE + (THOROUGH if MODEL == "tiny" else []):
            if path == "/generate" and "stream" not in body:
                parameters = {**body.get("parameters", {}), "seed": 7}
                parameters.pop("decoder_input_details", None)
                parameters.pop("return_full_text", None)
                body = {**body, "parameters": parameters}
                whole = ok(self.server, path, body).value["generated_text"]
                frames = ok(self.server, "/generate_stream", body)
                self.assertEqual(real.stream_text(frames, path), whole)
                self.assertEqual(frames.frames[-1]["generated_text"], whole)
                self.assertEqual([frame["index"] for frame in frames.frames],
                                 list(range(1, len(frames.frames) + 1)))

    def test_top_tokens_in_every_frame(self):
        body = {"inputs": "the", "parameters": {"max_new_tokens": 3, "top_n_tokens": 2}}
        for frame in ok(self.server, "/generate_stream", body).frames:
            self.assertEqual(len(frame["top_tokens"]), 2)
            self.assertEqual(frame["top_tokens"][0]["id"], frame["token"]["id"])  # greedy

    def test_response_fields(self):
        body = {**LLAMA, "response_fields": TIMING}
        reply = ok(self.server, "/infill", body, whole=False)
        self.assertEqual(set(reply.value), {"timings/prompt_n", "content"})
        self.assertEqual(ok(self.server, "/infill", {**body, "response_fields": [""]},
                            whole=False).value, {})

    def test_request_id(self):
        stream = {"inputs": "a", "parameters": {"max_new_tokens": 1}}
        for path, body in (("/live", None), ("/embed", {"inputs": "a"}), ("/embed", {}),
                           ("/no", None), ("/generate_stream", stream)):
            method = "GET" if body is None else "POST"
            for good in ("a", "A.b_c-9", "x" * 64):
                reply = ask(self.server, path, body, method, [("X-Request-Id", good)])
                self.assertEqual(reply.field("x-request-id"), good)
            for bad in ("", "a b", "x" * 65, "a/b", "\u00e4", "a\"b"):
                reply = ask(self.server, path, body, method, [("X-Request-Id", bad)])
                self.assertNotEqual(reply.field("x-request-id"), bad)

    def test_compute_headers(self):
        reply = ok(self.server, "/embed", {"inputs": ["the tea", "\u00e9"], "details": True})
        tokens = reply.value["usage"]["prompt_tokens"]
        self.assertEqual(reply.field("x-compute-tokens"), str(tokens))
        self.assertEqual(reply.field("x-compute-characters"), "8")
        total = int(reply.field("x-total-time"))
        self.assertGreaterEqual(total + 1, int(reply.field("x-inference-time")))
        for path in ("/tokenize", "/info"):
            body = {"content": "a"} if path == "/tokenize" else None
            self.assertIsNone(ok(self.server, path, body).field("x-compute-type"))

    def test_ignored_fields(self):
        def names(path, body):
            return sorted((ok(self.server, path, body).field("x-ignored-fields") or "").split(","))
        self.assertEqual(names("/embed", {"inputs": "a", "user": "u", "store": True}), [""])
        self.assertEqual(names("/embed", {"inputs": "a", "zap": 1, "b.c-d_E": None}),
                         ["b.c-d_E", "zap"])
        self.assertEqual(names("/embed", {"inputs": "a", "we ird": 1, "x" * 65: 1, "\u00e9": 2}),
                         [""])
        self.assertEqual(names("/generate", {"inputs": "a", "parameters": {
            "max_new_tokens": 1, "zap": 1}}), ["parameters.zap"])
        self.assertEqual(names("/tokenize", {"content": "a", "zap": 1}), ["zap"])
        for mode, ignored in (("hybrid", "candidates"), ("rerank", "reserve")):
            self.assertEqual(names("/infill", {"text": "a[gap]b", "max_tokens": 1, "mode": mode,
                                               "candidates": 1, "reserve": 1}), [ignored])
        before = self.server.metrics()['magnetd_http_unknown_fields_total{route="/tokenize"}']
        names("/tokenize", {"content": "a", "one": 1, "two": 2})
        after = self.server.metrics()['magnetd_http_unknown_fields_total{route="/tokenize"}']
        self.assertEqual(after - before, 2)

    def test_info(self):
        info = ok(self.server, "/info").value
        self.assertEqual(sorted(info["endpoints"]), sorted(real.SCHEMAS.routes))
        vector = ok(self.server, "/embed", {"inputs": "a"}).value[0]
        self.assertEqual(info["embedding"]["dimensions"], len(vector))
        self.assertEqual(info["infill"]["modes"], ["rerank", "hybrid"])
        reply = ok(self.server, "/infill", {"text": "a [gap]b", "max_tokens": 1}).value
        self.assertEqual(reply["mode"], "rerank")  # what auto is
        self.assertAlmostEqual(math.sqrt(sum(x * x for x in vector)), 1, delta=1e-5)
        self.assertEqual(info["max_concurrent_requests"], 8)
        self.assertNotRegex(str(info), r"\.gguf|/golden/|/cache/")

    def test_methods_paths_media(self):
        for path, route in real.SCHEMAS.routes.items():
            other = "GET" if route["method"] == "POST" else "POST"
            reply = ask(self.server, path, {} if other == "POST" else None, other)
            self.assertEqual(reply.status, 405, path)
            self.assertIn(route["method"], re.split(r", *", reply.field("allow")))
            if route["method"] == "POST":
                for field, status in ((("Content-Type", "text/plain"), 415),
                                      (("Content-Encoding", "gzip"), 415),
                                      (("Accept", "image/png"), 406)):
                    self.assertEqual(ask(self.server, path, {}, fields=[field]).status, status)
        for path in ("//", "/embed/", "/Embed", "/v1/embedding", "/similarity/", "/v1/similarity"):
            self.assertEqual(ask(self.server, path, {}, "POST").status, 404, path)
        for accept in ("*/*", "application/*", "text/event-stream", "application/json;q=0.1, x/y"):
            ok(self.server, "/tokenize", {"content": "a"}, fields=[("Accept", accept)])
        for kind in ("application/json", "application/json; charset=utf-8", "Application/JSON"):
            ok(self.server, "/tokenize", {"content": "a"}, fields=[("Content-Type", kind)])


if __name__ == "__main__":
    if MODEL == "default":
        real.need_default_model()
    unittest.main()
