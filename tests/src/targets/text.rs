//! Texts, tokens, templates, lines of the console, and the vocabularies that they go through.

use std::sync::OnceLock;

use runtime::arena::{self, rounded};
use runtime::chat::{Chat, ChatChoice, Message, Role};
use runtime::console::{Line, Request, Typed};
use runtime::gguf::Gguf;
use runtime::tokenizer::{Extent, Flow, Segment, TextStream, Tokenizer};

use crate::memory::Block;
use crate::vocabulary::{CONTROL, USER_DEFINED, Vocabulary, with_tokenizer};

/// Memory that a vocabulary may ask for: more than a file of [`super`]'s size has a use for.
const MEMORY: usize = 8 << 20;

/// A name in `tokenizer.ggml.pre` for each way to cut a text into words.
const PRETOKENIZERS: [&str; 15] = [
    "default",
    "falcon",
    "gpt-2",
    "smollm",
    "llama-bpe",
    "dbrx",
    "glm4",
    "minicpm5",
    "qwen2",
    "qwen35",
    "tekken",
    "gpt-4o",
    "deepseek-v3",
    "deepseek-llm",
    "deepseek-coder",
];

/// For each family of chat templates some text that is taken for it.
const TEMPLATES: [&str; 20] = [
    "<|im_start|>system\\nBe \\'kind\\'.\\n<|im_end|> {{ bos_token }}<|im_start|>",
    "<|start_header_id|><|end_header_id|><|eot_id|>",
    "<|user|> message['content'] + eos_token }} '<|assistant|>' }}",
    "<start_of_turn><end_of_turn>",
    "<|im_start|><|im_sep|><|im_end|>",
    "<|user|><|end|><|assistant|>",
    "bos_token + '[INST] ' <<SYS>> content.strip() + ' [/INST]' \
     ' '  + content.strip() + ' ' + eos_token",
    "'[INST] ' + message['content'] + ' [/INST]' message['content'] + eos_token",
    "' [INST] ' + system_message ' [INST] ' + message['content'] + ' [/INST]' \
     ' ' + message['content'] + eos_token",
    "loop.last and system_message is defined \"[INST] \" + system_message \
     \" \" + message[\"content\"]|trim + eos_token",
    "loop.last and system_message is defined \"[INST]\" + system_message \
     message[\"content\"] + eos_token",
    "'[SYSTEM_PROMPT] ' + '[INST] ' + '[/INST]'",
    "'[SYSTEM_PROMPT]' + '[INST]' + '[/INST]'",
    "<|START_OF_TURN_TOKEN|><|USER_TOKEN|><|CHATBOT_TOKEN|> \
     content.strip() + '<|END_OF_TURN_TOKEN|>'",
    "not ns.found -%}\n{{'You are one.'}} ### Instruction:\\n ### Response: <|EOT|>",
    "'User: ' + message['content'] + 'Assistant: ' + message['content'] + eos_token \
     {{ 'Assistant:' }}",
    "<|start_of_role|><|end_of_role|><|end_of_text|>",
    "'<|system|>\\n' + message['content'] + '\\n' '<|user|>\\n' + message['content'] + '\\n' \
     + message['content'] + eos_token '<|assistant|>\\n' }}",
    "<|system|>\n{{ item['content'] }}<|user|>\n{{ item['content'] }}{% endfor %}<|assistant|>",
    "'USER: ' + message['content'] + '\n' 'ASSISTANT: ' + message['content'] + '</s>\n'",
];

/// What templates have tokens for.
const MARKERS: [&str; 14] = [
    "<|im_start|>",
    "<|im_end|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<|end|>",
    "[INST]",
    "<|START_OF_TURN_TOKEN|>",
    "<|END_OF_TURN_TOKEN|>",
    "<|USER_TOKEN|>",
    "<|SYSTEM_TOKEN|>",
    "<|CHATBOT_TOKEN|>",
];

