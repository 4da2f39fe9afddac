"""Holds reference.py to Hugging Face transformers, architecture by architecture.

    python3 check_architectures.py

Makes a small random model of each with transformers, writes its weights as GGUF files have them (norms of Gemma plus one,
queries and keys of Llama permuted, as llama.cpp's converter does), and prints the greatest difference of the logits in parts
of the greatest. transformers computes norms and angles in float32, which is all the difference there should be.
Needs: pip install numpy gguf torch transformers
"""

import tempfile

import numpy as np
import torch
import transformers as hf
from gguf import GGUFWriter

from reference import Model

COMMON = {"vocab_size": 260, "hidden_size": 64, "intermediate_size": 96, "max_position_embeddings": 256}
COMMON |= {"attn_implementation": "eager", "initializer_range": 0.3, "pad_token_id": None}
YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 64}
YARN |= {"beta_fast": 4.0, "beta_slow": 1.0}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "original_max_position_embeddings": 64}
LLAMA3 |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
LINEAR = {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0}
LOCAL = {"rope_type": "default", "rope_theta": 1e4}


def heads(layers, heads, kv_heads, dim):
    shape = {"num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": dim}
    return COMMON | shape


# Each model: its architecture in GGUF, its class and configuration in transformers, and its keys in GGUF beside the sizes.
MODELS = [
    ("llama", hf.LlamaForCausalLM, hf.LlamaConfig(**heads(3, 4, 2, 16), rope_parameters=LLAMA3), {"rope.freq_base": 5e5}),
    (
        "llama",
        hf.MistralForCausalLM,
        hf.MistralConfig(**heads(3, 4, 1, 24), sliding_window=6, rope_parameters=LINEAR),
        {
            "attention.sliding_window": 6,
            "rope.freq_base": 1e6,
            "rope.scaling.type": "linear",
            "rope.scaling.factor": 8.0,
        },
    ),
    (
        "smollm3",
        hf.SmolLM3ForCausalLM,
        hf.SmolLM3Config(**heads(5, 4, 2, 16), no_rope_layer_interval=4, tie_word_embeddings=True),
        {"rope.freq_base": 2e6},
    ),
    (
        "qwen2",
        hf.Qwen2ForCausalLM,
        hf.Qwen2Config(**heads(3, 4, 2, 16), rope_parameters=YARN),
        {
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": 4.0,
            "rope.scaling.original_context_length": 64,
            "rope.scaling.yarn_beta_fast": 4.0,
            "rope.scaling.yarn_beta_slow": 1.0,
        },
    ),
    ("qwen3", hf.Qwen3ForCausalLM, hf.Qwen3Config(**heads(3, 4, 2, 32)), {}),
    (
        "gemma2",
        hf.Gemma2ForCausalLM,
        hf.Gemma2Config(
            **heads(4, 4, 2, 32),
            sliding_window=6,
            query_pre_attn_scalar=32,
            attn_logit_softcapping=2.0,
            final_logit_softcapping=5.0,
        ),
        {
            "attention.sliding_window": 6,
            "attn_logit_softcapping": 2.0,
            "final_logit_softcapping": 5.0,
        },
    ),
    (
        "gemma3",
        hf.Gemma3ForCausalLM,
        hf.Gemma3TextConfig(
            **heads(7, 2, 1, 64),
            sliding_window=6,
            query_pre_attn_scalar=64,
            rope_parameters={"full_attention": LINEAR, "sliding_attention": LOCAL},
        ),
        {
            "attention.sliding_window": 6,
            "rope.freq_base": 1e6,
            "rope.scaling.type": "linear",
            "rope.scaling.factor": 8.0,
        },
    ),
]

NAMES = {
    "input_layernorm.weight": "attn_norm.weight",
    "self_attn.q_proj.weight": "attn_q.weight",
    "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight",
    "self_attn.q_proj.bias": "attn_q.bias",
    "self_attn.k_proj.bias": "attn_k.bias",
    "self_attn.v_proj.bias": "attn_v.bias",
    "self_attn.o_proj.weight": "attn_output.weight",
    "self_attn.q_norm.weight": "attn_q_norm.weight",
    "self_attn.k_norm.weight": "attn_k_norm.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
}
GEMMA_NAMES = {
    "post_attention_layernorm.weight": "post_attention_norm.weight",
    "pre_feedforward_layernorm.weight": "ffn_norm.weight",
    "post_feedforward_layernorm.weight": "post_ffw_norm.weight",
}


def gguf_name(name, arch):
    whole = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
    }
    if name in whole:
        return whole[name]
    _, _, layer, part = name.split(".", 3)
    names = NAMES | GEMMA_NAMES if arch.startswith("gemma") else NAMES
    return f"blk.{layer}.{names[part]}"


def permuted(weight, heads):
    """Halves of each head to adjacent pairs."""
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def write(path, arch, model, config, keys):
    writer = GGUFWriter(path, arch)
    sizes = {
        "block_count": config.num_hidden_layers,
        "embedding_length": config.hidden_size,
        "feed_forward_length": config.intermediate_size,
        "context_length": config.max_position_embeddings,
        "attention.head_count": config.num_attention_heads,
        "attention.head_count_kv": config.num_key_value_heads,
        "attention.key_length": config.head_dim,
        "attention.layer_norm_rms_epsilon": config.rms_norm_eps,
    }
    for key, value in (sizes | keys).items():
        add = {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}[type(value)]
        add(f"{arch}.{key}", value)
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        weight = weight.numpy().astype(np.float32)
        if arch.startswith("gemma") and name.endswith("norm.weight"):
            weight = weight + 1
        if arch in ("llama", "smollm3") and name.endswith(("q_proj.weight", "k_proj.weight")):
            is_query = name.endswith("q_proj.weight")
            weight = permuted(weight, config.num_attention_heads if is_query else config.num_key_value_heads)
        writer.add_tensor(gguf_name(name, arch), weight)
    if keys.get("rope.freq_base") == 5e5:
        # Llama 3.1: the file has what its frequencies are divided by.
        found = model.model.rotary_emb.inv_freq.double().numpy()
        plain = 5e5 ** (-np.arange(0, config.head_dim, 2) / config.head_dim)
        writer.add_tensor("rope_freqs.weight", (plain / found).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    ids = np.random.default_rng(1).integers(0, 260, 40)
    for arch, kind, config, keys in MODELS:
        torch.manual_seed(1)
        model = kind(config).eval()
        for name, parameter in model.named_parameters():
            if "norm" in name or "bias" in name:
                torch.nn.init.normal_(parameter, 0.0 if arch.startswith("gemma") else 1.0, 0.3)
        with tempfile.NamedTemporaryFile(suffix=".gguf") as file, torch.no_grad():
            write(file.name, arch, model, config, keys)
            expected = model.double()(torch.tensor(ids)[None]).logits[0].numpy()
            found = Model(file.name).logits(ids)
        error = np.abs(found - expected).max() / np.abs(expected).max()
        print(f"{kind.__name__}: {error:.1e}")


if __name__ == "__main__":
    main()
