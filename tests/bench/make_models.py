"""Writes the model files that the benchmarks compare. They are large, so never into the repository.

    python3 make_models.py OUT [--model FILE] [--types q8_0,q4_0,f16,bf16] [--twins] [--synthetic]

Needs numpy and gguf (`pip install numpy gguf`). Two families, each written a tensor at a time:

* The default model (or --model) with its exact dequantised numbers rounded to each type:
  OUT/NAME.TYPE.gguf, metadata kept. Norms stay f32. The tied head and embedding takes the type in
  unquantised files and stays as it is (Q8_0) in quantised ones: a 4-bit head is nobody's file, and
  576 columns rule out the K-quants that others use for it. OUT/NAME.f32.gguf holds the dequantised
  numbers themselves: what the original is compared with. --twins also writes NAME.TYPE.f32.gguf,
  the exact numbers of each rounded file.
* --synthetic: OUT/random-1.1b.{q8_0,q4_0,q4_k}.gguf, the shape of TinyLlama 1.1B with random
  weights from a fixed seed and a made-up vocabulary of 32,000 pieces. Blocks are drawn as bytes,
  with scales that give each matrix a sane spread. 4-bit files have a Q6_K head, as such files do.
  The text it generates is noise; its speed is that of a real model.
"""
import argparse
import os
import pathlib

import gguf
import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as Type

SEED = 11
ROWS_AT_ONCE = 4096
FILE_TYPES = {"f32": gguf.LlamaFileType.ALL_F32, "f16": gguf.LlamaFileType.MOSTLY_F16,
              "bf16": gguf.LlamaFileType.MOSTLY_BF16, "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0,
              "q4_0": gguf.LlamaFileType.MOSTLY_Q4_0, "q4_1": gguf.LlamaFileType.MOSTLY_Q4_1,
              "q5_0": gguf.LlamaFileType.MOSTLY_Q5_0, "q5_1": gguf.LlamaFileType.MOSTLY_Q5_1,
              "q4_k": gguf.LlamaFileType.MOSTLY_Q4_K_S}
UNQUANTISED = {"f32", "f16", "bf16"}


