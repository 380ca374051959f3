"""Goal: a stream of several answers tells each of them while it is made: its parts add up to the
answer that is not streamed, bit for bit, and every choice has one end of its own (R7 S6 S7 S10).

Method: the same request, whole and as a stream, over prompts, counts, stop strings, characters in
parts, log-probabilities and echo; then clients that read late, or not to the end.
"""
import sys
import tempfile
import time
import unittest

import real
from harness import Client, compose, wait_for
from real import ok
from variants import Variant

MODEL = sys.argv.pop(1)
TINY = MODEL == "tiny"
COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
FIM = ["<s>", "</s>", "<fim_prefix>", "<fim_middle>", "<fim_suffix>", "<fim_pad>"]
EMOJI = "\U0001f98a\U0001f468\u200d\U0001f469"


def steps(server):
    return server.metrics()["magnetd_step_seconds_count"]


class Sums:
    """Choices of a stream put together, as a whole reply has them; and the order they came in."""

    def __init__(self, frames, chat):
        self.choices, self.order, self.usage = {}, [], None
        assert len({(frame["id"], frame["created"]) for frame in frames}) == 1
        for frame in frames:
            if not frame["choices"]:
                assert frame is frames[-1]
                self.usage = frame["usage"]
            for part in frame["choices"]:
                self.add(part, chat)
        self.choices = dict(sorted(self.choices.items()))
        assert self.choices and all(one["finish_reason"] for one in self.choices.values())

    def add(self, part, chat):
        index = part["index"]
        self.order.append(index)
        choice = self.choices.setdefault(index, {
            "index": index, "text": "", "logprobs": None, "finish_reason": None})
        assert choice["finish_reason"] is None, "a choice goes on after its end"
        if chat:
            assert ("role" in part["delta"]) == (self.order.count(index) == 1)
        choice["text"] += part["delta"].get("content", "") if chat else part["text"]
        choice["finish_reason"] = part["finish_reason"]
        for key, values in (part["logprobs"] or {}).items():
            choice["logprobs"] = choice["logprobs"] or {}
            if values is not None:
                choice["logprobs"].setdefault(key, []).extend(values)


def choices_of(reply, chat):
    """Those of a whole reply by index, in the same shape."""
    found = {}
    for choice in reply["choices"]:
        logprobs = choice["logprobs"] and {
            key: values for key, values in choice["logprobs"].items() if values is not None}
        if logprobs is not None and not any(logprobs.values()):
            logprobs = None  # no entry, no part with any
        found[choice["index"]] = {
            "index": choice["index"], "logprobs": logprobs,
            "text": choice["message"]["content"] if chat else choice["text"],
            "finish_reason": choice["finish_reason"]}
    return found


def serve(variant, *flags):
    """The tiny model, changed. Its file is not needed once it serves."""
    with tempfile.TemporaryDirectory() as folder:
        return real.Server("--log-level", "warn", *flags, model=str(variant.write(folder)),
                           binary=real.BINARY)


class Base(unittest.TestCase):
    CONTEXT = 256

    @classmethod
    def setUpClass(cls):
        flags = ("--context", str(cls.CONTEXT))
        cls.server = (serve(Variant().context(cls.CONTEXT), *flags) if TINY
                      else real.start(MODEL, *flags))

    @classmethod
    def tearDownClass(cls):
        real.settled(cls.server)
        with cls.server:
            pass

    def both(self, path, body, server=None):
        """The choices of a request, which are the same both ways; and the order they came in."""
        server, chat = server or self.server, path == CHAT
        options = {"include_usage": True}
        sums = Sums(ok(server, path, {**body, "stream": True, "stream_options": options}).frames,
                    chat)
        whole = ok(server, path, body).value
        self.assertEqual(sums.choices, choices_of(whole, chat), body)
        for key in ("prompt_tokens", "completion_tokens", "total_tokens"):
            self.assertEqual(sums.usage[key], whole["usage"][key], body)
        return sums


