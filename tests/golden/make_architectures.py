"""Makes architectures.bin: what the float64 forward pass of reference.py makes of the seeded models.

    cargo run --package tests --example seeded_models -- FOLDER
    python3 make_architectures.py FOLDER architectures.bin

Also prints how much each thing that sets an architecture apart changes the logits of its model: left out, they move by so
much of the greatest, which must be far more than the bounds of the test. Needs: pip install numpy gguf
"""

import argparse
import pathlib
import struct

import numpy as np

from reference import Model

IDS = [28, 30, 42, 100, 101, 102, 7, 9, 250, 198, 33, 57, 58, 59, 60, 61, 62, 63, 64, 65, 200, 201, 202]
POSITIONS = [4, 12, 22]


def checksum(data):
    """The sum modulo 2^64 of the file's little-endian u32 words, each times its place from 1 on: the test tells a changed
    model by it."""
    words = np.frombuffer(data, "<u4").astype(np.uint64)
    return int((words * np.arange(1, len(words) + 1, dtype=np.uint64)).sum())


def without_keys(*names):
    def leave_out(model):
        key = model.key
        model.key = lambda name, default=None: None if name in names else key(name, default)

    return leave_out


def without_tensors(ending):
    def leave_out(model):
        model.w = {name: w for name, w in model.w.items() if not name.endswith(ending)}

    return leave_out


def without_window(model):
    model.window = lambda layer: None


def with_rope_everywhere(model):
    rope = model.rope
    model.rope = lambda x, layer: rope(x, 0)


def with_one_base(model):
    frequencies = model.frequencies
    model.frequencies = lambda layer: frequencies(model.layers - 2)  # of a layer without a window


def without_scaling(model):
    key = model.key
    model.key = lambda name, default=None: "none" if name == "rope.scaling.type" else key(name, default)


def without_head_norms(model):
    norm = model.norm
    model.norm = lambda x, name: x if name.endswith(("q_norm", "k_norm")) else norm(x, name)


LEFT_OUT = {
    "llama-divisors": {"divisors": without_tensors("rope_freqs.weight")},
    "mistral-linear": {"window": without_window, "linear": without_scaling},
    "smollm3": {"layers without RoPE": with_rope_everywhere},
    "qwen2": {"biases": without_tensors(".bias")},
    "qwen2-yarn": {"biases": without_tensors(".bias"), "YaRN": without_scaling},
    "qwen3": {"head norms": without_head_norms},
    "gemma2": {
        "window": without_window,
        "cap of scores": without_keys("attn_logit_softcapping"),
        "cap of logits": without_keys("final_logit_softcapping"),
    },
    "gemma3": {
        "window": without_window,
        "base of windows": with_one_base,
        "linear": without_scaling,
        "head norms": without_head_norms,
    },
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    args = parser.parse_args()
    records = []
    for name, features in LEFT_OUT.items():
        for weights in ("floats", "mixed"):
            path = args.folder / f"{name}-{weights}.gguf"
            logits = Model(path).logits(IDS)[POSITIONS]
            changes = []
            for feature, leave_out in features.items():
                model = Model(path)
                leave_out(model)
                change = np.abs(model.logits(IDS)[POSITIONS] - logits).max() / np.abs(logits).max()
                changes.append(f"{feature} {change:.3f}")
            print(f"{path.stem}: {', '.join(changes)}")
            label = path.stem.encode()
            header = struct.pack("<32sQII", label, checksum(path.read_bytes()), *logits.shape)
            records.append(header + np.array(POSITIONS, "<u4").tobytes() + logits.astype("<f4").tobytes())
    args.out.write_bytes(b"".join(records))


if __name__ == "__main__":
    main()
