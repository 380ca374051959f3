#!/usr/bin/env python3
"""Write fixtures/dequant_TYPE.bin: blocks of random bytes and the float32 values they stand for.

The values come from the `gguf` Python package (pip install gguf), which shares no code with us;
tests/unit/load/test_tensor_type.c compares bit for bit. A file is the blocks' bytes followed by
one little-endian float32 per number. Same seed, same files.

    python3 tests/golden/make_dequant_fixtures.py
"""

import pathlib

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants

SEED = 20240611
NUMBERS = 2048  # per type: 64 blocks of 32, 8 of 256

# Where the f16 scales of a block lie; every other byte may hold anything.
SCALES = {
    "F16": [0],
    "Q4_0": [0],
    "Q4_1": [0, 2],
    "Q5_0": [0],
    "Q5_1": [0, 2],
    "Q8_0": [0],
    "Q4_K": [0, 2],
    "Q5_K": [0, 2],
    "Q6_K": [208],
}
# Largest, smallest normal, subnormal, zero of both signs.
SCALES_SPECIAL = [0x7BFF, 0xFBFF, 0x0400, 0x0001, 0x83FF, 0x0000, 0x8000]


def random_blocks(rng, name, block_bytes, count):
    blocks = rng.integers(0, 256, (count, block_bytes), dtype=np.uint8)
    if name in ("F32", "BF16"):
        # One in 256 random floats is infinite or NaN; an exponent below 255 is none.
        exponent_low = blocks[:, -2]
        exponent_low[(blocks[:, -1] & 0x7F) == 0x7F] &= 0x7F
        return blocks
    for scale_index, at in enumerate(SCALES[name]):
        bits = rng.integers(0, 0x7C00, count).astype(np.uint16)
        bits |= rng.integers(0, 2, count).astype(np.uint16) << 15
        for i, special in enumerate(SCALES_SPECIAL):
            if i + scale_index < count:
                bits[i + scale_index] = special
        blocks[:, at : at + 2] = bits.astype("<u2").view(np.uint8).reshape(count, 2)
    if count > len(SCALES_SPECIAL):
        keep = [b for at in SCALES[name] for b in (at, at + 1)]
        for row, fill in ((0, 0xFF), (1, 0x00), (2, 0x80), (3, 0x7F)):  # extremes of the quants
            saved = blocks[row, keep].copy()
            blocks[row] = fill
            blocks[row, keep] = saved
    return blocks


def main():
    folder = pathlib.Path(__file__).parent / "fixtures"
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(SEED)
    for name in ["F32", "BF16", *SCALES]:
        kind = GGMLQuantizationType[name]
        block, block_bytes = GGML_QUANT_SIZES[kind]
        blocks = random_blocks(rng, name, block_bytes, NUMBERS // block)
        values = quants.dequantize(blocks.reshape(-1), kind).astype("<f4").reshape(-1)
        assert values.size == NUMBERS and np.isfinite(values).all(), name
        path = folder / f"dequant_{name.lower()}.bin"
        path.write_bytes(blocks.tobytes() + values.tobytes())
        print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
