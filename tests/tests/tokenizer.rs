//! Tokenizers: equality with the reference, what a text may become, time and memory.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use runtime::gguf::Gguf;
use runtime::tokenizer::{Extent, Segment, TokenKind, Tokenizer, TokenizerError};
use serde_json::Value;
use tests::random_text::random_text;
use tests::vocabulary::{
    CONTROL, USER_DEFINED, Vocabulary, encode, encode_segment, vocabulary_of, with_file,
    with_tokenizer,
};
use tests::{Output, model, run_host, vocab, workspace};

/// Scratch that is enough for every text here but the long ones.
const SCRATCH: usize = 1 << 20;

/// The reference vocabularies that bring texts and their tokens.
const REFERENCES: [&str; 13] = [
    "command-r",
    "deepseek-coder",
    "deepseek-llm",
    "falcon",
    "gpt-2",
    "llama-bpe",
    "llama-spm",
    "mpt",
    "phi-3",
    "qwen2",
    "qwen35",
    "refact",
    "starcoder",
];

/// The vocabularies with golden files for random texts: `NAME@PRE` is NAME with another pre-tokenizer.
const RANDOM: [&str; 21] = [
    "gpt-2",
    "mpt",
    "smollm2",
    "starcoder",
    "refact",
    "command-r",
    "falcon",
    "llama-bpe",
    "llama-bpe@dbrx",
    "qwen2",
    "qwen35",
    "deepseek-coder",
    "deepseek-llm",
    "llama-bpe@deepseek-v3",
    "llama-bpe@tekken",
    "llama-bpe@gpt-4o",
    "llama-bpe@minicpm5",
    "llama-bpe@bailingmoe",
    "gpt-2@default",
    "llama-spm",
    "phi-3",
];
/// Likewise, of models that `cargo xtask setup` does not fetch.
const RANDOM_LARGE: [&str; 2] = ["gemma3-270m", "qwen2.5-0.5b"];
/// Seeds of random texts, from 0 on.
const RANDOM_TEXTS: u64 = 1000;

/// A text of a golden file.
struct Case {
    text: Vec<u8>,
    ids: Vec<u32>,
    /// What the tokens give back.
    out: Vec<u8>,
    /// Not UTF-8.
    is_raw: bool,
}

fn hex(text: &Value) -> Vec<u8> {
    let digits = text.as_str().expect("hex").as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("hex") as u8;
    let bytes = digits
        .chunks(2)
        .map(|two| digit(two[0]) << 4 | digit(two[1]));
    bytes.collect()
}

fn golden(name: &str) -> Vec<Case> {
    let path = workspace().join("tests/golden").join(name);
    let lines = fs::read_to_string(path).unwrap();
    let case = |line: &str| {
        let case: Value = serde_json::from_str(line).unwrap();
        let ids = case["ids"].as_array().unwrap().iter();
        Case {
            text: hex(&case["text_hex"]),
            ids: ids.map(|id| id.as_u64().unwrap() as u32).collect(),
            out: hex(&case["out_hex"]),
            is_raw: case.get("raw").is_some(),
        }
    };
    lines.lines().map(case).collect()
}

fn bytes_of(tokenizer: &Tokenizer<'_>, ids: &[u32]) -> Vec<u8> {
    let bytes = ids.iter().flat_map(|&id| tokenizer.token_bytes(id));
    bytes.collect()
}

fn assert_golden(path: &Path, name: &str) {
    let cases = golden(name);
    assert!(cases.len() > 700);
    with_file(path, SCRATCH, |_, tokenizer, mut forward| {
        for Case { text, ids, out, .. } in &cases {
            assert_eq!(
                &encode(tokenizer, &mut forward, text),
                ids,
                "{}",
                text.escape_ascii()
            );
            assert_eq!(&bytes_of(tokenizer, ids), out, "{}", text.escape_ascii());
        }
    });
}

