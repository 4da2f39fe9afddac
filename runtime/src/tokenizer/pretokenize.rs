//! Pre-tokenizers: what cuts a text into words before bytes are merged.
//!
//! The reference states each as a list of regular expressions; each expression cuts the pieces of
//! the one before it. Here an expression is a [`Split`], a scanner that says how long the first
//! piece is. Every scanner looks at each code point a fixed number of times and none calls itself,
//! so a text takes linear time and constant stack, whatever is in it.

use super::unicode::{Class, CodePoint, first};

/// The bytes of the first piece of a text that is not empty; from 1 to its length.
pub(super) type Split = fn(&[u8]) -> usize;

/// Splits that a pre-tokenizer may have.
const SPLITS_MAX: usize = 4;

/// How a vocabulary cuts a text into words.
pub(super) struct Pretokenizer {
    /// The names in `tokenizer.ggml.pre` that ask for it.
    names: &'static [&'static str],
    /// Each cuts the pieces of the one before it.
    pub(super) splits: &'static [Split],
    /// Whether a word that is a token is taken as it is, without merging.
    pub(super) whole_words: bool,
    /// Whether BOS is added where the file does not say (`add_bos_token`).
    pub(super) adds_bos: bool,
}

/// Those that are known (llama.cpp, `llama_vocab::impl::load` and `llm_tokenizer_bpe`).
#[rustfmt::skip]
static PRETOKENIZERS: [Pretokenizer; 7] = [
    Pretokenizer {
        names: &["default"],
        splits: &[punctuation_apart, gpt2, numbers_apart, three_digits_apart],
        whole_words: false, adds_bos: false,
    },
    Pretokenizer {
        names: &["gpt-2", "phi-2", "mpt", "olmo", "jais", "exaone4", "gigachat", "mellum",
                 "modern-bert", "trillion", "granite-docling"],
        splits: &[gpt2],
        whole_words: false, adds_bos: false,
    },
    Pretokenizer {
        names: &["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone",
                 "minerva-7b", "mellum2"],
        splits: &[each_number_apart, gpt2],
        whole_words: false, adds_bos: false,
    },
    Pretokenizer {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0",
                 "lfm2"],
        splits: &[llama3],
        whole_words: true, adds_bos: true,
    },
    Pretokenizer {
        names: &["dbrx", "smaug-bpe"],
        splits: &[llama3],
        whole_words: false, adds_bos: false,
    },
    Pretokenizer {
        names: &["qwen2", "deepseek-r1-qwen", "megrez", "stablelm2", "hunyuan", "solar-open",
                 "grok-2"],
        splits: &[qwen2],
        whole_words: false, adds_bos: false,
    },
    Pretokenizer {
        names: &["qwen35"],
        splits: &[qwen35],
        whole_words: false, adds_bos: false,
    },
];

impl Pretokenizer {
    /// The one that a name asks for.
    pub(super) fn from_name(name: &[u8]) -> Option<&'static Pretokenizer> {
        PRETOKENIZERS
            .iter()
            .find(|one| one.names.iter().any(|known| known.as_bytes() == name))
    }
}

/// The words of a text.
pub(super) struct Words<'t> {
    splits: &'static [Split],
    /// By split: what it has not cut yet.
    rest: [&'t [u8]; SPLITS_MAX],
}

impl<'t> Words<'t> {
    pub(super) fn new(splits: &'static [Split], text: &'t [u8]) -> Self {
        let mut rest: [&[u8]; SPLITS_MAX] = [&[]; SPLITS_MAX];
        rest[0] = text;
        Words { splits, rest }
    }
}

impl<'t> Iterator for Words<'t> {
    type Item = &'t [u8];

    fn next(&mut self) -> Option<&'t [u8]> {
        let used = &self.rest[..self.splits.len()];
        let mut level = used.iter().rposition(|rest| !rest.is_empty())?;
        loop {
            let rest = self.rest[level];
            let (piece, after) = rest.split_at(self.splits[level](rest));
            self.rest[level] = after;
            level += 1;
            match self.rest[..self.splits.len()].get_mut(level) {
                Some(next) => *next = piece,
                None => return Some(piece),
            }
        }
    }
}

/// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
fn gpt2(text: &[u8]) -> usize {
    if let Some(len) = contraction(text, |byte| byte) {
        return len;
    }
    let space = usize::from(text[0] == b' ');
    match class_at(text, space) {
        Some(Class::Letter) => run(text, space, |class| class == Class::Letter),
        Some(Class::Number) => run(text, space, |class| class == Class::Number),
        Some(Class::Space) | None => spaces(text),
        Some(_) => run(text, space, is_other),
    }
}

/// `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|`
/// `\s*[\r\n]+|\s+(?!\S)|\s+`
fn llama3(text: &[u8]) -> usize {
    cased(text, 3, |class| class == Class::Letter)
}

/// As [`llama3`], with `\p{N}` for `\p{N}{1,3}`.
fn qwen2(text: &[u8]) -> usize {
    cased(text, 1, |class| class == Class::Letter)
}

