//! Malformed vocabularies: each is refused for what is wrong with it, in bounded time.

use std::time::{Duration, Instant};

use runtime::arena::{Forward, Region};
use runtime::gguf::{Gguf, GgufError};
use runtime::sampler::Random;
use runtime::tokenizer::{
    Extent, MERGES_MAX, Segment, TOKEN_BYTES_MAX, TOKENS_MAX, TokenKind, Tokenizer, TokenizerError,
};
use tests::gguf_writer::GgufWriter;
use tests::vocabulary::{BYTE, NORMAL, USER_DEFINED, Vocabulary, encode, with_tokenizer};

const SCRATCH: usize = 1 << 16;

fn byte_level() -> Vocabulary {
    Vocabulary::byte_level(&["a b", "ab c"])
}

fn sentencepiece() -> Vocabulary {
    Vocabulary::sentencepiece(&[("\u{2581}", -2.0), ("a", -3.0), ("\u{2581}a", -1.0)])
}

/// Why a vocabulary is refused.
#[track_caller]
fn refusal(vocabulary: &Vocabulary) -> TokenizerError {
    refusal_of(&vocabulary.file())
}

#[track_caller]
fn refusal_of(file: &[u8]) -> TokenizerError {
    with_tokenizer(file, SCRATCH, |_, _, _| ()).expect_err("the vocabulary is malformed")
}

/// A byte-level vocabulary with one merge replaced.
fn merges(entry: &str) -> Vocabulary {
    let mut vocabulary = byte_level();
    vocabulary.merges.as_mut().unwrap()[1] = entry.into();
    vocabulary
}

#[test]
fn well_formed_vocabularies_are_taken() {
    for vocabulary in [byte_level(), sentencepiece()] {
        with_tokenizer(&vocabulary.file(), SCRATCH, |_, tokenizer, _| {
            assert_eq!(tokenizer.len(), vocabulary.tokens.len());
        })
        .unwrap();
    }
}

#[test]
fn model_that_is_not_known_is_named() {
    let mut vocabulary = byte_level();
    vocabulary.model = "rwkv\u{1b}[31m".into();
    let message = refusal(&vocabulary).to_string();
    // What a file says reaches a terminal escaped.
    assert!(
        message.contains(r"rwkv\x1b[31m is not supported"),
        "{message}"
    );
    let missing = refusal_of(&GgufWriter::new().finish());
    assert_eq!(missing.to_string(), "the file has no tokenizer.ggml.model");
}

#[test]
fn pretokenizer_that_is_not_known_is_named() {
    let mut vocabulary = byte_level();
    vocabulary.pre = Some("gpt-9".into());
    let error = refusal(&vocabulary);
    assert!(matches!(error, TokenizerError::UnknownPretokenizer { .. }));
    assert_eq!(error.to_string(), "pre-tokenizer gpt-9 is not supported");
}

#[test]
fn key_of_another_type_is_named() {
    let numbers = GgufWriter::new()
        .string("tokenizer.ggml.model", "llama")
        .i32s("tokenizer.ggml.tokens", &[1, 2]);
    let error = refusal_of(&numbers.finish());
    assert!(matches!(
        error,
        TokenizerError::Gguf(GgufError::WrongType { .. })
    ));

    let mut scores = sentencepiece();
    scores.scores = None;
    let key = "tokenizer.ggml.scores";
    assert_eq!(refusal(&scores), TokenizerError::MissingKey { key });
    let bytes = vec![0; scores.tokens.len()];
    scores.keys = scores.keys.i32s(key, &bytes);
    let message = refusal(&scores).to_string();
    assert_eq!(
        message,
        "key tokenizer.ggml.scores is not an array of 32-bit floats"
    );
}