#[test]
fn byte_level_bpe_gives_the_references_tokens() {
    assert_golden(&model("smollm2"), "tokens_smollm2.jsonl");
}

#[test]
fn sentencepiece_gives_the_references_tokens() {
    assert_golden(&vocab("llama-spm"), "tokens_llama_spm.jsonl");
}

#[test]
fn reference_vocabularies_give_their_own_tokens() {
    for name in REFERENCES {
        let path = vocab(name);
        let beside = |end: &str| fs::read_to_string(format!("{}.{end}", path.display())).unwrap();
        let (inputs, outputs) = (beside("inp"), beside("out"));
        let texts: Vec<_> = inputs.split("\n__ggml_vocab_test__\n").collect();
        assert!(texts.len() > 40);
        with_file(&path, SCRATCH, |_, tokenizer, mut forward| {
            for (text, line) in texts.into_iter().zip(outputs.lines()) {
                let ids = line.split_ascii_whitespace().map(|id| id.parse().unwrap());
                let ids: Vec<u32> = ids.collect();
                assert_eq!(
                    encode(tokenizer, &mut forward, text),
                    ids,
                    "{name}: {text:?}"
                );
            }
        });
    }
}

#[test]
fn text_comes_back_from_its_tokens() {
    with_file(vocab("llama-spm"), SCRATCH, |_, tokenizer, mut forward| {
        for Case { text, .. } in golden("tokens_llama_spm.jsonl") {
            let ids = encode(tokenizer, &mut forward, &text);
            let back: Vec<u8> = tokenizer.decode(&ids).collect();
            // Of two ways to write a space one is lost: U+2581 itself comes back as a space.
            let text = String::from_utf8_lossy(&text).replace('\u{2581}', " ");
            assert_eq!(String::from_utf8_lossy(&back), text);
        }
    });
    with_file(model("smollm2"), SCRATCH, |_, tokenizer, mut forward| {
        // The vocabulary has no token for these bytes (and some that no text has): they are left
        // out, as by the reference.
        let is_lost = |byte: &u8| matches!(byte, 4 | 6 | 0x13 | 0x14 | 0x16 | 0x1D | 0xF1 | 0xF2);
        let mut cases = golden("tokens_smollm2.jsonl");
        cases.retain(|case| !case.is_raw && !case.text.iter().any(is_lost));
        assert!(cases.len() > 650);
        for Case { text, .. } in cases {
            let ids = encode(tokenizer, &mut forward, &text);
            assert!(tokenizer.decode(&ids).eq(text));
        }
    });
}

#[test]
fn text_never_becomes_structure() {
    for path in [model("smollm2"), vocab("llama-spm"), vocab("llama-bpe")] {
        with_file(path, SCRATCH, |_, tokenizer, mut forward| {
            let is_control = |&id: &u32| tokenizer.kind(id) == TokenKind::Control;
            let controls: Vec<u32> = (0..tokenizer.len() as u32).filter(is_control).collect();
            assert!(!controls.is_empty());
            for &id in &controls {
                let marker = tokenizer.text(id);
                assert_eq!(tokenizer.special(marker), Some(id));
                assert_eq!(tokenizer.token_bytes(id).count(), 0);
                for text in [marker.to_vec(), [b"a ", marker, marker, b"\n"].concat()] {
                    let ids = encode(tokenizer, &mut forward, &text);
                    assert!(!ids.iter().any(is_control), "{}", text.escape_ascii());
                    assert!(tokenizer.decode(&ids).eq(text));
                }
            }
        });
    }
}

