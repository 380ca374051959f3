"""Goal: /apply-template shows what the model's own template makes of a chat, and says why when it
cannot.

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

    def test_refusals(self):
        user = {"role": "user", "content": "Hi"}
        for body, where in (
                ({}, "/messages"), ({"messages": []}, "/messages"),
                ({"messages": [{"role": "robot", "content": "x"}]}, "/messages/0/role"),
                ({"messages": [user, {"role": "user"}]}, "/messages/1/content"),
                ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
                 "/messages/0/content"),
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
