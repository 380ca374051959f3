"""Goal: the output has the form that its request asks for (docs/constrained.md), sampled
at temperature 1.

Method: many seeds over the random tiny model, or a few over the default one, judged by Python's own
`re` and `json`. Cases by name: U7.
"""
import json
import re
import sys
import unittest

import real
from real import ok

MODEL = sys.argv.pop(1)
SEEDS, TOKENS = (40, 200) if MODEL == "tiny" else (3, 40)
EXPRESSIONS = [r"[0-9]{1,3}", r"(yes|no|perhaps), (because|although) .{3,20}", r"\d{4}-\d\d-\d\d",
               r"[a-zäöü]+ [^a-y]{2}", r"(ab|a)(c|bcd)(d*)!", r"\w+@\w+\.(com|org)", r"€{2,4}|日本+語"]


class Constrained(unittest.TestCase):
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

    def test_U7_expressions_that_break_parsers(self):
        """Nesting, repetition of repetitions and syntax that is not built: errors with a place."""
        deep = "(" * 65 + "a" + ")" * 65
        for expression in (deep, "((((a{900}){900}){900}){900})", "(a", "a)", "[a", "a{2", "*a",
                           "a**", "(?=a)b", r"(a)\1", "a^b", r"a\b", "[[:alpha:]]", "[z-a]",
                           "a{3,2}", "a{1001}", "\\", "()", r"\u0000"):
            with self.subTest(expression[:20]):
                self.refuse(expression)
        self.assertIn("at byte 3", self.refuse("ab*+"))
        self.assertIsNotNone(self.choice(1, guided_regex="(" * 64 + "a" + ")" * 64))


if __name__ == "__main__":
    unittest.main()
