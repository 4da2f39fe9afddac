//! Random texts: what people write, mixed with what they hardly ever do. A seed names a text, so
//! that a golden file needs to hold its tokens only.

use runtime::sampler::Random;

/// Parts that a text has at most.
const PARTS_MAX: u64 = 12;

/// Letters that people write with, as ranges of code points.
const SCRIPTS: [(u32, u32); 16] = [
    (0xC0, 0x17F),      // Latin
    (0x1E00, 0x1EFF),   // Latin, with more above and below
    (0x370, 0x3FF),     // Greek
    (0x400, 0x4FF),     // Cyrillic
    (0x530, 0x58F),     // Armenian
    (0x5D0, 0x5EA),     // Hebrew, from right to left
    (0x620, 0x6D3),     // Arabic, likewise
    (0x900, 0x97F),     // Devanagari
    (0xE00, 0xE7F),     // Thai
    (0x10A0, 0x10FF),   // Georgian
    (0x1780, 0x17FF),   // Khmer
    (0x3041, 0x30FF),   // Kana
    (0x4E00, 0x9FFF),   // Han
    (0x20000, 0x2A6DF), // Han, beyond the first plane
    (0xAC00, 0xD7A3),   // Hangul
    (0xFF01, 0xFF9F),   // full and half width
];

/// Numbers that are not 0 to 9, as ranges of code points.
const NUMBERS: [(u32, u32); 6] = [
    (0x660, 0x669),
    (0x966, 0x96F),
    (0xB2, 0xB3),
    (0x2150, 0x2188),
    (0x2460, 0x249B),
    (0x1D7CE, 0x1D7FF),
];

/// Everything that white space may be.
const SPACES: [&str; 16] = [
    " ", "  ", "\n", "\n\n", "\r\n", "\r", "\t", "\u{b}", "\u{c}", "\u{85}", "\u{a0}", "\u{1680}",
    "\u{2003}", "\u{2028}", "\u{202f}", "\u{3000}",
];

/// What English, and code, puts together.
const CLUSTERS: [&str; 24] = [
    "'s",
    "'S",
    "'t",
    "'re",
    "'RE",
    "'ve",
    "'M",
    "'ll",
    "'lL",
    "'d",
    "'\u{17f}",
    "\u{2019}s",
    "->",
    "...",
    "//",
    "/*",
    "*/\n",
    "();",
    "{}",
    "\":",
    "<=",
    "\u{2581}",
    "\u{120}",
    "\u{e9}\u{301}",
];

/// The text of a seed: from 1 to some hundred characters.
pub fn random_text(seed: u64) -> String {
    let mut random = Random::new(seed);
    let mut text = String::new();
    for _ in 0..=random.bits() % PARTS_MAX {
        push_part(&mut text, &mut random);
    }
    text
}

fn push_part(text: &mut String, random: &mut Random) {
    let kind = random.bits() % 16;
    let count = 1 + random.bits() % 8;
    match kind {
        0 => repeat(text, count, || any(random, 0, 0x10_FFFF)),
        1 => repeat(text, count, || any(random, 0, 0xFFFF)),
        2 => repeat(text, count, || any(random, 0, 0x7F)),
        3 => repeat(text, count, || any(random, 0x2000, 0x2BFF)), // punctuation and symbols
        4 => repeat(text, count, || any(random, 0x300, 0x36F)),   // marks
        5 => {
            let (first, last) = pick(random, &NUMBERS);
            repeat(text, count, || any(random, first, last));
        }
        6 => repeat(text, count, || any(random, 0x30, 0x39)),
        7 => repeat(text, count, || any(random, 0x21, 0x2F)),
        8 => push_emoji(text, random),
        9 => {
            let space = pick(random, &SPACES);
            (0..count).for_each(|_| text.push_str(space));
        }
        10 => (0..count).for_each(|_| text.push_str(pick(random, &SPACES))),
        11 => text.push_str(pick(random, &CLUSTERS)),
        12 | 13 => {
            let (first, last) = pick(random, &SCRIPTS);
            repeat(text, count, || any(random, first, last));
        }
        _ => push_words(text, count, random),
    }
}

/// Words of lower case, capitals, or both, with a space before most of them.
fn push_words(text: &mut String, count: u64, random: &mut Random) {
    for _ in 0..count {
        let style = random.bits();
        if !style.is_multiple_of(4) {
            text.push(' ');
        }
        let letters = 1 + random.bits() % 9;
        for at in 0..letters {
            let letter = any(random, 0x61, 0x7A);
            let is_upper = match style >> 8 & 7 {
                0 => true,
                1 => random.bits().is_multiple_of(2),
                2 | 3 => at == 0,
                _ => false,
            };
            text.push(if is_upper {
                letter.to_ascii_uppercase()
            } else {
                letter
            });
        }
    }
}

/// An emoji, or several that are one to the eye.
fn push_emoji(text: &mut String, random: &mut Random) {
    text.push(any(random, 0x1F300, 0x1FAFF));
    match random.bits() % 4 {
        0 => text.push(any(random, 0x1F3FB, 0x1F3FF)), // a tone of skin
        1 => {
            text.push('\u{200d}');
            text.push(any(random, 0x1F300, 0x1FAFF));
        }
        2 => text.push('\u{fe0f}'),
        _ => repeat(text, 2, || any(random, 0x1F1E6, 0x1F1FF)), // a flag
    }
}

fn repeat(text: &mut String, count: u64, mut next: impl FnMut() -> char) {
    (0..count).for_each(|_| text.push(next()));
}

/// Any character from `first` to `last`, of which at least one is.
fn any(random: &mut Random, first: u32, last: u32) -> char {
    loop {
        let code_point = first + (random.bits() % u64::from(last - first + 1)) as u32;
        if let Some(character) = char::from_u32(code_point) {
            return character;
        }
    }
}

fn pick<T: Copy>(random: &mut Random, from: &[T]) -> T {
    from[(random.bits() % from.len() as u64) as usize]
}