#[test]
fn end_tokens_and_bos_are_the_references() {
    for (path, ends, bos, adds_bos) in [
        (model("smollm2"), &[0, 2, 4][..], 1, false),
        (vocab("llama-spm"), &[2], 1, true),
        (vocab("llama-bpe"), &[128_001, 128_009], 128_000, true),
        (vocab("gpt-2"), &[50_256], 50_256, false),
        (vocab("command-r"), &[0, 255_001], 5, true),
        (vocab("deepseek-coder"), &[32_014], 32_013, true),
        (vocab("deepseek-llm"), &[100_001], 100_000, true),
        (vocab("falcon"), &[11], 11, false),
        (vocab("mpt"), &[0], 0, false),
        (vocab("phi-3"), &[2, 32_000, 32_007], 1, true),
        (vocab("qwen2"), &[128_247, 151_643, 151_645], 151_643, false),
        (vocab("refact"), &[0, 4, 18], 0, false),
        (vocab("starcoder"), &[0, 4], 0, false),
    ] {
        with_file(path, SCRATCH, |_, tokenizer, _| {
            let mut found = tokenizer.end_tokens().to_vec();
            found.sort_unstable();
            assert_eq!(found, ends);
            assert_eq!(tokenizer.bos(), Some(bos));
            assert_eq!(tokenizer.adds_bos(), adds_bos);
        });
    }
}

#[test]
fn long_texts_take_bounded_time() {
    const LETTERS: usize = 131_072;
    const BYTES: usize = 10 << 20;
    let prose = "The quick brown fox jumps over 13 lazy dogs; naïve café, 日本語 text.\n";
    let texts = [
        "a".repeat(LETTERS),
        " ".repeat(LETTERS),
        prose.repeat(BYTES / prose.len()),
    ];
    for path in [model("smollm2"), vocab("llama-spm"), vocab("llama-bpe")] {
        with_file(path, 64 << 20, |_, tokenizer, mut forward| {
            for text in &texts {
                let start = Instant::now();
                let ids = encode(tokenizer, &mut forward, text);
                let time = start.elapsed();
                println!("{} bytes, {} tokens: {time:?}", text.len(), ids.len());
                // Seconds on a busy laptop; hours if it were quadratic.
                assert!(time < Duration::from_secs(60));
                assert!(tokenizer.decode(&ids).eq(text.bytes()));
            }
        });
    }
}

#[test]
fn any_bytes_are_a_text() {
    let mut random = runtime::sampler::Random::new(7);
    let mut text = Vec::new();
    for path in [model("smollm2"), vocab("llama-spm"), vocab("llama-bpe")] {
        with_file(path, SCRATCH, |_, tokenizer, mut forward| {
            for _ in 0..2000 {
                text.clear();
                for _ in 0..random.bits() % 40 {
                    // Lead bytes, continuations, spaces and U+2581 meet often.
                    let pick = [b' ', b'a', b'\n', 0xC3, 0xE2, 0x96, 0x81, 0xF0, 0x9F, 0xFF];
                    let byte = pick.get((random.bits() % 16) as usize);
                    text.push(byte.copied().unwrap_or(random.bits() as u8));
                }
                let ids = encode(tokenizer, &mut forward, &text);
                assert!(ids.iter().all(|&id| (id as usize) < tokenizer.len()));
                if tokenizer.adds_space() {
                    let back: Vec<u8> = tokenizer.decode(&ids).collect();
                    let spaces = |text: &[u8]| text.escape_ascii().to_string();
                    let text = spaces(&text).replace(r"\xe2\x96\x81", " ");
                    assert_eq!(spaces(&back).replace(r"\xe2\x96\x81", " "), text);
                }
            }
        });
    }
}

#[test]
fn bpe_merges_lowest_rank_first() {
    let vocabulary = Vocabulary::byte_level(&["b c", "a b", "bc d", "ab c"]);
    with_tokenizer(&vocabulary.file(), SCRATCH, |_, tokenizer, mut forward| {
        let mut ids = |text: &str| encode(tokenizer, &mut forward, text);
        assert_eq!(ids("abc"), [vocabulary.id("a"), vocabulary.id("bc")]);
        assert_eq!(ids("abcd"), [vocabulary.id("a"), vocabulary.id("bcd")]);
        assert_eq!(ids("abab"), [vocabulary.id("ab"); 2]);
    })
    .unwrap();
}

