//! IEEE 754 binary16, as bits, to `f32` and back.
//!
//! Software, so that it is the same on every machine; the fast tiers convert in hardware and
//! agree with it on every value.

/// The value of a binary16; exact. A NaN keeps its payload and becomes quiet.
pub const fn f16_to_f32(bits: u16) -> f32 {
    // In place of the f32 fields the exponent is short of 127 - 15. Multiplying makes up for it,
    // exactly, and normalises the subnormals on the way.
    const REBIAS: f32 = f32::from_bits((127 + 127 - 15) << 23);
    let magnitude = f32::from_bits((bits as u32 & 0x7fff) << 13) * REBIAS;
    let special = if bits & 0x7c00 == 0x7c00 {
        0x7f80_0000
    } else {
        0
    };
    f32::from_bits(magnitude.to_bits() | special | (bits as u32 & 0x8000) << 16)
}

/// The binary16 nearest to `value`: ties to even, overflow to infinity, NaN to a quiet NaN.
pub const fn f32_to_f16(value: f32) -> u16 {
    const INFINITY: u32 = 0x7f80_0000;
    const BEYOND_F16: u32 = 0x4780_0000; // 65536
    const LEAST_NORMAL: u32 = 0x3880_0000; // 2^-14
    let sign = (value.to_bits() >> 16) as u16 & 0x8000;
    let magnitude = value.to_bits() & 0x7fff_ffff;
    let half = if magnitude > INFINITY {
        0x7e00 | (magnitude >> 13 & 0x3ff)
    } else if magnitude >= BEYOND_F16 {
        0x7c00
    } else if magnitude < LEAST_NORMAL {
        // One unit in the last place of 0.5 is 2^-24, the step of the binary16 subnormals.
        (f32::from_bits(magnitude) + 0.5).to_bits() - 0.5_f32.to_bits()
    } else {
        // Half a unit, less one unless the kept part is odd; a carry out of 65504 is infinity.
        let rebiased = magnitude - ((127 - 15) << 23);
        (rebiased + 0xfff + (rebiased >> 13 & 1)) >> 13
    };
    sign | half as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition in the standard, in f64, where every step is exact.
    fn by_definition(bits: u16) -> f64 {
        let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
        let exponent = i32::from(bits >> 10 & 31);
        let fraction = f64::from(bits & 0x3ff) / 1024.0;
        match exponent {
            0 => sign * fraction * libm::exp2(-14.0),
            31 if fraction == 0.0 => sign * f64::INFINITY,
            31 => f64::NAN,
            _ => sign * (1.0 + fraction) * libm::exp2(f64::from(exponent - 15)),
        }
    }

    #[test]
    fn every_binary16_widens_to_its_definition_and_narrows_back() {
        for bits in 0..=u16::MAX {
            let (wide, exact) = (f16_to_f32(bits), by_definition(bits));
            if exact.is_nan() {
                assert!(wide.is_nan());
                assert_eq!(f32_to_f16(wide), bits | 0x200, "quiet, payload kept");
            } else {
                assert_eq!(f64::from(wide).to_bits(), exact.to_bits(), "{bits:#06x}");
                assert_eq!(f32_to_f16(wide), bits);
            }
        }
    }

    #[test]
    fn midpoints_round_to_even_and_their_neighbours_to_the_nearest() {
        for bits in 0..0x7c00_u16 {
            let low = f16_to_f32(bits);
            // Above the largest finite value the next step would be 65536.
            let high = if bits == 0x7bff {
                65536.0
            } else {
                f16_to_f32(bits + 1)
            };
            let middle = (low + high) / 2.0;
            let even = bits + (bits & 1);
            for (value, nearest) in [
                (middle, even),
                (f32::from_bits(middle.to_bits() - 1), bits),
                (f32::from_bits(middle.to_bits() + 1), bits + 1),
            ] {
                assert_eq!(f32_to_f16(value), nearest, "{value:e}");
                assert_eq!(f32_to_f16(-value), nearest | 0x8000, "-{value:e}");
            }
        }
    }

    #[test]
    fn values_out_of_range_become_infinity_or_zero() {
        assert_eq!(f32_to_f16(f32::MAX), 0x7c00);
        assert_eq!(f32_to_f16(f32::NEG_INFINITY), 0xfc00);
        assert_eq!(f32_to_f16(f32::from_bits(1)), 0);
        assert_eq!(f32_to_f16(-f32::MIN_POSITIVE), 0x8000);
    }
}
