"""A Llama forward pass in float64 with numpy, on the dequantised weights of a GGUF file.

The reference of make_logits.py and compare_logits.py. Written from the papers (Llama, RoFormer, GQA, SwiGLU, RMSNorm);
the only foreign part is the `gguf` package, which reads the file and dequantises its tensors.
Needs: pip install numpy gguf
"""

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

WINDOW = 256


class Llama:
    """The weights and hyperparameters of a `llama` architecture GGUF file, and its forward pass."""

    def __init__(self, path):
        reader = GGUFReader(path)
        field = {name: f.contents() for name, f in reader.fields.items() if name.startswith("llama.")}
        self.layers = field["llama.block_count"]
        self.heads = field["llama.attention.head_count"]
        self.kv_heads = field["llama.attention.head_count_kv"]
        self.eps = field["llama.attention.layer_norm_rms_epsilon"]
        self.base = field["llama.rope.freq_base"]
        self.w = {t.name: dequantize(t.data, t.tensor_type).astype(np.float64) for t in reader.tensors}
        self.embedding = self.w["token_embd.weight"]
        self.output = self.w.get("output.weight", self.embedding)
        self.vocab = len(self.output)

    def norm(self, x, name):
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + self.eps) * self.w[name]

    def rope(self, x):
        """Rotates the pairs (2i, 2i+1) of x [positions, heads, width], the order of GGUF's permuted Q and K."""
        n, _, d = x.shape
        angle = np.arange(n)[:, None] * self.base ** (-np.arange(0, d, 2) / d)
        cos, sin = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
        out = np.empty_like(x)
        out[..., 0::2] = x[..., 0::2] * cos - x[..., 1::2] * sin
        out[..., 1::2] = x[..., 0::2] * sin + x[..., 1::2] * cos
        return out

    def attention(self, h, layer):
        n = len(h)
        q, k, v = (h @ self.w[f"blk.{layer}.attn_{m}.weight"].T for m in "qkv")
        q = self.rope(q.reshape(n, self.heads, -1)).transpose(1, 0, 2)
        k = self.rope(k.reshape(n, self.kv_heads, -1)).transpose(1, 0, 2)
        v = v.reshape(n, self.kv_heads, -1).transpose(1, 0, 2)
        group = self.heads // self.kv_heads
        k, v = np.repeat(k, group, axis=0), np.repeat(v, group, axis=0)
        score = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
        score = np.where(np.tri(n, dtype=bool), score, -np.inf)
        score = np.exp(score - score.max(axis=-1, keepdims=True))
        score /= score.sum(axis=-1, keepdims=True)
        return (score @ v).transpose(1, 0, 2).reshape(n, -1) @ self.w[f"blk.{layer}.attn_output.weight"].T

    def logits(self, ids):
        """Logits of every position of the ids, which start at position 0, as float64 [positions, vocabulary]."""
        x = self.embedding[np.asarray(ids)]
        for i in range(self.layers):
            x = x + self.attention(self.norm(x, f"blk.{i}.attn_norm.weight"), i)
            h = self.norm(x, f"blk.{i}.ffn_norm.weight")
            gate = h @ self.w[f"blk.{i}.ffn_gate.weight"].T
            gate = gate / (1 + np.exp(-gate))
            x = x + (gate * (h @ self.w[f"blk.{i}.ffn_up.weight"].T)) @ self.w[f"blk.{i}.ffn_down.weight"].T
        return self.norm(x, "output_norm.weight") @ self.output.T


def read_ids(path):
    """The windows of logits_ids.txt: a list of lists of token ids."""
    with open(path) as f:
        return [[int(i) for i in line.split()] for line in f]


def reference_logits(model, windows):
    """Float32 logits [positions, vocabulary] of all windows, each starting afresh at position 0."""
    llama = Llama(model)
    return np.concatenate([llama.logits(w).astype(np.float32) for w in windows])


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
