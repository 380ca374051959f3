"""Goal: LiteLLM's functions work against the server as against any it calls OpenAI-compatible.

Method: litellm from PyPI (packages.py; large) over the default model, told the server's address and
the provider it has for such servers. It reads its list of prices from its own folder.
"""
import os
import sys
import unittest

import packages
import real

MODEL = sys.argv.pop(1)
CHAT = [{"role": "user", "content": "Name a colour."}]


class LiteLlm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = real.start(MODEL, "--model-alias", "local")
        cls.common = {"api_base": f"http://127.0.0.1:{cls.server.port}/v1", "api_key": "none",
                      "num_retries": 0, "timeout": 60}
        cls.text = {"temperature": 0, "max_tokens": 6, **cls.common}

    @classmethod
    def tearDownClass(cls):
        real.settled(cls.server)
        with cls.server:
            pass

    def test_completion(self):
        whole = litellm.completion(model="openai/local", messages=CHAT, **self.text)
        text = whole.choices[0].message.content
        self.assertTrue(text)
        self.assertLessEqual(whole.usage.completion_tokens, 6)
        chunks = litellm.completion(model="openai/local", messages=CHAT, stream=True, **self.text)
        self.assertEqual("".join(chunk.choices[0].delta.content or "" for chunk in chunks), text)

    def test_text_completion(self):
        for provider in ("text-completion-openai", "openai"):
            options = {"model": f"{provider}/local", "prompt": "Once upon a time", **self.text}
            text = litellm.text_completion(**options).choices[0].text
            self.assertTrue(text)
            chunks = litellm.text_completion(stream=True, **options)
            self.assertEqual("".join(chunk.choices[0].text or "" for chunk in chunks), text)

    def test_embedding(self):
        texts = ["red fox", "blue whale"]
        reply = litellm.embedding(model="openai/local", input=texts, **self.common)
        served = real.ok(self.server, "/v1/embeddings", {"input": texts}).value["data"]
        for one, other in zip(reply.data, served, strict=True):
            for a, b in zip(one["embedding"], other["embedding"], strict=True):
                self.assertAlmostEqual(a, b, delta=1e-6)
        self.assertGreater(reply.usage.prompt_tokens, 0)

    def test_moderation(self):
        reply = litellm.moderation(input="I baked bread.", model="omni-moderation-latest",
                                   **self.common)
        self.assertEqual([result.flagged for result in reply.results], [False])

    def test_rerank(self):
        """By each provider whose form of the reply is this server's."""
        body = {"query": "an animal", "documents": ["a bank", "a red fox"]}
        served = real.ok(self.server, "/v1/rerank", body).value["results"]
        for provider, path in (("hosted_vllm", "/v1"), ("jina_ai", "/v1"), ("huggingface", ""),
                               ("cohere", "/v1/rerank")):
            reply = litellm.rerank(model=f"{provider}/local", api_key="none",
                                   api_base=f"http://127.0.0.1:{self.server.port}{path}", **body)
            self.assertEqual([(one["index"], one["relevance_score"]) for one in reply.results],
                             [(one["index"], one["relevance_score"]) for one in served], provider)

    def test_responses(self):
        options = {"model": "openai/local", "input": "Name a colour.", "temperature": 0,
                   "max_output_tokens": 16, **self.common}
        text = litellm.responses(**options).output_text
        self.assertTrue(text)
        events = litellm.responses(stream=True, **options)
        self.assertEqual("".join(event.delta for event in events
                                 if event.type == "response.output_text.delta"), text)

    def test_errors(self):
        """Each by the class that it has for the status and the code."""
        with self.assertRaises(litellm.NotFoundError):
            litellm.completion(model="openai/other", messages=CHAT, **self.text)
        with self.assertRaises(litellm.ContextWindowExceededError):
            litellm.completion(model="openai/local", **self.text,
                               messages=[{"role": "user", "content": "the " * 3000}])


if __name__ == "__main__":
    real.need_default_model()
    packages.load("litellm==1.110.2", heavy=True)
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm
    unittest.main()
