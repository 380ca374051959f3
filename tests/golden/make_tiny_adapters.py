"""Makes tests/golden/fixtures/tiny_adapters: random LoRA adapters for some tiny networks, and
what the networks compute with them.

MAKING: in a Python 3 environment with numpy and gguf (`pip install numpy gguf`), from anywhere:
    python3 tests/golden/make_tiny_adapters.py
rewrites the whole folder. For NAME, one of the files of tiny_llama or tiny_networks:

    NAME_first/         a folder as PEFT writes it: every matrix of the layers, rank 4, F16, rows of
                        B of q and k in rotate-half order where the network's folders have them so
    NAME_first.gguf     the same numbers as a GGUF adapter
    NAME_second.gguf    F32, rank 3, some of the matrices
    NAME.json, NAME.bin what both together compute: cases as of make_tiny_llama.py, from the float64
                        forwards over W + s1 B1 A1 + s2 B2 A2
"""

import json
import os
import shutil
import struct
import zlib

import gguf
import numpy as np
from make_folder import hub_name
from make_tiny_llama import CASES, run_case
from make_tiny_networks import ENCODER_CASES
from numpy_llama import Llama
from numpy_networks import Network

FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures")
FOLDER = os.path.join(FIXTURES, "tiny_adapters")
BASES = ["tiny_llama/tied", "tiny_networks/qwen3", "tiny_networks/bert",
         "tiny_networks/nomic_bert"]
KINDS = ["causal", "bidirectional_page", "infill_two_gaps_backwards", "some"]
FIRST = {"rank": 4, "alpha": 6.0}  # by the root of the rank: 6 / 2
SECOND = {"rank": 3, "alpha": 2.0}


def pairs(weights, names, rank, rng, kind):
    """A and B of each matrix, of a size that moves results without drowning what is there."""
    out = {}
    for name in names:
        outputs, inputs = weights[name].shape
        a = rng.standard_normal((rank, inputs)) / np.sqrt(inputs)
        b = 0.1 * rng.standard_normal((outputs, rank))
        out[name] = a.astype(kind), b.astype(kind)
    return out


def write_gguf(path, architecture, adapter, alpha):
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", alpha)
    for name, (a, b) in adapter.items():
        writer.add_tensor(name + ".lora_a", a)
        writer.add_tensor(name + ".lora_b", b)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def halves(b, head):
    """Rows of each head: all even ones, then all odd ones."""
    heads = b.reshape(-1, head // 2, 2, b.shape[1])
    return heads.transpose(0, 2, 1, 3).reshape(b.shape)


def write_peft(path, architecture, adapter, head):
    tensors = {}
    for name, (a, b) in adapter.items():
        module = "base_model.model." + hub_name(name, architecture)[: -len(".weight")]
        turned = architecture == "llama" and name.split(".")[2] in ("attn_q", "attn_k")
        tensors[module + ".lora_A.weight"] = a
        tensors[module + ".lora_B.weight"] = halves(b, head) if turned else b
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, numbers in sorted(tensors.items()):
        raw = np.ascontiguousarray(numbers).tobytes()
        header[name] = {"dtype": "F16", "shape": list(numbers.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    os.makedirs(path)
    with open(os.path.join(path, "adapter_model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    config = {"peft_type": "LORA", "r": FIRST["rank"], "lora_alpha": FIRST["alpha"],
              "use_rslora": True, "bias": "none", "lora_dropout": 0.1, "fan_in_fan_out": False,
              "init_lora_weights": True, "modules_to_save": None, "rank_pattern": {},
              "target_modules": "all-linear", "task_type": None, "use_dora": False}
    with open(os.path.join(path, "adapter_config.json"), "w") as file:
        json.dump(config, file, indent=1)
        file.write("\n")


def make(base):
    name = os.path.basename(base)
    path = os.path.join(FIXTURES, base + ".gguf")
    out = os.path.join(FOLDER, name)
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    network = Network(path)
    if network.name == "llama":
        network = Llama(path)
    architecture = gguf.GGUFReader(path).fields["general.architecture"].contents()
    names = [n for n, w in network.weights.items() if n.startswith("blk.") and w.ndim == 2]
    first = pairs(network.weights, names, FIRST["rank"], rng, np.float16)
    some = [n for n in names if n.split(".")[2] in ("attn_q", "attn_qkv", "attn_v", "ffn_down")]
    second = pairs(network.weights, some, SECOND["rank"], rng, np.float32)
    write_peft(out + "_first", architecture, first, network.head_dim)
    root = FIRST["rank"] ** 0.5
    write_gguf(out + "_first.gguf", architecture, first, FIRST["alpha"] * root)
    write_gguf(out + "_second.gguf", architecture, second, SECOND["alpha"])
    for adapter, scale in ((first, FIRST["alpha"] / root),
                           (second, SECOND["alpha"] / SECOND["rank"])):
        for matrix, (a, b) in adapter.items():
            network.weights[matrix] = (network.weights[matrix].astype(np.float64)
                                       + scale * b.astype(np.float64) @ a.astype(np.float64))
    encodes = architecture.endswith("bert")
    if encodes:
        network.logits = lambda hidden: hidden
    floats, listed = [], []
    for case, turns in (ENCODER_CASES if encodes else CASES).items():
        if case in KINDS:
            listed.append({"name": case, **run_case(network, turns, 0, rng, floats)})
    with open(out + ".json", "w") as file:
        file.write('{"cases": [\n' + ",\n".join(json.dumps(c) for c in listed) + "\n]}\n")
    np.asarray(floats, dtype="<f4").tofile(out + ".bin")


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    os.makedirs(FOLDER)
    for base in BASES:
        make(base)


if __name__ == "__main__":
    main()
