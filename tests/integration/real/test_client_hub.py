"""Goal: huggingface_hub's InferenceClient works against the server as it does against TEI and TGI.

Method: the package from PyPI (packages.py) over the default model. Its tasks post to the address
they are given as the model, so each is given its route; chat_completion finds its own, and calls
the model at an address "dummy".
"""
import asyncio
import sys
import unittest

import packages
import real

MODEL = sys.argv.pop(1)
PROMPT = "Once upon a time"


class Hub(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = real.start(MODEL, "--model-alias", "dummy")
        cls.base = f"http://127.0.0.1:{cls.server.port}"

    @classmethod
    def tearDownClass(cls):
        real.settled(cls.server)
        with cls.server:
            pass

    def client(self, route):
        return InferenceClient(model=self.base + route, timeout=60)

    def test_feature_extraction(self):
        client = self.client("/embed")
        served = real.ok(self.server, "/embed", {"inputs": "red fox"}).value
        vectors = client.feature_extraction("red fox")
        self.assertEqual(vectors.shape, (1, len(served[0])))
        for a, b in zip(vectors[0], served[0]):
            self.assertAlmostEqual(float(a), b, delta=1e-6)
        short = client.feature_extraction(["red fox", "blue whale"], normalize=True, truncate=True,
                                          truncation_direction="left", dimensions=8)
        self.assertEqual(short.shape, (2, 8))
        with self.assertRaises(HfHubHTTPError) as caught:
            client.feature_extraction("red fox", prompt_name="query")
        self.assertEqual(caught.exception.response.status_code, 422)

    def test_sentence_similarity(self):
        texts = ["a fox", "a bank"]
        found = self.client("/similarity").sentence_similarity("red fox", other_sentences=texts)
        self.assertEqual(found, real.ok(self.server, "/similarity", {"inputs": {
            "source_sentence": "red fox", "sentences": texts}}).value)

    def test_text_classification(self):
        """The class takes the first of the labels, and zero_shot_classification is another task."""
        client, text = self.client("/predict"), "I baked bread."
        best, _ = real.ok(self.server, "/predict", {"inputs": text}).value
        label = client.text_classification(text)
        self.assertEqual((label.label, label.score), (best["label"], best["score"]))
        with self.assertRaises(HfHubHTTPError) as caught:
            client.zero_shot_classification(text, ["food", "war"])
        self.assertIn("not supported", str(caught.exception))

    def test_what_is_served(self):
        client = InferenceClient(self.base, provider="hf-inference", timeout=60)
        self.assertIs(client.health_check(), True)
        self.assertEqual(client.get_endpoint_info(), real.ok(self.server, "/info").value)

    def test_grammar(self):
        schema = {"type": "object", "additionalProperties": False, "required": ["colour"],
                  "properties": {"colour": {"enum": ["red", "blue"]}}}
        for kind, value, expected in (("json", schema, r'\{\s*"colour":\s*"(red|blue)"\s*\}'),
                                      ("regex", "(red|blue)", "red|blue")):
            text = self.client("/generate").text_generation(
                "Pick a colour:", max_new_tokens=24, grammar={"type": kind, "value": value})
            self.assertRegex(text, f"^({expected})$")

    def test_async(self):
        async def ask():
            async with AsyncInferenceClient(self.base + "/generate", timeout=60) as client:
                stream = await client.text_generation(PROMPT, max_new_tokens=6, stream=True)
                return "".join([part async for part in stream])

        self.assertEqual(asyncio.run(ask()),
                         self.client("/generate").text_generation(PROMPT, max_new_tokens=6))

    def test_text_generation(self):
        client = self.client("/generate")
        options = {"max_new_tokens": 6, "do_sample": False, "stop": ["zzz"]}
        text = client.text_generation(PROMPT, **options)
        self.assertTrue(text)
        whole = client.text_generation(PROMPT, details=True, decoder_input_details=True,
                                       top_n_tokens=2, **options)
        self.assertEqual(whole.generated_text, text)
        self.assertEqual("".join(token.text for token in whole.details.tokens), text)
        self.assertEqual(whole.details.generated_tokens, 6)
        self.assertEqual(whole.details.finish_reason, "length")
        self.assertIsNone(whole.details.prefill[0].logprob)
        self.assertEqual([len(tokens) for tokens in whole.details.top_tokens], [2] * 6)
        self.assertEqual(client.text_generation(PROMPT, return_full_text=True, **options),
                         PROMPT + text)
        sampled = client.text_generation(PROMPT, max_new_tokens=6, do_sample=True, seed=7, top_k=20,
                                         top_p=0.9, temperature=0.7, repetition_penalty=1.1)
        self.assertTrue(sampled)

    def test_stream(self):
        options = {"max_new_tokens": 6, "stream": True}
        text = self.client("/generate").text_generation(PROMPT, max_new_tokens=6)
        for route in ("/generate", "/generate_stream"):
            client = self.client(route)
            self.assertEqual("".join(client.text_generation(PROMPT, **options)), text)
            events = list(client.text_generation(PROMPT, details=True, **options))
            self.assertEqual("".join(event.token.text for event in events), text)
            self.assertEqual([event.index for event in events], [1, 2, 3, 4, 5, 6])
            self.assertEqual(events[-1].generated_text, text)
            self.assertEqual(events[-1].details.generated_tokens, 6)

    def test_refused(self):
        """Its own exception for what TGI calls a validation error."""
        with self.assertRaises(ValidationError):
            self.client("/generate").text_generation(PROMPT, max_new_tokens=4, top_p=1.5)

    def test_chat_completion(self):
        messages = [{"role": "user", "content": "Name a colour."}]
        options = {"messages": messages, "max_tokens": 6, "temperature": 0}
        for client in (InferenceClient(self.base, timeout=60), self.client("/v1"),
                       InferenceClient(base_url=f"{self.base}/v1", api_key="none", timeout=60)):
            whole = client.chat_completion(**options, logprobs=True, top_logprobs=2)
            [choice] = whole.choices
            self.assertEqual("".join(token.token for token in choice.logprobs.content),
                             choice.message.content)
            chunks = list(client.chat.completions.create(
                **options, stream=True, stream_options={"include_usage": True}))
            self.assertEqual("".join(chunk.choices[0].delta.content or "" for chunk in chunks
                                     if chunk.choices), choice.message.content)
            self.assertEqual(chunks[-1].usage.completion_tokens, whole.usage.completion_tokens)


if __name__ == "__main__":
    real.need_default_model()
    packages.load("huggingface-hub==2.4.0", "numpy==2.4.6")
    from huggingface_hub import AsyncInferenceClient, InferenceClient
    from huggingface_hub.errors import HfHubHTTPError, ValidationError
    unittest.main()
