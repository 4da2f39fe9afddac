//! Four weights at a time: the bytes of a `u32`, byte `c` being the weight at `k + c`.
//!
//! All shifts below move bits inside the bytes only: what would cross is masked away.

/// The low nibble of every byte.
pub const NIBBLES: u32 = 0x0f0f_0f0f;
/// Bit 0 of every byte.
pub const ONES: u32 = 0x0101_0101;
const TWOS: u32 = 2 * ONES;
/// The low two bits of every byte.
pub const THREES: u32 = 3 * ONES;
const SEVENS: u32 = 7 * ONES;
const FIVE_BITS: u32 = 31 * ONES;
const SIX_BITS: u32 = 63 * ONES;

/// Four bytes of `bytes`.
#[inline(always)]
pub fn load(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Puts four bytes into `bytes`.
#[inline(always)]
pub fn store(bytes: &mut [u8], at: usize, word: u32) {
    bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
}

/// The low four bits of `bits`, one to each byte.
#[inline(always)]
pub fn spread(bits: u32) -> u32 {
    // The factor puts a copy at 0, 7, 14 and 21; bit c of the copy at 7c then lies at 8c.
    (bits & 15).wrapping_mul(1 | 1 << 7 | 1 << 14 | 1 << 21) & ONES
}

/// Eight five-bit weights a row into five bytes: five whole, the other three in their top bits.
#[inline(always)]
pub fn pack5(u: [u32; 8]) -> [u32; 5] {
    let top = [
        u[5] >> 2 & SEVENS,
        (u[5] & THREES) << 1 | u[7] >> 1 & ONES,
        u[6] >> 2 & SEVENS,
        (u[6] & THREES) << 1 | u[7] & ONES,
        u[7] >> 2 & SEVENS,
    ];
    core::array::from_fn(|v| u[v] | top[v] << 5)
}

/// What [`pack5`] packed.
#[inline(always)]
pub fn unpack5(packed: [u32; 5]) -> [u32; 8] {
    let low = packed.map(|word| word & FIVE_BITS);
    let top = packed.map(|word| word >> 5 & SEVENS);
    let u5 = top[0] << 2 | top[1] >> 1 & THREES;
    let u6 = top[2] << 2 | top[3] >> 1 & THREES;
    let u7 = top[4] << 2 | top[1] << 1 & TWOS | top[3] & ONES;
    [low[0], low[1], low[2], low[3], low[4], u5, u6, u7]
}

/// Eight three-bit weights a row into three bytes: six whole, the other two in their top bits.
#[inline(always)]
pub fn pack3(u: [u32; 8]) -> [u32; 3] {
    let top = [
        u[6] & THREES,
        u[7] & THREES,
        u[6] >> 2 & ONES | (u[7] >> 2 & ONES) << 1,
    ];
    core::array::from_fn(|i| u[2 * i] | u[2 * i + 1] << 3 | top[i] << 6)
}

/// What [`pack3`] packed.
#[inline(always)]
pub fn unpack3(packed: [u32; 3]) -> [u32; 8] {
    let [u0, u2, u4] = packed.map(|word| word & SEVENS);
    let [u1, u3, u5] = packed.map(|word| word >> 3 & SEVENS);
    let top = packed.map(|word| word >> 6 & THREES);
    let u6 = top[0] | (top[2] & ONES) << 2;
    let u7 = top[1] | (top[2] & TWOS) << 1;
    [u0, u1, u2, u3, u4, u5, u6, u7]
}

/// Four two-bit weights a row into one byte, the first in its low bits.
#[inline(always)]
pub fn pack2(u: [u32; 4]) -> u32 {
    u[0] | u[1] << 2 | u[2] << 4 | u[3] << 6
}

/// What [`pack2`] packed.
#[inline(always)]
pub fn unpack2(packed: u32) -> [u32; 4] {
    core::array::from_fn(|v| packed >> (2 * v) & THREES)
}

/// Four six-bit weights a row into three bytes: three whole, the fourth in their low bits.
#[inline(always)]
pub fn pack6(q: [u32; 4]) -> [u32; 3] {
    core::array::from_fn(|v| q[v] << 2 | q[3] >> (4 - 2 * v) & THREES)
}

/// What [`pack6`] packed.
#[inline(always)]
pub fn unpack6(packed: [u32; 3]) -> [u32; 4] {
    let [q0, q1, q2] = packed.map(|word| word >> 2 & SIX_BITS);
    let [high, middle, low] = packed.map(|word| word & THREES);
    [q0, q1, q2, high << 4 | middle << 2 | low]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_words_come_back() {
        let words = |step: u32, mask: u32| {
            move |v: usize| (v as u32 + 1).wrapping_mul(step).rotate_left(v as u32) & mask
        };
        for step in (0..1 << 20).map(|i: u32| i.wrapping_mul(2654435761)) {
            let five: [u32; 8] = core::array::from_fn(words(step, FIVE_BITS));
            assert_eq!(unpack5(pack5(five)), five);
            let two: [u32; 4] = core::array::from_fn(words(step, THREES));
            assert_eq!(unpack2(pack2(two)), two);
            let three: [u32; 8] = core::array::from_fn(words(step, SEVENS));
            assert_eq!(unpack3(pack3(three)), three);
            let six: [u32; 4] = core::array::from_fn(words(step, SIX_BITS));
            assert_eq!(unpack6(pack6(six)), six);
        }
    }

    #[test]
    fn bits_spread_to_their_bytes() {
        for bits in 0..16 {
            let bytes: [u8; 4] = core::array::from_fn(|c| (bits >> c & 1) as u8);
            assert_eq!(spread(bits), u32::from_le_bytes(bytes));
        }
    }
}