#[test]
fn arrays_of_unequal_length_are_refused() {
    let mut scores = sentencepiece();
    scores.scores.as_mut().unwrap().pop();
    let (found, tokens) = (scores.tokens.len() - 1, scores.tokens.len());
    let key = "tokenizer.ggml.scores";
    assert_eq!(
        refusal(&scores),
        TokenizerError::LengthMismatch { key, found, tokens }
    );

    let key = "tokenizer.ggml.token_type";
    let kinds = GgufWriter::new()
        .string("tokenizer.ggml.model", "llama")
        .strings("tokenizer.ggml.tokens", &["a", "b"])
        .i32s(key, &[1, 1, 1])
        .f32s("tokenizer.ggml.scores", &[0.0, 0.0]);
    let error = TokenizerError::LengthMismatch {
        key,
        found: 3,
        tokens: 2,
    };
    assert_eq!(refusal_of(&kinds.finish()), error);
}

#[test]
fn vocabulary_without_tokens_or_with_too_many_is_refused() {
    let mut vocabulary = byte_level();
    vocabulary.tokens.clear();
    assert_eq!(
        refusal(&vocabulary),
        TokenizerError::TokenCount { found: 0 }
    );
    vocabulary.tokens = vec![(Vec::new(), NORMAL); TOKENS_MAX + 1];
    let found = TOKENS_MAX + 1;
    assert_eq!(refusal(&vocabulary), TokenizerError::TokenCount { found });

    let mut vocabulary = byte_level();
    vocabulary.merges = Some(vec![String::new(); MERGES_MAX + 1]);
    let found = MERGES_MAX + 1;
    assert_eq!(
        refusal(&vocabulary),
        TokenizerError::TooManyMerges { found }
    );
    vocabulary.merges = None;
    let key = "tokenizer.ggml.merges";
    assert_eq!(refusal(&vocabulary), TokenizerError::MissingKey { key });
}

#[test]
fn token_that_is_too_long_is_refused() {
    let (bytes, limit) = (TOKEN_BYTES_MAX + 1, TOKEN_BYTES_MAX);
    let mut vocabulary = byte_level();
    let id = vocabulary.push(vec![b'a'; bytes], NORMAL);
    assert_eq!(
        refusal(&vocabulary),
        TokenizerError::TokenTooLong { id, bytes, limit }
    );

    let mut vocabulary = byte_level();
    let id = vocabulary.push([b'a'; 256], USER_DEFINED);
    let error = TokenizerError::TokenTooLong {
        id,
        bytes: 256,
        limit: 255,
    };
    assert_eq!(refusal(&vocabulary), error);
}

#[test]
fn two_tokens_with_one_text_are_refused() {
    let mut vocabulary = byte_level();
    let id = vocabulary.push("a", NORMAL);
    let first = vocabulary.id("a");
    assert_eq!(
        refusal(&vocabulary),
        TokenizerError::DuplicateToken { id, first }
    );
}

#[test]
fn token_without_text_is_never_found() {
    let mut vocabulary = byte_level();
    let ids = ["", ""].map(|text| vocabulary.push(text, USER_DEFINED));
    with_tokenizer(&vocabulary.file(), SCRATCH, |_, tokenizer, mut forward| {
        assert_eq!(
            encode(tokenizer, &mut forward, "abc"),
            [vocabulary.id("abc")]
        );
        assert_eq!(tokenizer.decode(&ids).count(), 0);
    })
    .unwrap();
}

#[test]
fn byte_token_with_a_bad_name_is_refused() {
    for name in [
        "<0x1>",
        "<0xZZ>",
        "<0x-1>",
        "<0x100>",
        "0x41",
        "<0x4\u{e9}>",
        "<0x",
    ] {
        let mut vocabulary = sentencepiece();
        let id = vocabulary.push(name, BYTE);
        assert_eq!(
            refusal(&vocabulary),
            TokenizerError::BadByteToken { id },
            "{name}"
        );
    }
}

