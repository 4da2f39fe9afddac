"""Makes blocks.txt: random blocks of every weight format, and the values that GGML's own package takes them for.

From: the gguf package, whose dequantize follows GGML's dequantize_row_* and is tested against it. Blocks are random bytes
(seed 1), except that binary16 scales and numbers are finite and of ordinary size, and that the digits of base 3 in TQ1_0
are whatever its arithmetic makes of any byte.

A line: the format's name, the bytes of one row of blocks in hex (float formats: of eight numbers), the bits of its values
as little-endian f32 in hex.

Run: pip install gguf
     python3 make_blocks.py
"""

from importlib.metadata import version
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize

HERE = Path(__file__).parent

# Where a block has its binary16 scales.
SCALES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "TQ1_0": [52], "TQ2_0": [64]}


def numbers(rng, count):
    return (rng.standard_normal(count) * 0.1).astype(np.float32)


def block(rng, name):
    """The bytes of one block, or of eight numbers."""
    if name == "F32":
        return numbers(rng, 8).tobytes()
    if name == "F16":
        return numbers(rng, 8).astype(np.float16).tobytes()
    if name == "BF16":
        return (numbers(rng, 8).view(np.uint32) >> 16).astype(np.uint16).tobytes()
    data = rng.integers(0, 256, GGML_QUANT_SIZES[Type[name]][1], dtype=np.uint8)
    for at in SCALES[name]:
        data[at:at + 2] = numbers(rng, 1).astype(np.float16).view(np.uint8)
    return data.tobytes()


def main():
    rng = np.random.default_rng(1)
    lines = []
    for name in ["F32", "F16", "BF16", *SCALES]:
        data = block(rng, name) + block(rng, name)
        values = dequantize(np.frombuffer(data, dtype=np.uint8), Type[name]) if name != "F32" else np.frombuffer(data, np.float32)
        lines.append(f"{name} {data.hex()} {values.astype('<f4').tobytes().hex()}\n")
    (HERE / "blocks.txt").write_text("".join(lines))
    print("gguf", version("gguf"), "numpy", np.__version__)


if __name__ == "__main__":
    main()