#[test]
fn bpe_merges_leftmost_first_among_equals() {
    let vocabulary = Vocabulary::byte_level(&["a a"]);
    with_tokenizer(&vocabulary.file(), SCRATCH, |_, tokenizer, mut forward| {
        let ids = encode(tokenizer, &mut forward, "aaa");
        assert_eq!(ids, [vocabulary.id("aa"), vocabulary.id("a")]);
    })
    .unwrap();
}

#[test]
fn bpe_leaves_out_bytes_without_a_token() {
    let vocabulary = Vocabulary::byte_level(&["a b"]);
    with_tokenizer(&vocabulary.file(), SCRATCH, |_, tokenizer, mut forward| {
        let ids = encode(tokenizer, &mut forward, "a\u{1}b");
        assert_eq!(ids, [vocabulary.id("a"), vocabulary.id("b")]);
        assert!(encode(tokenizer, &mut forward, "\u{1}\u{2}").is_empty());
    })
    .unwrap();
}

#[test]
fn merge_that_would_make_structure_is_ignored() {
    let mut vocabulary = Vocabulary::byte_level(&["a b", "ab c"]);
    vocabulary.tokens.last_mut().unwrap().1 = CONTROL;
    with_tokenizer(&vocabulary.file(), SCRATCH, |_, tokenizer, mut forward| {
        let ids = encode(tokenizer, &mut forward, "abc");
        assert_eq!(ids, [vocabulary.id("ab"), vocabulary.id("c")]);
    })
    .unwrap();
}

#[test]
fn sentencepiece_merges_best_score_first() {
    let pieces = [("\u{2581}", -9.0), ("a", -9.0), ("b", -9.0), ("c", -9.0)];
    let pairs = [
        ("ab", -2.0),
        ("bc", -1.0),
        ("\u{2581}a", -3.0),
        ("\u{2581}ab", -4.0),
    ];
    let vocabulary = Vocabulary::sentencepiece(&[&pieces[..], &pairs].concat());
    with_tokenizer(&vocabulary.file(), SCRATCH, |_, tokenizer, mut forward| {
        let mut ids = |text: &str| encode(tokenizer, &mut forward, text);
        assert_eq!(
            ids("abc"),
            [vocabulary.id("\u{2581}a"), vocabulary.id("bc")]
        );
        assert_eq!(ids("ab"), [vocabulary.id("\u{2581}ab")]);
        // Bytes that are no piece are spelled: 3 is the id of byte 0.
        assert_eq!(
            ids("a\u{e9}"),
            [vocabulary.id("\u{2581}a"), 3 + 0xC3, 3 + 0xA9]
        );
        assert!(ids("").is_empty());
    })
    .unwrap();
}

#[test]
fn sentencepiece_joins_over_words_where_a_piece_does() {
    let characters = [("\u{2581}", -9.0), ("a", -9.0), ("b", -9.0)];
    let across = [
        ("a\u{2581}", -1.0),
        ("\u{2581}b", -2.0),
        ("a\u{2581}b", -3.0),
    ];
    let vocabulary = Vocabulary::sentencepiece(&[&characters[..], &across].concat());
    with_tokenizer(&vocabulary.file(), SCRATCH, |_, tokenizer, mut forward| {
        let ids = encode(tokenizer, &mut forward, "a b");
        assert_eq!(
            ids,
            [vocabulary.id("\u{2581}"), vocabulary.id("a\u{2581}b")]
        );
    })
    .unwrap();
}

#[test]
fn sentencepiece_without_byte_tokens_gives_the_unknown_token() {
    let mut vocabulary = Vocabulary::sentencepiece(&[("a", 0.0)]);
    vocabulary.tokens.drain(3..259);
    vocabulary.scores.as_mut().unwrap().drain(3..259);
    vocabulary.keys = vocabulary
        .keys
        .bool("tokenizer.ggml.add_space_prefix", false);
    with_tokenizer(&vocabulary.file(), SCRATCH, |_, tokenizer, mut forward| {
        assert!(!tokenizer.adds_space());
        assert_eq!(
            encode(tokenizer, &mut forward, "a!"),
            [vocabulary.id("a"), 0]
        );
    })
    .unwrap();
}

