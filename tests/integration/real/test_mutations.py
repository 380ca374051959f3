"""Goal: no body ends the process, hangs a request or keeps memory (U8).

Method: 10,000 bodies made from good ones by cutting, doubling, swapping and replacing bytes and
JSON values, from a fixed seed, sent to all routes over kept connections. Each must be answered in
time with a valid reply, never 5xx but 501; resident memory stays flat.
"""
import copy
import json
import random
import sys
import unittest

import real
from harness import Client, compose

MODEL = sys.argv.pop(1)
ROUNDS = 10000 // min(real.SCALE, 10)
SEED = 20260601
GROWTH_BYTES = 24 << 20

GOOD = [
    ("/embed", {"inputs": ["the tea", "\u00e9\U0001f98a"], "normalize": True, "truncate": True,
                "truncation_direction": "Left", "dimensions": 16, "encoding_format": "float",
                "details": True, "pooling": "mean", "attention": "causal"}),
    ("/embed", {"inputs": ["the tea", ""], "encoding_format": "int8", "on_error": "report"}),
    ("/embed_all", {"inputs": [[5, 6, 7], [8]], "truncate": False}),
    ("/v1/embeddings", {"input": ["the tea", "\u00e9"], "encoding_format": "base64",
                        "dimensions": 16, "truncate": True, "truncation_direction": "Left",
                        "instruction": "i"}),
    ("/similarity", {"inputs": {"source_sentence": "a", "sentences": ["b", "\u00e9"]},
                     "parameters": {"truncate": False, "truncation_direction": "Left"}}),
    ("/rerank", {"query": "a", "texts": ["b", "\u00e9"], "raw_scores": True, "return_text": True}),
    ("/v1/rerank", {"query": "a", "documents": ["b", {"text": "c"}], "top_n": 1,
                    "return_documents": True}),
    ("/generate", {"inputs": "the", "parameters": {
        "max_new_tokens": 4, "temperature": 0.7, "top_k": 5, "top_p": 0.9, "stop": ["q"], "seed": 3,
        "details": True, "top_n_tokens": 2, "repetition_penalty": 1.1}}),
    ("/generate_stream", {"inputs": "tea", "parameters": {"max_new_tokens": 4}}),
    ("/completion", {"prompt": ["the", [5, "\u00e9", 6]], "n_predict": 3, "n_cmpl": 2, "n_probs": 1,
                     "stop": ["q"], "logit_bias": [["t", False]], "seed": 1, "n_indent": 2,
                     "json_schema": {"type": "array", "items": {"type": "integer"}}}),
    ("/infill", {"segments": [{"text": "the "}, {"gap": {"max_tokens": 3, "stop": ["x"]}},
                              {"text": " in"}], "mode": "hybrid", "spans": "independent"}),
    ("/infill", {"input_prefix": "a", "input_suffix": "b", "prompt": "c", "n_predict": 4,
                 "n_probs": 2, "logit_bias": [[5, 1.0], ["t", False]], "samplers": ["top_k"],
                 "response_fields": ["content", "timings/prompt_n"], "input_extra": [
                     {"filename": "f", "text": "t"}], "n_indent": 2, "n_cmpl": 2}),
    ("/infill", {"text": "a [gap] b [gap] c", "max_tokens": 2, "stream": True, "mode": "hybrid"}),
    ("/infill", {"text": "a [gap] b [gap] c", "max_tokens": 2, "stream": True, "mode": "rerank",
                 "candidates": 3, "heal": True}),
    ("/predict", {"inputs": [["a", "b"], ["c"]], "raw_scores": True}),
    ("/classify", {"inputs": ["a", "b"], "labels": ["x", "y"], "multi_label": True}),
    ("/classify", {"input": "a", "questions": [
        {"type": "choice", "instructions": "i", "choices": [{"value": "v"}, {"value": True}]}]}),
    ("/v1/completions", {"prompt": ["the", "\u00e9"], "max_tokens": 3, "n": 2, "logprobs": 2,
                         "echo": True, "stop": ["q"], "stop_token_ids": [7], "min_tokens": 1,
                         "logit_bias": {"5": 1.0}, "seed": 1, "temperature": 0.5}),
    ("/v1/completions", {"prompt": [5, 6], "max_tokens": 3, "logprobs": 1, "stream": True,
                         "echo": True, "stream_options": {"include_usage": True}}),
    ("/v1/completions", {"prompt": "the", "suffix": "tea", "max_tokens": 3, "n": 2}),
    ("/v1/chat/completions", {"messages": [
        {"role": "system", "content": "a"}, {"role": "user", "content": [
            {"type": "text", "text": "b"}]}], "max_tokens": 2, "logprobs": True}),
    ("/v1/responses", {"instructions": "a", "input": [{"role": "user", "content": [
        {"type": "input_text", "text": "b"}]}], "max_output_tokens": 2, "stream": True}),
    ("/v1/decisions", {"input": [{"role": "user", "content": "a"}], "questions": [
        {"type": "score", "instructions": "i", "levels": [{"label": "l"}, {"label": "m"}]}]}),
    ("/v1/moderations", {"input": [{"type": "text", "text": "a"}]}),
    ("/tokenize", {"inputs": ["the", "tea"]}),
    ("/tokenize", {"content": "the", "with_pieces": True}),
    ("/detokenize", {"tokens": [5, 6]}), ("/decode", {"ids": [[5], [6]]}),
]
VALUES = [None, True, False, 0, -1, 1, 1.5, 1e308, -0.0, 2**31 - 1, 2**31, 2**63 - 1, -2**63,
          "", "a", " ", "\U0001f468\u200d\U0001f469", "<s>", [], [[]], [0], [""], {}, {"a": 1},
          "x" * 3000, list(range(300)), [["a", 1]]]


