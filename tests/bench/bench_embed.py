#!/usr/bin/env python3
"""Embedding with a sentence encoder: magnetd over HTTP beside libraries called in this process.

    python3 tests/bench/bench_embed.py FOLDER WORK [--gguf FILE] [--rounds 5] [--json FILE]
        [--only WORD,...] [--shapes long,short,many] [--threads 2]

FOLDER is all-MiniLM-L6-v2 (or another encoder with mean pooling) as a model hub lays it out, FILE
the same weights in Q8_0, WORK a place outside the repository for what is made once: the folder in
BF16, the ONNX files. Needs numpy. Peers: sentence-transformers, onnxruntime (fp32, and int8 by its
dynamic quantisation) and openvino, of those that can be imported; the ONNX file is exported by
torch with transformers and onnx. What is missing is said and left out.

Three shapes: `long`, one call with 32 texts of 234 tokens; `short`, calls with one text of 15
tokens, one after another; `many`, the same from 16 clients at once. All go from text to normalised
vector: the peers' times hold their tokenizer and pooling, ours the tokenizer, HTTP, JSON and the
client, who shares the cores. The peers have no server, so beside our 16 clients stand their calls
one after another. Contestants take turns in every round, and ratios are made within a round. A
round pauses before each, for threads that still spin after a call. Vectors are compared, so that
all did the same work.
"""
import argparse
import http.client
import importlib.util
import json
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import time

import numpy as np

# One token each in the vocabulary of BERT, which adds two to a text.
WORDS = ("the sea and town boat that came home late at night with a small dog who ran over green "
         "hills to find water before winter while people made bread near old trees").split()
LONG_TEXTS, LONG_TOKENS, SHORT_TOKENS, CLIENTS = 32, 234, 15, 16
WINDOW_S = 0.5  # of repeated short calls
PAUSE_S = 0.3
ROOT = pathlib.Path(__file__).resolve().parents[2]


def make_texts():
    draw = random.Random(11)
    return [" ".join(draw.choices(WORDS, k=LONG_TOKENS - 2)) for _ in range(LONG_TEXTS)]


LONG = make_texts()
SHORT = " ".join(WORDS[:SHORT_TOKENS - 2])


# ---- files made once ---------------------------------------------------------------------------

def bf16_folder(folder, work):
    """FOLDER with its tensors rounded to BF16."""
    out = work / "bf16"
    if out.exists():
        return out
    part = work / "bf16.part"
    shutil.copytree(folder, part, dirs_exist_ok=True)
    data = (folder / "model.safetensors").read_bytes()
    head_bytes = int.from_bytes(data[:8], "little")
    head, body, place = json.loads(data[8:8 + head_bytes]), [], 0
    for name, tensor in head.items():
        if name == "__metadata__":
            continue
        start, end = tensor["data_offsets"]
        piece = data[8 + head_bytes + start:8 + head_bytes + end]
        if tensor["dtype"] == "F32":
            bits = np.frombuffer(piece, np.uint32)
            piece = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16).tobytes()
            tensor["dtype"] = "BF16"
        tensor["data_offsets"] = [place, place + len(piece)]
        place += len(piece)
        body.append(piece)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    (part / "model.safetensors").write_bytes(
        len(text).to_bytes(8, "little") + text + b"".join(body))
    part.rename(out)
    return out