/// As [`qwen2`], with `[\p{L}\p{M}]` for `\p{L}`.
fn qwen35(text: &[u8]) -> usize {
    cased(text, 1, |class| {
        matches!(class, Class::Letter | Class::Mark)
    })
}

/// What [`llama3`] and its kin have in common.
fn cased(text: &[u8], numbers_max: usize, is_letter: fn(Class) -> bool) -> usize {
    if let Some(len) = contraction(text, |byte| byte.to_ascii_lowercase()) {
        return len;
    }
    let Some(head) = first(text) else {
        return text.len();
    };
    let next = class_at(text, head.len);
    if head.class() == Class::Number {
        return numbers(text, numbers_max);
    }
    if !is_line_end(text[0]) && (is_letter(head.class()) || next.is_some_and(is_letter)) {
        return run(text, head.len, is_letter);
    }
    let space = usize::from(text[0] == b' ');
    let is_other = |class| is_other(class) && !is_letter(class);
    if class_at(text, space).is_some_and(is_other) {
        let end = run(text, space, is_other);
        let line_ends = text[end..].iter().take_while(|&&byte| is_line_end(byte));
        return end + line_ends.count();
    }
    let all = run(text, 0, |class| class == Class::Space);
    match text[..all].iter().rposition(|&byte| is_line_end(byte)) {
        Some(last) => last + 1,
        None => spaces(text),
    }
}

/// `\p{N}`, and what is between.
fn each_number_apart(text: &[u8]) -> usize {
    match first(text) {
        Some(head) if head.class() == Class::Number => head.len,
        _ => run(text, 0, |class| class != Class::Number),
    }
}

/// `\p{N}+`, and what is between.
fn numbers_apart(text: &[u8]) -> usize {
    let is_number = class_at(text, 0) == Some(Class::Number);
    run(text, 0, |class| (class == Class::Number) == is_number)
}

/// `[\p{P}\$\+<=>\^~\|]+`, and what is between.
fn punctuation_apart(text: &[u8]) -> usize {
    let is_punctuation = |point: CodePoint| {
        let symbol = u8::try_from(point.value).is_ok_and(|byte| b"$+<=>^~|".contains(&byte));
        symbol || point.class() == Class::Punctuation
    };
    let head = first(text).is_some_and(is_punctuation);
    run_of(text, 0, |point| is_punctuation(point) == head)
}

/// `[0-9][0-9][0-9]`, and what is between.
fn three_digits_apart(text: &[u8]) -> usize {
    let is_three = |three: &[u8]| three.iter().all(u8::is_ascii_digit);
    match text.windows(3).position(is_three) {
        Some(0) => 3,
        Some(at) => at,
        None => text.len(),
    }
}

/// `\s+(?!\S)|\s+`: a run of spaces, without its last if something follows it. The text starts
/// with a space.
fn spaces(text: &[u8]) -> usize {
    let (mut end, mut last) = (0, 0);
    while let Some(point) = first(&text[end..]).filter(|point| point.class() == Class::Space) {
        end += point.len;
        last = point.len;
    }
    match end - last {
        0 => end,
        _ if end == text.len() => end,
        before_last => before_last,
    }
}

/// From one to `most` numbers, with which the text starts.
fn numbers(text: &[u8], most: usize) -> usize {
    let mut end = 0;
    for _ in 0..most {
        match first(&text[end..]).filter(|point| point.class() == Class::Number) {
            Some(point) => end += point.len,
            None => break,
        }
    }
    end
}

/// `'s|'t|'re|'ve|'m|'ll|'d`, each byte as `fold` has it.
fn contraction(text: &[u8], fold: fn(u8) -> u8) -> Option<usize> {
    let [b'\'', one, rest @ ..] = text else {
        return None;
    };
    match (fold(*one), rest.first().map(|&two| fold(two))) {
        (b's' | b't' | b'm' | b'd', _) => Some(2),
        (b'r' | b'v', Some(b'e')) | (b'l', Some(b'l')) => Some(3),
        _ => None,
    }
}

/// `[^\s\p{L}\p{N}]`
fn is_other(class: Class) -> bool {
    !matches!(class, Class::Space | Class::Letter | Class::Number)
}

/// `[\r\n]`
fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

/// The class of the code point at `at`.
fn class_at(text: &[u8], at: usize) -> Option<Class> {
    first(text.get(at..)?).map(CodePoint::class)
}

/// Where the run of classes that `is` accepts ends, which starts at `from`.
fn run(text: &[u8], from: usize, is: impl Fn(Class) -> bool) -> usize {
    run_of(text, from, |point| is(point.class()))
}

fn run_of(text: &[u8], from: usize, is: impl Fn(CodePoint) -> bool) -> usize {
    let mut end = from;
    while let Some(point) = first(&text[end..]).filter(|&point| is(point)) {
        end += point.len;
    }
    end
}