class Writer:
    """A file whose tensors are announced first and then made one by one: [(name, shape, type,
    make)], where make() returns the tensor's bytes as an array or an iterator of arrays."""

    def __init__(self, path, kind):
        self.path = path
        self.file = gguf.GGUFWriter(f"{path}.part", "llama")
        self.file.add_file_type(FILE_TYPES[kind])
        self.file.add_quantization_version(gguf.GGML_QUANT_VERSION)

    def write(self, tensors):
        for name, shape, kind, _ in tensors:
            block, block_bytes = GGML_QUANT_SIZES[kind]
            byte_shape = (*shape[:-1], shape[-1] // block * block_bytes)
            self.file.add_tensor_info(name, byte_shape, np.dtype(np.uint8),
                                      int(np.prod(byte_shape)), raw_dtype=kind)
        self.file.write_header_to_file()
        self.file.write_kv_data_to_file()
        self.file.write_ti_data_to_file()
        for _, _, _, make in tensors:
            self.file.write_tensor_data(make())
        self.file.close()
        os.replace(f"{self.path}.part", self.path)
        print(f"{self.path}: {self.path.stat().st_size / 1e6:.1f} MB", flush=True)


# ---- the default model in other types ------------------------------------------------------------


def copy_metadata(reader, writer):
    own = {"general.architecture", "general.file_type", "general.quantization_version"}
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key in own:
            continue
        sub_type = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(key, field.contents(), field.types[0], sub_type)


def type_of(tensor, kind):
    """The type a tensor has in a file of this kind."""
    if tensor.tensor_type == Type.F32:
        return Type.F32
    if kind in UNQUANTISED or tensor.name.startswith("blk."):
        return Type[kind.upper()]
    return tensor.tensor_type


def converted(tensor, kind, rounded=None):
    """Bytes of a tensor in type `kind`, by way of type `rounded`; untouched when it is `kind`."""
    if tensor.tensor_type == kind and rounded in (None, kind):
        return np.ascontiguousarray(tensor.data).view(np.uint8).reshape(-1)
    parts = []
    for rows in np.split(tensor.data, range(ROWS_AT_ONCE, len(tensor.data), ROWS_AT_ONCE)):
        numbers = gguf.quants.dequantize(rows, tensor.tensor_type)
        if rounded is not None and rounded != tensor.tensor_type:
            numbers = gguf.quants.dequantize(gguf.quants.quantize(numbers, rounded), rounded)
        parts.append(gguf.quants.quantize(numbers, kind).view(np.uint8).reshape(-1))
    return np.concatenate(parts)


def write_converted(reader, path, kind, twin_of=None):
    """A file of this kind; as a twin, the exact numbers of the file of kind `twin_of`."""
    writer = Writer(path, kind)
    copy_metadata(reader, writer.file)
    tensors = []
    for tensor in reader.tensors:
        target = type_of(tensor, kind)
        rounded = type_of(tensor, twin_of) if twin_of else None
        shape = tuple(int(n) for n in reversed(tensor.shape))
        tensors.append((tensor.name, shape, target,
                        lambda t=tensor, k=target, r=rounded: converted(t, k, r)))
    writer.write(tensors)


def convert_all(model, out, kinds, twins):
    reader = gguf.GGUFReader(model)
    stem = model.stem.rsplit(".", 1)[0]
    for kind in ["f32", *kinds]:
        write_converted(reader, out / f"{stem}.{kind}.gguf", kind)
        if twins and kind != "f32":
            write_converted(reader, out / f"{stem}.{kind}.f32.gguf", "f32", twin_of=kind)


# ---- the synthetic model -------------------------------------------------------------------------

SHAPE = dict(layers=22, width=2048, heads=32, heads_kv=4, ffn=5632, vocab=32000, context=2048)


def vocabulary(writer, count):
    """Unknown, BOS, EOS, the bytes, single characters, and joins of earlier pieces: each piece can
    be reached by joins, as SentencePiece wants it."""
    rng = np.random.default_rng(SEED)
    pieces = ["▁"] + [chr(c) for c in range(0x21, 0x7F)]
    seen = set(pieces)
    common = "etaoinshrdlu"
    while len(pieces) < count - 259:
        left = pieces[int(len(pieces) * rng.random() ** 2)]
        right = common[rng.integers(len(common))] if rng.random() < 0.5 else \
            pieces[int(len(pieces) * rng.random() ** 2)]
        joined = left + right
        if "▁" not in right and len(joined) <= 12 and joined not in seen:
            seen.add(joined)
            pieces.append(joined)
    kinds = gguf.TokenType
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + pieces)
    writer.add_token_scores([0.0] * 259 + [-float(i) for i in range(len(pieces))])
    writer.add_token_types([kinds.UNKNOWN, kinds.CONTROL, kinds.CONTROL] + [kinds.BYTE] * 256 +
                           [kinds.NORMAL] * len(pieces))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)


def put_scale(blocks, at, value):
    blocks[:, at:at + 2] = np.frombuffer(np.float16(value).tobytes(), np.uint8)


def random_blocks(rng, kind, count, spread):
    """`count` blocks whose numbers have mean 0 and about the standard deviation `spread`."""
    _, block_bytes = GGML_QUANT_SIZES[kind]
    blocks = np.frombuffer(rng.bytes(count * block_bytes), np.uint8).reshape(count, -1).copy()
    if kind == Type.Q8_0:  # d * q, q of -128..127
        put_scale(blocks, 0, spread / 73.9)
    elif kind == Type.Q4_0:  # d * (q - 8)
        put_scale(blocks, 0, spread / 4.61)
    elif kind == Type.Q4_K:  # d s q - 7.5 d m with m = s; s of 32..47 in eight 6-bit pairs
        scales = 32 + (blocks[:, 4:12] & 15)
        put_scale(blocks, 0, spread / (4.61 * 39.8))
        put_scale(blocks, 2, 7.5 * spread / (4.61 * 39.8))
        low = (scales[:, :4] & 63) | (scales[:, 4:] >> 4 << 6)
        blocks[:, 4:8] = blocks[:, 8:12] = low
        blocks[:, 12:16] = (scales[:, 4:] & 15) * 17
    elif kind == Type.Q6_K:  # d s (q - 32), s of 32..47
        blocks[:, 192:208] = 32 + (blocks[:, 192:208] & 15)
        put_scale(blocks, 208, spread / (18.5 * 39.8))
    else:
        raise ValueError(kind)
    return blocks.reshape(-1)


