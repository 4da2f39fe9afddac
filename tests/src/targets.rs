//! What takes bytes from strangers, each as a function of any bytes, which must come back in
//! bounded time and never panic: for the fuzzers of `tests/fuzz`, and for `tests/mutations.rs`, which
//! is the same without one.

use std::path::Path;
use std::sync::OnceLock;
use std::{env, fs, process};

use runtime::arena;
use runtime::chat::{Chat, ChatChoice, Message, Role};
use runtime::console::{LINE_BYTES, Line, Request, Typed};
use runtime::gguf::Gguf;
use runtime::image::{Image, Mapped};
use runtime::model::weights::Sizes;
use runtime::model::{Config, Weights};
use runtime::sys::Fd;
use runtime::tokenizer::{Flow, Segment, TextStream, Tokenizer};
use xxhash_rust::xxh64::xxh64;

use crate::memory::Block;
use crate::vocabulary::{CONTROL, Vocabulary, with_tokenizer};
use crate::{mixed_model, run_host};

/// Scratch for short texts, and all the memory that a vocabulary or vectors may ask for.
const MEMORY: usize = 8 << 20;

/// A reader of bytes.
pub struct Target {
    /// The fuzzer's name.
    pub name: &'static str,
    /// Reads any bytes.
    pub run: fn(&[u8]),
    /// Bytes that it takes, to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All of them.
pub static TARGETS: [Target; 6] = [
    Target {
        name: "gguf",
        run: gguf,
        seeds: ggufs,
    },
    Target {
        name: "image",
        run: image,
        seeds: images,
    },
    Target {
        name: "encode",
        run: encode,
        seeds: || texts(&["\0Hello world, \u{1f44d} <s>", "\x01 the  cat\n\tsat"]),
    },
    Target {
        name: "decode",
        run: decode,
        seeds: || texts(&["\0stop\0abcdefgh\u{e9}", "\x01\0\x03\x04\x05\x06"]),
    },
    Target {
        name: "template",
        run: template,
        seeds: || {
            texts(&[
                CHATML,
                LLAMA_2,
                "{% for message in messages %}{{ message }}{% endfor %}",
            ])
        },
    },
    Target {
        name: "console",
        run: console,
        seeds: || {
            texts(&[
                "Who are you?\r\nWhy\x08\x08\x1b[A\tthen?\n",
                "{\"prompt\":\"Hi \\u00e9\",\"id\":7,\"n\":3,\"temp\":0.5,\"stop\":[\"a\",\"b\"]}\n",
            ])
        },
    },
];

const CHATML: &str = "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + \
    message['content'] + '<|im_end|>' + '\n'}}{% endfor %}";
const LLAMA_2: &str = "{{ bos_token + '[INST] ' + message['content'] + ' [/INST]' }}";

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn ggufs() -> Vec<Vec<u8>> {
    let model = mixed_model::gguf_with(1, |file| {
        file.string("tokenizer.chat_template", CHATML)
            .string("llama.rope.scaling.type", "none")
    });
    vec![model, byte_level().file(), sentencepiece().file()]
}

/// A GGUF file: its header, what is made of it before anything is loaded, and its vocabulary.
fn gguf(bytes: &[u8]) {
    let Ok(gguf) = Gguf::check(bytes) else { return };
    for tensor in gguf.tensors() {
        assert!(gguf.tensor(tensor.name).is_some());
        assert!(gguf.file_offset(&tensor) + tensor.bytes <= bytes.len() as u64);
    }
    for key in [
        "tokenizer.ggml.tokens",
        "tokenizer.ggml.scores",
        "general.name",
    ] {
        let _ = (
            gguf.u32(key),
            gguf.f32(key),
            gguf.bool(key),
            gguf.string(key),
        );
        if let Ok(Some(array)) = gguf.array(key) {
            assert_eq!(array.values().count(), array.len());
            let _ = array.strings().map(Iterator::count);
            let _ = array.integers().map(Iterator::count);
            let _ = array.floats().map(Iterator::count);
        }
    }
    if let Ok(config) = Config::read(&gguf) {
        let _ = Weights::gather(&gguf, &config, &mut Sizes::default());
    }
    let _ = vocabulary(&gguf);
}

/// A vocabulary and its chat template, with a text through both.
fn vocabulary(gguf: &Gguf<'_>) -> Option<()> {
    let bytes = Tokenizer::bytes(gguf)
        .ok()
        .filter(|&bytes| bytes < MEMORY)?;
    let mut block = Block::new(bytes + MEMORY);
    let (model, _, mut forward) = arena::split(block.bytes(), bytes, 0).ok()?;
    let model = model.open_once();
    let tokenizer = Tokenizer::new(gguf, &model).ok()?;
    let mut ids = Vec::new();
    let mut take = |id: u32| {
        assert!((id as usize) < tokenizer.len());
        ids.push(id);
    };
    {
        let scratch = forward.open();
        let text = [Segment::Text(b"Hello \xff<|im_end|>")];
        let _ = tokenizer.encode_each(text.into_iter(), &scratch, &mut take);
    }
    let chat = Chat::choose(gguf, ChatChoice::Auto).ok()?;
    chat.check(&tokenizer).ok()?;
    let messages = [(Role::System, "Be kind."), (Role::User, "Who?")];
    let messages = messages.map(|(role, text)| Message {
        role,
        text: text.as_bytes(),
    });
    let scratch = forward.open();
    let _ = chat.encode_dialog(&tokenizer, &messages, &scratch, &mut take);
    let _ = tokenizer.decode(&ids).count();
    Some(())
}

/// An image as the host's program packs it.
fn images() -> Vec<Vec<u8>> {
    let folder = env::temp_dir().join(format!("rushlight-targets-{}", process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let (model, image) = (folder.join("model.gguf"), folder.join("model.rush"));
    fs::write(&model, mixed_model::gguf(1)).expect("a file");
    let path = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let output = run_host(&["pack", &path(&model), &path(&image)], b"");
    assert_eq!(output.code, 0, "{}", output.stderr);
    let packed = fs::read(&image).expect("an image");
    fs::remove_dir_all(&folder).expect("it is there");
    vec![packed]
}

/// Makes the checksum of an image's header right, so that what lies behind it is reached.
pub fn seal(bytes: &mut [u8]) {
    let Some(fixed) = bytes.first_chunk::<64>() else {
        return;
    };
    let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| fixed[at + i])) as usize;
    let end = 64 + 32 * word(40) + word(44);
    let Some(rest) = bytes.get(64..end) else {
        return;
    };
    let covered = [&bytes[..56], rest].concat();
    let sum = xxh64(&covered, 0);
    bytes[56..64].copy_from_slice(&sum.to_le_bytes());
}

/// A packed image, with its checksum made right: everything that a run does with a header, short
/// of computing.
fn image(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    seal(&mut bytes);
    let _ = use_header(&bytes);
}

/// What the weights of an image take in a step, if it is whole.
pub fn use_header(bytes: &[u8]) -> Option<usize> {
    let image = Image::check(bytes).ok()?;
    let gguf = image.gguf().ok()?;
    let config = Config::read(&gguf).ok()?;
    let mut sizes = Sizes::default();
    Weights::gather(&gguf, &config, &mut sizes).ok()?;
    let mut block = Block::new(sizes.vectors.min(1 << 20));
    let (model, ..) = arena::split(block.bytes(), sizes.vectors, 0).ok()?;
    let model = model.open_once();
    let mut mapped = Mapped {
        image,
        file: Fd::NONE,
        model: &model,
    };
    let weights = Weights::gather(&gguf, &config, &mut mapped).ok()?;
    Some(weights.step_bytes())
}

fn byte_level() -> Vocabulary {
    let mut vocabulary = Vocabulary::byte_level(&["t h", "th e", "\u{120} the", "l l", "o w"]);
    for marker in ["<|im_start|>", "<|im_end|>"] {
        vocabulary.push(marker, CONTROL);
    }
    vocabulary
}

fn sentencepiece() -> Vocabulary {
    let pieces = [
        ("\u{2581}", -1.0),
        ("t", -2.0),
        ("h", -2.5),
        ("th", -1.5),
        ("\u{2581}the", -0.5),
    ];
    let mut vocabulary = Vocabulary::sentencepiece(&pieces);
    vocabulary.push("<|im_end|>", CONTROL);
    vocabulary
}

/// The file of a vocabulary, chosen by the first byte; and the other bytes.
fn choose(bytes: &[u8]) -> Option<(&'static [u8], &[u8])> {
    static FILES: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    let files = FILES.get_or_init(|| [byte_level().file(), sentencepiece().file()]);
    let (first, rest) = bytes.split_first()?;
    Some((&files[usize::from(first & 1)], rest))
}

/// A text to tokens.
fn encode(bytes: &[u8]) {
    let Some((file, text)) = choose(bytes) else {
        return;
    };
    let done = with_tokenizer(file, MEMORY, |_, tokenizer, mut forward| {
        for segment in [Segment::Text(text), Segment::Marked(text)] {
            let scratch = forward.open();
            let mut check = |id: u32| assert!((id as usize) < tokenizer.len());
            let _ = tokenizer.encode_each([segment].into_iter(), &scratch, &mut check);
        }
    });
    done.expect("the vocabulary is right");
}

/// Tokens to a text that stops before another one: what stands before the first NUL.
fn decode(bytes: &[u8]) {
    let Some((file, rest)) = choose(bytes) else {
        return;
    };
    let end = rest.iter().position(|&byte| byte == 0).unwrap_or(0);
    let (stop, ids) = rest.split_at(end);
    let stops = [stop];
    let stops = if stop.is_empty() { &[] } else { &stops[..] };
    let Ok(mut stream) = TextStream::new(stops) else {
        return;
    };
    let done = with_tokenizer(file, MEMORY, |_, tokenizer, _| {
        let mut shown = Vec::new();
        let mut show = |text: &[u8]| shown.extend_from_slice(text);
        for &id in ids {
            let id = u32::from(id) % tokenizer.len() as u32;
            if stream.push(tokenizer.token_bytes(id), &mut show) != Flow::Continue {
                break;
            }
        }
        stream.finish(&mut show);
        let is_stop = |window: &[u8]| window == stop;
        assert!(stop.is_empty() || !shown.windows(stop.len()).any(is_stop));
    });
    done.expect("the vocabulary is right");
}

/// A chat template.
fn template(bytes: &[u8]) {
    let mut vocabulary = byte_level();
    vocabulary.keys = vocabulary.keys.string("tokenizer.chat_template", bytes);
    let file = vocabulary.file();
    let gguf = Gguf::check(&file).expect("the container is right");
    let _ = self::vocabulary(&gguf);
}

/// What comes in by a console: typed lines, and a program's.
fn console(bytes: &[u8]) {
    let (mut buffer, mut texts, mut scratch) = (
        vec![0; LINE_BYTES],
        vec![0; LINE_BYTES],
        vec![0; LINE_BYTES],
    );
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
            assert!(line.bytes().len() <= LINE_BYTES);
        }
    }
}

/// Runs the target of that name.
///
/// # Panics
/// There is none, or it has found something.
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.expect("a target of that name").run)(bytes);
}
