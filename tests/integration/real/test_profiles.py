"""Goal: each profile of deploy/profiles gives the vectors that its authors' code would: the right
prompt around the text, the right mask, the right rows pooled.

Method: each on a tiny random model of its network. A case writes down, apart from the profile, the
whole text that the model is to see, how much of its end is pooled and how. The rows come from a
second server that knows no profile, from ids (checked against float64 by the golden tests); the
vector is made of them here. With the other mask it must come out another, so that no case is
blind.
"""
import contextlib
import json
import math
import pathlib
import sys
import tempfile
import unittest

import real
from real import ok

FOLDER = real.SOURCE / "deploy" / "profiles"
EOS = 2  # of the tiny vocabulary, which begins texts with 1 and ends none by itself
TEXT = "the fox at the hen house"
TASK = "Find a fox"
BOTH, CAUSAL = "bidirectional", "causal"
ADAPTERS = real.SOURCE / "tests/golden/fixtures/tiny_adapters"  # of LLAMA
LLAMA, MISTRAL, BERT = "tiny_llama/tied", "tiny_networks/mistral", "tiny_networks/bert"
NOMIC, QWEN = "tiny_networks/nomic_bert", "tiny_networks/qwen3"
GEMMA = "tiny_networks/gemma_embedding"
HEAD = "<|start_header_id|>user<|end_header_id|>\n\n"
SEARCH = "Given a web search query, retrieve relevant passages that answer the query"

# profile: model, mask, pooling, and for each request what the model is to see: the text (EOS behind
# it where the pooling or the text says so) and the part of it that is pooled, None for all rows.
CASES = {
    "magnet": (LLAMA, BOTH, "last", [
        ({}, f"Given the sentence, find its representation: {TEXT}</s>", None)]),
    "llm2vec-llama-3": (LLAMA, BOTH, "mean", [
        ({}, f"{HEAD}{TEXT}<|eot_id|>", f"{TEXT}<|eot_id|>"),
        ({"instruction": TASK}, f"{HEAD}{TASK} {TEXT}<|eot_id|>", f"{TEXT}<|eot_id|>"),
        ({"prompt_name": "sts"}, f"{HEAD}Retrieve semantically similar text: {TEXT}<|eot_id|>",
         f"{TEXT}<|eot_id|>")]),
    "llm2vec-mistral": (MISTRAL, BOTH, "mean", [
        ({}, f"[INST] {TEXT} [/INST]", f"{TEXT} [/INST]"),
        ({"instruction": TASK}, f"[INST] {TASK} {TEXT} [/INST]", f"{TEXT} [/INST]")]),
    "gritlm": (MISTRAL, BOTH, "mean", [
        ({}, f"<|embed|>\n{TEXT}", TEXT),
        ({"instruction": TASK}, f"<|user|>\n{TASK}\n<|embed|>\n{TEXT}", TEXT)]),
    "echo": (MISTRAL, CAUSAL, "last", [
        ({}, f"Document:{TEXT}\nDocument again:{TEXT}</s>", f"{TEXT}</s>"),
        ({"instruction": TASK}, f"Instruct:{TASK},\nQuery:{TEXT}\nQuery again:{TEXT}</s>", None),
        ({"pooling": "mean"}, f"Document:{TEXT}\nDocument again:{TEXT}</s>", f"{TEXT}</s>")]),
    "e5-v2": (BERT, BOTH, "mean", [
        ({"prompt_name": "query"}, f"query: {TEXT}", None),
        ({"prompt_name": "passage"}, f"passage: {TEXT}", None)]),
    "e5-mistral": (MISTRAL, CAUSAL, "last", [
        ({}, f"{TEXT}</s>", None),
        ({"instruction": TASK}, f"Instruct: {TASK}\nQuery: {TEXT}</s>", None),
        ({"prompt_name": "web_search_query"}, f"Instruct: {SEARCH}\nQuery: {TEXT}</s>", None)]),
    "bge-en-v1.5": (BERT, BOTH, "cls", [
        ({}, TEXT, None),
        ({"prompt_name": "query"},
         f"Represent this sentence for searching relevant passages: {TEXT}", None)]),
    "nomic-embed-v1.5": (NOMIC, BOTH, "mean", [
        ({"prompt_name": "search_query"}, f"search_query: {TEXT}", None),
        ({"prompt_name": "search_document", "dimensions": 7}, f"search_document: {TEXT}", None)]),
    "qwen3-embedding": (QWEN, CAUSAL, "last", [
        ({}, f"{TEXT}</s>", None),
        ({"instruction": TASK}, f"Instruct: {TASK}\nQuery:{TEXT}</s>", None),
        ({"prompt_name": "query"}, f"Instruct: {SEARCH}\nQuery:{TEXT}</s>", None)]),
}


