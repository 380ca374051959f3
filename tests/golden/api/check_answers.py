#!/usr/bin/env python3
"""Goal: the endpoints answer what the reference computed, in the shape the schemas promise.

Method: the requests of ../shared/data/smollm2-reference go through the program `answers` (decode,
plan, engine, encode; no server). Every reply, event and error is checked against its schema;
numbers are compared with the reference. Then requests that must fail: each names its place. Texts
are printed nowhere. Under sanitizers (MAGNETD_TEST_SCALE) fewer cases and a shorter context take
the same paths.
"""
import base64
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import time
import warnings

warnings.filterwarnings("ignore", category=DeprecationWarning)  # RefResolver: all of Debian 12's
SKIPPED = 77
SOURCE = pathlib.Path(os.environ.get("MAGNETD_SOURCE", "."))
DATA = pathlib.Path(os.environ.get("MAGNETD_DATA", SOURCE / "../shared/data"))
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
MODEL = os.environ.get("MAGNETD_MODEL",
                       str(CACHE / "magnetd" / "SmolLM2-135M-Instruct.Q4_1.gguf"))

FEW = int(os.environ.get("MAGNETD_TEST_SCALE", "1")) > 1
CONTEXT = 192 if FEW else 2048

try:
    import jsonschema
except ImportError:
    print("skipped: python3-jsonschema is not installed")
    sys.exit(SKIPPED)
if not pathlib.Path(MODEL).exists():
    print("skipped: the default model is not there")
    sys.exit(SKIPPED)
if not (DATA / "smollm2-reference").exists():
    print("skipped: smollm2-reference of MAGNETD_DATA is not there")
    sys.exit(SKIPPED)


class Schemas:
    """Validators by file name, with references between the files resolved."""

    def __init__(self):
        folder = SOURCE / "schemas"
        self.store = {path.name: json.loads(path.read_text()) for path in folder.glob("*.json")}
        self.routes = {route["path"]: route for route in self.store.pop("routes.json")["routes"]}
        self.hit = set()

    def check(self, name, value):
        schema = self.store[name]
        resolver = jsonschema.RefResolver(name, schema, store=self.store)
        jsonschema.Draft202012Validator(schema, resolver=resolver).validate(value)
        self.hit.add(name)


class Answer:
    def __init__(self):
        self.reply, self.error, self.frames = None, None, []
        self.ignored, self.truncated = "", ""


