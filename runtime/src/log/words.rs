//! Texts that log lines have often, interned. A text that is made of them costs a byte or two for
//! each; any other is sent letter by letter, so a word that this list lacks costs room only.

use super::{Interned, interned};

struct Word {
    text: &'static str,
    piece: Interned,
}

/// The longest word that `text` begins with, and its length.
pub fn at_start(text: &str) -> Option<(Interned, usize)> {
    let words = [FORMATS, ITEMS, VALUES].into_iter().flatten();
    let found = words.filter(|word| text.starts_with(word.text));
    let longest = found.max_by_key(|word| word.text.len())?;
    Some((longest.piece, longest.text.len()))
}

macro_rules! words {
    ($($text:expr),* $(,)?) => {
        &[$(Word { text: $text, piece: interned!("write", $text) }),*]
    };
}

/// Weight formats, as the list of kernels begins an item.
macro_rules! formats {
    ($($format:literal $kernel:literal),* $(,)?) => {
        words![$(
            concat!($format, ":gemv_", $kernel),
            concat!($format, ":gemm_", $kernel),
        )*]
    };
}

/// Ends of a list's items, as they stand before a comma and at the end.
macro_rules! items {
    ($($item:literal),* $(,)?) => {
        words![$($item, concat!($item, ",")),*]
    };
}

static FORMATS: &[Word] = formats![
    "Q4_0" "q4_0",
    "Q4_1" "q4_1",
    "Q5_0" "q5_0",
    "Q8_0" "q8_0",
    "Q4_K" "q4_k",
    "Q5_K" "q5_k",
    "Q6_K" "q6_k",
    "Q5_1" "q5_1",
    "IQ4_NL" "iq4_nl",
    "Q2_K" "q2_k",
    "Q3_K" "q3_k",
    "TQ1_0" "tq1_0",
    "TQ2_0" "tq2_0",
    "F32" "f32",
    "F16" "f16",
    "BF16" "bf16",
];

static ITEMS: &[Word] = items![
    // kernels
    "_reference",
    "_avx2",
    "_avx_vnni",
    "_avx512_vnni",
    "_neon",
    "_neon_dotprod",
    "_neon_dotprod_cortex_a55",
    "_neon_i8mm",
    // features
    "sse2",
    "avx2",
    "avxvnni",
    "avx512vnni",
    "neon",
    "dotprod",
    "i8mm",
];

static VALUES: &[Word] = words![
    env!("CARGO_PKG_VERSION"),
    "float:vector",
    "streamed",
    "mapped",
    "load",
    "f32",
    "f16",
    "q8_0",
    "flag",
    "board",
    "cgroup",
    "available",
    "unknown",
    "yes",
    "no",
    "ready",
    "open",
    "closed",
    "hung_up",
    "stop",
    "length",
    "eos",
    "context",
    "cancel",
    "error",
];

#[cfg(test)]
mod tests {
    use super::at_start;

    #[test]
    fn the_longest_word_is_found() {
        let len = |text| at_start(text).map(|found| found.1);
        assert_eq!(len("_neon_dotprod,float"), Some("_neon_dotprod,".len()));
        assert_eq!(len("_neon_dotprod"), Some("_neon_dotprod".len()));
        assert_eq!(len("nothing"), Some(2));
        assert_eq!(len("Nothing"), None);
    }

    #[test]
    fn names_of_kernels_are_made_of_words() {
        for kernel in kernels_asm::registry::KERNELS {
            use kernels_asm::registry::Operation::{Gemm, Gemv, Vector};
            let format = match kernel.operation {
                Gemv(format, _) | Gemm(format, _) => format.name(),
                Vector(_) => "float",
            };
            let mut item = heapless::String::<64>::new();
            core::fmt::write(&mut item, format_args!("{format}:{},", kernel.name)).unwrap();
            let mut rest = item.as_str();
            let mut count = 0;
            while let Some((_, len)) = at_start(rest) {
                rest = &rest[len..];
                count += 1;
            }
            assert_eq!((rest, count), ("", 2), "{item}");
        }
    }
}