def fitting(profile, size):
    """The profile for a model of the test's size, which has no adapters beside it."""
    profile.pop("adapters", None)
    if "dimensions" in profile:
        profile["dimensions"] = [n for n in profile["dimensions"] if n <= size] + [size]
    return profile


def ids_of(server, text, special):
    ends = text.endswith("</s>")
    body = {"content": text.removesuffix("</s>"), "add_special": special, "parse_special": False}
    return ok(server, "/tokenize", body).value["tokens"] + [EOS] * ends


def length_1(vector):
    length = math.sqrt(sum(x * x for x in vector))
    return [x / length for x in vector]


def layer_norm(vector):
    mean = sum(vector) / len(vector)
    variance = sum((x - mean) ** 2 for x in vector) / len(vector)
    return [(x - mean) / math.sqrt(variance + 1e-5) for x in vector]


def vector_of(plain, whole, tail, mask, pooling, body, norms):
    """From the rows of a model that knows no profile."""
    ids = ids_of(plain, whole, True)
    rows = ok(plain, "/embed_all", {"inputs": ids, "attention": mask}).value[0]
    assert len(rows) == len(ids)
    if tail is not None:
        rows = rows[-len(ids_of(plain, tail, False)):]
    pooling = body.get("pooling", pooling)
    if pooling == "mean":
        vector = [sum(column) / len(rows) for column in zip(*rows)]
    else:
        vector = rows[0 if pooling == "cls" else -1]
    if norms:
        vector = layer_norm(vector)
    vector = vector[:body.get("dimensions")]
    return vector if body.get("normalize") is False else length_1(vector)


def apart(a, b):
    assert len(a) == len(b), (len(a), len(b))
    return max(abs(x - y) for x, y in zip(a, b))


