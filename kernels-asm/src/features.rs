//! What a CPU has, and the instruction-set tiers and cores that kernels are written for.

/// A set of CPU features. Detection is the caller's (`runtime::cpu`): this crate asks no one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Features(u32);

impl Features {
    /// Nothing beyond the baseline of the target.
    pub const NONE: Self = Self(0);
    /// x86-64: SSE2, part of the baseline.
    pub const SSE2: Self = Self(1 << 0);
    /// x86-64: AVX2, FMA and F16C, enabled by the operating system.
    pub const AVX2: Self = Self(1 << 1);
    /// x86-64: AVX-VNNI (VEX-encoded VPDPBUSD).
    pub const AVX_VNNI: Self = Self(1 << 2);
    /// x86-64: AVX-512 F, BW, VL and VNNI, enabled by the operating system.
    pub const AVX512_VNNI: Self = Self(1 << 3);
    /// AArch64: Advanced SIMD, part of the baseline.
    pub const NEON: Self = Self(1 << 8);
    /// AArch64: SDOT and UDOT (FEAT_DotProd).
    pub const DOTPROD: Self = Self(1 << 9);
    /// AArch64: SMMLA (FEAT_I8MM).
    pub const I8MM: Self = Self(1 << 10);

    /// Both sets together.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What both sets have.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// What this set has and `other` lacks.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether all of `needs` is here.
    pub const fn has(self, needs: Self) -> bool {
        needs.without(self).0 == 0
    }

    /// The names of the features in this set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        const NAMES: [(Features, &str); 7] = [
            (Features::SSE2, "sse2"),
            (Features::AVX2, "avx2"),
            (Features::AVX_VNNI, "avxvnni"),
            (Features::AVX512_VNNI, "avx512vnni"),
            (Features::NEON, "neon"),
            (Features::DOTPROD, "dotprod"),
            (Features::I8MM, "i8mm"),
        ];
        NAMES
            .into_iter()
            .filter(move |(bit, _)| self.has(*bit))
            .map(|(_, name)| name)
    }
}

/// A tier of kernels: the features that its members may use. Weakest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(missing_docs)] // the names of the command line's `--isa`
pub enum Isa {
    Reference,
    Sse2,
    Avx2,
    AvxVnni,
    Avx512Vnni,
    Neon,
    Dotprod,
    I8mm,
}

impl Isa {
    /// Every tier, weakest first.
    pub const ALL: [Isa; 8] = [
        Isa::Reference,
        Isa::Sse2,
        Isa::Avx2,
        Isa::AvxVnni,
        Isa::Avx512Vnni,
        Isa::Neon,
        Isa::Dotprod,
        Isa::I8mm,
    ];

    /// The features that a CPU must have for this tier.
    pub const fn needs(self) -> Features {
        match self {
            Isa::Reference => Features::NONE,
            Isa::Sse2 => Features::SSE2,
            Isa::Avx2 => Isa::Sse2.needs().with(Features::AVX2),
            Isa::AvxVnni => Isa::Avx2.needs().with(Features::AVX_VNNI),
            Isa::Avx512Vnni => Isa::Avx2.needs().with(Features::AVX512_VNNI),
            Isa::Neon => Features::NEON,
            Isa::Dotprod => Isa::Neon.needs().with(Features::DOTPROD),
            Isa::I8mm => Isa::Dotprod.needs().with(Features::I8MM),
        }
    }

    /// The name on the command line and in the logs.
    pub const fn name(self) -> &'static str {
        match self {
            Isa::Reference => "reference",
            Isa::Sse2 => "sse2",
            Isa::Avx2 => "avx2",
            Isa::AvxVnni => "avxvnni",
            Isa::Avx512Vnni => "avx512vnni",
            Isa::Neon => "neon",
            Isa::Dotprod => "dotprod",
            Isa::I8mm => "i8mm",
        }
    }

    /// The tier of that name.
    pub fn from_name(name: &str) -> Option<Isa> {
        Isa::ALL.into_iter().find(|isa| isa.name() == name)
    }
}

/// A core that kernels are tuned for: the order of their instructions, not which they are. It
/// stands for all cores that run alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Core {
    /// Two instructions a cycle, in order: Cortex-A35, A53, A55, A510, A520 and their kin.
    CortexA55,
}

impl Core {
    /// The name in the kernels' names and in the logs.
    pub const fn name(self) -> &'static str {
        match self {
            Core::CortexA55 => "cortex_a55",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tier_but_the_reference_needs_more_than_weaker_ones() {
        for (i, isa) in Isa::ALL.into_iter().enumerate().skip(1) {
            let weaker = Isa::ALL[..i]
                .iter()
                .fold(Features::NONE, |all, weaker| all.with(weaker.needs()));
            assert!(!weaker.has(isa.needs()), "{}", isa.name());
        }
    }

    #[test]
    fn every_tier_is_named_by_a_feature_that_it_needs() {
        for isa in Isa::ALL.into_iter().skip(1) {
            assert!(isa.needs().names().any(|name| name == isa.name()));
        }
    }
}