#[test]
fn user_defined_tokens_are_cut_out_longest_first() {
    let mut vocabulary = Vocabulary::byte_level(&["a b"]);
    let [ab, bcd, x] = ["ab", "bcd", "<x>"].map(|text| match text {
        "ab" => vocabulary.id("ab"),
        _ => vocabulary.push(text, USER_DEFINED),
    });
    vocabulary.tokens[ab as usize].1 = USER_DEFINED;
    let space = vocabulary.push(" ", USER_DEFINED);
    with_tokenizer(&vocabulary.file(), SCRATCH, |_, tokenizer, mut forward| {
        let mut ids = |text: &str| encode(tokenizer, &mut forward, text);
        assert_eq!(ids("abcd"), [vocabulary.id("a"), bcd]);
        assert_eq!(
            ids("<x><x>ab<x"),
            [x, x, ab, vocabulary.id("<"), vocabulary.id("x")]
        );
        assert_eq!(ids("  ab "), [space, space, ab, space]);
        assert_eq!(tokenizer.decode(&[x, space]).collect::<Vec<u8>>(), b"<x> ");
    })
    .unwrap();
}

#[test]
fn sentencepiece_puts_a_space_after_a_user_defined_token() {
    let pieces = [("\u{2581}", -9.0), ("a", -9.0), ("\u{2581}a", -1.0)];
    let mut vocabulary = Vocabulary::sentencepiece(&pieces);
    let mark = vocabulary.push("[m]", USER_DEFINED);
    let a = vocabulary.id("\u{2581}a");
    with_tokenizer(&vocabulary.file(), SCRATCH, |_, tokenizer, mut forward| {
        assert_eq!(encode(tokenizer, &mut forward, "a[m]a"), [a, mark, a]);
        assert!(tokenizer.decode(&[a, mark, a]).eq(*b"a[m] a"));
    })
    .unwrap();
}

#[test]
fn pretokenizer_that_is_missing_is_the_default_and_said_so() {
    let mut vocabulary = Vocabulary::byte_level(&["a b"]);
    for (pre, lacks) in [(None, true), (Some("default".to_owned()), false)] {
        vocabulary.pre = pre;
        with_tokenizer(&vocabulary.file(), SCRATCH, |_, tokenizer, mut forward| {
            assert_eq!(tokenizer.lacks_pretokenizer(), lacks);
            // `default` keeps punctuation apart from the space before it; gpt-2 does not.
            let ids = encode(tokenizer, &mut forward, "ab");
            assert_eq!(ids, [vocabulary.id("ab")]);
        })
        .unwrap();
    }
}

#[test]
fn random_texts_give_the_references_tokens_and_come_back() {
    assert_random(&RANDOM);
}

#[test]
#[ignore = "needs `cargo xtask model` of gemma3-270m and of qwen2.5-0.5b"]
fn random_texts_of_larger_models_give_the_references_tokens_and_come_back() {
    assert_random(&RANDOM_LARGE);
}

