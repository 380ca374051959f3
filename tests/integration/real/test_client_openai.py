"""Goal: the `openai` Python package works against the server as it is, without a line of glue.

Method: the package itself, one pinned version from PyPI (packages.py), over the default model.
"""
import asyncio
import sys
import unittest
from typing import Literal

import packages
import real

MODEL = sys.argv.pop(1)
CHAT = [{"role": "user", "content": "Name a colour."}]


class Client(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = real.start(MODEL, "--model-alias", "gpt-4o")
        cls.client = openai.OpenAI(base_url=f"http://127.0.0.1:{cls.server.port}/v1",
                                   api_key="none", max_retries=0, timeout=60 * real.SCALE)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        real.settled(cls.server)
        with cls.server:
            pass

    def test_models(self):
        [model] = self.client.models.list().data
        self.assertEqual(self.client.models.retrieve("gpt-4o").id, model.id)
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.models.retrieve("gpt-5")
        self.assertEqual(caught.exception.code, "model_not_found")

    def test_chat(self):
        options = {"model": "gpt-4o", "messages": CHAT, "temperature": 0, "max_tokens": 6}
        whole = self.client.chat.completions.create(**options, logprobs=True, top_logprobs=2)
        [choice] = whole.choices
        self.assertTrue(choice.message.content)
        self.assertIn(choice.finish_reason, ("stop", "length"))
        self.assertEqual("".join(entry.token for entry in choice.logprobs.content),
                         choice.message.content)
        self.assertEqual([len(entry.top_logprobs) for entry in choice.logprobs.content],
                         [2] * len(choice.logprobs.content))
        chunks = list(self.client.chat.completions.create(
            **options, stream=True, stream_options={"include_usage": True}))
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        self.assertEqual(text, choice.message.content)
        self.assertEqual(chunks[-1].usage.completion_tokens, whole.usage.completion_tokens)
        several = self.client.chat.completions.create(**options, n=2)
        self.assertEqual([one.message.content for one in several.choices], [text, text])
        parts = ["", ""]
        for chunk in self.client.chat.completions.create(**options, n=2, stream=True):
            parts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
        self.assertEqual(parts, [text, text])

    def test_responses(self):
        """The first example of the package's own page."""
        options = {"model": "gpt-4o", "instructions": "Be short.", "input": "Name a colour.",
                   "temperature": 0, "max_output_tokens": 6}
        whole = self.client.responses.create(**options)
        self.assertTrue(whole.output_text)
        events = list(self.client.responses.create(**options, stream=True))
        self.assertEqual("".join(event.delta for event in events
                                 if event.type == "response.output_text.delta"), whole.output_text)
        self.assertEqual(events[-1].response.usage.output_tokens, whole.usage.output_tokens)

    def test_parsed(self):
        """The answer as an object of a class of the caller's, whole and from a stream."""
        class Pick(pydantic.BaseModel):
            colour: Literal["red", "blue"]
            sure: bool

        chat = self.client.chat.completions
        options = {"model": "gpt-4o", "messages": CHAT, "temperature": 0}
        parsed = chat.parse(**options, response_format=Pick).choices[0].message.parsed
        self.assertIsInstance(parsed, Pick)
        with chat.stream(**options, response_format=Pick) as stream:
            final = stream.get_final_completion()
        self.assertEqual(final.choices[0].message.parsed, parsed)
        with self.assertRaises(openai.LengthFinishReasonError):
            chat.parse(**options, response_format=Pick, max_tokens=3)
        options = {"model": "gpt-4o", "input": CHAT, "temperature": 0, "text_format": Pick}
        self.assertEqual(self.client.responses.parse(**options).output_parsed, parsed)
        with self.client.responses.stream(**options) as stream:
            deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
            final = stream.get_final_response()
        self.assertEqual(final.output_parsed, parsed)
        self.assertEqual("".join(deltas), final.output_text)
        self.assertGreater(len(deltas), 1)

    def test_async(self):
        options = {"model": "gpt-4o", "messages": CHAT, "temperature": 0, "max_tokens": 6}
        expected = self.client.chat.completions.create(**options).choices[0].message.content

        async def ask():
            async with openai.AsyncOpenAI(base_url=self.client.base_url, api_key="none",
                                          max_retries=0, timeout=60) as client:
                create = client.chat.completions.create
                replies = await asyncio.gather(*[create(**options) for _ in range(3)])
                stream = await create(**options, stream=True)
                parts = [chunk.choices[0].delta.content or "" async for chunk in stream]
                models = [model.id async for model in client.models.list()]
            return [reply.choices[0].message.content for reply in replies], "".join(parts), models

        texts, streamed, models = asyncio.run(ask())
        self.assertEqual(texts, [expected] * 3)
        self.assertEqual(streamed, expected)
        self.assertEqual(models, [model.id for model in self.client.models.list()])

    def test_rate_limit(self):
        """A full server is a RateLimitError, with the header by which the package waits."""
        with real.start(MODEL, "--jobs", "1") as server:
            client = self.client.with_options(base_url=f"http://127.0.0.1:{server.port}/v1")
            with real.Client(server.port) as long:
                long.send_request("POST", "/completion", {
                    "prompt": "a", "n_predict": 900, "ignore_eos": True})
                real.wait_for(lambda: server.metrics()["magnetd_tasks_in_use"] == 1, "a full one")
                with self.assertRaises(openai.RateLimitError) as caught:
                    client.embeddings.create(model="", input="a")
            self.assertGreaterEqual(int(caught.exception.response.headers["retry-after"]), 1)
            real.settled(server)
            self.assertTrue(client.embeddings.create(model="", input="a").data)

    def test_chat_errors(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.chat.completions.create(model="gpt-4o", messages=CHAT, tools=[{
                "type": "function", "function": {"name": "f", "parameters": {}}}])
        self.assertEqual((caught.exception.code, caught.exception.param),
                         ("unsupported_field", "tools"))

    def test_completions(self):
        options = {"model": "", "prompt": "Once upon a time", "temperature": 0, "max_tokens": 6}
        choice = self.client.completions.create(**options, logprobs=1, echo=True).choices[0]
        self.assertTrue(choice.text.startswith("Once upon a time"))
        self.assertEqual("".join(choice.logprobs.tokens), choice.text)
        stream = self.client.completions.create(**options, stream=True)
        self.assertEqual("Once upon a time" + "".join(chunk.choices[0].text for chunk in stream),
                         choice.text)
        options = {**options, "prompt": ["Once", "Red"], "n": 2, "temperature": 1, "seed": 1}
        texts = [""] * 4
        for chunk in self.client.completions.create(**options, stream=True):
            texts[chunk.choices[0].index] += chunk.choices[0].text
        self.assertEqual(texts, [choice.text for choice in
                                 self.client.completions.create(**options).choices])
        filled = self.client.completions.create(
            model="", prompt="She went to the", suffix=" to buy some bread.", max_tokens=4)
        self.assertTrue(filled.choices[0].text)
        many = self.client.completions.create(model="", prompt=["a", "b"], max_tokens=1, n=2)
        self.assertEqual([one.index for one in many.choices], [0, 1, 2, 3])

    def test_embeddings(self):
        texts = ["red fox", "blue whale"]
        plain = self.client.embeddings.create(model="", input=texts)  # base64 on the wire
        numbers = self.client.embeddings.create(model="", input=texts, encoding_format="float")
        for one, other in zip(plain.data, numbers.data, strict=True):
            self.assertEqual(len(one.embedding), len(other.embedding))
            for a, b in zip(one.embedding, other.embedding):
                self.assertAlmostEqual(a, b, delta=1e-7)
        short = self.client.embeddings.create(model="", input=texts, dimensions=8)
        self.assertEqual(len(short.data[1].embedding), 8)
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.embeddings.create(model="", input=["a", "the " * 3000])
        self.assertEqual((caught.exception.code, caught.exception.param),
                         ("context_length_exceeded", "input[1]"))

    def test_moderations(self):
        reply = self.client.moderations.create(model="omni-moderation-latest",
                                               input=["I baked bread.", "Tea is hot."])
        self.assertEqual(len(reply.results), 2)
        self.assertFalse(reply.results[0].categories.violence)
        self.assertEqual(reply.results[0].category_scores.self_harm, 0)
        chat = self.client.chat.completions.create(
            model="", messages=[{"role": "user", "content": "Hi."}], max_tokens=1,
            moderation={"model": "omni-moderation-latest",
                        "policy": {"output": {"mode": "score"}}})
        self.assertIs(chat.moderation.input.results[0].categories["violence"], False)
        self.assertEqual(chat.moderation.output.type, "moderation_results")


if __name__ == "__main__":
    real.need_default_model()
    packages.load("openai==3.57.0")
    import openai
    import pydantic
    unittest.main()