class Profiles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = contextlib.ExitStack()
        cls.folder = cls.stack.enter_context(tempfile.TemporaryDirectory())
        cls.plain = {}

    @classmethod
    def tearDownClass(cls):
        cls.stack.close()

    def without_profile(self, model):
        if model not in self.plain:
            self.plain[model] = self.stack.enter_context(real.start(model))
        return self.plain[model]

    def with_profile(self, model, name):
        size = ok(self.without_profile(model), "/info").value["embedding"]["dimensions"]
        profile = fitting(json.loads((FOLDER / f"{name}.json").read_text()), size)
        path = pathlib.Path(self.folder) / f"{name}.json"
        path.write_text(json.dumps(profile))
        return real.start(model, "--profile", str(path)), profile

    def check(self, name):
        model, mask, pooling, cases = CASES[name]
        plain = self.without_profile(model)
        server, profile = self.with_profile(model, name)
        norms = "layer_norm" in profile.get("head", [])
        with server:
            info = ok(server, "/info").value["embedding"]
            self.assertEqual(info["attention"], mask)
            self.assertEqual(info["default_prompt"], profile.get("default_prompt"))
            self.assertEqual(info["trained_dimensions"], profile.get("dimensions", []))
            self.assertEqual(info["prompts"], list(profile.get("prompts", {})))
            for body, whole, tail in cases:
                for normalize in True, False:
                    asked = {"inputs": TEXT, "normalize": normalize, **body}
                    with self.subTest(body=asked):
                        got = ok(server, "/embed", asked).value[0]
                        expected, other = (
                            vector_of(plain, whole, tail, seen, pooling, asked, norms)
                            for seen in (mask, CAUSAL if mask == BOTH else BOTH))
                        scale = max(map(abs, expected))
                        self.assertLess(apart(got, expected), 1e-5 * scale)
                        self.assertGreater(apart(got, other), 1e-2 * scale)
            real.settled(server)

    def test_token_vectors_of_magnet(self):
        """A token's vector is the row before it; the first token has none and keeps its own."""
        model = CASES["magnet"][0]
        plain = self.without_profile(model)
        with self.with_profile(model, "magnet")[0] as server:
            ids = ids_of(plain, TEXT, True)
            rows = ok(plain, "/embed_all", {"inputs": ids, "attention": BOTH}).value[0]
            tokens = ok(server, "/embed_all", {"inputs": ids}).value[0]
            self.assertEqual(tokens, rows[:1] + rows[:-1])

    def test_prompts_of_embeddinggemma(self):
        """Its vectors pass a dense head, which golden_tiny_gemma_embedding checks."""
        prompts = {"query": "task: search result | query: ", "document": "title: none | text: ",
                   "STS": "task: sentence similarity | query: "}
        plain = self.without_profile(GEMMA)
        with self.with_profile(GEMMA, "embeddinggemma")[0] as server:
            for name, prompt in prompts.items():
                ids = ids_of(plain, prompt + TEXT, True)
                expected = ok(plain, "/embed", {"inputs": ids, "pooling": "mean"}).value
                got = ok(server, "/embed", {"inputs": TEXT, "prompt_name": name}).value
                self.assertEqual(got, expected)

    def adapter_links(self, folder):
        """Adapters by the names LLM2Vec's profiles give them."""
        for name, target in (("mntp", "tied_first"), ("simcse", "tied_second.gguf")):
            (folder / name).symlink_to(ADAPTERS / target)

    def check_llm2vec(self, server, profile, adapted):
        """/embed has its adapters and its wrapper, no other mode has either."""
        plain = self.without_profile(LLAMA)
        self.assertEqual(ok(server, "/info").value["adapters"], {"embed": ["mntp", "simcse"]})
        for body, whole, tail in CASES[profile][3]:
            asked = {"inputs": TEXT, "normalize": False, **body}
            got = ok(server, "/embed", asked).value[0]
            expected, bare = (vector_of(base, whole, tail, BOTH, "mean", asked, False)
                              for base in (adapted, plain))
            scale = max(map(abs, expected))
            self.assertLess(apart(got, expected), 1e-5 * scale)
            self.assertGreater(apart(got, bare), 1e-2 * scale)
        for path, body in (("/generate", {"inputs": TEXT, "parameters": {"max_new_tokens": 8}}),
                           ("/infill", {"text": "the fox [gap] the hen.", "max_tokens": 3}),
                           ("/infill", {"text": "the fox [gap] the hen.", "max_tokens": 3,
                                        "mode": "hybrid"}),
                           ("/classify", {"inputs": [TEXT], "labels": ["pos", "neg"]})):
            self.assertEqual(*(real.without_timings(ok(one, path, body).value)
                               for one in (server, plain)), path)
        real.settled(server)

    def test_adapters_of_llm2vec(self):
        """The profiles as they are shipped: --adapter says where their adapters lie; without it
        they lie beside the profile, and when they do not the model is refused by their name."""
        for profile in ("llm2vec-llama-3", "llm2vec-mistral"):
            shipped = FOLDER / f"{profile}.json"
            with self.subTest(profile), tempfile.TemporaryDirectory() as name:
                folder = pathlib.Path(name)
                self.adapter_links(folder)
                flags = "--adapter", str(folder / "mntp"), "--adapter", str(folder / "simcse")
                with real.start(LLAMA, *flags) as adapted:
                    with real.start(LLAMA, "--profile", str(shipped), *flags) as server:
                        self.check_llm2vec(server, profile, adapted)
                    beside = folder / "any.json"
                    beside.write_bytes(shipped.read_bytes())
                    with real.start(LLAMA, "--profile", str(beside)) as server:
                        self.check_llm2vec(server, profile, adapted)
                for lost in (("--profile", str(shipped)),
                             ("--profile", str(shipped), *flags[2:])):
                    with self.assertRaises(AssertionError) as refusal:
                        with real.start(LLAMA, *lost):
                            pass
                    self.assertIn("mntp: file", str(refusal.exception))

    def test_every_profile_has_a_case(self):
        names = {path.stem for path in FOLDER.glob("*.json")}
        self.assertEqual(names, set(CASES) | {"embeddinggemma"})

    def test_sizes_past_the_model(self):
        """What fitting() takes out of Nomic's profile would be refused by name."""
        path = FOLDER / "nomic-embed-v1.5.json"
        with self.assertRaises(AssertionError) as refusal:
            with real.start(NOMIC, "--profile", str(path)):
                pass
        self.assertIn("dimensions", str(refusal.exception))


for case in CASES:
    setattr(Profiles, "test_" + case.replace("-", "_").replace(".", "_"),
            lambda self, case=case: self.check(case))

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
