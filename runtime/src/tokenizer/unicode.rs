//! What the pre-tokenizers need of Unicode: code points out of bytes, and their classes.
//!
//! Any bytes are accepted. Decoding is as lenient as the reference's (llama.cpp, `unicode.cpp`):
//! overlong forms and surrogates are taken for what they spell, and each byte that starts no code
//! point is U+FFFD by itself. Values above U+10FFFF, on which the reference aborts, count as such
//! bytes too.

use super::unicode_table::RANGES;

/// What stands for a byte that starts no code point.
const REPLACEMENT: u32 = 0xFFFD;

/// What the regular expressions of the pre-tokenizers tell apart. A code point has one class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Class {
    /// Controls, and what is not assigned.
    Other,
    /// `\p{L}`
    Letter,
    /// `\p{N}`
    Number,
    /// `\p{M}`
    Mark,
    /// `\p{P}`
    Punctuation,
    /// `\s`
    Space,
    /// `\p{S}`
    Symbol,
}

impl Class {
    const fn from_range(range: u32) -> Class {
        match range & 7 {
            1 => Class::Letter,
            2 => Class::Number,
            3 => Class::Mark,
            4 => Class::Punctuation,
            5 => Class::Space,
            6 => Class::Symbol,
            _ => Class::Other,
        }
    }
}

/// The classes of ASCII, which most text consists of.
static ASCII: [Class; 128] = {
    let mut classes = [Class::Other; 128];
    let (mut code_point, mut range) = (0, 0);
    while code_point < classes.len() {
        while RANGES[range + 1] >> 3 <= code_point as u32 {
            range += 1;
        }
        classes[code_point] = Class::from_range(RANGES[range]);
        code_point += 1;
    }
    classes
};

/// The class of a code point.
pub(super) fn class(code_point: u32) -> Class {
    if let Some(&class) = ASCII.get(code_point as usize) {
        return class;
    }
    // The first range starts at 0, so there is always one that starts at or before.
    let after = RANGES.partition_point(|&range| range >> 3 <= code_point);
    Class::from_range(RANGES[after - 1])
}

/// A code point of a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct CodePoint {
    pub(super) value: u32,
    /// Bytes it takes in the text.
    pub(super) len: usize,
}

impl CodePoint {
    pub(super) fn class(self) -> Class {
        class(self.value)
    }

    /// Its shortest form in UTF-8, and how many of the four bytes that is.
    pub(super) fn utf8(self) -> ([u8; 4], usize) {
        let continuation = |shift: u32| 0x80 | (self.value >> shift & 0x3F) as u8;
        let lead = |mark: u8, shift: u32| mark | (self.value >> shift) as u8;
        match self.value {
            0..0x80 => ([self.value as u8, 0, 0, 0], 1),
            0x80..0x800 => ([lead(0xC0, 6), continuation(0), 0, 0], 2),
            0x800..0x1_0000 => ([lead(0xE0, 12), continuation(6), continuation(0), 0], 3),
            _ => (
                [
                    lead(0xF0, 18),
                    continuation(12),
                    continuation(6),
                    continuation(0),
                ],
                4,
            ),
        }
    }
}

/// Bytes that a code point takes by its lead byte; 1 for a byte that leads none
/// (`unicode_len_utf8` of the reference).
pub(super) const fn len_by_lead(byte: u8) -> usize {
    match byte >> 4 {
        0xC | 0xD => 2,
        0xE => 3,
        0xF => 4,
        _ => 1,
    }
}

/// The first code point of `text`; `None` at its end.
pub(super) fn first(text: &[u8]) -> Option<CodePoint> {
    let &lead = text.first()?;
    let len = len_by_lead(lead);
    if lead < 0x80 {
        return Some(CodePoint {
            value: u32::from(lead),
            len,
        });
    }
    let decoded = text
        .get(1..len)
        .filter(|tail| len > 1 && tail.iter().all(|byte| byte & 0xC0 == 0x80))
        .map(|tail| {
            let head = u32::from(lead) & (0x7F >> len);
            tail.iter()
                .fold(head, |value, byte| value << 6 | u32::from(byte & 0x3F))
        })
        // A lead byte of 0xF8 or more would need a fifth bit.
        .filter(|&value| lead < 0xF8 && value <= 0x10_FFFF);
    Some(match decoded {
        Some(value) => CodePoint { value, len },
        None => CodePoint {
            value: REPLACEMENT,
            len: 1,
        },
    })
}

/// All code points of `text`.
pub(super) fn code_points(text: &[u8]) -> impl Iterator<Item = CodePoint> + Clone {
    let mut rest = text;
    core::iter::from_fn(move || {
        let code_point = first(rest)?;
        rest = &rest[code_point.len..];
        Some(code_point)
    })
}

#[cfg(test)]
mod tests {
    use super::{Class, class, code_points};

    /// The counts and the digest are those of the reference's own tables
    /// (tools/unicode/classes.py --check).
    #[test]
    fn class_of_every_code_point_is_the_references() {
        let mut counts = [0u32; 7];
        let mut digest = 0xCBF2_9CE4_8422_2325u64;
        for code_point in 0..0x11_0000 {
            let class = class(code_point) as u8;
            counts[usize::from(class)] += 1;
            digest = (digest ^ u64::from(class)).wrapping_mul(0x100_0000_01B3);
        }
        assert_eq!(counts, [964_463, 136_726, 1831, 2450, 842, 25, 7775]);
        assert_eq!(digest, 0x7B53_1560_FC4D_BD38);
    }

    #[test]
    fn code_point_above_the_last_is_other() {
        assert_eq!(class(u32::MAX), Class::Other);
    }

    #[test]
    fn valid_text_decodes_as_the_standard_library_does() {
        for value in (0..0x11_0000).filter_map(char::from_u32) {
            let mut buffer = [0; 4];
            let text = value.encode_utf8(&mut buffer).as_bytes();
            let mut points = code_points(text);
            let point = points.next().expect("one code point");
            assert_eq!((point.value, point.len), (value as u32, text.len()));
            let (bytes, len) = point.utf8();
            assert_eq!(&bytes[..len], text);
            assert!(points.next().is_none());
        }
    }

    #[test]
    fn byte_that_starts_no_code_point_is_a_replacement_by_itself() {
        for text in [
            &b"\x80"[..],
            b"\xFF",
            b"\xC3",
            b"\xE2\x82",
            b"\xF5\x80\x80\x80",
            b"\xF8",
        ] {
            assert!(code_points(text).all(|point| point.value == 0xFFFD && point.len == 1));
            assert_eq!(code_points(text).count(), text.len());
        }
    }

    #[test]
    fn overlong_forms_and_surrogates_are_what_they_spell() {
        let values = |text| code_points(text).map(|point| point.value).next();
        assert_eq!(values(b"\xC0\x80"), Some(0));
        assert_eq!(values(b"\xED\xA0\x80"), Some(0xD800));
    }
}