class Answers(Base):
    def test_parts_add_up(self):
        drawn = {"temperature": 1.5, "seed": 7, "max_tokens": 12}
        prompts = {"prompt": ["the", f"a {EMOJI}", "it"], "n": 2}
        bodies = [{"prompt": "the", "n": 3, **drawn}, {**prompts, **drawn},
                  {**prompts, **drawn, "logprobs": 2, "echo": True},
                  {**prompts, **drawn, "logprobs": 0, "echo": True, "cache_prompt": False},
                  {**prompts, "logprobs": 3, "max_tokens": 3, "ignore_eos": True, "seed": 1},
                  {**prompts, "echo": True, "logprobs": 1, "max_tokens": 0},
                  {"prompt": [[5, 6, 7], [8]], "echo": True, "n": 2, **drawn}]
        for body in bodies if TINY else bodies[1:4:2]:
            self.both(COMPLETIONS, body)

    def test_characters_in_parts(self):
        """Random bytes of the tiny model, emoji by bias from the default one; all frames have been
        decoded strictly."""
        ids = ok(self.server, "/tokenize", {"content": EMOJI}).value["tokens"]
        body = {"prompt": EMOJI, "temperature": 5, "max_tokens": 24, "n": 4, "logprobs": 1}
        if not TINY:
            body = {**body, "temperature": 1.5, "max_tokens": 8,
                    "logit_bias": {str(one): 30 for one in ids}}
        for seed in range(6 if TINY else 1):
            sums = self.both(COMPLETIONS, {**body, "seed": seed})
        text = "".join(choice["text"] for choice in sums.choices.values())
        self.assertGreater(max(text), "\x7f")

    def test_stop_strings_over_borders(self):
        """Strings cut from one answer end that one; they are never shown, and what only begins
        like one is."""
        body = {"prompt": "the", "n": 3, "temperature": 3.0, "seed": 5, "top_k": 40,
                "max_tokens": 16, "logprobs": 1}
        texts = [one["text"] for one in self.both(COMPLETIONS, body).choices.values()]
        for at in range(1, len(texts[1]) - 3, 5 if TINY else 40):
            stop = texts[1][at:at + 3]
            sums = self.both(COMPLETIONS, {**body, "stop": [stop, texts[0][-2:] + "!!"]})
            for index, text in enumerate(texts):
                cut = text.partition(stop)[0]
                self.assertEqual(sums.choices[index]["text"], cut)
                self.assertEqual(sums.choices[index]["finish_reason"],
                                 "stop" if cut != text else "length")

    @unittest.skipIf(TINY, "it has no template")
    def test_chat(self):
        body = {"messages": [{"role": "user", "content": "Name a colour."}], "temperature": 1.5,
                "seed": 3, "n": 4, "max_tokens": 8}
        self.both(CHAT, body)
        self.both(CHAT, {**body, "logprobs": True, "top_logprobs": 2, "stop": ["e", "o"]})

    @unittest.skipIf(not TINY, "the same, slowly")
    def test_side_by_side(self):
        """Not one after the other: all have begun before one is half done."""
        body = {"prompt": ["the", "a"], "n": 3, "ignore_eos": True, "max_tokens": 40,
                "logprobs": 0, "temperature": 1, "seed": 1}
        order = self.both(COMPLETIONS, body).order
        for index in range(6):
            self.assertLess(order.index(index), 6 * 20)
            self.assertGreater(len(order) - order[::-1].index(index), len(order) - 6 * 20)

    @unittest.skipIf(not TINY, "the same, slowly")
    def test_more_choices_than_sequences(self):
        with real.start(MODEL, "--context", "256", "--sequences", "2") as server:
            self.both(COMPLETIONS, {"prompt": ["the", "a"], "n": 4, "max_tokens": 3, "seed": 1,
                                    "echo": True, "logprobs": 1}, server)

    def test_suffix_that_is_judged(self):
        """Known only in the end, and then in the same frames."""
        sums = self.both(COMPLETIONS, {"prompt": "the ", "suffix": " in", "max_tokens": 3, "n": 2,
                                       "seed": 0, "logprobs": 1})
        self.assertEqual(sums.order, sorted(sums.order))


    def test_llama_routes(self):
        """Parts of each answer side by side, then its end with all other members."""
        body = {"n_cmpl": 3, "n_predict": 8, "temperature": 1.5, "seed": 2, "n_probs": 1}
        for path, more in (("/completion", {"prompt": ["the", "a"]}),
                           ("/infill", {"input_prefix": "the ", "input_suffix": " in",
                                        "mode": "hybrid"})):
            whole = ok(self.server, path, {**body, **more}).value
            frames = ok(self.server, path, {**body, **more, "stream": True}).frames
            order = [frame["index"] for frame in frames if not frame["stop"]]
            self.assertNotEqual(order, sorted(order))
            for answer in whole:
                parts = [one for one in frames if one["index"] == answer["index"]]
                self.assertEqual("".join(part["content"] for part in parts), answer["content"])
                self.assertEqual([entry for part in parts[:-1]
                                  for entry in part["completion_probabilities"]],
                                 answer["completion_probabilities"])
                self.assertEqual([part["stop"] for part in parts],
                                 [False] * (len(parts) - 1) + [True])

    def test_independent_gaps(self):
        """Side by side too, and one that has room for nothing is not left out."""
        body = {"segments": [{"text": "the"}, {"gap": {"max_tokens": 6}}, {"text": " in"},
                             {"gap": {"max_tokens": 0}}, {"text": "a"},
                             {"gap": {"max_tokens": 6}}, {"text": "it"}],
                "until": "length", "mode": "hybrid"}
        for spans in ("independent", "sequential"):
            whole = ok(self.server, "/infill", {**body, "spans": spans}).value
            frames = ok(self.server, "/infill", {**body, "spans": spans, "stream": True}).frames
            self.assertEqual(frames[-1]["gaps"], whole["gaps"])
            order = [frame["gap"] for frame in frames[:-1] if frame.get("text")]
            self.assertEqual(order == sorted(order), spans == "sequential")
            for gap in whole["gaps"]:
                parts = [one for one in frames[:-1] if one["gap"] == gap["index"]]
                self.assertEqual("".join(part.get("text", "") for part in parts), gap["text"])
                self.assertEqual([part.get("finish_reason") for part in parts],
                                 [None] * (len(parts) - 1) + ["length"])


