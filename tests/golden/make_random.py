"""Makes random/*.bin, and the part of token_disagreements.md on random texts.

From: the texts that `cargo run -p tests --bin random-texts 1000` prints, llama.cpp's tokenizer (llama-cpp-python 0.3.36),
the vocabularies in its source package, and models of `cargo xtask model`. `NAME@PRE` is the vocabulary NAME with PRE for its
tokenizer.ggml.pre: a pre-tokenizer whose own vocabulary no registry carries.

random/NAME.bin has for each text 4 bytes, little-endian: the halves, joined by xor, of the 64-bit FNV-1a of its ids (llama.cpp:
no BOS, special tokens not parsed), each as 4 bytes, little-endian.

The ids are checked against a second implementation: Hugging Face tokenizers, with the pre-tokenizer that the model's authors
published (its normaliser left out, which llama.cpp has none of), and SentencePiece.

Run: pip install gguf tokenizers sentencepiece protobuf regex llama-cpp-python==0.3.36
     cargo run -q -p tests --bin random-texts 1000 > texts.hex
     python3 make_random.py --texts texts.hex --vocabs .../vendor/llama.cpp/models --models .cache/models
"""

import argparse
import struct
import tempfile
from pathlib import Path

from make_tokens import HERE, NEW, Peer, fields, missing_bytes, sentencepiece_llama

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
QWEN35 = QWEN2.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]")
DEEPSEEK_CODER = ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+"]
# The letters of DeepSeek LLM, in hexadecimal, as ranges.
DEEPSEEK_LETTERS = """41-5a 61-7a b5 c0-d6 d8-f6 f8-1ba 1bc-1bf 1c4-293 295-2af 370-373 376 377 37b-37d 37f 386 388-38a 38c 38e-3a1 3a3-3f5
3f7-481 48a-52f 531-556 10a0-10c5 13a0-13f5 13f8-13fd 1c90-1cba 1cbd-1cbf 1d00-1d2b 1d6b-1d77 1d79-1d9a 1e00-1f15
1f18-1f1d 1f20-1f45 1f48-1f4d 1f50-1f57 1f59 1f5b 1f5d 1f5f-1f7d 1f80-1fb4 1fb6-1fbc 1fbe 1fc2-1fc4 1fc6-1fcc
1fd0-1fd3 1fd6-1fdb 1fe0-1fec 1ff2-1ff4 1ff6-1ffc 2102 2107 210a-2113 2115 2119-211d 2124 2126 2128 212a-212d
212f-2134 2139 213c-213f 2145-2149 214e 2183 2184 2c00-2c7b 2c7e-2ce4 2ceb-2cee 2cf2 2cf3 a640-a66d a680-a69b
a722-a76f a771-a787 a78b-a78e ab70-abbf fb00-fb06 fb13-fb17 ff21-ff3a ff41-ff5a 10400-1044f 104b0-104d3 104d8-104fb
10c80-10cb2 10cc0-10cf2 118a0-118df 1e900-1e943"""
DEEPSEEK_LETTERS = "".join("-".join(chr(int(c, 16)) for c in r.split("-")) for r in DEEPSEEK_LETTERS.split())
DEEPSEEK_LLM = ["[\r\n]", rf"\s?[{DEEPSEEK_LETTERS}]+", r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", DEEPSEEK_CODER[3]]
DEEPSEEK3 = [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
             r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
             r"\s*[\r\n]+|\s+(?!\S)|\s+"]
CASED = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+SUFFIX|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*SUFFIX|NUMBERS| ?[^\s\p{L}\p{N}]+[\r\n/]*|"
         r"\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN = CASED.replace("SUFFIX", "").replace("NUMBERS", r"\p{N}")
GPT4O = CASED.replace("SUFFIX", "(?i:'s|'t|'re|'ve|'m|'ll|'d)?").replace("NUMBERS", r"\p{N}{1,3}")


def splits(*patterns):
    from tokenizers import Regex, pre_tokenizers as pre
    rows = [pre.Split(Regex(p), "isolated") for p in patterns]
    return pre.Sequence(rows + [pre.ByteLevel(add_prefix_space=False, use_regex=False)])


def byte_level():
    from tokenizers import pre_tokenizers as pre
    return pre.ByteLevel(add_prefix_space=False)


def digits(individual=True):
    from tokenizers import pre_tokenizers as pre
    return pre.Sequence([pre.Digits(individual_digits=individual), byte_level()])


def deepseek_coder():
    from tokenizers import Regex, pre_tokenizers as pre
    rows = [pre.Split(Regex(p), "isolated") for p in DEEPSEEK_CODER]
    return pre.Sequence(rows + [pre.Digits(individual_digits=True), pre.ByteLevel(add_prefix_space=False, use_regex=False)])


def deepseek_llm():
    from tokenizers import Regex, pre_tokenizers as pre
    rows = [pre.Split(Regex(p), "isolated") for p in DEEPSEEK_LLM]
    return pre.Sequence(rows + [pre.Digits(individual_digits=False), pre.ByteLevel(add_prefix_space=False, use_regex=False)])


def falcon():
    from tokenizers import Regex, pre_tokenizers as pre
    return pre.Sequence([pre.Punctuation("contiguous"), byte_level(), pre.Digits(individual_digits=False),
                         pre.Split(Regex("[0-9][0-9][0-9]"), "isolated")])


def hugging_face(path, pre_tokenizer, whole_words):
    """The tokenizer of a file in Hugging Face tokenizers, without normaliser."""
    from tokenizers import AddedToken, Tokenizer, models
    f = fields(path)
    tokens = f["tokenizer.ggml.tokens"]
    vocab = {t: i for i, t in enumerate(tokens)}
    merges = [tuple(m.split(" ")) for m in f["tokenizer.ggml.merges"]]
    tok = Tokenizer(models.BPE(vocab, merges, ignore_merges=whole_words))
    tok.pre_tokenizer = pre_tokenizer()
    kinds = f.get("tokenizer.ggml.token_type") or []
    added = [t for t, kind in zip(tokens, kinds) if kind == 4]
    tok.add_tokens([AddedToken(t, normalized=False) for t in added])
    return lambda text: tok.encode(text.decode(), add_special_tokens=False).ids


# Name, how the second implementation cuts words, and whether a word that is a token is taken whole.
CASES = {
    "gpt-2": (byte_level, False),
    "mpt": (byte_level, False),
    "smollm2": (digits, False),
    "starcoder": (digits, False),
    "refact": (digits, False),
    "command-r": (digits, False),
    "falcon": (falcon, False),
    "llama-bpe": (lambda: splits(LLAMA3), True),
    "llama-bpe@dbrx": (lambda: splits(LLAMA3), False),
    "qwen2": (lambda: splits(QWEN2), False),
    "qwen2.5-0.5b": (lambda: splits(QWEN2), False),
    "qwen35": (lambda: splits(QWEN35), False),
    "deepseek-coder": (deepseek_coder, False),
    "deepseek-llm": (deepseek_llm, False),
    "llama-bpe@deepseek-v3": (lambda: splits(*DEEPSEEK3), False),
    "llama-bpe@tekken": (lambda: splits(TEKKEN), True),
    "llama-bpe@gpt-4o": (lambda: splits(GPT4O), False),
    "llama-bpe@minicpm5": (lambda: splits(r"\p{N}{1,3}", LLAMA3), True),
    "llama-bpe@bailingmoe": (lambda: splits(QWEN2), False),
    "gpt-2@default": None,
    "llama-spm": "sentencepiece",
    "phi-3": "sentencepiece",
    "gemma3-270m": "sentencepiece",
}

REASONS = {
    "missing": "The text has a byte that the vocabulary has no token for: as above.",
    "unicode": "The text has characters that are new in Unicode 16 or 17, or whose class has changed: as above.",
    "case": "llama.cpp knows the case of ASCII letters only, and takes marks for no letters, so it cuts words of other scripts "
            "elsewhere than the published expression. The model was trained with the latter; llama.cpp's is followed, since "
            "that is what files of GGUF are run with and measured by.",
    "order": "Falcon's own pre-tokenizer cuts numbers from the space before them and takes other symbols for punctuation than "
             "llama.cpp's expressions do. llama.cpp is followed, as above.",
    "space": "llama.cpp takes white space beyond ASCII for nothing but white space; in the published expressions it is also in "
             "the ranges of East Asian characters and punctuation. llama.cpp is followed, as above.",
    "runs": "Gemma's file has runs of spaces as user-defined tokens, spelled with spaces, which llama.cpp finds before anything "
            "else. SentencePiece has already written them as U+2581 when it looks. llama.cpp is followed.",
    "unexplained": "Not understood; llama.cpp is followed.",
}


def with_pre(path, name):
    """A copy of a vocabulary with another tokenizer.ggml.pre."""
    data = Path(path).read_bytes()
    key = b"tokenizer.ggml.pre" + struct.pack("<I", 8)
    at = data.index(key) + len(key)
    length, = struct.unpack_from("<Q", data, at)
    name = name.encode()
    copy = tempfile.NamedTemporaryFile(suffix=".gguf")
    copy.write(data[:at] + struct.pack("<Q", len(name)) + name + data[at + 8 + length:])
    copy.flush()
    return copy


def digest(ids):
    value = 0xCBF29CE484222325
    for byte in struct.pack(f"<{len(ids)}I", *ids):
        value = (value ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return value >> 32 ^ value & 0xFFFFFFFF


def reason(name, text, missing):
    import unicodedata
    characters = text.decode()
    if missing & set(text):
        return "missing"
    if "gemma" in name and "  " in characters:
        return "runs"
    if any(ord(c) in NEW or unicodedata.category(c) == "Cn" for c in characters):
        return "unicode"
    for mark, why in (("tekken", "case"), ("gpt-4o", "case"), ("falcon", "order")):
        if mark in name:
            return why
    if "deepseek-llm" in name and any(c.isspace() and ord(c) > 0x7F for c in characters):
        return "space"
    return "unexplained"


def write_differences(differ, count):
    """Writes the seeds of the texts on which the two references differ: {name: [(seed, reason)]}."""
    path = HERE / "token_disagreements.md"
    before = path.read_text().split("# Random texts")[0].rstrip()
    out = [before, "", "# Random texts", "",
           "Made by make_random.py. Each number is the seed of a text (`random_text`); the golden files keep llama.cpp's ids.", ""]
    for name, rows in differ.items():
        out += [f"## {name}: {len(rows)} of {count}", ""]
        for why, text in REASONS.items():
            seeds = [str(seed) for seed, w in rows if w == why]
            if seeds:
                out += [text, "", " ".join(seeds), ""]
    path.write_text("\n".join(out))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--texts", type=Path, required=True)
    ap.add_argument("--vocabs", type=Path, required=True)
    ap.add_argument("--models", type=Path, required=True)
    ap.add_argument("--only", nargs="*")
    args = ap.parse_args()
    texts = [bytes.fromhex(line) for line in args.texts.read_text().splitlines()]
    (HERE / "random").mkdir(exist_ok=True)
    differ = {}
    for name, second in CASES.items():
        if args.only and name not in args.only:
            continue
        stem, _, pre = name.partition("@")
        path = args.models / f"{stem}.gguf"
        if not path.exists():
            path = args.vocabs / f"ggml-vocab-{stem}.gguf"
        copy = with_pre(path, pre) if pre else None
        path = Path(copy.name) if copy else path
        peer = Peer(path)
        ids = [peer.encode(text) for text in texts]
        (HERE / "random" / f"{name}.bin").write_bytes(b"".join(struct.pack("<I", digest(one)) for one in ids))
        if second is None:
            continue
        if second == "sentencepiece":
            other, missing = sentencepiece_llama(path), set()
        else:
            other, missing = hugging_face(path, *second), missing_bytes(path)
        theirs = [other(text) for text in texts]
        rows = [(seed, reason(name, texts[seed], missing)) for seed in range(len(texts)) if ids[seed] != theirs[seed]]
        differ[name] = rows
        print(name, len(rows), {why: [s for s, w in rows if w == why][:8] for why in REASONS if any(w == why for _, w in rows)}, flush=True)
        for seed, why in rows:
            if why == "unexplained" and args.only:
                print(seed, ascii(texts[seed].decode()), [peer.decode([i]) for i in ids[seed]], [peer.decode([i]) for i in theirs[seed]])
    if args.only:
        return
    write_differences(differ, len(texts))


if __name__ == "__main__":
    main()
