"""Makes chat.jsonl: dialogs, and the tokens that the reference makes of them.

Each template is rendered with Jinja, as Hugging Face does it (trim_blocks, lstrip_blocks), and the
result is tokenised by llama.cpp (llama-cpp-python 0.3.36) with special tokens parsed; BOS is added
where the vocabulary says so and the template does not write it. One JSON object a line: vocab
(smollm2 is a model of `cargo xtask model`, the others are reference vocabularies), chat (what
--chat is given), messages ([role, text] pairs), ids.

Run: pip install jinja2 llama-cpp-python==0.3.36
     python3 make_chat.py --smollm2 MODEL.gguf --vocabs .../vendor/llama.cpp/models
"""

import argparse
import json
from pathlib import Path

import llama_cpp
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = Path(__file__).parent

# The templates of the models that made the families known; chatml's is in the file.
ZEPHYR = """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>
'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}"""
LLAMA3 = (
    "{% for message in messages %}{% set content = '<|start_header_id|>' + message['role'] + "
    "'<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}"
    "{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}"
    "{% endfor %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}")

DIALOGS = [
    [("user", "What is the capital of France?")],
    [("system", "You answer in one word."), ("user", "What is the capital of France?")],
    [("system", ""), ("user", "Hello")],
    [("user", "")],
    [("user", "Hi"), ("assistant", "Hello! How can I help?"),
     ("user", "Tell me a joke about 3 cats.")],
    [("system", "Be brief.\nBe kind."), ("user", "a"), ("assistant", "b"), ("user", "c"),
     ("assistant", "d"), ("user", "e")],
    [("user", "Zwölf Boxkämpfer 😀 你好 नमस्ते\n\n\tindented\r\nlines")],
    [("user", "no trailing space."), ("assistant", "1234567890"),
     ("user", "it's 12:30, isn't it?")],
    [("user", "\n\nline ends around\n\n")],
    [("user", "  spaces around  ")],
    [("system", " s "), ("user", "\t\n x \n\t")],
]


class Peer:
    """llama.cpp's tokenizer of one GGUF file."""

    def __init__(self, path):
        params = llama_cpp.llama_model_default_params()
        params.vocab_only = True
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)

    def template(self):
        return llama_cpp.llama_model_chat_template(self.model, None).decode()

    def text(self, token):
        return llama_cpp.llama_vocab_get_text(self.vocab, token).decode()

    def render(self, template, messages):
        jinja = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        return jinja.from_string(template).render(
            messages=[{"role": role, "content": text} for role, text in messages],
            add_generation_prompt=True,
            bos_token=self.text(llama_cpp.llama_vocab_bos(self.vocab)),
            eos_token=self.text(llama_cpp.llama_vocab_eos(self.vocab)))

    def encode(self, text, add_special):
        data = text.encode()
        ids = (llama_cpp.llama_token * (len(data) * 2 + 8))()
        count = llama_cpp.llama_tokenize(self.vocab, data, len(data), ids, len(ids), add_special,
                                         True)
        assert count >= 0
        return list(ids[:count])


def main():
    ap = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--smollm2", type=Path, required=True)
    ap.add_argument("--vocabs", type=Path, required=True)
    args = ap.parse_args()
    cases = [
        ("smollm2", args.smollm2, "auto", None),
        ("llama-spm", args.vocabs / "ggml-vocab-llama-spm.gguf", "zephyr", ZEPHYR),
        ("llama-bpe", args.vocabs / "ggml-vocab-llama-bpe.gguf", "llama3", LLAMA3),
    ]
    with open(HERE / "chat.jsonl", "w") as f:
        for vocab, path, chat, template in cases:
            peer = Peer(path)
            template = template or peer.template()
            for messages in DIALOGS:
                ids = peer.encode(peer.render(template, messages), "bos_token" not in template)
                case = {"vocab": vocab, "chat": chat, "messages": messages, "ids": ids}
                f.write(json.dumps(case, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