@unittest.skipIf(not TINY, "variants of it")
class Variants(Base):
    def test_fill_of_a_fim_model(self):
        """The token that ends a fill has no entry, whole or streamed."""
        with serve(Variant().byte_level(FIM)) as server:
            ends = 0
            for seed in range(8):
                sums = self.both(COMPLETIONS, {
                    "prompt": "a b ", "suffix": " c", "max_tokens": 8, "n": 3, "logprobs": seed % 3,
                    "temperature": 2, "seed": seed, "logit_bias": {str(257 + 1): 4}}, server)
                for choice in sums.choices.values():
                    tokens = (choice["logprobs"] or {"tokens": []})["tokens"]
                    self.assertNotIn("</s>", tokens)
                    ends += choice["finish_reason"] == "stop" and len(tokens) > 0
            self.assertGreater(ends, 3)

    def test_gap_of_no_token_of_a_fim_model(self):
        """Its end is told like that of every other, though nothing was sampled."""
        body = {"text": "a [gap] b [gap] c", "mode": "fim", "until": "length", "max_tokens": 0}
        with serve(Variant().byte_level(FIM)) as server:
            for spans in ("sequential", "independent"):
                frames = ok(server, "/infill", {**body, "spans": spans, "stream": True}).frames
                ends = [one["gap"] for one in frames[:-1] if one.get("finish_reason") == "length"]
                self.assertEqual(sorted(ends), [0, 1])

    def test_failure_of_one_choice(self):
        """The others are told; then the failure, and no mark of a good end."""
        broken = 3 + ord("z")
        with serve(Variant().overflowing(broken)) as server:
            client = Client(server.port)
            client.send_request("POST", COMPLETIONS, {
                "prompt": [[1, 5], [1, broken]], "max_tokens": 4, "stream": True,
                "ignore_eos": True, "logit_bias": {str(broken): -100}})
            self.assertEqual(client.head().status, 200)
            *frames, failure = [real.strict_json(frame.removeprefix("data: "))
                                for frame in client.frames()]
            client.close()
            self.assertEqual({frame["choices"][0]["index"] for frame in frames}, {0})
            self.assertEqual(frames[-1]["choices"][0]["finish_reason"], "length")
            self.assertEqual(failure["error"]["code"], "non_finite")


@unittest.skipIf(not TINY, "the same, slowly")
class Readers(Base):
    CONTEXT = 1024
    BODY = {"prompt": ["the", "a"], "n": 4, "max_tokens": 200, "temperature": 1, "seed": 1,
            "ignore_eos": True, "logprobs": 5, "stream": True}

    def open(self, **more):
        client = Client(self.server.port, 60 * real.SCALE, receive_buffer=4096)
        client.send(compose("POST", COMPLETIONS, {**self.BODY, **more}))
        return client

    def paused(self):
        now = steps(self.server)
        time.sleep(0.3)
        return steps(self.server) == now

    def test_late_reader(self):
        """All its choices pause, others go on; what is held is bounded, and nothing is lost."""
        before = self.server.resident_bytes()
        client = self.open()
        wait_for(lambda: self.server.metrics()["magnetd_sequences_running"] == 8, "all run")
        wait_for(self.paused, "all pause", 60 * real.SCALE)
        self.assertEqual(self.server.metrics()["magnetd_sequences_running"], 8)
        if real.SCALE == 1:
            self.assertLess(self.server.resident_bytes() - before, 24 << 20)
        ok(self.server, "/generate", {"inputs": "the", "parameters": {"max_new_tokens": 4}})
        frames = real.check_reply(COMPLETIONS, client.reply()).frames
        client.close()
        whole = ok(self.server, COMPLETIONS, {**self.BODY, "stream": False}).value
        self.assertEqual(Sums(frames, False).choices, choices_of(whole, False))

    def test_deadline(self):
        """Of a client that does not read: an error ends the stream, once, and [DONE] does not."""
        client = self.open(timeout_ms=600 * real.SCALE)
        client.head()
        wait_for(lambda: self.server.metrics()["magnetd_sequences_running"] == 8, "all run")
        wait_for(lambda: self.server.metrics()["magnetd_sequences_running"] == 0, "its end")
        frames = list(client.frames())
        client.close()
        self.assertIn('"error"', frames[-1])
        self.assertEqual(sum('"error"' in frame for frame in frames), 1)
        self.assertNotIn("data: [DONE]", frames)

    def test_client_leaves(self):
        for frames in (0, 1, 40):
            client = self.open()
            client.head()
            reader = client.frames()
            for _ in range(frames):
                next(reader)
            client.close()
            wait_for(lambda: self.server.metrics()["magnetd_sequences_running"] == 0, "its end")


if __name__ == "__main__":
    if MODEL == "default":
        real.need_default_model()
    unittest.main()
