"""Goal: LlamaIndex's classes for servers like OpenAI's work against the server.

Method: llama-index-llms-openai-like and -embeddings-openai-like from PyPI (packages.py; large) over
the default model; its own index then finds a text by our vectors, from memory.
"""
import sys
import unittest

import packages
import real

MODEL = sys.argv.pop(1)
TEXTS = ["The fox is red.", "Whales live in the sea."]


class LlamaIndex(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = real.start(MODEL, "--model-alias", "local")
        cls.common = {"api_base": f"http://127.0.0.1:{cls.server.port}/v1", "api_key": "none",
                      "max_retries": 0, "timeout": 60}
        cls.model = {"model": "local", "temperature": 0, "max_tokens": 6, **cls.common}

    @classmethod
    def tearDownClass(cls):
        real.settled(cls.server)
        with cls.server:
            pass

    def test_complete(self):
        model = OpenAILike(**self.model)
        text = model.complete("Once upon a time").text
        self.assertTrue(text)
        deltas = [part.delta for part in model.stream_complete("Once upon a time")]
        self.assertEqual("".join(deltas), text)

    def test_chat(self):
        model = OpenAILike(is_chat_model=True, **self.model)
        messages = [ChatMessage(role="system", content="Be short."),
                    ChatMessage(role="user", content="Name a colour.")]
        text = model.chat(messages).message.content
        self.assertTrue(text)
        deltas = [part.delta or "" for part in model.stream_chat(messages)]
        self.assertEqual("".join(deltas), text)
        self.assertTrue(model.complete("Name a colour.").text)

    def test_embeddings(self):
        model = OpenAILikeEmbedding(model_name="local", embed_batch_size=2, **self.common)
        vectors = model.get_text_embedding_batch([*TEXTS, TEXTS[0]])
        reply = real.ok(self.server, "/v1/embeddings", {"input": TEXTS})
        for vector, entry in zip(vectors, reply.value["data"]):
            for a, b in zip(vector, entry["embedding"], strict=True):
                self.assertAlmostEqual(a, b, delta=1e-6)
        for a, b in zip(vectors[2], vectors[0], strict=True):
            self.assertAlmostEqual(a, b, delta=1e-6)
        short = OpenAILikeEmbedding(model_name="local", dimensions=8, **self.common)
        self.assertEqual(len(short.get_query_embedding("fox")), 8)

    def test_index(self):
        model = OpenAILikeEmbedding(model_name="local", **self.common)
        index = VectorStoreIndex(nodes=[TextNode(text=text) for text in TEXTS], embed_model=model)
        [found] = index.as_retriever(similarity_top_k=1).retrieve(TEXTS[1])
        self.assertEqual(found.text, TEXTS[1])
        self.assertAlmostEqual(found.score, 1, delta=1e-3)


if __name__ == "__main__":
    real.need_default_model()
    packages.load("llama-index-llms-openai-like==0.8.1",
                  "llama-index-embeddings-openai-like==0.4.0", heavy=True)
    from llama_index.core import VectorStoreIndex
    from llama_index.core.llms import ChatMessage
    from llama_index.core.schema import TextNode
    from llama_index.embeddings.openai_like import OpenAILikeEmbedding
    from llama_index.llms.openai_like import OpenAILike
    unittest.main()