/// Byte-level BPE with all bytes, merges, and the markers of templates.
pub(super) fn byte_level(pretokenizer: &str) -> Vocabulary {
    let merges = [
        "t h",
        "th e",
        "\u{120} the",
        "l l",
        "o w",
        "1 2",
        "\u{120} \u{120}",
    ];
    let mut vocabulary = Vocabulary::byte_level(&merges);
    vocabulary.pre = Some(pretokenizer.into());
    // The other bytes, as byte-level BPE writes them.
    for character in ('\u{a1}'..='\u{ff}').chain('\u{100}'..='\u{143}') {
        if !['\u{ad}', '\u{120}'].contains(&character) {
            vocabulary.push(character.to_string(), 1);
        }
    }
    for marker in MARKERS {
        vocabulary.push(marker, CONTROL);
    }
    vocabulary.push("<tool>", USER_DEFINED);
    let (bos, eos) = (
        vocabulary.push("<s>", CONTROL),
        vocabulary.push("</s>", CONTROL),
    );
    vocabulary.keys = vocabulary
        .keys
        .u32("tokenizer.ggml.bos_token_id", bos)
        .u32("tokenizer.ggml.eos_token_id", eos);
    vocabulary
}

/// SentencePiece with a few pieces.
pub(super) fn sentencepiece() -> Vocabulary {
    let pieces = [
        ("\u{2581}", -1.0),
        ("t", -2.0),
        ("h", -2.5),
        ("th", -1.5),
        ("\u{2581}the", -0.5),
        ("\u{2581}\u{2581}", -3.0),
        ("\u{e9}", -4.0),
    ];
    let mut vocabulary = Vocabulary::sentencepiece(&pieces);
    vocabulary.push("<|im_end|>", CONTROL);
    vocabulary.push("<tool>", USER_DEFINED);
    vocabulary
}

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

pub(super) fn to_encode() -> Vec<Vec<u8>> {
    const TEXT: &str =
        "Hello the  world's 1234, \u{1f44d}\u{4f60}\u{3042} <s>\n\n\tIt'LL /x\r\n `y`<tool>";
    let files = vocabularies().len() as u8;
    let seed = |choice: u8| [&[choice], TEXT.as_bytes()].concat();
    (0..files).map(seed).collect()
}

pub(super) fn to_decode() -> Vec<Vec<u8>> {
    texts(&[
        "\x02ab\x01bc\0abcdefghABCDEFGHI\u{e9}",
        "\x0f\0\x03\x04\x05\x06",
    ])
}

pub(super) fn templates() -> Vec<Vec<u8>> {
    let mut all = texts(&TEMPLATES);
    all.extend(texts(&[
        "{% for message in messages %}{{ message }}{% endfor %}",
    ]));
    all
}

pub(super) fn lines() -> Vec<Vec<u8>> {
    let mut all = texts(&[
        "Who are you?\r\nWhy\x08\x08\x1b[A\tthen?\n",
        "{\"prompt\":\"Hi \\u00e9\",\"id\":7,\"n\":3,\"temp\":0.5,\"stop\":[\"a\",\"b\"]}\n",
    ]);
    let too_long = [&[b'x'; LINE][..], b"\xc3\xa9\x08\nagain\n"];
    all.push(too_long.concat());
    all
}

/// A vocabulary and its chat template, with a text through both.
pub(super) fn vocabulary(gguf: &Gguf<'_>) -> Option<()> {
    const TEXT: &[u8] = b"Hello \xff<|im_end|> the";
    let bytes = Tokenizer::bytes(gguf)
        .ok()
        .filter(|&bytes| bytes < MEMORY)?;
    let chat = Chat::choose(gguf, ChatChoice::Auto);
    let messages = [(Role::System, "Be kind."), (Role::User, "Who?")];
    let messages = messages.map(|(role, text)| Message {
        role,
        text: text.as_bytes(),
    });
    let [system, user] = messages.map(|message| Extent::of(gguf, message.text));
    let extent = system.ok()? + user.ok()?;
    let dialog = chat.map_or(0, |chat| chat.encode_bytes(messages.len(), extent));
    let scratch = dialog.max(Extent::whole(TEXT.len()).encode_bytes());
    let mut block = Block::new(rounded(bytes) + scratch);
    let (model, _, mut forward) = arena::split(block.bytes(), bytes, 0).expect("room for it");
    let model = model.open_once();
    let tokenizer = Tokenizer::new(gguf, &model).ok()?;
    assert_eq!(model.used(), bytes, "the plan and the index agree");
    let mut ids = Vec::new();
    let mut take = |id: u32| {
        assert!((id as usize) < tokenizer.len());
        ids.push(id);
    };
    {
        let scratch = forward.open();
        let text = [Segment::Text(TEXT)];
        let done = tokenizer.encode_each(text.into_iter(), &scratch, &mut take);
        done.expect("as much memory as it says");
    }
    let chat = chat.ok()?;
    if chat.is_template() && chat.check(&tokenizer).is_ok() {
        let scratch = forward.open();
        let done = chat.encode_dialog(&tokenizer, &messages, &scratch, &mut take);
        done.expect("as much memory as it says");
    }
    let _ = tokenizer.decode(&ids).count();
    Some(())
}