def onnx_files(folder, work):
    """The encoder as torch exports it, and with weights and activations in int8."""
    fp32, int8 = work / "model.onnx", work / "model.int8.onnx"
    if not fp32.exists():
        import torch
        from transformers import AutoModel
        names = ["input_ids", "attention_mask", "token_type_ids"]

        class Encoder(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()

            def forward(self, *inputs):
                return self.model(**dict(zip(names, inputs))).last_hidden_state

        example = tuple(torch.ones(2, 8, dtype=torch.int64) for _ in names)
        axes = {name: {0: "texts", 1: "tokens"} for name in names + ["hidden"]}
        torch.onnx.export(Encoder(), example, str(fp32), input_names=names,
                          output_names=["hidden"], dynamic_axes=axes, opset_version=17,
                          dynamo=False)
    if not int8.exists():
        from onnxruntime.quantization import QuantType, quantize_dynamic
        quantize_dynamic(str(fp32), str(int8), weight_type=QuantType.QInt8)
    return fp32, int8


# ---- contestants: vectors(texts) -> [texts, dims], and times of the three shapes -----------------

def repeat(call):
    """Median milliseconds of a call, and calls a second."""
    times, began = [], time.perf_counter()
    while time.perf_counter() - began < WINDOW_S:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3, len(times) / sum(times)


class Peer:
    """A library in this process."""
    ours = False

    def long(self):
        start = time.perf_counter()
        self.vectors(LONG)
        return time.perf_counter() - start

    def short(self):
        return repeat(lambda: self.vectors([SHORT]))[0]

    def many(self):
        return repeat(lambda: self.vectors([SHORT]))[1]

    def close(self):
        pass


class Torch(Peer):
    name = "sentence-transformers"

    def __init__(self, options):
        import torch
        from sentence_transformers import SentenceTransformer
        torch.set_num_threads(options.threads)
        self.model = SentenceTransformer(str(options.folder), device="cpu")

    def vectors(self, texts):
        return self.model.encode(texts, batch_size=len(texts), normalize_embeddings=True)


class Onnx(Peer):
    """What onnxruntime and OpenVINO share: the tokenizer before the network, pooling after it."""

    def __init__(self, options):
        from tokenizers import Tokenizer
        self.tokenizer = Tokenizer.from_file(str(options.folder / "tokenizer.json"))
        self.tokenizer.enable_padding()
        self.tokenizer.enable_truncation(256)

    def vectors(self, texts):
        encoded = self.tokenizer.encode_batch(texts)
        ids = np.array([one.ids for one in encoded], np.int64)
        mask = np.array([one.attention_mask for one in encoded], np.int64)
        hidden = self.run({"input_ids": ids, "attention_mask": mask,
                           "token_type_ids": np.zeros_like(ids)})
        weights = mask[:, :, None].astype(np.float32)
        pooled = (hidden * weights).sum(1) / weights.sum(1)
        return pooled / np.linalg.norm(pooled, axis=1, keepdims=True)


class OnnxRuntime(Onnx):
    name, file = "onnxruntime fp32", 0

    def __init__(self, options):
        super().__init__(options)
        import onnxruntime
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = options.threads
        self.session = onnxruntime.InferenceSession(
            str(onnx_files(options.folder, options.work)[self.file]), settings,
            providers=["CPUExecutionProvider"])

    def run(self, inputs):
        return self.session.run(None, inputs)[0]


class OnnxRuntimeInt8(OnnxRuntime):
    name, file = "onnxruntime int8", 1


class OpenVino(Onnx):
    name = "OpenVINO fp32"

    def __init__(self, options):
        super().__init__(options)
        import openvino
        self.model = openvino.Core().compile_model(
            str(onnx_files(options.folder, options.work)[0]), "CPU",
            {"INFERENCE_NUM_THREADS": options.threads, "PERFORMANCE_HINT": "LATENCY",
             "INFERENCE_PRECISION_HINT": "f32"})  # else it takes bf16 where the CPU has it

    def run(self, inputs):
        return self.model(inputs)[0]


class Magnetd:
    ours = True

    def __init__(self, name, model, options, more=()):
        self.name = name
        self.load = options.load
        self.process = subprocess.Popen(
            [options.binary, "--model", model, "--port", "0", "--threads", str(options.threads),
             "--log-level", "warn", "--drain-delay-ms", "0", *more],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        assert line.startswith("listening on "), f"{name} did not start"
        self.port = int(line.rsplit(":", 1)[1])
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        while self.ask("GET", "/ready")[0] != 200:
            time.sleep(0.01)

    def ask(self, method, path, body=None):
        self.connection.request(method, path, body, {"Content-Type": "application/json"})
        reply = self.connection.getresponse()
        return reply.status, json.loads(reply.read())

    def vectors(self, texts):
        status, reply = self.ask("POST", "/embed", json.dumps({"inputs": texts}))
        assert status == 200, reply
        return np.array(reply, np.float32)

    long = Peer.long

    def closed_loop(self, clients):
        return subprocess.run(
            [self.load, str(self.port), str(clients), str(WINDOW_S), "/embed",
             json.dumps({"inputs": SHORT})], check=True, capture_output=True, text=True).stdout

    def short(self):
        return float(re.search(r"latency +p50 +([0-9.]+)", self.closed_loop(1))[1])

    def many(self):
        return float(re.search(r"([0-9.]+) replies/s", self.closed_loop(CLIENTS))[1])

    def close(self):
        self.process.terminate()
        self.process.wait()


def contestants(options):
    """(name, what makes it), ours first."""
    folder = str(options.folder)
    made = [("magnetd f32", lambda: Magnetd("magnetd f32", folder, options)),
            ("magnetd bf16", lambda: Magnetd(
                "magnetd bf16", str(bf16_folder(options.folder, options.work)), options))]
    if options.gguf:
        made += [("magnetd q8_0", lambda: Magnetd("magnetd q8_0", options.gguf, options)),
                 ("magnetd q8_0 int8", lambda: Magnetd(
                     "magnetd q8_0 int8", options.gguf, options, ["--activations", "int8"]))]
    for kind, modules in ((Torch, ["sentence_transformers"]),
                          (OnnxRuntime, ["onnxruntime", "tokenizers"]),
                          (OnnxRuntimeInt8, ["onnxruntime", "tokenizers", "onnx"]),
                          (OpenVino, ["openvino", "tokenizers"])):
        missing = [one for one in modules if importlib.util.find_spec(one) is None]
        if missing:
            print(f"left out: {kind.name} ({', '.join(missing)} cannot be imported)")
        else:
            made.append((kind.name, lambda kind=kind: kind(options)))
    return [(name, make) for name, make in made
            if not options.only or any(word in name for word in options.only.split(","))]


# ---- the report --------------------------------------------------------------------------------

UNITS = {"long": "32 x 234, s", "short": "one x 15, ms", "many": "16 clients, texts/s"}
# (ours, peer, shape, least ratio in our favour)
TARGETS = [(f"magnetd {ours}", f"onnxruntime {peer}", shape, least)
           for ours, peer, least_long in (("f32", "fp32", 1.4), ("bf16", "fp32", 1.4),
                                          ("q8_0", "int8", 1.0), ("q8_0 int8", "int8", 1.0))
           for shape, least in (("long", least_long), ("short", 1.0), ("many", 2.0))]


def measure(entrants, options):
    figures = {shape: {one.name: [] for one in entrants} for shape in options.shapes.split(",")}
    for _ in range(options.rounds):
        for shape, values in figures.items():
            for one in entrants:
                time.sleep(PAUSE_S)
                values[one.name].append(getattr(one, shape)())
    return figures


def compare_vectors(entrants):
    """Greatest cosine distance to the first exact peer's vectors, or to ours of f32."""
    vectors = {one.name: one.vectors(LONG + [SHORT]) for one in entrants}
    exact = [name for name in ("sentence-transformers", "onnxruntime fp32") if name in vectors]
    truth = vectors[(exact or list(vectors))[0]]
    return {name: float(max(1 - np.sum(one.astype(np.float64) * truth, axis=1)))
            for name, one in vectors.items()}


def tell(figures, distances):
    print(f"{'median of the rounds':24}" + "".join(f"{UNITS[shape]:>21}" for shape in figures)
          + f"{'cosine distance':>18}")
    for name, distance in distances.items():
        print(f"{name:24}" + "".join(
            f"{statistics.median(values[name]):21.3f}" for values in figures.values())
            + f"{distance:18.1e}")
    print(f"\n{'in our favour':44}{'':>21}{'ratio':>8}{'least':>8}{'most':>8}{'target':>8}")
    for ours, peer, shape, least in TARGETS:
        values = figures.get(shape, {})
        if ours not in values or peer not in values:
            continue
        ratios = [a / b if shape == "many" else b / a for a, b in zip(values[ours], values[peer])]
        middle = statistics.median(ratios)
        print(f"{ours + ' : ' + peer:44}{UNITS[shape]:>21}{middle:8.2f}{min(ratios):8.2f}"
              f"{max(ratios):8.2f}{least:8.1f}{'' if middle >= least else '  missed'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--gguf")
    parser.add_argument("--binary", default=str(ROOT / "build/server/magnetd"))
    parser.add_argument("--load", default=str(ROOT / "build/tests/http_client/http_load"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", help="words of which a contestant's name must hold one")
    parser.add_argument("--shapes", default=",".join(UNITS))
    parser.add_argument("--json", type=pathlib.Path, help="where all figures go")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    entrants = []
    try:
        for _, make in contestants(options):
            entrants.append(make())
        distances = compare_vectors(entrants)
        figures = measure(entrants, options)
    finally:
        for one in entrants:
            one.close()
    tell(figures, distances)
    if options.json:
        options.json.write_text(json.dumps({"figures": figures, "cosine_distance": distances}))


main()
