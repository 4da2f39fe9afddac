//! The scanners that pre-tokenizers are made of, a regular expression each.
//!
//! A scanner looks at each code point a fixed number of times and none calls itself, so a text takes
//! linear time and constant stack, whatever is in it.

use super::unicode::{Class, CodePoint, first};

/// The bytes of the first piece of a text that is not empty; from 1 to its length.
pub(super) type Split = fn(&[u8]) -> usize;

/// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
pub(super) fn gpt2(text: &[u8]) -> usize {
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
pub(super) fn llama3(text: &[u8]) -> usize {
    cased(text, 3, |class| class == Class::Letter)
}

/// As [`llama3`], with `\p{N}` for `\p{N}{1,3}`.
pub(super) fn qwen2(text: &[u8]) -> usize {
    cased(text, 1, |class| class == Class::Letter)
}

/// As [`qwen2`], with `[\p{L}\p{M}]` for `\p{L}`.
pub(super) fn qwen35(text: &[u8]) -> usize {
    cased(text, 1, |class| {
        matches!(class, Class::Letter | Class::Mark)
    })
}

/// `[^\r\n\p{L}\p{N}]?U*W+|[^\r\n\p{L}\p{N}]?U+W*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|`
/// `\s*[\r\n]+|\s+(?!\S)|\s+`, U being letters but a to z, W letters but A to Z: the reference knows
/// the case of ASCII letters only.
pub(super) fn tekken(text: &[u8]) -> usize {
    by_case(text, 1, |_| 0)
}

/// As [`tekken`], with `\p{N}{1,3}` for `\p{N}`, and `(?i:'s|'t|'re|'ve|'m|'ll|'d)?` after letters.
pub(super) fn gpt4o(text: &[u8]) -> usize {
    by_case(text, 3, |rest| contraction(rest, ignore_case).unwrap_or(0))
}

/// What [`tekken`] and [`gpt4o`] have in common. `suffix` says how much goes with the letters
/// before it.
fn by_case(text: &[u8], numbers_max: usize, suffix: fn(&[u8]) -> usize) -> usize {
    let Some(head) = first(text) else {
        return text.len();
    };
    if head.class() == Class::Number {
        return numbers(text, numbers_max);
    }
    let is_letter = |class| class == Class::Letter;
    let start = match (is_letter(head.class()), is_line_end(text[0])) {
        (true, _) => Some(0),
        (false, false) if class_at(text, head.len).is_some_and(is_letter) => Some(head.len),
        _ => None,
    };
    if let Some(start) = start {
        let end = cased_letters(text, start);
        return end + suffix(&text[end..]);
    }
    other_or_spaces(text, is_other, |byte| is_line_end(byte) || byte == b'/')
}

/// `U*W+|U+W*` of [`tekken`] at a letter: where it ends.
fn cased_letters(text: &[u8], start: usize) -> usize {
    let is_lower = |point: CodePoint| matches!(point.value, 0x61..=0x7A);
    let is_upper = |point: CodePoint| matches!(point.value, 0x41..=0x5A);
    let is_letter = |point: CodePoint| point.class() == Class::Letter;
    let (mut end, mut last_uncased) = (start, None);
    while let Some(point) = first(&text[end..]).filter(|&one| is_letter(one) && !is_lower(one)) {
        end += point.len;
        if !is_upper(point) {
            last_uncased = Some(end);
        }
    }
    let all = run_of(text, end, |point| is_letter(point) && !is_upper(point));
    // Without a W after them, the last of the U that is a W too has to serve.
    match last_uncased {
        Some(uncased) if all == end => uncased,
        _ => all,
    }
}

/// ``[!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|``
/// `\s*[\r\n]+|\s+(?!\S)|\s+`, and what is between.
pub(super) fn deepseek3(text: &[u8]) -> usize {
    let mut at = 0;
    while at < text.len() {
        match (at, deepseek3_word(&text[at..])) {
            (0, Some(len)) => return len,
            (_, Some(_)) => return at,
            (_, None) => at += first(&text[at..]).map_or(1, |point| point.len),
        }
    }
    at
}

/// What one of the expressions of [`deepseek3`] takes; it looks at two code points if none does.
fn deepseek3_word(text: &[u8]) -> Option<usize> {
    let head = first(text)?;
    let is_letter = |class| matches!(class, Class::Letter | Class::Mark);
    let is_other = |class| matches!(class, Class::Punctuation | Class::Symbol);
    if head.value < 0x80 && is_other(head.class()) {
        let letters = text[1..]
            .iter()
            .take_while(|byte| byte.is_ascii_alphabetic());
        match letters.count() {
            0 => {}
            letters => return Some(1 + letters),
        }
    }
    let takes_head =
        !is_line_end(text[0]) && head.class() != Class::Letter && !is_other(head.class());
    let next = class_at(text, head.len);
    if is_letter(head.class()) || takes_head && next.is_some_and(is_letter) {
        return Some(run(text, head.len, is_letter));
    }
    let is_word = head.class() == Class::Space || is_other(head.class());
    is_word.then(|| other_or_spaces(text, is_other, is_line_end))
}

/// `\s?X+` for the letters of DeepSeek LLM, and what is between.
pub(super) fn deepseek_letters(text: &[u8]) -> usize {
    spaced(text, is_deepseek_letter)
}

/// `\s?[!-/:-~！-／：-～‘-‟\u{3000}-。]+`, and what is between.
pub(super) fn deepseek_punctuation(text: &[u8]) -> usize {
    spaced(text, |point| {
        let is = matches!(point.value, 0x21..=0x2F | 0x3A..=0x7E | 0xFF01..=0xFF0F
            | 0xFF1A..=0xFF5E | 0x2018..=0x201F | 0x3000..=0x3002);
        is && point.class() != Class::Space
    })
}

/// `\s?\p{L}+`, and what is between.
pub(super) fn spaced_letters(text: &[u8]) -> usize {
    spaced(text, |point| point.class() == Class::Letter)
}

/// `\s?\p{P}+`, and what is between.
pub(super) fn spaced_punctuation(text: &[u8]) -> usize {
    spaced(text, |point| point.class() == Class::Punctuation)
}

/// `\s?X+` for the code points X that `is` accepts, none of them a space; and what is between.
fn spaced(text: &[u8], is: impl Fn(CodePoint) -> bool) -> usize {
    let mut at = 0;
    while let Some(point) = first(&text[at..]) {
        let follows = |at: usize| first(&text[at..]).is_some_and(&is);
        let from = match point.class() {
            Class::Space if follows(at + point.len) => Some(at + point.len),
            _ => is(point).then_some(at),
        };
        match from {
            Some(from) if at == 0 => return run_of(text, from, &is),
            Some(_) => return at,
            None => at += point.len,
        }
    }
    at
}

/// `[\r\n]`, and what is between.
pub(super) fn line_ends_apart(text: &[u8]) -> usize {
    match text.iter().position(|&byte| is_line_end(byte)) {
        Some(0) => 1,
        Some(at) => at,
        None => text.len(),
    }
}

/// `\s+$`, and what is before it.
pub(super) fn last_spaces_apart(text: &[u8]) -> usize {
    let (mut at, mut last) = (0, 0);
    while let Some(point) = first(&text[at..]) {
        at += point.len;
        if point.class() != Class::Space {
            last = at;
        }
    }
    if last == 0 { text.len() } else { last }
}

/// `[一-龥ࠀ-一가-\u{D7FF}]+`, and what is between.
pub(super) fn cjk_apart(text: &[u8]) -> usize {
    apart(text, |point| {
        let is = matches!(point.value, 0x0800..=0x9FA5 | 0xAC00..=0xD7FF);
        is && point.class() != Class::Space
    })
}

/// `[一-龥぀-ゟ゠-ヿ]+`, and what is between.
pub(super) fn ideographs_and_kana_apart(text: &[u8]) -> usize {
    apart(
        text,
        |point| matches!(point.value, 0x3040..=0x30FF | 0x4E00..=0x9FA5),
    )
}

/// `\p{N}{1,3}`, and what is between.
pub(super) fn three_numbers_apart(text: &[u8]) -> usize {
    match class_at(text, 0) {
        Some(Class::Number) => numbers(text, 3),
        _ => run(text, 0, |class| class != Class::Number),
    }
}

/// What [`llama3`] and its kin have in common.
fn cased(text: &[u8], numbers_max: usize, is_letter: fn(Class) -> bool) -> usize {
    if let Some(len) = contraction(text, ignore_case) {
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
    other_or_spaces(
        text,
        |class| is_other(class) && !is_letter(class),
        is_line_end,
    )
}

/// ` ?X+E*|\s*[\r\n]+|\s+(?!\S)|\s+`, X being what `is_other` accepts and E what `is_end` does.
/// One of them takes something.
fn other_or_spaces(text: &[u8], is_other: impl Fn(Class) -> bool, is_end: fn(u8) -> bool) -> usize {
    let space = usize::from(text[0] == b' ');
    if class_at(text, space).is_some_and(&is_other) {
        let end = run(text, space, is_other);
        let ends = text[end..].iter().take_while(|&&byte| is_end(byte));
        return end + ends.count();
    }
    let all = run(text, 0, |class| class == Class::Space);
    match text[..all].iter().rposition(|&byte| is_line_end(byte)) {
        Some(last) => last + 1,
        None => spaces(text),
    }
}

/// `\p{N}`, and what is between.
pub(super) fn each_number_apart(text: &[u8]) -> usize {
    match first(text) {
        Some(head) if head.class() == Class::Number => head.len,
        _ => run(text, 0, |class| class != Class::Number),
    }
}

/// `\p{N}+`, and what is between.
pub(super) fn numbers_apart(text: &[u8]) -> usize {
    apart(text, |point| point.class() == Class::Number)
}

/// `[\p{P}\$\+<=>\^~\|]+`, and what is between.
pub(super) fn punctuation_apart(text: &[u8]) -> usize {
    apart(text, |point| is_punctuation_or(b"$+<=>^~|", point))
}

/// ``[\p{P}\$\+<=>\^~\|`]+``, and what is between.
pub(super) fn punctuation_and_backtick_apart(text: &[u8]) -> usize {
    apart(text, |point| is_punctuation_or(b"$+<=>^~|`", point))
}

fn is_punctuation_or(symbols: &[u8], point: CodePoint) -> bool {
    let is_symbol = u8::try_from(point.value).is_ok_and(|byte| symbols.contains(&byte));
    is_symbol || point.class() == Class::Punctuation
}

/// `[0-9][0-9][0-9]`, and what is between.
pub(super) fn three_digits_apart(text: &[u8]) -> usize {
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

fn ignore_case(byte: u8) -> u8 {
    byte.to_ascii_lowercase()
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

/// The run that the text starts with of code points that `is` accepts, or of those it does not.
fn apart(text: &[u8], is: impl Fn(CodePoint) -> bool) -> usize {
    let head = first(text).is_some_and(&is);
    run_of(text, 0, |point| is(point) == head)
}

fn run_of(text: &[u8], from: usize, is: impl Fn(CodePoint) -> bool) -> usize {
    let mut end = from;
    while let Some(point) = first(&text[end..]).filter(|&point| is(point)) {
        end += point.len;
    }
    end
}

/// Whether a code point is one of the letters of DeepSeek LLM, which are those with a case, as its
/// authors list them.
fn is_deepseek_letter(point: CodePoint) -> bool {
    let after = DEEPSEEK_LETTERS.partition_point(|&(start, _)| start <= point.value);
    let range = after.checked_sub(1).map(|at| DEEPSEEK_LETTERS[at]);
    range.is_some_and(|(_, last)| point.value <= last)
}

/// First and last of each range.
#[rustfmt::skip]
static DEEPSEEK_LETTERS: [(u32, u32); 87] = [
    (0x41, 0x5a), (0x61, 0x7a), (0xb5, 0xb5), (0xc0, 0xd6), (0xd8, 0xf6), (0xf8, 0x1ba),
    (0x1bc, 0x1bf), (0x1c4, 0x293), (0x295, 0x2af), (0x370, 0x373), (0x376, 0x376), (0x377, 0x377),
    (0x37b, 0x37d), (0x37f, 0x37f), (0x386, 0x386), (0x388, 0x38a), (0x38c, 0x38c), (0x38e, 0x3a1),
    (0x3a3, 0x3f5), (0x3f7, 0x481), (0x48a, 0x52f), (0x531, 0x556), (0x10a0, 0x10c5),
    (0x13a0, 0x13f5), (0x13f8, 0x13fd), (0x1c90, 0x1cba), (0x1cbd, 0x1cbf), (0x1d00, 0x1d2b),
    (0x1d6b, 0x1d77), (0x1d79, 0x1d9a), (0x1e00, 0x1f15), (0x1f18, 0x1f1d), (0x1f20, 0x1f45),
    (0x1f48, 0x1f4d), (0x1f50, 0x1f57), (0x1f59, 0x1f59), (0x1f5b, 0x1f5b), (0x1f5d, 0x1f5d),
    (0x1f5f, 0x1f7d), (0x1f80, 0x1fb4), (0x1fb6, 0x1fbc), (0x1fbe, 0x1fbe), (0x1fc2, 0x1fc4),
    (0x1fc6, 0x1fcc), (0x1fd0, 0x1fd3), (0x1fd6, 0x1fdb), (0x1fe0, 0x1fec), (0x1ff2, 0x1ff4),
    (0x1ff6, 0x1ffc), (0x2102, 0x2102), (0x2107, 0x2107), (0x210a, 0x2113), (0x2115, 0x2115),
    (0x2119, 0x211d), (0x2124, 0x2124), (0x2126, 0x2126), (0x2128, 0x2128), (0x212a, 0x212d),
    (0x212f, 0x2134), (0x2139, 0x2139), (0x213c, 0x213f), (0x2145, 0x2149), (0x214e, 0x214e),
    (0x2183, 0x2183), (0x2184, 0x2184), (0x2c00, 0x2c7b), (0x2c7e, 0x2ce4), (0x2ceb, 0x2cee),
    (0x2cf2, 0x2cf2), (0x2cf3, 0x2cf3), (0xa640, 0xa66d), (0xa680, 0xa69b), (0xa722, 0xa76f),
    (0xa771, 0xa787), (0xa78b, 0xa78e), (0xab70, 0xabbf), (0xfb00, 0xfb06), (0xfb13, 0xfb17),
    (0xff21, 0xff3a), (0xff41, 0xff5a), (0x10400, 0x1044f), (0x104b0, 0x104d3), (0x104d8, 0x104fb),
    (0x10c80, 0x10cb2), (0x10cc0, 0x10cf2), (0x118a0, 0x118df), (0x1e900, 0x1e943),
];