/// The files of the vocabularies: one for each way to cut a text into words.
fn vocabularies() -> &'static [Vec<u8>] {
    static FILES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    FILES.get_or_init(|| {
        let mut unspaced = sentencepiece();
        unspaced.keys = unspaced.keys.bool("tokenizer.ggml.add_space_prefix", false);
        let byte_levels = PRETOKENIZERS.map(|name| byte_level(name).file());
        let mut files = byte_levels.to_vec();
        files.extend([sentencepiece().file(), unspaced.file()]);
        files
    })
}

/// The file of a vocabulary, chosen by the first byte; and the other bytes.
fn choose(bytes: &[u8]) -> Option<(&'static [u8], &[u8])> {
    let files = vocabularies();
    let (first, rest) = bytes.split_first()?;
    Some((&files[usize::from(*first) % files.len()], rest))
}

/// A text to tokens, in the memory that is planned for it.
pub(super) fn encode(bytes: &[u8]) {
    let Some((file, text)) = choose(bytes) else {
        return;
    };
    let gguf = Gguf::check(file).expect("the container is right");
    let extent = Extent::of(&gguf, text).expect("a kind that is known");
    let scratch = extent.encode_bytes();
    let done = with_tokenizer(file, scratch, |_, tokenizer, mut forward| {
        for segment in [Segment::Text(text), Segment::Marked(text)] {
            let mut count = 0;
            let scratch = forward.open();
            let mut check = |id: u32| {
                assert!((id as usize) < tokenizer.len());
                count += 1;
            };
            let done = tokenizer.encode_each([segment].into_iter(), &scratch, &mut check);
            done.expect("as much memory as it says");
            assert!(count <= extent.tokens_max());
        }
    });
    done.expect("the vocabulary is right");
}

/// Tokens to a text that stops before other ones: what stands before the first NUL, with 1 between.
pub(super) fn decode(bytes: &[u8]) {
    let Some((file, rest)) = choose(bytes) else {
        return;
    };
    let end = rest.iter().position(|&byte| byte == 0).unwrap_or(0);
    let (stops, ids) = rest.split_at(end);
    let stops: Vec<_> = stops
        .split(|&byte| byte == 1)
        .filter(|stop| !stop.is_empty())
        .collect();
    let Ok(mut stream) = TextStream::new(&stops) else {
        return;
    };
    let done = with_tokenizer(file, 0, |_, tokenizer, _| {
        let mut shown = Vec::new();
        let mut show = |text: &[u8]| shown.extend_from_slice(text);
        for &id in ids {
            let id = u32::from(id) % tokenizer.len() as u32;
            if stream.push(tokenizer.token_bytes(id), &mut show) != Flow::Continue {
                break;
            }
        }
        stream.finish(&mut show);
        for stop in &stops {
            assert!(!shown.windows(stop.len()).any(|window| window == *stop));
        }
    });
    done.expect("the vocabulary is right");
}

/// A chat template.
pub(super) fn template(bytes: &[u8]) {
    static VOCABULARY: OnceLock<Vocabulary> = OnceLock::new();
    let mut vocabulary = VOCABULARY.get_or_init(|| byte_level("gpt-2")).clone();
    vocabulary.keys = vocabulary.keys.string("tokenizer.chat_template", bytes);
    let file = vocabulary.file();
    let gguf = Gguf::check(&file).expect("the container is right");
    let _ = self::vocabulary(&gguf);
}

/// Bytes of a line: fewer than a console has room for, so that lines are too long.
const LINE: usize = 256;

/// What comes in by a console: typed lines, and a program's.
pub(super) fn console(bytes: &[u8]) {
    let (mut buffer, mut texts, mut scratch) = ([0; LINE], [0; LINE], [0; LINE]);
    for is_typed in [true, false] {
        let mut line = Line::new(&mut buffer, is_typed);
        for &byte in bytes {
            match line.push(byte) {
                Typed::Line => {
                    let _ = Request::default().read(line.bytes(), &mut texts, &mut scratch);
                    line.clear();
                }
                Typed::TooLong => line.clear(),
                Typed::Nothing | Typed::Byte | Typed::Erased => {}
            }
            assert!(line.bytes().len() <= LINE);
        }
    }
}
