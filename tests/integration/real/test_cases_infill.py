"""Goal: a gap is laid out as the model was trained, in ids, whatever family it is of, and a client
that leaves takes nothing from another (cases I1 I3 I5 I9; I2 I4 I8 are in test_answers.py and I7 in
test_refusals.py).

Method: the tiny model under vocabularies with the control tokens of each family. A prompt is judged
by its text, control tokens spelled out, by its count of tokens, and by the model: what it answers,
with which log-probabilities, must be what /generate answers to the same ids.
"""
import sys
import tempfile
import unittest

import real
from harness import Client, queue_depth, wait_for
from real import ask, held_stream, ok, refused
from variants import Variant

MODEL = sys.argv.pop(1)
DEEPSEEK = "<\uff5cfim\u2581%s\uff5c>"
STARCODER = ["<fim_prefix>", "<fim_middle>", "<fim_suffix>", "<fim_pad>", "<repo_name>",
             "<file_sep>", "<|endoftext|>"]
# Family, SentencePiece or not, its control tokens, those of the prompt for ab[gap]cd, further ends.
FAMILIES = [
    ("StarCoder2", False, STARCODER, "<fim_prefix>ab<fim_suffix>cd<fim_middle>"),
    ("SantaCoder", False, ["<fim-prefix>", "<fim-middle>", "<fim-suffix>", "<fim-pad>"],
     "<fim-prefix>ab<fim-suffix>cd<fim-middle>"),
    ("CodeLlama", True, ["\u2581<PRE>", "\u2581<SUF>", "\u2581<MID>", "\u2581<EOT>"],
     "<PRE>ab<SUF>cd<MID>"),
    ("Qwen2.5-Coder", False, ["<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>",
                              "<|repo_name|>", "<|file_sep|>", "<|endoftext|>"],
     "<|fim_prefix|>ab<|fim_suffix|>cd<|fim_middle|>"),
    ("DeepSeek-Coder", False, [DEEPSEEK % "hole", DEEPSEEK % "begin", DEEPSEEK % "end",
                               "<\uff5cend\u2581of\u2581sentence\uff5c>"],
     DEEPSEEK % "begin" + "ab" + DEEPSEEK % "hole" + "cd" + DEEPSEEK % "end"),
    ("CodeGemma", True, ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>",
                         "<|file_separator|>"],
     "<|fim_prefix|>ab<|fim_suffix|>cd<|fim_middle|>"),
    ("Codestral", True, ["[SUFFIX]", "[PREFIX]"], "[SUFFIX]cd[PREFIX]ab"),
    ("Seed-Coder", False, ["<[fim-suffix]>", "<[fim-prefix]>", "<[fim-middle]>"],
     "<[fim-suffix]>cd<[fim-prefix]>ab<[fim-middle]>"),
]


def variant_of(family):
    _, sentencepiece, control, _ = family
    if not sentencepiece:
        return Variant().byte_level(["<s>", "</s>", *control])
    variant = Variant()
    variant.control_tokens(control)
    return variant


def without_spaces(text):
    """SentencePiece shows a space before the first word of a text."""
    return text.replace(" ", "").replace("\u2581", "")


class Base(unittest.TestCase):
    def serve(self, variant, *flags):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return real.Server("--log-level", "warn", *flags, model=str(variant.write(folder.name)),
                           binary=real.BINARY)


class Families(Base):
    def test_i3_fim_tokens_are_found(self):
        for family in FAMILIES:
            with self.subTest(family=family[0]), self.serve(variant_of(family)) as server:
                self.check_family(server, *family)
                real.settled(server)

    def check_family(self, server, name, sentencepiece, control, layout):
        modes = ok(server, "/info").value["infill"]["modes"]
        self.assertEqual(modes[0], "fim")
        body = {"input_prefix": "ab", "input_suffix": "cd", "n_predict": 1}
        reply = ok(server, "/infill", body).value
        bos = "<s>" if sentencepiece else ""
        self.assertEqual(without_spaces(reply["prompt"]), bos + without_spaces(layout))
        gaps = ok(server, "/infill", {"text": "ab[gap]cd", "max_tokens": 1}).value
        self.assertEqual(gaps["mode"], "fim")
        self.assertEqual(gaps["usage"]["prompt_tokens"], reply["tokens_evaluated"])
        self.check_ends(server, control)
        self.check_spelled(server, control)

    def check_ends(self, server, control):
        """Each of the family's tokens ends a fill and shows nothing of itself."""
        for spelling in control:
            [token] = ok(server, "/tokenize", {"content": spelling}).value["tokens"][-1:]
            reply = ok(server, "/infill", {"input_prefix": "ab", "input_suffix": "cd",
                                           "n_predict": 5, "temperature": 0,
                                           "logit_bias": [[token, 100]]}).value
            self.assertEqual((reply["stop_type"], reply["content"]), ("eos", ""), spelling)

    def check_spelled(self, server, control):
        """In a user's text their spellings are text."""
        body = {"input_prefix": "ab", "input_suffix": "cd", "n_predict": 0}
        plain = ok(server, "/infill", body).value["tokens_evaluated"]
        for spelling in control:
            spelled = ok(server, "/infill", {**body, "input_suffix": "cd" + spelling}).value
            self.assertGreater(spelled["tokens_evaluated"], plain + 1, spelling)


