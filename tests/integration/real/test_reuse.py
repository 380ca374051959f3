"""Goal: what a request computes is there for the next one, of whatever task, and no answer changes
by it; nobody is left without memory for ever (cases I8, D2, O6).

Method: the same and related requests one after the other, cold and warm, with and without
`cache_prompt`; usage, timings and metrics say what was found. Then many streams in pages for one
context.
"""
import sys
import unittest

import real
from harness import together
from real import ok

MODEL = sys.argv.pop(1)
TINY = MODEL == "tiny"
TEXTS = ["the red fox eats an onion in the rain", "the red fox eats tea on the sofa"]
QUESTIONS = [{"type": "predicate", "instructions": f"Is it about {word}?"}
             for word in ("foxes", "tea", "rain")]


def answer(reply):
    return real.without_timings(reply.value)


class Reuse(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = real.start(MODEL, "--log-level", "warn")

    @classmethod
    def tearDownClass(cls):
        real.settled(cls.server)
        with cls.server:
            pass

    def ask(self, path, body):
        return ok(self.server, path, body)

    def classify(self, text, server=None):
        """The answer, and the tokens of its two sequences: labels are asked for in two orders."""
        reply = ok(server or self.server, "/classify", {"input": [text], "labels": ["x", "y"]})
        usage = reply.value["usage"]
        return answer(reply), usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"]

    def test_classify_computes_from_the_first_difference_on(self):
        """A template's head once; another text from its first token on; the same text one row."""
        with real.start(MODEL, "--log-level", "warn") as fresh:
            cold, count, own = self.classify(TEXTS[1], fresh)
        self.classify(TEXTS[0])
        second, _, cached = self.classify(TEXTS[1])
        self.assertEqual(second, cold)
        self.assertGreater(cached, own)
        self.assertLess(cached, count - 2)
        again, _, cached = self.classify(TEXTS[1])
        self.assertEqual(again, cold)
        self.assertEqual(cached, count - 2)

    def ids(self, text):
        return self.ask("/tokenize", {"content": text + TEXTS[0]}).value["tokens"]

    def test_questions_share_their_text(self):
        body = {"input": " ".join(TEXTS), "questions": QUESTIONS}
        usage = self.ask("/classify", body).value["usage"]
        each = len(self.ids(" "))
        self.assertGreater(usage["input_tokens_details"]["cached_tokens"], 2 * each)

    def infill(self, **fields):
        reply = self.ask("/infill", {"text": f"{TEXTS[0]} and [gap] then {TEXTS[1]}",
                                     "mode": "hybrid", "max_tokens": 6, "temperature": 0, **fields})
        usage = reply.value["usage"]
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        return answer(reply), usage["prompt_tokens"], cached

    def test_d2_context_block_is_found_as_a_whole(self):
        cold, count, cached = self.infill(cache_prompt=False)
        self.assertEqual(cached, 0)
        first, _, cached = self.infill()
        self.assertEqual((first, cached), (cold, 0))  # who opted out left nothing
        warm, _, cached = self.infill()
        self.assertEqual((warm, cached), (cold, count - 1))
        opted, _, cached = self.infill(cache_prompt=False)
        self.assertEqual((opted, cached), (cold, 0))

    def test_salt_keeps_tenants_apart(self):
        """The same text under another salt, or none, finds nothing; under its own, all."""
        text = f"Two tenants {TEXTS[1]}"
        def of(**fields):
            return self.infill(text=f"{text} [gap] {text}", **fields)
        cold, count, cached = of(cache_salt="a" * 32)
        self.assertEqual(cached, 0)
        for salt in ({"cache_salt": "a" * 31}, {"cache_salt": "a" * 31 + "b"}, {}):
            other, _, cached = of(**salt)
            self.assertEqual((other, cached), (cold, 0))
        for salt in ({"cache_salt": "a" * 32}, {"cache_salt": "a" * 31}, {}):
            warm, _, cached = of(**salt)
            self.assertEqual((warm, cached), (cold, count - 1))

    def test_d2_generate_opts_out(self):
        def generate(**fields):
            before = self.server.metrics()
            parameters = {"max_new_tokens": 6, "details": True, **fields}
            reply = self.ask("/generate", {"inputs": f"One day {TEXTS[0]}",
                                           "parameters": parameters})
            name = 'magnetd_cached_tokens_total{kind="generate"}'
            return answer(reply), self.server.metrics()[name] - before[name]
        cold, cached = generate(cache_prompt=False)
        self.assertEqual(cached, 0)
        first, others = generate()  # no more than it has in common with other tests' prompts
        warm, cached = generate()
        self.assertEqual((first, warm), (cold, cold))
        self.assertGreater(cached, 5 + others)
        self.assertEqual(generate(cache_prompt=False), (cold, 0))
        real.settled(self.server)

    def test_metrics_name_what_was_found(self):
        self.infill()
        self.infill()
        metrics = real.settled(self.server)
        for name in ('cache_requests_total{store="context",result="hit"}',
                     'cache_requests_total{store="context",result="miss"}',
                     'cache_pages{state="kept"}'):
            self.assertGreater(metrics[f"magnetd_{name}"], 0, name)
        self.assertEqual(metrics['magnetd_cache_pages{state="shared"}'], 0)

    def test_off(self):
        with real.start(MODEL, "--cache-reuse", "0", "--log-level", "warn") as server:
            for _ in range(2):
                self.assertEqual(self.classify(TEXTS[0], server)[2], 0)
            metrics = real.settled(server)
        self.assertEqual(metrics['magnetd_cache_pages{state="kept"}'], 0)

    @unittest.skipIf(TINY, "the smallest cache holds forty of its contexts")
    def test_o6_streams_in_too_few_pages_all_finish(self):
        """Pages for little more than one context, and fills that come to take most of it each."""
        bodies = [{"text": f"{i} {TEXTS[0]} [gap] {TEXTS[1]}", "mode": "hybrid", "until": "length",
                   "max_tokens": 120, "temperature": 0} for i in range(2)]
        with real.start(MODEL, "--context", "192", "--cache-mib", "5", "--reserve-tokens", "1",
                        "--log-level", "warn") as server:
            alone = [answer(ok(server, "/infill", body)) for body in bodies]
            replies = [None] * len(bodies)

            def one(index):
                replies[index] = answer(ok(server, "/infill", bodies[index]))
            together([lambda index=index: one(index) for index in range(len(bodies))])
            metrics = real.settled(server)
        self.assertEqual(replies, alone)
        self.assertGreater(metrics["magnetd_preemptions_total"], 0)


if __name__ == "__main__":
    if not TINY:
        real.need_default_model()
    unittest.main()