#[test]
fn score_that_is_not_a_number_is_refused() {
    let mut vocabulary = sentencepiece();
    vocabulary.scores.as_mut().unwrap()[7] = f32::NAN;
    assert_eq!(refusal(&vocabulary), TokenizerError::BadScore { id: 7 });
    vocabulary.scores.as_mut().unwrap()[7] = f32::NEG_INFINITY;
    with_tokenizer(&vocabulary.file(), SCRATCH, |_, _, _| ()).unwrap();
}

#[test]
fn merge_that_is_not_two_pieces_is_refused() {
    for entry in ["", " ", "ab", "ab ", " ab", "a b c", "a  b"] {
        let error = refusal(&merges(entry));
        assert!(
            matches!(error, TokenizerError::MalformedMerge { rank: 1, .. }),
            "{entry:?}"
        );
        let message = error.to_string();
        assert!(
            message.contains(&format!("merge 1 \"{entry}\"")),
            "{message}"
        );
    }
}

#[test]
fn merge_of_unknown_pieces_is_refused() {
    for entry in ["ab \u{e9}", "\u{e9} ab", "b a"] {
        let error = refusal(&merges(entry));
        assert!(
            matches!(error, TokenizerError::UnknownPiece { rank: 1, .. }),
            "{entry:?}"
        );
    }
}

#[test]
fn merge_that_stands_twice_keeps_its_better_rank() {
    let vocabulary = Vocabulary {
        merges: Some(["a b", "b c", "a b"].map(String::from).to_vec()),
        ..Vocabulary::byte_level(&["a b", "b c"])
    };
    with_tokenizer(&vocabulary.file(), SCRATCH, |_, tokenizer, mut forward| {
        let ids = encode(tokenizer, &mut forward, "abc");
        assert_eq!(ids, [vocabulary.id("ab"), vocabulary.id("c")]);
    })
    .unwrap();
}

#[test]
fn special_ids_out_of_range_count_as_absent() {
    let tokens = byte_level().tokens.len() as u32;
    for id in [tokens, u32::MAX] {
        let mut vocabulary = byte_level();
        for name in [
            "bos", "eos", "eot", "eom", "unknown", "fim_pad", "fim_rep", "fim_sep",
        ] {
            vocabulary.keys = vocabulary
                .keys
                .u32(&format!("tokenizer.ggml.{name}_token_id"), id);
        }
        vocabulary.keys = vocabulary.keys.bool("tokenizer.ggml.add_bos_token", true);
        with_tokenizer(&vocabulary.file(), SCRATCH, |_, tokenizer, _| {
            assert_eq!((tokenizer.bos(), tokenizer.eos()), (None, None));
            assert!(!tokenizer.adds_bos());
            assert!(tokenizer.end_tokens().is_empty());
        })
        .unwrap();
    }
}

#[test]
fn kinds_that_are_not_known_show_nothing() {
    for kind in [0, 7, -1, i32::MIN, i32::MAX] {
        let mut vocabulary = sentencepiece();
        vocabulary
            .tokens
            .iter_mut()
            .for_each(|token| token.1 = kind);
        with_tokenizer(&vocabulary.file(), SCRATCH, |_, tokenizer, mut forward| {
            let ids = encode(tokenizer, &mut forward, "a b");
            assert_eq!(tokenizer.decode(&ids).count(), 0);
        })
        .unwrap();
    }
}

#[test]
fn vocabulary_of_structure_alone_gives_no_tokens() {
    for mut vocabulary in [byte_level(), sentencepiece()] {
        vocabulary.tokens.iter_mut().for_each(|token| token.1 = 3);
        with_tokenizer(&vocabulary.file(), SCRATCH, |_, tokenizer, mut forward| {
            let ids = encode(tokenizer, &mut forward, "abc <s>");
            // What SentencePiece cannot spell is unknown.
            assert!(ids.iter().all(|&id| id == 0));
        })
        .unwrap();
    }
}

