//! How fast one core reads memory, with nothing else to do: the bound of every product.

use std::hint::black_box;

/// Bytes of a line of the cache.
const LINE: usize = 64;
/// How far ahead lines are asked for.
const AHEAD: usize = 4096;

/// Looks at every byte from one end to the other, as plain code does.
pub fn plain(bytes: &[u8]) {
    let (lines, _) = bytes.as_chunks::<{ 2 * LINE }>();
    let mut sums = [0; 2 * LINE / 8];
    for line in lines {
        add(&mut sums, line);
    }
    black_box(sums);
}

/// Looks at every byte from the start and from the middle at once, and asks for lines ahead: what
/// kernels do to keep more lines on their way.
pub fn two_streams(bytes: &[u8]) {
    let (first, second) = bytes.split_at(bytes.len() / 2 / LINE * LINE);
    let mut sums = [[0; LINE / 8]; 2];
    let (first, _) = first.as_chunks::<LINE>();
    let (second, _) = second.as_chunks::<LINE>();
    for (a, b) in first.iter().zip(second) {
        for (sums, line) in sums.iter_mut().zip([a, b]) {
            prefetch(line.as_ptr().wrapping_add(AHEAD));
            add(sums, line);
        }
    }
    black_box(sums);
}

/// Adds the words of `bytes` to as many sums, which a vector unit does at once.
fn add<const BYTES: usize, const WORDS: usize>(sums: &mut [u64; WORDS], bytes: &[u8; BYTES]) {
    let (words, _) = bytes.as_chunks::<8>();
    for (sum, word) in sums.iter_mut().zip(words) {
        *sum = sum.wrapping_add(u64::from_le_bytes(*word));
    }
}

/// Asks for a line, which need not exist.
#[cfg(target_arch = "x86_64")]
fn prefetch(at: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    #[allow(unsafe_code)] // an instruction with a pointer
    // SAFETY: every x86-64 CPU has SSE, and a prefetch of an unmapped line does nothing.
    unsafe {
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
}

/// Elsewhere the hardware has to see for itself.
#[cfg(not(target_arch = "x86_64"))]
fn prefetch(_: *const u8) {}
