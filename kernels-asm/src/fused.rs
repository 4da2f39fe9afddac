//! `x * y + z` rounded once, in software.
//!
//! The reference kernels must give the bits of a hardware FMA on any machine. `libm::fmaf` does
//! so only where it finds such an instruction: its own fallback rounds twice when the result is
//! subnormal.

/// `x * y + z`, correctly rounded (to nearest, ties to even) for every input.
///
/// In f64 the product is exact and the sum loses at most its last bits. Rounding the sum *to odd*
/// (the last bit is set if anything was lost) and then to f32 gives the result of one rounding,
/// because f64 carries more than two bits beyond f32 (Boldo and Melquiond 2008).
#[inline]
pub fn mul_add(x: f32, y: f32, z: f32) -> f32 {
    let (product, addend) = (f64::from(x) * f64::from(y), f64::from(z));
    let sum = product + addend;
    // What the addition lost, exactly (Knuth's TwoSum).
    let part = sum - product;
    let lost = (product - (sum - part)) + (addend - part);
    if lost == 0.0 || !sum.is_finite() || sum.to_bits() & 1 == 1 {
        return sum as f32;
    }
    // An even last bit: the odd neighbour on the side of the exact value.
    let away_from_zero = (lost > 0.0) == (sum > 0.0);
    let odd = if away_from_zero {
        sum.to_bits() + 1
    } else {
        sum.to_bits() - 1
    };
    f64::from_bits(odd) as f32
}

#[cfg(test)]
mod tests {
    use super::mul_add;

    fn f32s(seed: u64) -> impl Iterator<Item = f32> {
        let mut state = seed;
        core::iter::repeat_with(move || {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            f32::from_bits((state >> 32) as u32)
        })
        .filter(|x| x.is_finite())
    }

    #[test]
    fn random_triples_agree_with_libm_where_no_result_is_subnormal() {
        let mut values = f32s(1);
        let mut next = || values.next().unwrap();
        for _ in 0..1_000_000 {
            let (x, y) = (next(), next());
            // An addend near the product is where rounding is hard.
            let z = f32::from_bits((x * y).to_bits() ^ (next().to_bits() >> 8));
            let ours = mul_add(x, y, z);
            if ours.is_normal() {
                assert_eq!(
                    ours.to_bits(),
                    libm::fmaf(x, y, z).to_bits(),
                    "{x:e} {y:e} {z:e}"
                );
            }
        }
    }

    #[test]
    fn result_just_below_a_subnormal_midpoint_is_not_rounded_up() {
        // x*y = 2^-150 (1 - 2^-46); z = 2^-127 + 2^-149, an odd multiple of the last place.
        let x = f32::from_bits((127 - 75) << 23 | 1);
        let y = f32::from_bits(((127 - 75) << 23) - 2);
        let z = f32::from_bits(1 << 22 | 1);
        assert_eq!(mul_add(x, y, z), z);
        assert_eq!(mul_add(-x, y, -z), -z);
    }

    #[test]
    fn zeros_keep_the_sign_that_the_standard_gives_them() {
        let zero = |x: f32, y: f32, z: f32| mul_add(x, y, z).to_bits();
        assert_eq!(zero(0.0, -1.0, 0.0), 0);
        assert_eq!(zero(0.0, -1.0, -0.0), 0x8000_0000);
        assert_eq!(zero(1.0, 1.0, -1.0), 0);
        let least = f32::from_bits(1);
        assert_eq!(zero(least, least, 0.0), 0);
        assert_eq!(zero(-least, least, 0.0), 0x8000_0000);
        assert_eq!(zero(-least, least, -0.0), 0x8000_0000);
    }

    #[test]
    fn specials_and_overflow_behave_as_in_hardware() {
        assert!(mul_add(f32::INFINITY, 0.0, 1.0).is_nan());
        assert!(mul_add(f32::INFINITY, 1.0, f32::NEG_INFINITY).is_nan());
        assert!(mul_add(f32::NAN, 1.0, 1.0).is_nan());
        assert_eq!(mul_add(f32::MAX, f32::MAX, 0.0), f32::INFINITY);
        assert_eq!(mul_add(f32::MAX, 2.0, -f32::MAX), f32::MAX);
    }
}
