//! Tokenizers: equality with the reference, bounds, malformed vocabularies, the text stream.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use runtime::arena::{self, Forward, Region};
use runtime::gguf::Gguf;
use runtime::tokenizer::{Tokenizer, TokenizerError};
use serde_json::Value;
use tests::memory::Block;
use tests::{model, vocab, workspace};

/// Runs `test` with the vocabulary of a GGUF file and scratch for texts of `text_bytes`.
///
/// # Errors
/// The vocabulary is refused.
fn with<T>(
    file: &[u8],
    text_bytes: usize,
    test: impl FnOnce(&Tokenizer<'_>, Region<'_, Forward>) -> T,
) -> Result<T, TokenizerError> {
    let gguf = Gguf::check(file).expect("the container is well formed");
    let model_bytes = Tokenizer::bytes(&gguf)?;
    // No vocabulary makes more of a text than this one might.
    let mut block = Block::new(model_bytes + 80 * text_bytes + 4096);
    let (model, _, forward) = arena::split(block.bytes(), model_bytes, 0).unwrap();
    let model = model.open_once();
    let tokenizer = Tokenizer::new(&gguf, &model)?;
    assert_eq!(model.used(), model_bytes, "the plan and the index agree");
    Ok(test(&tokenizer, forward))
}

fn encode(tokenizer: &Tokenizer<'_>, forward: &mut Region<'_, Forward>, text: &[u8]) -> Vec<u32> {
    let scratch = forward.open();
    let ids = tokenizer.encode(text, &scratch).unwrap().to_vec();
    assert!(scratch.used() <= tokenizer.encode_bytes(text.len()));
    ids
}

fn bytes_of(tokenizer: &Tokenizer<'_>, ids: &[u32]) -> Vec<u8> {
    ids.iter()
        .flat_map(|&id| tokenizer.token_bytes(id))
        .collect()
}

fn hex(text: &Value) -> Vec<u8> {
    let digits = text.as_str().expect("hex").as_bytes();
    digits
        .chunks(2)
        .map(|two| u8::from_str_radix(str::from_utf8(two).unwrap(), 16).unwrap())
        .collect()
}

/// Every line of a golden file: a text, its tokens, and the bytes that they give back.
fn golden(name: &str) -> Vec<(Vec<u8>, Vec<u32>, Vec<u8>)> {
    let path = workspace().join("tests/golden").join(name);
    let lines = fs::read_to_string(path).unwrap();
    lines
        .lines()
        .map(|line| {
            let case: Value = serde_json::from_str(line).unwrap();
            let ids = case["ids"].as_array().unwrap().iter();
            let ids = ids.map(|id| id.as_u64().unwrap() as u32).collect();
            (hex(&case["text_hex"]), ids, hex(&case["out_hex"]))
        })
        .collect()
}

fn assert_golden(file: &Path, name: &str) {
    let file = fs::read(file).unwrap();
    let cases = golden(name);
    assert!(cases.len() > 700);
    with(&file, 4096, |tokenizer, mut forward| {
        for (text, ids, out) in &cases {
            let found = encode(tokenizer, &mut forward, text);
            assert_eq!(&found, ids, "{}", text.escape_ascii());
            let shown = bytes_of(tokenizer, ids);
            assert_eq!(&shown, out, "{}", text.escape_ascii());
        }
    })
    .unwrap();
}

#[test]
fn byte_level_bpe_gives_the_references_tokens() {
    assert_golden(&model("smollm2"), "tokens_smollm2.jsonl");
}

#[test]
fn sentencepiece_gives_the_references_tokens() {
    assert_golden(&vocab("llama-spm"), "tokens_llama_spm.jsonl");
}

/// The texts beside a reference vocabulary, and their tokens.
fn assert_vocab(name: &str) {
    let path = vocab(name);
    let beside = |end: &str| fs::read(format!("{}.{end}", path.display())).unwrap();
    let inputs = String::from_utf8(beside("inp")).unwrap();
    let outputs = String::from_utf8(beside("out")).unwrap();
    let file = fs::read(&path).unwrap();
    with(&file, 4096, |tokenizer, mut forward| {
        let texts = inputs.split("\n__ggml_vocab_test__\n");
        let mut count = 0;
        for (text, line) in texts.zip(outputs.lines()) {
            let ids: Vec<u32> = line
                .split_ascii_whitespace()
                .map(|id| id.parse().unwrap())
                .collect();
            assert_eq!(
                encode(tokenizer, &mut forward, text.as_bytes()),
                ids,
                "{text:?}"
            );
            count += 1;
        }
        assert!(count > 40);
    })
    .unwrap();
}

#[test]
fn reference_vocabularies_give_their_own_tokens() {
    for name in ["gpt-2", "llama-bpe", "llama-spm"] {
        assert_vocab(name);
    }
}

#[test]
fn long_texts_take_bounded_time() {
    const LETTERS: usize = 131_072;
    const BYTES: usize = 10 << 20;
    let prose = "The quick brown fox jumps over 13 lazy dogs; naïve café, 日本語 text.\n";
    let prose = prose.repeat(BYTES / prose.len());
    for path in [model("smollm2"), vocab("llama-spm"), vocab("llama-bpe")] {
        let file = fs::read(path).unwrap();
        with(&file, BYTES, |tokenizer, mut forward| {
            for text in ["a".repeat(LETTERS), " ".repeat(LETTERS), prose.clone()] {
                let start = Instant::now();
                let ids = encode(tokenizer, &mut forward, text.as_bytes());
                let time = start.elapsed();
                eprintln!("{} bytes, {} tokens: {time:?}", text.len(), ids.len());
                assert!(time < Duration::from_secs(30));
                assert_eq!(tokenizer.decode(&ids).count(), text.len());
            }
        })
        .unwrap();
    }
}
