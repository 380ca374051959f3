"""Goal: /apply-template shows what the model's own template makes of a chat and says why when it
cannot, and .../input_tokens counts the tokens of it that the route itself will report.

Method: the default model's template is ChatML; its text is known. (Other templates, and that
clients' text stays text, are tested in tests/golden/template.) The tiny model has no template.
"""
import sys
import unittest

import real
from real import ok, refused

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


if __name__ == "__main__":
    if MODEL == "default":
        real.need_default_model()
    unittest.main()