fn assert_random(names: &[&str]) {
    let texts: Vec<String> = (0..RANDOM_TEXTS).map(random_text).collect();
    for &name in names {
        let golden = workspace().join(format!("tests/golden/random/{name}.bin"));
        let golden = fs::read(golden).unwrap();
        assert_eq!(golden.len(), 4 * texts.len());
        let (stem, pretokenizer) = match name.split_once('@') {
            Some((stem, pretokenizer)) => (stem, Some(pretokenizer)),
            None => (name, None),
        };
        let mut file = vocabulary_of(match stem {
            "smollm2" | "gemma3-270m" | "qwen2.5-0.5b" => model(stem),
            _ => vocab(stem),
        });
        if let Some(pretokenizer) = pretokenizer {
            set_pretokenizer(&mut file, pretokenizer);
        }
        with_tokenizer(&file, SCRATCH, |gguf, tokenizer, mut forward| {
            let lost = lost_bytes(tokenizer);
            for ((seed, text), expected) in texts.iter().enumerate().zip(golden.chunks(4)) {
                let ids = encode(tokenizer, &mut forward, text);
                assert_eq!(
                    digest(&ids).to_le_bytes(),
                    expected,
                    "{name}, seed {seed}: {ids:?}"
                );
                // A U+2581 comes back as the space that it stands for.
                let back: Vec<u8> = tokenizer.decode(&ids).collect();
                let is_kept = |byte: &u8| !lost.contains(byte);
                match tokenizer.adds_space() || name.starts_with("gemma") {
                    true => {
                        let text = text.replace('\u{2581}', " ");
                        assert_eq!(
                            String::from_utf8(back).unwrap(),
                            text,
                            "{name}, seed {seed}"
                        );
                    }
                    false => assert!(text.bytes().filter(is_kept).eq(back), "{name}, seed {seed}"),
                }
                // What is planned before there is an index is enough.
                let extent = Extent::of(gguf, text.as_bytes()).unwrap();
                let scratch = forward.open();
                let segment = [Segment::Text(text.as_bytes())];
                tokenizer
                    .encode_each(segment.into_iter(), &scratch, &mut |_| {})
                    .unwrap();
                assert!(
                    scratch.used() <= extent.encode_bytes(),
                    "{name}, seed {seed}"
                );
            }
        })
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// The bytes that a byte-level vocabulary has no token for: texts lose them, as in the reference.
fn lost_bytes(tokenizer: &Tokenizer<'_>) -> Vec<u8> {
    let mut has = [false; 256];
    for id in 0..tokenizer.len() as u32 {
        let mut bytes = tokenizer.token_bytes(id);
        if let (Some(byte), None) = (bytes.next(), bytes.next()) {
            has[usize::from(byte)] = true;
        }
    }
    (0..=255).filter(|&byte| !has[usize::from(byte)]).collect()
}

/// What the golden files keep of a text's ids (`make_random.py`).
fn digest(ids: &[u32]) -> u32 {
    let bytes = ids.iter().flat_map(|id| id.to_le_bytes());
    let hash = bytes.fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3)
    });
    (hash >> 32) as u32 ^ hash as u32
}

/// Puts another name into `tokenizer.ggml.pre`.
fn set_pretokenizer(file: &mut Vec<u8>, name: &str) {
    let key = b"tokenizer.ggml.pre\x08\0\0\0";
    let found = file.windows(key.len()).position(|bytes| bytes == key);
    let at = found.expect("the key is there") + key.len();
    let length = u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize;
    let length_and_name = (name.len() as u64)
        .to_le_bytes()
        .into_iter()
        .chain(name.bytes());
    file.splice(at..at + 8 + length, length_and_name);
}

#[test]
fn plan_for_a_text_is_not_far_above_what_it_takes() {
    const BYTES: usize = 10 << 20;
    let prose = "The quick brown fox jumps over 13 lazy dogs; na\u{ef}ve caf\u{e9}, \u{65e5}.\n";
    let text = prose.repeat(BYTES / prose.len());
    for path in [
        vocab("llama-bpe"),
        vocab("llama-spm"),
        vocab("deepseek-llm"),
    ] {
        with_file(path, 64 << 20, |gguf, tokenizer, mut forward| {
            let planned = Extent::of(gguf, text.as_bytes()).unwrap().encode_bytes();
            assert!(planned < BYTES / 3, "{planned}");
            let scratch = forward.open();
            let segment = [Segment::Text(text.as_bytes())];
            tokenizer
                .encode_each(segment.into_iter(), &scratch, &mut |_| {})
                .unwrap();
            assert!(scratch.used() <= planned);
        });
    }
}