class Program:
    def __init__(self, path):
        self.schemas = Schemas()
        self.process = subprocess.Popen([path, MODEL, str(CONTEXT)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, encoding="utf-8")

    def ask(self, path, body, check_reply=True):
        route = self.schemas.routes[path]
        text = body if isinstance(body, str) else json.dumps(body)
        if not isinstance(body, str):
            self.schemas.check(route["request"], body)
        self.process.stdin.write(f"{path}\t{text}\n")
        self.process.stdin.flush()
        return self.read(route, check_reply)

    def fail(self, path, body, where, code=None):
        """The request is refused, at this place."""
        text = body if isinstance(body, str) else json.dumps(body)
        self.process.stdin.write(f"{path}\t{text}\n")
        self.process.stdin.flush()
        answer = self.read(self.schemas.routes[path], True)
        assert answer.error is not None, f"{path} accepted a bad body (expected {where})"
        error = answer.error if "error_type" in answer.error else answer.error["error"]
        assert error["param"] == where, (path, error, where)
        assert code is None or error.get("code") == code, (path, error, code)
        return error

    def read(self, route, check_reply):
        answer = Answer()
        while True:
            line = self.process.stdout.readline().rstrip("\n")
            what, _, text = line.partition("\t")
            if what == "end":
                return answer
            if what == "headers":
                answer.ignored, _, answer.truncated = text.partition("|")
                continue
            assert what in ("reply", "error", "frame"), f"the program ended: {line!r}"
            value = json.loads(text, parse_constant=lambda name: 1 / 0)
            if what == "reply":
                answer.reply = value
                name = route["reply"] if check_reply else None
            elif what == "frame":
                answer.frames.append(value)
                name = route["frame"]
            else:
                answer.error = value
                name = f"error_{route['family']}.json"
            if name:
                self.schemas.check(name, value)


def read_lines(name):
    path = DATA / "smollm2-reference" / name
    return [json.loads(line) for line in path.read_text().splitlines()]


def some(cases, few):
    """All cases, or those of the indices `few`."""
    return [cases[index] for index in few] if FEW else cases


def near(a, b, bound):
    return abs(a - b) <= bound


def check_embed(program):
    rows = (DATA / "smollm2-reference" / "embed_f32.bin").read_bytes()
    cases = read_lines("embed.jsonl")
    def row(index):
        return struct.unpack_from("<576f", rows, index * 576 * 4)
    keys = list(cases[0]["rows"])
    for key in some(keys, (0, -1)):
        mask, _, pooling = key.partition("_")
        known = [case for case in cases if key in case["rows"]][:1 if FEW else None]
        texts = [case["text"] for case in known]
        expected = [row(case["rows"][key]) for case in known]
        body = {"inputs": texts, "attention": mask, "pooling": pooling}
        vectors = program.ask("/embed", body).reply
        for vector, reference in zip(vectors, expected, strict=True):
            worst = max(abs(a - b) for a, b in zip(vector, reference))
            assert worst < 1e-4, (key, worst)
        packed = program.ask("/embed", {**body, "encoding_format": "base64"}).reply
        for text, vector in zip(packed, vectors, strict=True):
            floats = struct.unpack("<576f", base64.b64decode(text, validate=True))
            assert [struct.pack("<f", x) for x in vector] == [struct.pack("<f", x) for x in floats]
    # A cut vector is normalised again; ids give the same as their text; all rows are there.
    short = program.ask("/embed", {"inputs": cases[0]["text"], "dimensions": 64}).reply[0]
    assert len(short) == 64 and near(math.sqrt(sum(x * x for x in short)), 1, 1e-5)
    whole = program.ask("/embed", {"inputs": cases[0]["text"]}).reply
    assert program.ask("/embed", {"inputs": cases[0]["ids"]}).reply == whole
    assert program.ask("/embed", {"inputs": [cases[0]["ids"]] * 2}).reply == whole * 2
    every = program.ask("/embed_all", {"inputs": cases[0]["text"]}).reply
    assert len(every[0]) == len(cases[0]["ids"])
    details = program.ask("/embed", {"inputs": ["red fox", "fox " * 3000], "details": True,
                                     "truncation_direction": "LEFT"})
    assert details.truncated == "1" and details.reply["truncated"] == [1]
    assert details.reply["usage"]["prompt_tokens"] > CONTEXT


def check_infill(program):
    for case in some(read_lines("infill_hybrid.jsonl"), (0, 2)):
        segments = [{"text": case["parts"][0]}]
        for gap, part in zip(case["gaps"], case["parts"][1:], strict=True):
            segments += [{"gap": gap}, {"text": part}]
        for spans in ("sequential", "independent"):
            body = {"segments": segments, "mode": "hybrid", "spans": spans, "until": "length"}
            reply = program.ask("/infill", body).reply
            for gap, expected in zip(reply["gaps"], case[spans], strict=True):
                assert gap["tokens"] == len(expected["ids"])
                assert gap["finish_reason"] == "length"
                if min(expected["gaps"]) > 2e-3:
                    assert gap["text"] == expected["text"], (spans, gap["index"])
                assert reply["text"][gap["start"]:gap["end"]] == gap["text"]
            if FEW and len(reply["gaps"]) > 1 and spans == "sequential":
                continue
            frames = program.ask("/infill", {**body, "stream": True}).frames
            for gap in reply["gaps"]:
                text = "".join(frame["text"] for frame in frames[:-1]
                               if frame["gap"] == gap["index"] and "text" in frame)
                assert text == gap["text"]
            assert {**frames[-1], "timings": 0, "usage": 0} == {
                **reply, "timings": 0, "usage": 0, "stop": True}
    program.fail("/infill", {"text": "no gap here"}, "/text")
    program.fail("/infill", {"text": "[gap] x"}, "/text")
    program.fail("/infill", {"text": "a [gap][gap] x"}, "/text")
    program.fail("/infill", {"text": "a [gap]" * 65}, "/text")
    program.fail("/infill", {"text": "a [gap]", "reserve": 17}, "/reserve")
    program.fail("/infill", {"text": "a [gap]", "mode": "glm"}, "/mode", 501)
    program.fail("/infill", {"text": "a [gap]", "mode": "fim"}, "/mode", 501)
    program.fail("/infill", {"text": "a [gap]", "input_prefix": ""}, "/input_prefix")
    program.fail("/infill", {"input_prefix": "a"}, "/input_suffix")
    program.fail("/infill", {"input_suffix": "a"}, "/input_prefix")
    program.fail("/infill", {"text": "a [gap]" + " b" * 3000, "mode": "hybrid"}, "/text")
    program.fail("/infill", {"text": "a" + " b" * 3000 + "[gap]", "mode": "rerank"}, "/text")
    program.fail("/infill", {"text": "a [gap]", "logit_bias": {"x": 1}}, "/logit_bias")


def check_rerank(program):
    """A fill of the default model that is right on both sides, whole and as a stream."""
    text = "The capital of France is [gap], which lies on the Seine."
    body = {"text": text, "max_tokens": 2 if FEW else 8, "candidates": 2 if FEW else 8}
    reply = program.ask("/infill", body).reply
    assert reply["mode"] == "rerank" and reply["text"] == text.replace("[gap]", "Paris"), reply
    if not FEW:
        frames = program.ask("/infill", {**body, "stream": True}).frames
        assert [frame.get("text") for frame in frames[:-1]] == ["Paris", None]
        assert frames[-1]["gaps"] == reply["gaps"]


def check_infill_llama(program):
    body = {"mode": "hybrid", "input_prefix": "int add(int a, int b)\n{\n", "input_suffix": "}\n",
            "prompt": "    return ", "n_predict": 2 if FEW else 6, "n_probs": 3, "seed": 1,
            "input_extra": [{"filename": "util.h", "text": "int add(int, int);\n"}],
            "samplers": ["top_k", "top_p", "infill"], "t_max_predict_ms": 600000}
    answer = program.ask("/infill", body)
    assert answer.ignored == "samplers.infill", answer.ignored
    assert answer.reply["tokens_predicted"] == len(
        answer.reply["completion_probabilities"]) + (answer.reply["stop_type"] == "eos")
    if not FEW:
        assert program.ask("/infill", body).reply["content"] == answer.reply["content"]
    frames = program.ask("/infill", {**body, "stream": True}).frames
    assert "".join(frame["content"] for frame in frames[:-1]) == answer.reply["content"]
    assert frames[-1]["content"] == "" and frames[-1]["stop"] is True
    assert len(program.ask("/infill", {**body, "n_predict": 1, "n_cmpl": 3}).reply) == 3
    picked = program.ask("/infill", {**body, "response_fields": [
        "content", "timings/prompt_n", "generation_settings/top_k", "no/such", "content"]}, False)
    assert list(picked.reply) == ["content", "timings/prompt_n", "generation_settings/top_k"]
    assert program.ask("/infill", {**body, "response_fields": [""]}, False).reply == {}
    warm = program.ask("/infill", {**body, "n_predict": 0}).reply
    assert warm["content"] == "" and warm["tokens_predicted"] == 0
    long = program.ask("/infill", {"input_prefix": "a b " * 4000, "input_suffix": "c d " * 4000,
                                   "n_predict": 1, "mode": "hybrid"}).reply
    assert long["truncated"] and CONTEXT * 0.73 < long["tokens_evaluated"] <= CONTEXT


def check_generate(program):
    for case in read_lines("causal.jsonl")[:2 if FEW else 6]:
        if case["kind"] != "plain":
            continue
        count = min(len(case["greedy"]), 2 if FEW else 8)
        body = {"inputs": case["text"], "parameters": {
            "max_new_tokens": count, "details": True, "top_n_tokens": 2,
            "decoder_input_details": True}}
        reply = program.ask("/generate", body).reply
        details = reply["details"]
        if min(case["gaps"][:count]) > 2e-3:
            assert [token["id"] for token in details["tokens"]] == case["greedy"][:count]
        assert [token["id"] for token in details["prefill"]] == case["ids"]
        assert details["prefill"][0]["logprob"] is None
        assert all(top[0]["id"] == token["id"] for top, token in zip(
            details["top_tokens"], details["tokens"], strict=True))
        assert "".join(token["text"] for token in details["tokens"]) == reply["generated_text"]
        del body["parameters"]["decoder_input_details"]
        frames = program.ask("/generate_stream", body).frames
        assert "".join(frame["token"]["text"] for frame in frames) == reply["generated_text"]
        assert frames[-1]["generated_text"] == reply["generated_text"]
        assert all(frame["details"] is None for frame in frames[:-1])
    chat = next(case for case in read_lines("causal.jsonl") if case["kind"] == "chat")
    prompt = program.ask("/detokenize", {"tokens": chat["ids"]}).reply["content"]
    reply = program.ask("/generate", {"inputs": prompt, "parameters": {
        "max_new_tokens": 1, "parse_special": True, "details": True,
        "decoder_input_details": True}}).reply
    assert [token["id"] for token in reply["details"]["prefill"]] == chat["ids"]
    plain = program.ask("/generate", {"inputs": "<|im_end|>", "parameters": {
        "max_new_tokens": 1, "details": True, "decoder_input_details": True}}).reply
    assert 2 not in [token["id"] for token in plain["details"]["prefill"]]
    seeded = [program.ask("/generate", {"inputs": "Once", "parameters": {
        "max_new_tokens": 2 if FEW else 8, "temperature": 2.0,
        "seed": seed}}).reply for seed in (1, 1, 2)]
    assert seeded[0] == seeded[1] != seeded[2]
    full = program.ask("/generate", {"inputs": "Once", "parameters": {
        "max_new_tokens": 2, "return_full_text": True}}).reply
    assert full["generated_text"].startswith("Once")
    program.fail("/generate", {"inputs": "a " * 3000}, "/inputs", "context_length_exceeded")
    program.fail("/generate", {"inputs": ""}, "/inputs", "empty")
    program.fail("/generate", {"inputs": "a", "model": "other"}, "/model", "model_not_found")
    program.fail("/generate_stream", {"inputs": "a", "parameters": {
        "decoder_input_details": True}}, "/parameters/decoder_input_details")


def check_indent(program):
    """A line that stands too far left ends the answer before it, and the decoding."""
    body = {"prompt": "def f():\n    if a:\n        b = 1\n", "temperature": 0,
            "n_predict": 6 if FEW else 12}
    whole = program.ask("/completion", body).reply
    lines = whole["content"].splitlines(keepends=True)
    kept = next(n for n, line in enumerate(lines) if n > 0 and line.strip() and line[0] != " ")
    reply = program.ask("/completion", {**body, "n_indent": 4}).reply
    assert reply["content"] == "".join(lines[:kept])
    assert reply["tokens_predicted"] < whole["tokens_predicted"]
    assert reply["stop_type"] == "limit" and not reply["truncated"]
    frames = program.ask("/completion", {**body, "n_indent": 4, "stream": True}).frames
    assert "".join(frame["content"] for frame in frames) == reply["content"]


def check_completion(program):
    case = next(case for case in read_lines("causal.jsonl") if case["kind"] == "plain")
    count = min(len(case["greedy"]), 2 if FEW else 8)
    body = {"prompt": case["text"], "n_predict": count, "temperature": 0, "return_tokens": True}
    reply = program.ask("/completion", body).reply
    if min(case["gaps"][:count]) > 2e-3:
        assert reply["tokens"] == case["greedy"][:count]
    assert reply["tokens_evaluated"] == len(case["ids"])
    frames = program.ask("/completion", {**body, "stream": True, "n_probs": 2}).frames
    assert "".join(frame["content"] for frame in frames) == reply["content"]
    assert [token for frame in frames for token in frame["tokens"]] == reply["tokens"]
    assert [entry["id"] for frame in frames[:-1]
            for entry in frame["completion_probabilities"]] == reply["tokens"]
    both = program.ask("/completion", {**body, "prompt": [case["ids"], case["text"]]}).reply
    for index, one in enumerate(both):
        assert (one["index"], one["content"]) == (index, reply["content"])
    check_indent(program)
    chat = next(case for case in read_lines("causal.jsonl") if case["kind"] == "chat")
    spelled = program.ask("/detokenize", {"tokens": chat["ids"]}).reply["content"]
    for parse, same in ((True, True), (False, False)):
        evaluated = program.ask("/completion", {
            "prompt": spelled, "n_predict": 0, "parse_special": parse}).reply["tokens_evaluated"]
        assert (evaluated == len(chat["ids"])) == same
    truth = program.ask("/completion", {"prompt": "True or false?", "n_predict": 8,
                                        "json_schema": {"type": "boolean"}}).reply
    assert json.loads(truth["content"]) in (True, False) and truth["stop_type"] == "eos"


def check_moderation(program):
    names = {"Harmful request:": "prompt_harmfulness", "Response refusal:": "response_refusal",
             "Harmful response:": "response_harmfulness"}
    cases = some(read_lines("wildguard.jsonl"), (0, 1))
    items = [{"prompt": case["prompt"], "response": case["response"] or ""} for case in cases]
    together = program.ask("/classify", {"items": items}).reply["items"]
    for case, item, verdict in zip(cases, items, together, strict=True):
        if not (FEW and case["response"]):
            alone = program.ask("/classify", item).reply
            assert {key: alone[key] for key in verdict} == verdict  # bit for bit
        for field in case["fields"]:
            got = verdict[names[field["name"]]]
            assert near(sum(got["probabilities"].values()), 1, 1e-5)
            for value, reference in zip(got["probabilities"].values(), field["probabilities"],
                                        strict=True):
                assert near(value, reference, 1e-3), field["name"]
            assert near(got["confidence"], field["confidence"], 1e-3)
        if not case["response"]:
            assert verdict["response_refusal"] is None
    check_predict(program, items, together)
    program.fail("/classify", {"items": [{"prompt": "a"}, {"prompt": " \u3000"}]},
                 "/items/1/prompt", "empty")
    program.fail("/classify", {"prompt": "a", "labels": ["b"]}, "/labels")
    program.fail("/classify", {}, None)
    program.fail("/classify", {"labels": ["a"], "response": "x"}, "/response")


def check_predict(program, items, verdicts):
    """The same numbers in another shape."""
    pairs = [[text for text in (item["prompt"], item["response"]) if text] for item in items]
    ranked = program.ask("/predict", {"inputs": pairs}).reply
    for verdict, labels in zip(verdicts, ranked, strict=True):
        known = verdict["response_harmfulness"] or verdict["prompt_harmfulness"]
        assert {entry["label"]: entry["score"] for entry in labels} == known["probabilities"]
        assert labels == sorted(labels, key=lambda entry: -entry["score"])
    if not FEW:
        assert program.ask("/predict", {"inputs": pairs[0]}).reply == ranked[0]
        raw = program.ask("/predict", {"inputs": pairs[0], "raw_scores": True}).reply
        score = ranked[0][0]["score"]
        assert near(raw[0]["score"], math.log(score / (1 - score)), 1e-3)
    program.fail("/predict", {"inputs": [["a"], [" ", "b"]]}, "/inputs/1/0", "empty")


def check_labels(program):
    body = {"inputs": ["good", "bad"], "labels": ["pos", "neg", "mixed"]}
    ranked = program.ask("/classify", body).reply
    assert len(ranked) == 2
    for labels in ranked:
        assert {entry["label"] for entry in labels} == set(body["labels"])
        assert near(sum(entry["score"] for entry in labels), 1, 1e-5)
        assert labels == sorted(labels, key=lambda entry: -entry["score"])
    one = program.ask("/classify", {**body, "inputs": "good"}).reply
    assert one == ranked[0]
    single = program.ask("/classify", {"inputs": "good", "labels": ["pos"]}).reply
    assert 0 < single[0]["score"] < 1
    multi = program.ask("/classify", {**body, "multi_label": True, "raw_scores": True}).reply
    assert all(math.isfinite(entry["score"]) for labels in multi for entry in labels)
    data = program.ask("/classify", {"input": ["good"], "labels": body["labels"]}).reply["data"]
    assert data[0]["num_classes"] == 3 and near(sum(data[0]["probs"]), 1, 1e-5)
    if not FEW:  # more than there are letters
        many = program.ask("/classify", {"inputs": "x", "labels": [
            f"l{i}" for i in range(40)]}).reply
        assert len(many) == 40 and near(sum(entry["score"] for entry in many), 1, 1e-5)
    program.fail("/classify", {"inputs": "x", "labels": ["a", "a"]}, "/labels/1")
    program.fail("/classify", {"labels": ["a"]}, "/inputs")


def check_label_order(program):
    """Labels that begin alike, and labels in another order: no probability moves by 0.05, and as
    the endpoint sorts them, not at all. Each order alone moves this model by up to 0.83."""
    texts = ["The weather is nice today.", "My order never came.", "I loved every minute of it."]
    moved = 0
    for labels in some((["unsafe", "unsure"], ["unsure", "unsafe", "unsaid"]), (1,)):
        for multi_label in some((False, True), (0,)):
            body = {"inputs": texts[:1] if FEW else texts, "multi_label": multi_label}
            given = program.ask("/classify", {**body, "labels": labels}).reply
            swapped = program.ask("/classify", {**body, "labels": labels[::-1]}).reply
            for one, other in zip(given, swapped, strict=True):
                other = {entry["label"]: entry["score"] for entry in other}
                assert set(other) == set(labels)
                moved = max(moved, *(abs(entry["score"] - other[entry["label"]])
                                     for entry in one))
    print("swapping labels moves a probability by", moved)
    assert moved == 0
    if not FEW:  # what a code's place is worth is cancelled: the text decides
        scores = [{entry["label"]: entry["score"] for entry in entries} for entries in program.ask(
            "/classify", {"inputs": ["I loved every minute of it.", "I hated every minute of it."],
                          "labels": ["positive", "negative"]}).reply]
        assert scores[0]["positive"] > scores[1]["positive"], scores


def check_questions(program):
    body = {"input": "My order never came.", "questions": [
        {"type": "predicate", "name": "refund", "instructions": "Money back?"},
        {"type": "choice", "instructions": "Which team?", "choices": [
            {"value": "billing", "description": "money"}, {"value": True}, {"value": "true"}]},
        {"type": "score", "name": "anger", "instructions": "How angry?",
         "levels": [{"label": "calm"}, {"label": "annoyed"}]}]}
    answers = program.ask("/classify", body).reply["answers"]
    assert [answer["name"] for answer in answers] == ["refund", None, "anger"]
    assert near(sum(entry["probability"] for entry in answers[1]["probabilities"]), 1, 1e-5)
    assert near(answers[2]["score"], answers[2]["probabilities"][1]["probability"], 1e-6)
    messages = [{"role": "user", "content": body["input"]}]
    assert program.ask("/classify", {**body, "input": messages}).reply["answers"] == answers
    bad = {"type": "choice", "instructions": "x"}
    program.fail("/classify", {"input": "a", "questions": [bad]}, "/questions/0/choices")


def check_tokens(program):
    ids = program.ask("/tokenize", {"content": "fox \u00e9 \U0001f98a"}).reply["tokens"]
    assert program.ask("/detokenize", {"tokens": ids}).reply["content"] == "fox \u00e9 \U0001f98a"
    assert program.ask("/decode", {"ids": [ids, ids]}).reply == ["fox \u00e9 \U0001f98a"] * 2
    pieces = program.ask("/tokenize", {"content": "\U0001f98a", "with_pieces": True}).reply
    raw = b"".join(piece["piece"].encode() if isinstance(piece["piece"], str)
                   else bytes(piece["piece"]) for piece in pieces["tokens"])
    assert raw.decode() == "\U0001f98a"
    text = "\u00e9\u00e9 fox"
    places = program.ask("/tokenize", {"inputs": [text], "add_special_tokens": False}).reply[0]
    assert places[0]["start"] == 0 and places[-1]["stop"] == len(text)
    assert program.ask("/decode", {"ids": [2]}).reply == [""]
    assert program.ask("/decode", {"ids": [2], "skip_special_tokens": False}).reply != [""]
    program.fail("/detokenize", {"tokens": [1, 999999]}, "/tokens/1")
    program.fail("/tokenize", {}, "/content")


def check_embed_errors(program):
    program.fail("/embed", {"inputs": []}, "/inputs", "empty")
    program.fail("/embed", {"inputs": ""}, "/inputs", "empty")
    program.fail("/embed", {"inputs": ["a", " "]}, "/inputs/1", "empty")
    program.fail("/embed", {"inputs": [[1], [2, 999999]]}, "/inputs/1/1")
    program.fail("/embed", {"inputs": ["a"] * 2049}, "/inputs", "too_many_inputs")
    program.fail("/embed", {"inputs": "a", "dimensions": 577}, "/dimensions",
                 "dimensions_too_large")
    program.fail("/embed", {"inputs": "a", "prompt_name": "x"}, "/prompt_name")
    program.fail("/embed", {"inputs": ["b", "a " * 3000], "truncate": False}, "/inputs/1",
                 "context_length_exceeded")
    error = program.fail("/embed", '{"inputs": "a",}', None, "json_invalid")
    assert error["offset"] == 16 and error["line"] == 1


def main():
    program = Program(sys.argv[1])
    for check in (check_embed, check_embed_errors, check_infill, check_rerank, check_infill_llama,
                  check_generate, check_completion, check_moderation, check_labels,
                  check_label_order, check_questions, check_tokens):
        began = time.monotonic()
        check(program)
        print(f"{check.__name__} passed in {time.monotonic() - began:.1f} s", flush=True)
    program.process.stdin.close()
    assert program.process.wait() == 0
    # The routes of OpenAI's clients are the same plans in other shapes (real/test_openai.py), so
    # are comparisons (real/test_similarity.py).
    others = [path for path in program.schemas.routes if path.startswith("/v1/")]
    others += ["/apply-template", "/similarity", "/rerank"]
    replies = {route.get(key) for path, route in program.schemas.routes.items()
               for key in ("request", "reply", "frame")
               if "page" not in route and path not in others}
    assert replies - {None} <= program.schemas.hit, replies - {None} - program.schemas.hit


main()
