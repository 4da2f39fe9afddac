"""Forward passes in float64 with numpy, on the dequantised weights of a GGUF file.

The reference of make_logits.py, compare_logits.py and make_architectures.py. Written from the papers and model cards
(Llama, RoFormer, GQA, SwiGLU, RMSNorm; Mistral 7B, YaRN, SmolLM3, Qwen 2 and 3, Gemma 2 and 3); the only foreign part is
the `gguf` package, which reads the file and dequantises its tensors. check_architectures.py holds it to transformers.
Needs: pip install numpy gguf
"""

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

WINDOW = 256


class Model:
    """The weights and hyperparameters of a GGUF file, and its forward pass."""

    def __init__(self, path):
        reader = GGUFReader(path)
        contents = {name: f.contents() for name, f in reader.fields.items() if f.types[0].name != "ARRAY"}
        self.arch = contents["general.architecture"]
        self.key = lambda name, default=None: contents.get(f"{self.arch}.{name}", default)
        self.layers = self.key("block_count")
        self.width = self.key("embedding_length")
        self.heads = self.key("attention.head_count")
        self.kv_heads = self.key("attention.head_count_kv", self.heads)
        self.dim = self.key("attention.key_length", self.width // self.heads)
        self.eps = self.key("attention.layer_norm_rms_epsilon")
        self.gemma = self.arch.startswith("gemma")
        self.w = {t.name: dequantize(t.data, t.tensor_type).astype(np.float64) for t in reader.tensors}
        self.embedding = self.w["token_embd.weight"]
        self.output = self.w.get("output.weight", self.embedding)
        self.vocab = len(self.output)

    def rms(self, x, weight):
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + self.eps) * weight

    def norm(self, x, name):
        return self.rms(x, self.w[name + ".weight"])

    def window(self, layer):
        """How many positions a layer sees; None: all."""
        default, full_every = {"llama": (0, 0), "gemma2": (4096, 2), "gemma3": (0, 6)}.get(self.arch, (0, 0))
        window = self.key("attention.sliding_window", default)
        if window == 0 or (full_every and layer % full_every == full_every - 1):
            return None
        return window

    def frequencies(self, layer):
        """Radians a position of each pair, and the factor on sines and cosines."""
        i = np.arange(0, self.dim, 2)
        if self.arch == "gemma3" and self.window(layer):
            return 10000.0 ** (-i / self.dim), 1.0
        base = self.key("rope.freq_base", 10000.0)
        f = base ** (-i / self.dim)
        if "rope_freqs.weight" in self.w:
            f = f / self.w["rope_freqs.weight"]
        kind, factor = self.key("rope.scaling.type", "none"), self.key("rope.scaling.factor", 1.0)
        if kind == "linear":
            return f / factor, 1.0
        if kind == "yarn":
            # The pair that turns so many times over the original context (YaRN, section 3.2).
            context = self.key("rope.scaling.original_context_length")
            pair = lambda turns: self.dim * np.log(context / (turns * 2 * np.pi)) / (2 * np.log(base))
            low = max(np.floor(pair(self.key("rope.scaling.yarn_beta_fast", 32.0))), 0)
            high = min(np.ceil(pair(self.key("rope.scaling.yarn_beta_slow", 1.0))), self.dim - 1)
            ramp = np.clip((i / 2 - low) / (high - low), 0, 1)
            return f / factor * ramp + f * (1 - ramp), 0.1 * np.log(factor) + 1
        assert kind == "none", kind
        return f, 1.0

    def rope(self, x, layer):
        """Rotates pairs of x [positions, heads, dim]: (2i, 2i+1) in the order of GGUF's permuted Q and K of llama and
        smollm3, (i, i + dim/2) elsewhere."""
        if self.arch == "smollm3" and layer % 4 == 3:
            return x
        f, magnitude = self.frequencies(layer)
        angle = np.arange(len(x))[:, None] * f
        cos, sin = (part(angle)[:, None, :] * magnitude for part in (np.cos, np.sin))
        if self.arch in ("llama", "smollm3"):
            first, second = np.s_[..., 0::2], np.s_[..., 1::2]
        else:
            first, second = np.s_[..., : self.dim // 2], np.s_[..., self.dim // 2 :]
        out = np.empty_like(x)
        out[first] = x[first] * cos - x[second] * sin
        out[second] = x[first] * sin + x[second] * cos
        return out

    def attention(self, h, layer):
        n = len(h)
        blk = f"blk.{layer}.attn_"
        q, k, v = (h @ self.w[f"{blk}{m}.weight"].T + self.w.get(f"{blk}{m}.bias", 0) for m in "qkv")
        q, k, v = q.reshape(n, self.heads, -1), k.reshape(n, self.kv_heads, -1), v.reshape(n, self.kv_heads, -1)
        if self.arch in ("qwen3", "gemma3"):
            q, k = self.norm(q, f"{blk}q_norm"), self.norm(k, f"{blk}k_norm")
        q, k, v = self.rope(q, layer).transpose(1, 0, 2), self.rope(k, layer).transpose(1, 0, 2), v.transpose(1, 0, 2)
        group = self.heads // self.kv_heads
        k, v = np.repeat(k, group, axis=0), np.repeat(v, group, axis=0)
        score = q @ k.transpose(0, 2, 1) / np.sqrt(self.dim)
        cap = self.key("attn_logit_softcapping")
        if cap:
            score = cap * np.tanh(score / cap)
        seen = np.tri(n, dtype=bool)
        if self.window(layer):
            seen &= ~np.tri(n, k=-self.window(layer), dtype=bool)
        score = np.where(seen, score, -np.inf)
        score = np.exp(score - score.max(axis=-1, keepdims=True))
        score /= score.sum(axis=-1, keepdims=True)
        return (score @ v).transpose(1, 0, 2).reshape(n, -1) @ self.w[f"{blk}output.weight"].T

    def activation(self, x):
        if self.gemma:
            return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
        return x / (1 + np.exp(-x))

    def feed_forward(self, h, layer):
        gate, up, down = (self.w[f"blk.{layer}.ffn_{m}.weight"].T for m in ("gate", "up", "down"))
        return (self.activation(h @ gate) * (h @ up)) @ down

    def logits(self, ids):
        """Logits of every position of the ids, which start at position 0, as float64 [positions, vocabulary]."""
        x = self.embedding[np.asarray(ids)]
        if self.gemma:
            x = x * np.sqrt(self.width)
        for i in range(self.layers):
            y = self.attention(self.norm(x, f"blk.{i}.attn_norm"), i)
            x = x + (self.norm(y, f"blk.{i}.post_attention_norm") if self.gemma else y)
            y = self.feed_forward(self.norm(x, f"blk.{i}.ffn_norm"), i)
            x = x + (self.norm(y, f"blk.{i}.post_ffw_norm") if self.gemma else y)
        logits = self.norm(x, "output_norm") @ self.output.T
        cap = self.key("final_logit_softcapping")
        return cap * np.tanh(logits / cap) if cap else logits


def read_ids(path):
    """The windows of logits_ids.txt: a list of lists of token ids."""
    with open(path) as f:
        return [[int(i) for i in line.split()] for line in f]


def reference_logits(model, windows):
    """Float32 logits [positions, vocabulary] of all windows, each starting afresh at position 0."""
    model = Model(model)
    return np.concatenate([model.logits(w).astype(np.float32) for w in windows])


def log_softmax(x):
    x = x.astype(np.float64)
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def coarse(logp, ids):
    """The log probabilities of the given ids of each row, and of everything else as one more."""
    top = np.take_along_axis(logp, ids, axis=-1)
    rest = np.log(np.maximum(1 - np.exp(top).sum(axis=-1, keepdims=True), 1e-12))
    return np.concatenate([top, rest], axis=-1)


def kl(logp, logq):
    """KL(p || q) of each row, in nats."""
    return (np.exp(logp) * (logp - logq)).sum(axis=-1)
