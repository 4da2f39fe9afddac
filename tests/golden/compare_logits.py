"""Compares raw logits of one or more windows with the reference.

The input is a file of little-endian float32 rows of vocabulary size, one row for each position, for whole or partial
windows from position --first on (0, 256, ... in logits_ids.txt). Prints mean KL(reference || file) over the full
vocabulary, the same over the reference's top 16 and the rest, and top-1 agreement.

Run: python3 compare_logits.py LOGITS.f32 --reference ref_logits.npy [--first 0]   (with make_logits.py --cache)
 or: python3 compare_logits.py LOGITS.f32 --model MODEL.gguf [--first 0]           (the reference is run again)
 or: python3 compare_logits.py LOGITS.f32 [--first 0]                              (top 16 and the rest only)
Needs: pip install numpy gguf
"""

import argparse
import struct
from pathlib import Path

import numpy as np

from reference import WINDOW, coarse, kl, log_softmax, read_ids, reference_logits

HERE = Path(__file__).parent


def read_top(path):
    """The ids [positions, top], log probabilities [positions, top] and vocabulary size of logits_smollm2.bin."""
    data = path.read_bytes()
    assert data[:4] == b"RLTP"
    positions, top, vocab = struct.unpack("<3I", data[4:16])
    rows = np.frombuffer(data[16:], dtype=np.dtype([("id", "<u2", top), ("logp", "<f4", top)]), count=positions)
    return rows["id"].astype(np.int64), rows["logp"].astype(np.float64), vocab


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("logits")
    ap.add_argument("--first", type=int, default=0, help="position in logits_ids.txt of the file's first row")
    ap.add_argument("--reference", help=".npy of the reference's full logits")
    ap.add_argument("--model", help="GGUF file to run the reference on, when there is no .npy")
    args = ap.parse_args()

    ids, logp, vocab = read_top(HERE / "logits_smollm2.bin")
    mine = np.fromfile(args.logits, dtype="<f4")
    assert len(mine) and len(mine) % vocab == 0, "not a whole number of rows"
    mine = mine.reshape(-1, vocab)
    rows = slice(args.first, args.first + len(mine))
    ids, logp = ids[rows], logp[rows]
    assert len(ids) == len(mine), "more rows than the reference has"

    rest = np.log(np.maximum(1 - np.exp(logp).sum(axis=-1, keepdims=True), 1e-12))
    full_ref = None
    if args.reference:
        full_ref = np.load(args.reference, mmap_mode="r")[rows]
    elif args.model:
        windows = read_ids(HERE / "logits_ids.txt")
        start = rows.start // WINDOW
        some = windows[start:(rows.stop - 1) // WINDOW + 1]
        full_ref = reference_logits(args.model, some)[rows.start - start * WINDOW:][:len(mine)]

    part, full = [], []
    for at in range(0, len(mine), WINDOW):
        here = slice(at, at + WINDOW)
        q = log_softmax(mine[here])
        part.append(kl(np.concatenate([logp[here], rest[here]], axis=-1), coarse(q, ids[here])))
        if full_ref is not None:
            full.append(kl(log_softmax(np.asarray(full_ref[here])), q))
    part = np.concatenate(part)
    print(f"positions               {len(mine)} from {args.first}")
    if full:
        full = np.concatenate(full)
        print(f"mean KL, full           {full.mean():.6e}   (largest {full.max():.3e})")
    print(f"mean KL, top 16 + rest  {part.mean():.6e}   (largest {part.max():.3e})")
    same = mine.argmax(axis=-1) == ids[:, 0]
    clear = logp[:, 0] - logp[:, 1] > 0.5
    print(f"top-1 agreement         {same.mean():.4%}   ({int((~same).sum())} differ; {int((~same & clear).sum())} where the gap is above 0.5)")


if __name__ == "__main__":
    main()
