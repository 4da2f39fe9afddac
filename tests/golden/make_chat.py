"""Makes chat.jsonl: dialogs, and the tokens that the reference makes of them.

Each template is rendered with Jinja, as Hugging Face does it (trim_blocks, lstrip_blocks), and the
result is tokenised by llama.cpp (llama-cpp-python 0.3.36) with special tokens parsed; BOS is added
where the vocabulary says so and the template does not write it. One JSON object a line: vocab
(smollm2 and the like are models of `cargo xtask model`, the others are reference vocabularies), chat
(what --chat is given; auto: the template is the file's), messages ([role, text] pairs), ids. Where a
template refuses a dialog or a part of it, the dialog is left out.

The templates that are not in a file or here are those of llama.cpp's tests and models/templates.
templates.jsonl has the shorter ones (of: whose it is, text) with the family that they belong to.

Run: pip install jinja2 llama-cpp-python==0.3.36
     python3 make_chat.py --models .cache/models --source .../vendor/llama.cpp
"""

import argparse
import ast
import json
import re
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

LLAMA2 = (
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = "
    "messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}"
    "{% for message in loop_messages %}{% if loop.index0 == 0 and system_message != false %}{% set content = "
    "'<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = "
    "message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + "
    "' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}"
    "{% endfor %}")
FALCON3 = (
    "{% for message in messages %}{% if message['role'] == 'system' %}{{ '<|system|>\\n' + message['content'] + '\\n' }}"
    "{% elif message['role'] == 'user' %}{{ '<|user|>\\n' + message['content'] + '\\n' }}{% elif message['role'] == "
    "'assistant' %}{% if not loop.last %}{{ '<|assistant|>\\n' + message['content'] + eos_token + '\\n' }}{% else %}"
    "{{ '<|assistant|>\\n' + message['content'] + eos_token }}{% endif %}{% endif %}{% if loop.last and "
    "add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}{% endfor %}")

# Vocabulary, --chat, and the template: None for the file's own, text, a name in llama.cpp's test, or a file of its.
CASES = [
    ("smollm2", "auto", None),
    ("qwen2", "auto", None),
    ("qwen2.5-0.5b", "auto", None),
    ("gemma3-270m", "gemma", "google-gemma-2-2b-it.jinja"),
    ("phi-3", "auto", None),
    ("command-r", "auto", None),
    ("llama-spm", "zephyr", ZEPHYR),
    ("llama-bpe", "llama3", LLAMA3),
    ("llama-spm", "llama2", LLAMA2),
    ("falcon", "falcon3", FALCON3),
    ("phi-3", "phi3", "microsoft-Phi-3.5-mini-instruct.jinja"),
    ("qwen2", "phi4", "phi-4"),
    ("llama-spm", "mistral", "mistralai/Mistral-7B-Instruct-v0.2 (NOTE: Old pre-v1 without a system prompt)"),
    ("llama-spm", "mistral-v1", "mistralai/Mistral-7B-Instruct-v0.2 (mistralai 'v1' template with a system prompt)"),
    ("llama-spm", "mistral-v3",
     "Mistral-Large-Instruct-2407 (mistralai 'v3' template; modified to have system prompt at start)"),
    ("llama-bpe", "mistral-v3-tekken", "mistralai-Mistral-Nemo-Instruct-2407.jinja"),
    ("llama-spm", "mistral-v7", "mistralai/Mistral-Large-Instruct-2411 (mistralai 'v7' template)"),
    ("command-r", "command-r", "CohereForAI/c4ai-command-r-plus"),
    ("deepseek-coder", "deepseek", "deepseek-ai/deepseek-coder-33b-instruct"),
    ("deepseek-llm", "deepseek2", "DeepSeek-V2"),
    ("starcoder", "granite", "ibm-granite/granite-3.0-8b-instruct"),
    ("qwen2", "glmedge", "GLMEdge"),
    ("llama-spm", "vicuna", "eachadea/vicuna-13b-1.1"),
]
# Bytes of a template in templates.jsonl at most.
TEMPLATE_MAX = 2500

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


class Refused(Exception):
    """What a template says of a dialog."""


def named_template(source, name):
    """A template of llama.cpp's tests or of its models/templates."""
    if name.endswith(".jinja"):
        return (source / "models/templates" / name).read_text()
    tests = (source / "tests/test-chat-template.cpp").read_text()
    block = tests.split("/* .name= */ " + json.dumps(name))[1]
    literal = re.search(r'/\* \.template_str\s*= \*/ ("(?:[^"\\]|\\.)*")', block).group(1)
    return ast.literal_eval(literal)


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
        def refuse(message):
            raise Refused(message)

        jinja = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        jinja.globals["raise_exception"] = refuse
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
    ap.add_argument("--models", type=Path, required=True)
    ap.add_argument("--source", type=Path, required=True)
    args = ap.parse_args()
    with open(HERE / "chat.jsonl", "w") as f, open(HERE / "templates.jsonl", "w") as t:
        for vocab, chat, template in CASES:
            path = args.models / f"{vocab}.gguf"
            peer = Peer(path if path.exists() else args.source / "models" / f"ggml-vocab-{vocab}.gguf")
            of = chat
            if template is None:
                template = peer.template()
            elif "{%" not in template:
                of, template = template, named_template(args.source, template)
            if chat != "auto" and len(template.encode()) <= TEMPLATE_MAX:
                t.write(json.dumps({"of": of, "family": chat, "text": template}) + "\n")
            for messages in DIALOGS:
                try:
                    text = peer.render(template, messages)
                except Refused:
                    continue
                (role, words), *rest = messages
                if role == "system" and words and text == peer.render(template, rest):
                    continue  # Phi-3 mini's leaves the system prompt out; ours says it
                ids = peer.encode(text, "bos_token" not in template)
                case = {"vocab": vocab, "chat": chat, "messages": messages, "ids": ids}
                f.write(json.dumps(case, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
