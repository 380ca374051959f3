"""Goal: LangChain's classes for OpenAI work against the server, given no more than its address.

Method: langchain-openai from PyPI (packages.py) over the default model. OpenAIEmbeddings sends
token ids unless check_embedding_ctx_length is False, made by an encoding that tiktoken downloads;
here one of 256 single bytes takes its place, so that the ids are known and nothing is downloaded.
"""
import sys
import unittest
from typing import Literal

import packages
import real

MODEL = sys.argv.pop(1)
TEXTS = ["red fox", "blue whale"]


class LangChain(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = real.start(MODEL, "--model-alias", "gpt-4o")
        cls.common = {"base_url": f"http://127.0.0.1:{cls.server.port}/v1", "api_key": "none",
                      "max_retries": 0, "timeout": 60}

    @classmethod
    def tearDownClass(cls):
        real.settled(cls.server)
        with cls.server:
            pass

    def assert_close(self, vectors, others):
        for one, other in zip(vectors, others, strict=True):
            self.assertEqual(len(one), len(other))
            for a, b in zip(one, other):
                self.assertAlmostEqual(a, b, delta=1e-6)

    def served(self, texts):
        reply = real.ok(self.server, "/v1/embeddings", {"input": texts})
        return [entry["embedding"] for entry in reply.value["data"]]

    def test_chat(self):
        chat = ChatOpenAI(model="gpt-4o", temperature=0, max_tokens=6, **self.common)
        messages = [("system", "Be short."), ("human", "Name a colour.")]
        whole = chat.invoke(messages)
        self.assertTrue(whole.content)
        self.assertLessEqual(whole.usage_metadata["output_tokens"], 6)
        self.assertIn(whole.response_metadata["finish_reason"], ("stop", "length"))
        chunks = list(chat.stream(messages))
        self.assertEqual("".join(chunk.content for chunk in chunks), whole.content)
        self.assertGreater(len(chunks), 2)
        replies = chat.batch([messages, messages])
        self.assertEqual([one.content for one in replies], [whole.content] * 2)

    def test_chain(self):
        """Prompt, model, parser: the first page of its manual."""
        prompt = ChatPromptTemplate.from_messages([("human", "Name a {thing}.")])
        chat = ChatOpenAI(model="gpt-4o", temperature=0, max_tokens=6, logprobs=True, seed=1,
                          **self.common)
        answer = (prompt | chat).invoke({"thing": "colour"})
        tokens = answer.response_metadata["logprobs"]["content"]
        self.assertEqual("".join(token["token"] for token in tokens), answer.content)
        self.assertEqual((prompt | chat | StrOutputParser()).invoke({"thing": "colour"}),
                         answer.content)

    def test_responses(self):
        chat = ChatOpenAI(model="gpt-4o", temperature=0, max_tokens=6, use_responses_api=True,
                          **self.common)
        whole = chat.invoke("Name a colour.")
        self.assertTrue(whole.text)
        self.assertEqual("".join(chunk.text for chunk in chat.stream("Name a colour.")), whole.text)

    def test_structured_output(self):
        """By its default, a schema, as a class and as a dict. Its other way calls a function."""
        class Pick(pydantic.BaseModel):
            """A choice."""
            colour: Literal["red", "blue"]
            sure: bool

        schema = {"title": "Pick", "type": "object", "additionalProperties": False,
                  "properties": {"colour": {"enum": ["red", "blue"]}}, "required": ["colour"]}
        for responses in (False, True):
            chat = ChatOpenAI(model="gpt-4o", temperature=0, use_responses_api=responses,
                              **self.common)
            picked = chat.with_structured_output(Pick).invoke("Pick a colour.")
            self.assertIsInstance(picked, Pick)
            [picked] = chat.with_structured_output(schema).batch(["Pick a colour."])
            self.assertIn(picked, ({"colour": "red"}, {"colour": "blue"}))
            with self.assertRaises(BadRequestError) as caught:
                chat.with_structured_output(Pick, method="function_calling").invoke("Pick.")
            self.assertEqual(caught.exception.code, "unsupported_field")

    def test_completion(self):
        model = OpenAI(model="gpt-4o", temperature=0, max_tokens=6, **self.common)
        text = model.invoke("Once upon a time")
        self.assertTrue(text)
        self.assertEqual("".join(model.stream("Once upon a time")), text)

    def test_embeddings_of_texts(self):
        model = OpenAIEmbeddings(model="gpt-4o", check_embedding_ctx_length=False, **self.common)
        vectors = model.embed_documents(TEXTS)
        self.assert_close(vectors, self.served(TEXTS))
        self.assert_close([model.embed_query(TEXTS[0])], vectors[:1])

    def test_embeddings_of_ids(self):
        """A long text goes as several lists of ids whose vectors the class averages."""
        model = OpenAIEmbeddings(model="gpt-4o", embedding_ctx_length=8, **self.common)
        ids = [list(text.encode()) for text in TEXTS]
        vectors = model.embed_documents(TEXTS)
        self.assert_close(vectors[:1], self.served(ids[:1]))
        first, second = self.served([ids[1][:8], ids[1][8:]])
        mean = [(8 * a + 2 * b) / 10 for a, b in zip(first, second)]
        length = sum(value * value for value in mean) ** 0.5
        self.assert_close(vectors[1:], [[value / length for value in mean]])


if __name__ == "__main__":
    real.need_default_model()
    packages.load("langchain-openai==1.7.4")
    import pydantic
    import tiktoken.registry
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings
    from openai import BadRequestError
    tiktoken.registry.ENCODINGS["o200k_base"] = tiktoken.Encoding(
        "bytes", pat_str=r"[\s\S]", special_tokens={},
        mergeable_ranks={bytes([byte]): byte for byte in range(256)})
    unittest.main()
