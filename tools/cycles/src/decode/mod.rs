//! An instruction word to what it reads, writes and occupies.
//!
//! This is no disassembler: it knows the instructions that hot loops are made of, and answers
//! `None` for all others, so that nothing is timed by guess. An instruction that a kernel needs
//! and that is missing here is a row in a table of [`vector`] or [`scalar`].

mod scalar;
mod vector;

/// A set of registers: bits 0-30 general, 31 the stack pointer, 32-63 and 64-95 the lower and the
/// upper halves of vectors, 96 the flags.
pub type Registers = u128;

/// The flags, as a set.
pub const FLAGS: Registers = 1 << 96;

/// Multiply-accumulates that can hand their sum on early to one of their own kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// SDOT and its like.
    Dot,
    /// Integer multiply-accumulates, and pairwise ones.
    Integer,
    /// FMLA, FMLS.
    Float,
}

/// What sort of instruction it is, as far as the pipeline treats sorts apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// General registers only, branches included.
    Scalar,
    /// A load or a prefetch.
    Load,
    /// A store.
    Store,
    /// A vector operation.
    Vector,
    /// ZIP, UZP, TRN.
    Permute,
    /// A vector multiply-accumulate.
    Accumulate(Family),
    /// From a general register to a vector.
    FromGeneral,
}

/// An instruction, as the pipeline sees it.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// Its mnemonic.
    pub name: &'static str,
    /// Its sort.
    pub kind: Kind,
    /// What it reads.
    pub reads: Registers,
    /// What it writes, and how many cycles after issue that can be read.
    pub writes: Vec<(Registers, u64)>,
    /// The sum that it adds to, one of `reads`.
    pub accumulator: Registers,
    /// The register that it puts a part into, one of `reads`.
    pub merges: Registers,
    /// 64-bit vector pipes that it occupies: with two it issues first in its cycle.
    pub vector_pipes: usize,
    /// For how long.
    pub vector_cycles: u64,
    /// Cycles of the load pipe.
    pub load_cycles: u64,
    /// Cycles of the store pipe.
    pub store_cycles: u64,
    /// Whether it needs one of the two integer units.
    pub alu: bool,
    /// Whether it needs the integer multiplier.
    pub multiplier: bool,
    /// Whether it may jump.
    pub branch: bool,
    /// Whether it loads a whole 128-bit register, which blocks both issue slots.
    pub loads_128_bits: bool,
}

impl Instruction {
    /// One that occupies nothing yet.
    fn new(name: &'static str, kind: Kind) -> Self {
        Self {
            name,
            kind,
            reads: 0,
            writes: Vec::new(),
            accumulator: 0,
            merges: 0,
            vector_pipes: 0,
            vector_cycles: 1,
            load_cycles: 0,
            store_cycles: 0,
            alu: false,
            multiplier: false,
            branch: false,
            loads_128_bits: false,
        }
    }

    /// Whether it is a multiply-accumulate: what a hot loop is there for.
    pub fn accumulates(&self) -> bool {
        matches!(self.kind, Kind::Accumulate(_))
    }
}

/// What `word` means to the pipeline; `None` for what it does not know.
pub fn decode(word: u32) -> Option<Instruction> {
    scalar::decode(word).or_else(|| vector::decode(word))
}

/// An extension beyond Armv8.0 whose instructions kernels use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Extension {
    /// FEAT_DotProd: SDOT, UDOT.
    Dotprod,
    /// FEAT_I8MM: SMMLA, UMMLA, USMMLA, USDOT, SUDOT.
    I8mm,
}

/// The extension that `word` needs, of those that kernels use.
pub fn extension(word: u32) -> Option<Extension> {
    const ENCODINGS: [(u32, u32, Extension); 6] = [
        (0x9fe0_fc00, 0x0e80_9400, Extension::Dotprod), // SDOT, UDOT
        (0x9fc0_f400, 0x0f80_e000, Extension::Dotprod), // by element
        (0xbfe0_fc00, 0x0e80_9c00, Extension::I8mm),    // USDOT
        (0xbf40_f400, 0x0f00_f000, Extension::I8mm),    // USDOT, SUDOT by element
        (0xdfe0_fc00, 0x4e80_a400, Extension::I8mm),    // SMMLA, UMMLA
        (0xffe0_fc00, 0x4e80_ac00, Extension::I8mm),    // USMMLA
    ];
    let matches = |&&(mask, value, _): &&(u32, u32, Extension)| word & mask == value;
    ENCODINGS.iter().find(matches).map(|row| row.2)
}

/// Where a branch at `address` goes; `None` for what is no direct branch, and for calls.
pub fn branch_target(word: u32, address: u64) -> Option<u64> {
    // The offset counts words from its lowest bit up: (mask, value, lowest bit, bits).
    const BRANCHES: [(u32, u32, u32, u32); 4] = [
        (0xff00_0010, 0x5400_0000, 5, 19), // B.cond
        (0x7e00_0000, 0x3400_0000, 5, 19), // CBZ, CBNZ
        (0x7e00_0000, 0x3600_0000, 5, 14), // TBZ, TBNZ
        (0xfc00_0000, 0x1400_0000, 0, 26), // B
    ];
    let matches = |row: &&(u32, u32, u32, u32)| word & row.0 == row.1;
    let &(_, _, low, bits) = BRANCHES.iter().find(matches)?;
    let offset = ((word << (32 - low - bits)) as i32 >> (32 - bits)) * 4;
    Some(address.wrapping_add_signed(i64::from(offset)))
}