#[test]
fn line_ends_spelled_in_two_bytes_end_no_words_in_the_plan() {
    for pre in ["deepseek-llm", "deepseek-coder", "qwen2"] {
        let mut vocabulary = Vocabulary::byte_level(&["a b"]);
        vocabulary.pre = Some(pre.into());
        let file = vocabulary.file();
        let text = [&[0xFF; 50], &b"\xC0\x8A"[..], &[0xFF; 50]].concat();
        let extent = Extent::of(&Gguf::check(&file).unwrap(), &text).unwrap();
        let scratch = extent.encode_bytes();
        with_tokenizer(&file, scratch, |_, tokenizer, mut forward| {
            let scratch = forward.open();
            let segments = std::iter::once(Segment::Text(&text));
            let done = tokenizer.encode_each(segments, &scratch, &mut |_| {});
            assert_eq!(done, Ok(()), "{pre}");
        })
        .unwrap();
    }
}

#[test]
fn marked_text_has_control_tokens() {
    with_file(vocab("llama-bpe"), SCRATCH, |_, tokenizer, mut forward| {
        let text = b"<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>";
        let marked = encode_segment(tokenizer, &mut forward, Segment::Marked(text));
        // llama-tokenize --no-bos, which parses them.
        assert_eq!(marked, [128_006, 882, 128_007, 271, 13_347, 128_009]);
        let plain = encode(tokenizer, &mut forward, text);
        let is_control = |&id: &u32| tokenizer.kind(id) == TokenKind::Control;
        assert!(!plain.iter().any(is_control));
        assert!(tokenizer.decode(&plain).eq(*text));
    });
}

#[test]
fn phi_3_leaves_out_white_space_after_its_markers() {
    with_file(vocab("phi-3"), SCRATCH, |_, tokenizer, mut forward| {
        let mut ids =
            |text: &str| encode_segment(tokenizer, &mut forward, Segment::Marked(text.as_bytes()));
        assert_eq!(ids("<|user|>\n Hi<|end|>\n"), ids("<|user|>Hi<|end|>"));
        assert_ne!(ids("<s>\nHi"), ids("<s>Hi"));
    });
}

#[test]
fn scratch_that_is_too_small_is_an_error() {
    let vocabulary = Vocabulary::byte_level(&["a b"]);
    with_tokenizer(&vocabulary.file(), 1024, |_, tokenizer, mut forward| {
        let segment = [Segment::Text(&[b'a'; 1000])];
        let found = tokenizer.encode_each(segment.into_iter(), &forward.open(), &mut |_| {});
        assert!(matches!(found, Err(TokenizerError::Arena(_))));
        assert_eq!(encode(tokenizer, &mut forward, "ab").len(), 1);
    })
    .unwrap();
}

#[test]
fn tokenize_needs_no_weights_and_adds_bos_once() {
    let path = vocab("llama-bpe");
    let path = path.to_str().unwrap();
    let ids = |flags: &[&str], stdin: &str| {
        let arguments = [&["tokenize", "-m", path, "--ids"], flags].concat();
        let Output {
            stdout,
            code,
            stderr,
        } = run_host(&arguments, stdin.as_bytes());
        assert_eq!(code, 0, "{stderr}");
        let lines = String::from_utf8(stdout).unwrap();
        let ids = lines.lines().map(|line| line.parse().unwrap());
        ids.collect::<Vec<u32>>()
    };
    assert_eq!(ids(&[], "Hi"), [128_000, 13_347]);
    assert_eq!(ids(&["-p", "Hi", "--no-bos"], ""), [13_347]);
    assert_eq!(
        ids(&["--special"], "<|begin_of_text|>Hi<|eot_id|>"),
        [128_000, 13_347, 128_009]
    );
    assert!(!ids(&[], "<|eot_id|>").contains(&128_009));
    assert_eq!(
        ids(&["--special", "-p", "a\\n<|eot_id|>"], ""),
        [128_000, 64, 198, 128_009]
    );
}