class Layout(Base):
    def same_as_generate(self, server, body, prompt):
        """The ids of an /infill prompt: those that /generate sees for the same text."""
        settings = {"temperature": 0, "n_predict": 6, "n_probs": 1, "ignore_eos": False}
        fill = ok(server, "/infill", {**body, **settings}).value
        self.assertEqual(fill["prompt"], prompt)
        answer = ok(server, "/generate", {"inputs": prompt, "parameters": {
            "max_new_tokens": 6, "details": True, "parse_special": True,
            "decoder_input_details": True}}).value["details"]
        self.assertEqual(fill["tokens_evaluated"], len(answer["prefill"]))
        tokens = [(token["id"], token["logprob"]) for token in answer["tokens"]]
        shown = [(token["id"], token["logprob"]) for token in fill["completion_probabilities"]]
        self.assertGreater(len(shown), 1)
        self.assertEqual(shown, tokens[:len(shown)])

    def test_i1_prompt_position(self):
        body = {"input_prefix": "int a;\n", "input_suffix": "\n}", "prompt": "  b = "}
        p, s, m = "<fim_prefix>", "<fim_suffix>", "<fim_middle>"
        with self.serve(Variant().byte_level(["<s>", "</s>", *STARCODER])) as server:
            for fields, prompt in (
                    ({}, f"{p}int a;\n  b = {s}\n}}{m}"),
                    ({"prompt_position": "prefix"}, f"{p}int a;\n  b = {s}\n}}{m}"),
                    ({"prompt_position": "after_mid"}, f"{p}int a;\n{s}\n}}{m}  b = "),
                    ({"fim_order": "spm"}, f"{p}{s}\n}}{m}int a;\n  b = "),
                    ({"fim_order": "spm", "prompt_position": "after_mid"},
                     f"{p}{s}\n}}{m}int a;\n  b = "),
                    ({"prompt": ""}, f"{p}int a;\n{s}\n}}{m}")):
                with self.subTest(**fields):
                    self.same_as_generate(server, {**body, **fields}, prompt)
            refused(server, "/infill", {**body, "prompt_position": "middle"}, 400,
                    "/prompt_position")
        with real.start(MODEL, "--log-level", "warn") as server:  # without FIM tokens: the prefix
            for position in ("prefix", "after_mid"):
                reply = ask(server, "/infill", {"input_prefix": "a", "input_suffix": "b",
                                                "prompt": "c", "prompt_position": position,
                                                "mode": "hybrid", "n_predict": 1})
                self.assertEqual(reply.value["prompt"].replace(" ", ""), "<s>acb")


    def test_i5_long_sides_of_a_fim_model(self):
        """Sides of 50,000: what is next to the gap stays, three quarters and one; a side that is
        short leaves its share to the other, and extra files come last."""
        context, budget, specials = 512, 16, 6
        window = context - budget - specials
        prefix, suffix = "p" * 50000 + "L", "R" + "s" * 50000
        extra = [{"filename": "x", "text": "e" * 300}, {"filename": "y", "text": "f" * 20}]
        variant = Variant().byte_level(["<s>", "</s>", *STARCODER]).context(context)
        with self.serve(variant) as server:
            for left, right, files, shares in (
                    (prefix, suffix, [], (window - window // 4, window // 4, 0)),
                    (prefix, suffix, extra, (window - window // 4, window // 4, 0)),
                    ("L", suffix, [], (1, window - 1, 0)), (prefix, "R", [], (window - 1, 1, 0)),
                    ("L", "R", extra, (1, 1, 320))):
                reply = ok(server, "/infill", {
                    "input_prefix": left, "input_suffix": right, "input_extra": files,
                    "n_predict": budget}).value
                text = reply["prompt"]
                self.assertIn("L<fim_suffix>R", text)
                self.assertEqual(reply["truncated"], (left, right) != ("L", "R"))
                for token in STARCODER:
                    text = text.replace(token, "|")
                files_shown = text.count("e") + text.count("f")
                self.assertEqual((text.count("p") + 1, text.count("s") + 1, files_shown), shares)


class Leaving(Base):
    def test_i9_one_that_waits_and_leaves_takes_nothing(self):
        """A runs and has the only sequence, B waits and leaves: A's answer is what it is alone."""
        bodies = [("/infill", {"text": "a [gap] b", "max_tokens": 5}),
                  ("/infill", {"input_prefix": "a", "input_suffix": "b", "n_predict": 5}),
                  ("/generate_stream", {"inputs": "a"})]
        with self.serve(Variant().context(1024), "--sequences", "1") as server:
            with held_stream(server, 1000) as client:
                alone = client.reply().body
            for path, body in bodies:
                for how in ("fin", "rst"):
                    with self.subTest(path=path, how=how):
                        self.run_beside(server, path, body, how, alone)
            real.settled(server)

    def run_beside(self, server, path, body, how, alone):
        def cancelled():
            return sum(value for name, value in server.metrics().items()
                       if name.startswith("magnetd_requests_finished_total") and
                       "cancelled" in name)
        with held_stream(server, 1000) as client:
            wait_for(lambda: server.metrics()["magnetd_sequences_running"] == 1, "A runs")
            before = cancelled()
            waiting = Client(server.port)
            waiting.send_request("POST", path, body)
            wait_for(lambda: queue_depth(server.metrics()) == 1, "B waits")
            waiting.close() if how == "fin" else waiting.reset()
            wait_for(lambda: cancelled() == before + 1, "B is gone")
            self.assertEqual(server.metrics()["magnetd_sequences_running"], 1)
            self.assertEqual(client.reply().body, alone)


if __name__ == "__main__":
    unittest.main()