def random_matrix(seed, kind, outputs, inputs, gain):
    rng = np.random.default_rng(seed)
    block, _ = GGML_QUANT_SIZES[kind]
    return random_blocks(rng, kind, outputs * inputs // block, gain / np.sqrt(inputs))


def norm(width):
    return np.ones(width, np.float32).view(np.uint8)


def synthetic_tensors(kind):
    width, ffn, vocab = SHAPE["width"], SHAPE["ffn"], SHAPE["vocab"]
    kv_width = width // SHAPE["heads"] * SHAPE["heads_kv"]
    tensors = []

    def matrix(name, outputs, inputs, gain=1.0, of=kind):
        seed = [SEED, len(tensors)]
        tensors.append((name, (outputs, inputs), of,
                        lambda: random_matrix(seed, of, outputs, inputs, gain)))

    def ones(name):
        tensors.append((name, (width,), Type.F32, lambda: norm(width)))

    matrix("token_embd.weight", vocab, width, gain=np.sqrt(width))
    for layer in range(SHAPE["layers"]):
        block = f"blk.{layer}."
        ones(block + "attn_norm.weight")
        matrix(block + "attn_q.weight", width, width)
        matrix(block + "attn_k.weight", kv_width, width)
        matrix(block + "attn_v.weight", kv_width, width)
        matrix(block + "attn_output.weight", width, width)
        ones(block + "ffn_norm.weight")
        matrix(block + "ffn_gate.weight", ffn, width)
        matrix(block + "ffn_up.weight", ffn, width)
        matrix(block + "ffn_down.weight", width, ffn)
    ones("output_norm.weight")
    matrix("output.weight", vocab, width, gain=2.0, of=Type.Q8_0 if kind == Type.Q8_0 else
           Type.Q6_K)
    return tensors


def write_synthetic(path, kind):
    writer = Writer(path, kind)
    file = writer.file
    file.add_name("random 1.1B")
    file.add_block_count(SHAPE["layers"])
    file.add_context_length(SHAPE["context"])
    file.add_embedding_length(SHAPE["width"])
    file.add_feed_forward_length(SHAPE["ffn"])
    file.add_head_count(SHAPE["heads"])
    file.add_head_count_kv(SHAPE["heads_kv"])
    file.add_rope_dimension_count(SHAPE["width"] // SHAPE["heads"])
    file.add_rope_freq_base(10000.0)
    file.add_layer_norm_rms_eps(1e-5)
    file.add_vocab_size(SHAPE["vocab"])
    vocabulary(file, SHAPE["vocab"])
    writer.write(synthetic_tensors(Type[kind.upper()]))


def default_model():
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
    return os.environ.get("MAGNETD_MODEL", cache / "magnetd" / "SmolLM2-135M-Instruct.Q4_1.gguf")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--model", type=pathlib.Path, default=default_model())
    parser.add_argument("--types", default="q8_0,q4_0,f16,bf16", help="empty: none")
    parser.add_argument("--twins", action="store_true")
    parser.add_argument("--synthetic", action="store_true")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    kinds = [kind for kind in options.types.split(",") if kind]
    if kinds:
        convert_all(pathlib.Path(options.model), options.out, kinds, options.twins)
    if options.synthetic:
        for kind in ("q8_0", "q4_0", "q4_k"):
            write_synthetic(options.out / f"random-1.1b.{kind}.gguf", kind)


if __name__ == "__main__":
    main()
