#!/usr/bin/env python3
"""Scores a multiple-choice task twice and compares: lm-eval's client over /v1/completions, and the
log-probabilities of /generate.

    PYTHONPATH=FOLDER python3 tests/bench/eval_choice.py http://127.0.0.1:8080 [--data DIR]
        [--items 50] [--seed 1]

FOLDER has lm-eval's package (pip install --target FOLDER 'lm-eval[api]==0.4.13'). Needs a running
server and the data sets of tests/README (../shared/data, or MAGNETD_DATA); nothing is downloaded.

An item is a paragraph of WikiText-2's valid text, cut before a word, with that word and three of
other items to choose from. lm-eval's local-completions client sends ids and asks for echo and
logprobs. It is given the server's own /tokenize as its tokenizer, since all of its own download
one. The second score is the text's as a whole, by decoder_input_details. Its largest difference is
that of one continuation's log-likelihood.
"""
import argparse
import json
import os
import pathlib
import random
import tempfile
import urllib.request

WIKITEXT = "wikitext2-tinyshakespeare/word_language_model/data/wikitext-2/valid.txt"
WORDS = 40
CHOICES = 4


def ask(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as reply:
        return json.load(reply)


class Tokenizer:
    def __init__(self, server):
        self.server = server

    def encode(self, text):
        return ask(f"{self.server}/tokenize", {"content": text})["tokens"]


def make_items(options):
    rng = random.Random(options.seed)
    paragraphs = [line.split() for line in
                  (options.data / WIKITEXT).read_text(encoding="utf-8").splitlines()]
    excerpts = [words[:WORDS] for words in paragraphs
                if len(words) >= WORDS and words[WORDS - 1].isalpha()]
    chosen = rng.sample(excerpts, options.items)
    items = []
    for words in chosen:
        others = sorted({other[-1] for other in chosen} - {words[-1]})
        choices = [words[-1], *rng.sample(others, CHOICES - 1)]
        rng.shuffle(choices)
        items.append({"context": " ".join(words[:-1]), "choices": choices,
                      "answer": choices.index(words[-1])})
    return items


def by_lm_eval(server, items):
    """Accuracy, and the log-likelihood of each choice of each item."""
    os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HF_HOME"] = folder
        from lm_eval import evaluator
        from lm_eval.models.openai_completions import LocalCompletionsAPI
        file = pathlib.Path(folder) / "items.jsonl"
        file.write_text("".join(json.dumps(item) + "\n" for item in items))
        client = LocalCompletionsAPI(base_url=f"{server}/v1/completions", model="",
                                     tokenizer_backend=None, batch_size=4, max_length=512)
        client.tokenizer, client.tokenizer_backend = Tokenizer(server), "server"
        client.tokenized_requests = True
        task = {"task": "last_word", "output_type": "multiple_choice", "test_split": "test",
                "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(file)}},
                "doc_to_text": "{{context}}", "doc_to_choice": "{{choices}}",
                "doc_to_target": "{{answer}}", "metric_list": [{"metric": "acc"}]}
        result = evaluator.simple_evaluate(model=client, tasks=[task], bootstrap_iters=0,
                                           torch_random_seed=None)
    samples = sorted(result["samples"]["last_word"], key=lambda sample: sample["doc_id"])
    scores = [[float(one[0]) for one in sample["filtered_resps"]] for sample in samples]
    return result["results"]["last_word"]["acc,none"], scores


def by_generate(server, items):
    scores = []
    for item in items:
        before = len(Tokenizer(server).encode(item["context"]))
        of_item = []
        for choice in item["choices"]:
            reply = ask(f"{server}/generate", {
                "inputs": f"{item['context']} {choice}",
                "parameters": {"max_new_tokens": 1, "details": True,
                               "decoder_input_details": True}})
            tokens = reply["details"]["prefill"]
            of_item.append(sum(token["logprob"] for token in tokens[before:]))
        scores.append(of_item)
    right = sum(of_item.index(max(of_item)) == item["answer"]
                for of_item, item in zip(scores, items))
    return right / len(items), scores


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("server")
    parser.add_argument("--data", type=pathlib.Path, default=os.environ.get(
        "MAGNETD_DATA", pathlib.Path(__file__).parents[2].parent / "shared/data"))
    parser.add_argument("--items", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.data = pathlib.Path(options.data)
    items = make_items(options)
    accuracy, scores = by_lm_eval(options.server, items)
    expected, others = by_generate(options.server, items)
    difference = max(abs(a - b) for one, other in zip(scores, others, strict=True)
                     for a, b in zip(one, other, strict=True))
    print(f"{len(items)} items: accuracy {accuracy:.4f} by lm-eval, {expected:.4f} by /generate; "
          f"log-likelihoods differ by {difference:.2g} at most")


if __name__ == "__main__":
    main()