/// The five bits of a register's number, from bit `low` on.
fn number(word: u32, low: u32) -> u32 {
    word >> low & 31
}

/// A general register, of which 31 is the stack pointer.
fn general_or_sp(number: u32) -> Registers {
    1 << number
}

/// A general register, of which 31 is always zero and so nothing to wait for.
fn general(number: u32) -> Registers {
    if number == 31 { 0 } else { 1 << number }
}

/// The lower half of a vector register.
fn lower(number: u32) -> Registers {
    1 << (32 + number)
}

/// The upper half of a vector register.
fn upper(number: u32) -> Registers {
    1 << (64 + number)
}

/// A vector register, both halves.
fn whole(number: u32) -> Registers {
    lower(number) | upper(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_decoded_as_the_assembler_means_them() {
        for (word, name) in [
            (0x4f84_e302, "sdot"),   // sdot v2.4s, v24.16b, v4.4b[0]
            (0x4e3d_1f10, "and"),    // and v16.16b, v24.16b, v29.16b
            (0x4eb8_9456, "mla"),    // mla v22.4s, v2.4s, v24.4s
            (0x6f0c_0610, "ushr"),   // ushr v16.16b, v16.16b, #4
            (0x6f0a_5632, "sli"),    // sli v18.16b, v17.16b, #2
            (0x4e1e_039a, "tbl"),    // tbl v26.16b, {v28.16b}, v30.16b
            (0x0e21_7a94, "fcvtl"),  // fcvtl v20.4s, v20.4h
            (0x4e21_db58, "scvtf"),  // scvtf v24.4s, v26.4s
            (0x4e70_38a5, "saddlv"), // saddlv s5, v5.8h
            (0x4f3c_e456, "scvtf"),  // scvtf v22.4s, v2.4s, #4
            (0x4e18_1cf0, "ins"),    // ins v16.d[1], x7
            (0x9e67_03e2, "fmov"),   // fmov d2, xzr
            (0xfd40_0010, "ldr"),    // ldr d16, [x0]
            (0xf980_0000, "prfm"),   // prfm pldl1keep, [x0]
            (0x4ddf_c924, "ld1r"),   // ld1r {v4.4s}, [x9], #4
            (0x4cdf_20f0, "ld1"),    // ld1 {v16.16b-v19.16b}, [x7], #64
            (0x9a81_1000, "csel"),   // csel x0, x0, x1, ne
            (0xf100_04c6, "subs"),   // subs x6, x6, #1
            (0xb360_7c41, "bfm"),    // bfi x1, x2, #32, #32
            (0x5400_0041, "b.cond"), // b.ne
        ] {
            let decoded = decode(word).unwrap_or_else(|| panic!("{word:08x} is {name}"));
            assert_eq!(decoded.name, name, "{word:08x}");
        }
    }

    #[test]
    fn unknown_words_are_not_guessed() {
        for word in [0, 0xd65f_03c0, 0x9ac1_0800, 0x1e61_1800, u32::MAX] {
            assert!(decode(word).is_none(), "{word:08x}"); // udf, ret, udiv, fdiv
        }
    }

    #[test]
    fn half_of_a_register_is_read_where_only_that_is_used() {
        let low = decode(0x4f84_e302).unwrap().reads; // v4.4b[0]
        let high = decode(0x4f84_eb02).unwrap().reads; // v4.4b[2]
        assert_eq!(low & whole(4), lower(4));
        assert_eq!(high & whole(4), whole(4));
        let ins = decode(0x4e18_1cf0).unwrap();
        assert_eq!(ins.writes, [(upper(16), 3)]);
    }

    #[test]
    fn what_is_changed_in_part_is_read() {
        let bfi = decode(0xb360_7c41).unwrap(); // bfi x1, x2, #32, #32
        assert_eq!(bfi.reads, general(1) | general(2));
        let movk = decode(0xf2a0_0021).unwrap(); // movk x1, #1, lsl #16
        assert_eq!(movk.reads, general(1));
    }

    #[test]
    fn extensions_are_told_from_what_every_core_has() {
        for (word, expected) in [
            (0x4f84_e302, Some(Extension::Dotprod)), // sdot by element
            (0x6e82_9420, Some(Extension::Dotprod)), // udot v0.4s, v1.16b, v2.16b
            (0x4e82_a420, Some(Extension::I8mm)),    // smmla v0.4s, v1.16b, v2.16b
            (0x4e82_9c20, Some(Extension::I8mm)),    // usdot v0.4s, v1.16b, v2.16b
            (0x4f02_f020, Some(Extension::I8mm)),    // sudot v0.4s, v1.16b, v2.4b[0]
            (0x4eb8_9456, None),                     // mla
            (0x4f82_1020, None),                     // fmla v0.4s, v1.4s, v2.s[0]
        ] {
            assert_eq!(extension(word), expected, "{word:08x}");
        }
    }

    #[test]
    fn branches_go_where_their_offset_says() {
        assert_eq!(branch_target(0x54ff_ffe1, 0x100), Some(0xfc)); // b.ne, back one
        assert_eq!(branch_target(0xb400_0041, 0x100), Some(0x108)); // cbz x1, on two
        assert_eq!(branch_target(0x3607_ffe0, 0x100), Some(0xfc)); // tbz w0, #0, back one
        assert_eq!(branch_target(0x17ff_ffff, 0x100), Some(0xfc)); // b, back one
        assert_eq!(branch_target(0x97ff_ffff, 0x100), None); // bl
    }
}