def places(value, path=()):
    """The path of every value inside."""
    yield path
    items = value.items() if isinstance(value, dict) else \
        enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        yield from places(part, (*path, key))


def change_value(rng, body):
    body = copy.deepcopy(body)
    for _ in range(rng.choice((1, 1, 2, 3))):
        found = [path for path in places(body) if path]
        if not found:
            break
        path = rng.choice(found)
        node = body
        for key in path[:-1]:
            node = node[key]
        what = rng.randrange(4)
        if what == 0 and isinstance(node, dict):
            del node[path[-1]]
        elif what == 1 and isinstance(node, list):
            node.insert(rng.randrange(len(node) + 1), copy.deepcopy(rng.choice(node)))
        else:
            old = node[path[-1]]
            alike = [value for value in VALUES if type(value) is type(old)]
            node[path[-1]] = copy.deepcopy(rng.choice(alike if rng.random() < 0.7 else VALUES))
    return json.dumps(body).encode()


def change_bytes(rng, data):
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(data) + 1)
        what = rng.randrange(4)
        if what == 0:
            del data[at:at + rng.randrange(1, 9)]
        elif what == 1:
            data[at:at] = bytes(rng.choice(b'{}[]",:\\0eE-+.\x00\xff\xc3u') for _ in range(2))
        elif what == 2:
            data[at:at] = data[rng.randrange(len(data) + 1):][:rng.randrange(40)]
        elif at < len(data):
            data[at] = rng.randrange(256)
    return bytes(data)


def bodies():
    rng = random.Random(SEED)
    for _ in range(ROUNDS):
        path, body = rng.choice(GOOD)
        if rng.random() < 0.5:
            data = change_value(rng, body)
        else:
            data = change_bytes(rng, json.dumps(body).encode())
        if rng.random() < 0.1:
            path = rng.choice(GOOD)[0]
        yield path, data


def narrowed(data):
    return b"response_fields" in data


class Mutations(unittest.TestCase):
    def test_u8_mutated_bodies(self):
        statuses = {}
        with real.start(MODEL, "--log-level", "warn") as server:
            for path, body in GOOD:
                real.ask(server, path, body, whole=not narrowed(json.dumps(body).encode()))
            before = server.resident_bytes()
            client = Client(server.port)
            for path, data in bodies():
                client.send(compose("POST", path, data))
                reply = real.check_reply(path, client.reply(), whole=not narrowed(data))
                self.assertTrue(reply.status < 500 or reply.status == 501, (path, data, reply))
                statuses[reply.status] = statuses.get(reply.status, 0) + 1
                if reply.field("connection") == "close":
                    client.close()
                    client = Client(server.port)
            client.close()
            self.assertLess(server.resident_bytes() - before, GROWTH_BYTES * real.SCALE)
            real.settled(server)
            real.still_serves(server)
        print("answered:", dict(sorted(statuses.items())))
        self.assertGreater(statuses[200], ROUNDS // 10)
        self.assertGreater(statuses[400], ROUNDS // 4)


if __name__ == "__main__":
    unittest.main()