/// As the tokenizer hashes a text: a number of its bytes, then the finaliser of SplitMix64.
fn text_hash(text: &[u8]) -> u64 {
    let key = text.iter().fold(0u64, |hash, &byte| {
        let digit = u64::from(byte) + 1;
        hash.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(digit)
    });
    let key = (key ^ key >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let key = (key ^ key >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    key ^ key >> 31
}

/// Slots of the table in which tokens are made to collide.
const SLOTS: usize = 1024;

/// The slots of such a table that are looked at for a text, one after another.
fn slots_of(text: &[u8]) -> impl Iterator<Item = usize> {
    let (hash, step) = (
        text_hash(text) as usize,
        (text_hash(text) >> 21) as usize | 1,
    );
    (0..SLOTS).map(move |probe| hash.wrapping_add(probe.wrapping_mul(step)) % SLOTS)
}

#[test]
fn vocabulary_made_to_collide_is_refused() {
    const PROBES_MAX: usize = 128;
    let mut vocabulary = byte_level();
    let mut full = [false; SLOTS];
    for (text, _) in &vocabulary.tokens {
        let free = slots_of(text).find(|&at| !full[at]);
        full[free.expect("a free slot")] = true;
    }
    // A token for each slot in which the victim could be, that belongs there: none of them collides.
    let victim = b"victim";
    let mut wanted: Vec<usize> = slots_of(victim).take(PROBES_MAX).collect();
    let last = *wanted.last().expect("many");
    wanted.retain(|&at| !full[at]);
    for text in (0..).map(|number| format!("#{number}").into_bytes()) {
        let first = slots_of(&text).next();
        if let Some(at) = wanted.iter().position(|&wanted| Some(wanted) == first) {
            wanted.swap_remove(at);
            vocabulary.push(text, NORMAL);
        }
        if wanted.is_empty() {
            break;
        }
    }
    // The table grows to its size by tokens without a text, which are in no slot.
    while vocabulary.tokens.len() * 3 / 2 < SLOTS * 3 / 4 {
        vocabulary.push("", NORMAL);
    }
    vocabulary.push(victim, NORMAL);
    assert_eq!(refusal(&vocabulary), TokenizerError::HashCollisions);
    // With the last of these slots free it is found there.
    let in_last = |(text, _): &(Vec<u8>, i32)| slots_of(text).next() == Some(last);
    let at = vocabulary.tokens.iter().rposition(in_last);
    vocabulary.tokens[at.expect("the token that fills it")]
        .0
        .clear();
    with_tokenizer(&vocabulary.file(), SCRATCH, |_, _, _| ()).unwrap();
}

#[test]
fn largest_vocabulary_takes_bounded_time() {
    let mut vocabulary = byte_level();
    let numbers = (0..TOKENS_MAX - vocabulary.tokens.len()).map(|number| format!("#{number}#"));
    vocabulary
        .tokens
        .extend(numbers.map(|text| (text.into_bytes(), NORMAL)));
    let file = vocabulary.file();
    let start = Instant::now();
    with_tokenizer(&file, SCRATCH, |_, tokenizer, _| {
        assert_eq!(tokenizer.len(), TOKENS_MAX);
    })
    .unwrap();
    println!("{TOKENS_MAX} tokens: {:?}", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[test]
fn markers_of_every_length_take_time_by_their_number() {
    let text = vec![b'a'; 1 << 18];
    // User-defined tokens of the lengths from 1 to `lengths`, which the text only starts.
    let time = |lengths: usize| {
        let mut vocabulary = byte_level();
        for length in 1..=lengths {
            let text = "a".repeat(length - 1) + "\u{1}";
            vocabulary.push(text, USER_DEFINED);
        }
        let scratch = Extent::whole(text.len()).encode_bytes();
        let encoded =
            |_: &Gguf<'_>, tokenizer: &Tokenizer<'_>, mut forward: Region<'_, Forward>| {
                let start = Instant::now();
                let ids = encode(tokenizer, &mut forward, &text);
                assert_eq!(ids.len(), text.len());
                start.elapsed()
            };
        with_tokenizer(&vocabulary.file(), scratch, encoded).unwrap()
    };
    let (some, all) = (time(15), time(255));
    println!("15 lengths: {some:?}, 255: {all:?}");
    // 17 times as many lengths. The sum of them is 270 times as large.
    assert!(all < 60 * some, "{some:?}, {all:?}");
}

#[test]
fn damaged_vocabularies_are_refused_or_used_without_a_panic() {
    let mut random = Random::new(11);
    let mut taken = 0;
    for vocabulary in [byte_level(), sentencepiece()] {
        let file = vocabulary.file();
        for _ in 0..3000 {
            let mut damaged = file.clone();
            for _ in 0..1 + random.bits() % 3 {
                let at = random.bits() as usize % damaged.len();
                damaged[at] = random.bits() as u8;
            }
            if Gguf::check(&damaged).is_err() {
                continue;
            }
            let used = with_tokenizer(&damaged, SCRATCH, |_, tokenizer, mut forward| {
                let ids = encode(tokenizer, &mut forward, "abc <0x41> \u{2581}a\u{e9}</s>");
                assert!(ids.iter().all(|&id| (id as usize) < tokenizer.len()));
                let all: Vec<u32> = (0..tokenizer.len() as u32 + 2).collect();
                tokenizer.decode(&all).count()
            });
            taken += u32::from(used.is_ok());
        }
    }
    assert!(taken > 100, "damage that is harmless is taken");
}

/// A vocabulary of either kind that has all bytes and cuts texts apart in places that a random number
/// chooses: between characters and inside them.
fn cutting(random: &mut Random) -> Vocabulary {
    const PRETOKENIZERS: [&str; 5] = ["gpt-2", "tekken", "qwen2", "deepseek-llm", "deepseek-coder"];
    const MARKERS: [&[u8]; 14] = [
        b"M",
        b" ",
        b"\n",
        b"\xF0",
        b"\x9F",
        b"\xE2",
        b"\x96",
        b"\x81",
        b"\x80",
        b"\xE2\x96",
        b"\x98\x80",
        b"\xC3",
        b"\xFF",
        b"a\xF0",
    ];
    let mut below = |limit: usize| (random.bits() % limit as u64) as usize;
    let mut vocabulary = match below(2) {
        0 => {
            let mut vocabulary = Vocabulary::byte_level(&[]);
            vocabulary.pre = Some(PRETOKENIZERS[below(PRETOKENIZERS.len())].into());
            for character in ('\u{a1}'..='\u{ff}').chain('\u{100}'..='\u{143}') {
                if !['\u{ad}', '\u{120}'].contains(&character) {
                    vocabulary.push(character.to_string(), NORMAL);
                }
            }
            vocabulary
        }
        _ => Vocabulary::sentencepiece(&[]),
    };
    for _ in 0..below(5) {
        let marker = MARKERS[below(MARKERS.len())];
        let is_same = |(text, _): &(Vec<u8>, i32)| text == marker;
        match vocabulary.tokens.iter_mut().find(|token| is_same(token)) {
            Some(token) => token.1 = USER_DEFINED,
            None => drop(vocabulary.push(marker, USER_DEFINED)),
        }
    }
    vocabulary
}

/// Asserts that a text fits what is planned for it by the vocabulary's file; gives the number of its
/// tokens.
#[track_caller]
fn tokens_in_plan(vocabulary: &Vocabulary, text: &[u8]) -> usize {
    let file = vocabulary.file();
    let extent = Extent::of(&Gguf::check(&file).unwrap(), text).unwrap();
    let encoded = |_: &Gguf<'_>, tokenizer: &Tokenizer<'_>, mut forward: Region<'_, Forward>| {
        let mut count = 0;
        let segments = std::iter::once(Segment::Text(text));
        let done = tokenizer.encode_each(segments, &forward.open(), &mut |_| count += 1);
        assert_eq!(done, Ok(()), "{}", text.escape_ascii());
        assert!(count <= extent.tokens_max(), "{}", text.escape_ascii());
        count
    };
    with_tokenizer(&file, extent.encode_bytes(), encoded).unwrap()
}

#[test]
fn no_text_takes_more_than_is_planned_whatever_is_cut_out_of_it() {
    const PARTS: [&[u8]; 20] = [
        b" ",
        b"  ",
        b"\n",
        b"M",
        b"a",
        b"/",
        b"1",
        b"\xC3\xA9",
        b"\xE2\x96\x81",
        b"\xE3\x80\x80",
        b"\xF0\x9F\x98\x80",
        b"\xF1\xA1\xA2\xA3",
        b"\xF0",
        b"\x9F",
        b"\xE2",
        b"\x96",
        b"\x81",
        b"\xC0\x8A",
        b"\xE0\x80\xAF",
        b"\xFF",
    ];
    let mut random = Random::new(3);
    for _ in 0..20_000 {
        let vocabulary = cutting(&mut random);
        let mut text = Vec::new();
        // Few kinds of parts in a text: those that go together are often together.
        let kinds = [(); 4].map(|()| random.bits() as usize % PARTS.len());
        for _ in 0..random.bits() % 64 {
            text.extend_from_slice(PARTS[kinds[random.bits() as usize % kinds.len()]]);
        }
        tokens_in_plan(&vocabulary, &text);
    }
}

#[test]
fn character_that_a_token_is_cut_out_of_is_planned_for() {
    let mut vocabulary = Vocabulary::byte_level(&[]);
    vocabulary.push(b"\xF0", USER_DEFINED);
    vocabulary.push(b"\xA3", USER_DEFINED);
    for between in 0..64 {
        let text = [
            b"\xF0\x9F\x98\x80",
            &vec![b'+'; between][..],
            b"\xF1\xA1\xA2\xA3",
        ]
        .concat();
        tokens_in_plan(&vocabulary, &text);
    }
}

#[test]
fn spaces_that_are_added_between_markers_are_planned_for() {
    let mut vocabulary = Vocabulary::sentencepiece(&[]);
    vocabulary.push("M", USER_DEFINED);
    for markers in [0, 1, 100] {
        let text = " M".repeat(markers) + " ";
        // Of each space two times the three bytes of U+2581.
        let count = tokens_in_plan(&vocabulary, text.as_bytes());
        assert_eq!(count, 7 * markers + 6);
        assert_eq!(
            count,
            Extent::whole(text.len()).tokens_max(),
            "no bound is lower"
        );
    }
}

#[test]
fn kind_of_more_than_63_bits_is_none_and_ends_no_array() {
    const U64: u32 = 10;
    let key = "tokenizer.ggml.token_type";
    let kinds = [1u64, 1 << 63, u64::MAX, 1, 4];
    let bytes: Vec<u8> = kinds.iter().flat_map(|kind| kind.to_le_bytes()).collect();
    let file = GgufWriter::new()
        .string("tokenizer.ggml.model", "gpt2")
        .string("tokenizer.ggml.pre", "gpt-2")
        .strings("tokenizer.ggml.tokens", &["a", "b", "c", "d", "e"])
        .array(key, U64, kinds.len() as u64, &bytes)
        .strings("tokenizer.ggml.merges", &[""; 0]);
    with_tokenizer(&file.finish(), SCRATCH, |_, tokenizer, _| {
        use TokenKind::{Normal, Undefined, UserDefined};
        let found: Vec<_> = (0..5).map(|id| tokenizer.kind(id)).collect();
        assert_eq!(found, [Normal, Undefined, Undefined, Normal, UserDefined]);
    })
    .unwrap();
}
