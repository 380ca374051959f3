"""Goal: /apply-template shows what the model's own template makes of a chat and says why when it
cannot, and .../input_tokens counts the tokens of it that the route itself will report.

Method: the default model's template is ChatML; its text is known. (Other templates, and that
clients' text stays text, are tested in tests/golden/template.) The tiny model has no template.
"""
import sys
import tempfile
import unittest

import real
from harness import Server
from real import ok, refused, without_timings
from variants import Variant

MODEL = sys.argv.pop(1)
SYSTEM = ("<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by "
          "Hugging Face<|im_end|>\n")
PATH = "/apply-template"
CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
HI = {"role": "user", "content": "Hi"}
LONG = [{"role": "developer", "content": "Be short. <|im_end|>"}, HI,
        {"role": "assistant", "content": "Hello!"},
        {"role": "user", "content": [{"type": "text", "text": "Und \u00e9"},
                                     {"type": "text", "text": "<|im_start|>"}]}]


def turn(role, text):
    return f"<|im_start|>{role}\n{text}<|im_end|>\n"


class Chat(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = real.start(MODEL)

    @classmethod
    def tearDownClass(cls):
        real.settled(cls.server)
        with cls.server:
            pass

    def prompt(self, *messages, **fields):
        body = {"messages": [{"role": role, "content": text} for role, text in messages], **fields}
        return ok(self.server, PATH, body).value["prompt"]

    @unittest.skipIf(MODEL == "default", "it has one")
    def test_no_template(self):
        body = {"messages": [{"role": "user", "content": "Hi"}]}
        error = refused(self.server, PATH, body, 501, "/messages")
        self.assertEqual(error["type"], "not_supported_error")
        self.assertIn("no chat template", error["message"])

    @unittest.skipIf(MODEL == "tiny", "it has no template")
    def test_prompt(self):
        answer = "<|im_start|>assistant\n"
        self.assertEqual(self.prompt(("user", "Hi")), SYSTEM + turn("user", "Hi") + answer)
        self.assertEqual(self.prompt(("system", ""), ("user", "\u00e9"), ("assistant", " y ")),
                         turn("system", "") + turn("user", "\u00e9") + turn("assistant", " y ") +
                         answer)
        self.assertEqual(self.prompt(("developer", "s"), ("user", "<|im_end|>"),
                                     add_generation_prompt=False),
                         turn("system", "s") + turn("user", "<|im_end|>"))
        parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
        self.assertEqual(self.prompt(("user", parts)), SYSTEM + turn("user", "a\nb") + answer)

    @unittest.skipIf(MODEL == "tiny", "it has no template")
    def test_counts(self):
        """What a request would count, whatever else it asks; and more than a context holds."""
        with_parts = [{**message, "content": [{"type": "input_text", "text": message["content"]}]}
                      for message in LONG[:3]]
        for path, body in (
                (CHAT, {"messages": [HI]}),
                (CHAT, {"messages": LONG, "n": 2, "stop": ["a"], "logprobs": True}),
                (CHAT, {"messages": [{"role": "user", "content": ""}]}),
                (RESPONSES, {"input": "Hi"}),
                (RESPONSES, {"input": "Hi", "instructions": "Be short.", "stream": True}),
                (RESPONSES, {"input": with_parts, "instructions": "Be kind."})):
            with self.subTest(path=path, body=body):
                reply = ok(self.server, path + "/input_tokens", body).value
                limit = {"max_tokens" if path == CHAT else "max_output_tokens": 1, "stream": False}
                usage = ok(self.server, path, {**body, **limit}).value["usage"]
                self.assertEqual(reply["input_tokens"],
                                 usage["prompt_tokens" if path == CHAT else "input_tokens"])
        long = [{"role": "user", "content": "tea " * 2000}]
        reply = ok(self.server, CHAT + "/input_tokens", {"messages": long}).value
        self.assertGreater(reply["input_tokens"], 2000)
        refused(self.server, CHAT, {"messages": long}, 400, "/messages")

    def test_counts_refuse_what_the_route_refuses(self):
        for path, body, where in (
                (CHAT, {"messages": []}, "/messages"),
                (CHAT, {"messages": [HI], "tools": [{}]}, "/tools"),
                (CHAT, {"messages": [HI], "top_logprobs": 1}, "/top_logprobs"),
                (RESPONSES, {"input": 1}, "/input"),
                (RESPONSES, {"input": "a", "previous_response_id": "r"}, "/previous_response_id")):
            refused(self.server, path + "/input_tokens", body, 400, where)
            refused(self.server, path, body, 400, where)
        if MODEL == "tiny":
            for path, body in ((CHAT, {"messages": [HI]}), (RESPONSES, {"input": "Hi"})):
                error = refused(self.server, path + "/input_tokens", body, 501)
                self.assertIn("no chat template", error["message"])

    def test_part_at_fault_is_named(self):
        image = {"type": "image_url", "image_url": {"url": "x"}}
        text = {"type": "text", "text": "a"}
        for parts, where in (([image], "/0/type"), ([text, image], "/1/type"),
                             ([text, {"type": "text"}], "/1/text"), ([{"type": "text"}], "/0/text"),
                             ([{"text": "a"}], "/0/type"), ([1], "/0"), ([text, "a"], "/1"),
                             ([text, {**text, "text": 1}], "/1/text"), (1, ""), ({}, "")):
            body = {"messages": [HI, {"role": "user", "content": parts}]}
            for path in (CHAT, PATH):
                refused(self.server, path, body, 400, "/messages/1/content" + where)

    def test_refusals(self):
        user = HI
        for body, where in (
                ({}, "/messages"), ({"messages": []}, "/messages"),
                ({"messages": [{"role": "robot", "content": "x"}]}, "/messages/0/role"),
                ({"messages": [{"role": "tool", "content": "x"}]}, "/messages/0/role"),
                ({"messages": [user, {"role": "user"}]}, "/messages/1/content"),
                ({"messages": [user], "tools": [{}]}, "/tools"),
                ({"messages": [{**user, "tool_calls": [{}]}]}, "/messages/0/tool_calls"),
                ({"messages": [user], "add_generation_prompt": 1}, "/add_generation_prompt"),
                ({"messages": [user], "chat_template": "x"}, "/chat_template")):
            with self.subTest(body=body):
                error = refused(self.server, PATH, body, 400)
                self.assertTrue(error["param"].startswith(where), error)
        refused(self.server, PATH, {"messages": [user], "model": "other"}, 404)


def moderation(side="input", mode="score"):
    return {"policy": {side: {"mode": mode}}}


def verdicts(reply, side):
    found = reply["moderation"][side]
    assert found["type"] == "moderation_results", found
    return found["results"]


@unittest.skipIf(MODEL == "tiny", "it cannot judge")
class Moderation(unittest.TestCase):
    """The default model was not trained to judge, so the threshold decides what is flagged: at 0
    everything is, at 1 nothing."""

    BODY = {"messages": [{"role": "user", "content": "Wait."},
                         {"role": "user", "content": "Name a colour."}],
            "max_tokens": 3, "temperature": 0}

    @classmethod
    def setUpClass(cls):
        cls.strict, cls.mild = (
            real.start(MODEL, "--context", "256", "--moderation-threshold", threshold)
            for threshold in ("0", "1"))

    @classmethod
    def tearDownClass(cls):
        for server in (cls.strict, cls.mild):
            real.settled(server)
            with server:
                pass

    def chat(self, server, given, **fields):
        return ok(server, CHAT, {**self.BODY, "moderation": given, **fields})

    def test_scores(self):
        """Those of /v1/moderations and /classify, and nothing else in the reply changes."""
        plain = ok(self.mild, CHAT, self.BODY).value
        whole = self.chat(self.mild, {}).value
        [choice] = whole["choices"]
        answer = choice["message"]["content"]
        [question] = verdicts(whole, "input")
        alone = ok(self.mild, "/v1/moderations", {"input": "Name a colour."}).value["results"][0]
        self.assertEqual({key: question[key] for key in alone}, alone)
        [result] = verdicts(whole, "output")
        judged = ok(self.mild, "/classify", {"prompt": "Name a colour.", "response": answer}).value
        self.assertAlmostEqual(result["probability"],
                               judged["response_harmfulness"]["probabilities"]["harmful"], 5)
        self.assertFalse(question["flagged"] or result["flagged"])
        del whole["moderation"]
        self.assertEqual(without_timings(whole), without_timings(plain))
        for given in ({"model": "omni-moderation-latest"}, moderation("input", "block"),
                      moderation("output", "block")):
            reply = self.chat(self.mild, given).value
            self.assertEqual(without_timings(reply["choices"]), plain["choices"])
            self.assertEqual(verdicts(reply, "input"), [question])
            self.assertEqual(verdicts(reply, "output"), [result])

    def test_parts_and_other_roles(self):
        parts = [{"type": "text", "text": "Name"}, {"type": "text", "text": "a colour."}]
        messages = [{"role": "user", "content": parts}, {"role": "assistant", "content": "Hm."}]
        alone = ok(self.mild, "/v1/moderations", {"input": "Name\na colour."}).value["results"][0]
        [result] = verdicts(self.chat(self.mild, {}, messages=messages).value, "input")
        self.assertEqual(result["probability"], alone["probability"])

    def test_flagged_scores_block_nothing(self):
        reply = self.chat(self.strict, {}).value
        self.assertTrue(verdicts(reply, "input")[0]["flagged"])
        self.assertTrue(verdicts(reply, "output")[0]["flagged"])
        self.assertNotEqual(reply["choices"][0]["message"]["content"], "")
        self.assertEqual(reply["choices"][0]["finish_reason"], "length")

    def blocked(self, reply, count):
        self.assertEqual([choice["index"] for choice in reply["choices"]], list(range(count)))
        for choice in reply["choices"]:
            self.assertEqual((choice["message"]["content"], choice["finish_reason"]),
                             ("", "content_filter"))
            self.assertIn(choice["logprobs"], (None, {"content": []}))

    def test_input_block(self):
        count = ok(self.strict, CHAT + "/input_tokens", self.BODY).value["input_tokens"]
        for fields in ({}, {"n": 2, "logprobs": True}):
            reply = self.chat(self.strict, moderation("input", "block"), **fields).value
            self.blocked(reply, fields.get("n", 1))
            self.assertTrue(verdicts(reply, "input")[0]["flagged"])
            self.assertEqual(verdicts(reply, "output"), [])
            self.assertEqual((reply["usage"]["prompt_tokens"],
                              reply["usage"]["completion_tokens"]), (count, 0))

    def test_output_block(self):
        reply = self.chat(self.strict, moderation("output", "block"), n=2, logprobs=True).value
        self.blocked(reply, 2)
        self.assertTrue(all(result["flagged"] for result in verdicts(reply, "output")))
        self.assertEqual(len(verdicts(reply, "output")), 2)
        self.assertEqual(reply["usage"]["completion_tokens"], 6)

    def stream(self, server, given, **fields):
        """The text and end of each choice, the verdicts, and how many events had text."""
        frames = self.chat(server, given, stream=True, **fields,
                           stream_options={"include_usage": True}).frames
        texts, ends = {}, {}
        for choice in (choice for frame in frames for choice in frame["choices"]):
            index = choice["index"]
            texts[index] = texts.get(index, "") + choice["delta"].get("content", "")
            ends[index] = choice["finish_reason"] or ends.get(index)
        self.assertEqual(["moderation" in frame for frame in frames],
                         [False] * (len(frames) - 2) + [True, False])
        self.assertEqual(frames[-2]["choices"], [])
        self.assertIsNone(frames[-2]["usage"])
        return texts, ends, frames[-2], frames[-1]["usage"]

    def test_streams(self):
        for given in ({}, moderation("input", "block"), moderation("output", "block")):
            for server in (self.mild, self.strict):
                with self.subTest(given=given, strict=server is self.strict):
                    whole = self.chat(server, given, n=2).value
                    texts, ends, frame, usage = self.stream(server, given, n=2)
                    for choice in whole["choices"]:
                        index = choice["index"]
                        self.assertEqual(texts[index], choice["message"]["content"])
                        self.assertEqual(ends[index], choice["finish_reason"])
                    self.assertEqual(frame["moderation"], whole["moderation"])
                    self.assertEqual(without_timings(usage), without_timings(whole["usage"]))

    def test_refusals(self):
        for given, status, where in (
                ({"policy": {"input": {"mode": "warn"}}}, 400, "/moderation/policy/input/mode"),
                ({"policy": {"output": 1}}, 400, "/moderation/policy/output"),
                (True, 400, "/moderation"), ({"model": "other"}, 404, "/moderation/model")):
            refused(self.mild, CHAT, {**self.BODY, "moderation": given}, status, where)

    def test_what_cannot_be_judged(self):
        """A question that fits the context alone, and not with the judge's words around it."""
        messages = [{"role": "user", "content": "tea " * 150}]
        reply = self.chat(self.mild, {}, messages=messages, max_tokens=1).value
        for side in ("input", "output"):
            self.assertEqual(reply["moderation"][side]["code"], "moderation_unavailable")
        for side in ("input", "output"):
            refused(self.mild, CHAT, {"messages": messages,
                                      "moderation": moderation(side, "block")}, 400, "/messages")
        blank = self.chat(self.mild, {}, messages=[{"role": "system", "content": "Go."}],
                          max_tokens=1).value
        self.assertEqual(blank["moderation"]["input"]["type"], "error")


class Unjudged(unittest.TestCase):
    @unittest.skipIf(MODEL == "default", "it can judge")
    def test_model_that_cannot(self):
        variant = Variant()
        variant.word("tokenizer.chat_template", "{{ messages[0]['content'] }}")
        body = {"messages": [HI], "max_tokens": 3}
        with tempfile.TemporaryDirectory() as folder, \
                Server(model=str(variant.write(folder)), binary=real.BINARY) as server:
            reply = ok(server, CHAT, {**body, "moderation": {}}).value
            for side in ("input", "output"):
                self.assertEqual(reply["moderation"][side]["code"], "moderation_unavailable")
                error = refused(server, CHAT, {**body, "moderation": moderation(side, "block")},
                                501, "/moderation/policy")
                self.assertEqual(error["type"], "not_supported_error")
            frames = ok(server, CHAT, {**body, "moderation": {}, "stream": True}).frames
            self.assertEqual(frames[-1]["moderation"], reply["moderation"])
            real.settled(server)


if __name__ == "__main__":
    if MODEL == "default":
        real.need_default_model()
    unittest.main()
