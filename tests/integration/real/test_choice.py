"""Goal: a client that scores multiple choice over /v1/completions picks what the model's own
log-probabilities pick.

Method: the requests of lm-eval's local-completions client: ids of context and choice together,
several a request, echo, logprobs 1 and one token more, whose log-probability the client drops.
Against them the whole text on /generate with decoder_input_details. tests/bench/eval_choice.py has
the package itself do the same, by hand, on real text.
"""
import math
import sys
import unittest

import real
from real import ok

MODEL = sys.argv.pop(1)
BATCH = 4
ITEMS = [  # a context, the choices, which of them is right
    ("The opposite of hot is", [" cold", " heavy", " seven", " green"], 0),
    ("Bees make", [" sharp steel knives", " sweet honey", " paper money", " loud thunder"], 1),
    ("The capital of France is", [" Tokyo.", " Cairo.", " Paris.", " Lima."], 2),
    ("Two plus two equals", [" purple", " a long river", " slowly", " four"], 3),
    ("The sun rises in the", [" east", " bottle", " keyboard", " onion"], 0),
    ("At night we can see the moon and the", [" spoons", " stars", " taxes", " shoelaces"], 1),
    ("A dog is a kind of", [" number", " verb", " animal", " planet"], 2),
    ("Fish live in", [" brown envelopes", " loud music", " dry sand", " the sea"], 3),
]


class Choice(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = real.start(MODEL)

    @classmethod
    def tearDownClass(cls):
        real.settled(cls.server)
        with cls.server:
            pass

    def ids(self, text):
        return ok(self.server, "/tokenize", {"content": text}).value["tokens"]

    def by_client(self, prompts, starts):
        """As the client does it: the sum for each, and whether it is what greedy would write."""
        scores = []
        for first in range(0, len(prompts), BATCH):
            batch = slice(first, first + BATCH)
            reply = ok(self.server, "/v1/completions", {
                "model": "", "prompt": prompts[batch], "temperature": 0, "max_tokens": 1,
                "logprobs": 1, "seed": 1234, "echo": True}).value
            choices = sorted(reply["choices"], key=lambda choice: choice["index"])
            for choice, start in zip(choices, starts[batch], strict=True):
                logprobs = choice["logprobs"]["token_logprobs"][start:-1]
                top = choice["logprobs"]["top_logprobs"][start:-1]
                scores.append((sum(logprobs), all(
                    logprob == max(others.values()) for logprob, others in zip(logprobs, top))))
        return scores

    def by_generate(self, text, start):
        details = ok(self.server, "/generate", {"inputs": text, "parameters": {
            "max_new_tokens": 1, "details": True, "decoder_input_details": True}}).value["details"]
        return [token["id"] for token in details["prefill"]], sum(
            token["logprob"] for token in details["prefill"][start:])

    def test_choice(self):
        texts, prompts, starts = [], [], []
        for context, choices, _ in ITEMS:
            before = self.ids(context)
            for choice in choices:
                texts.append(context + choice)
                prompts.append(self.ids(texts[-1]))
                starts.append(len(before))
                self.assertEqual(prompts[-1][:len(before)], before)
        scores = self.by_client(prompts, starts)
        right = 0
        for index, (context, choices, answer) in enumerate(ITEMS):
            where = slice(index * len(choices), (index + 1) * len(choices))
            sums = [score for score, _ in scores[where]]
            own = []
            for text, prompt, start in zip(texts[where], prompts[where], starts[where]):
                ids, logprob = self.by_generate(text, start)
                self.assertEqual(ids, prompt)
                own.append(logprob)
            self.assertEqual(sums, own, context)  # to the bit: batches change nothing
            self.assertTrue(all(math.isfinite(score) and score < 0 for score in sums), context)
            right += sums.index(max(sums)) == answer
        self.assertEqual(right, len(ITEMS))

    def test_greedy_is_told(self):
        """The greedy text's own ids are greedy; with another first token they are not."""
        context, count = "Once upon a time", 4
        written = ok(self.server, "/generate", {"inputs": context, "parameters": {
            "max_new_tokens": count, "details": True}}).value["details"]["tokens"]
        greedy, before = [token["id"] for token in written], self.ids(context)
        other = self.ids(" purple") + greedy[1:]
        scores = self.by_client([before + greedy, before + other], [len(before)] * 2)
        self.assertEqual([is_greedy for _, is_greedy in scores], [True, False])


if __name__ == "__main__":
    real.need_default_model()
    unittest.main()
