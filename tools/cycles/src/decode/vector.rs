//! Vector operations, by the groups of the architecture's encoding.
//!
//! Latencies: logic 1; shifts, permutes and moves 2; integer add 3, or 2 on 64 bits; multiply and
//! float 4. They are those of SLOTHY's and LLVM's models, which go back to Arm's guide.

use super::{Family, Instruction, Kind, Registers, general, lower, number, whole};

/// What a row of a table does with its destination.
#[derive(Clone, Copy)]
enum Role {
    /// Writes it.
    Write,
    /// Writes some of its bits, and so reads it.
    Merge,
    /// Adds to it.
    Sum(Family),
    /// Writes it, by the permute network.
    Permute,
}

use Family::{Dot, Float, Integer};
use Role::{Merge, Permute, Sum, Write};

/// (U and opcode, name, latency, role)
type Row = (u32, &'static str, u64, Role);

/// U in front of an opcode of five bits.
const U: u32 = 1 << 5;

const LOGIC: [&str; 8] = ["and", "bic", "orr", "orn", "eor", "bsl", "bit", "bif"];

#[rustfmt::skip] // tables: one row, one line
mod tables {
    use super::*;

    /// Three registers of one shape, but for logic and what turns on the size.
    pub const THREE_SAME: [Row; 17] = [
        (0b10000, "add", 3, Write),         (U | 0b10000, "sub", 3, Write),
        (0b10010, "mla", 4, Sum(Integer)),  (U | 0b10010, "mls", 4, Sum(Integer)),
        (0b10011, "mul", 4, Write),         (0b10111, "addp", 3, Write),
        (0b01100, "smax", 2, Write),        (0b01101, "smin", 2, Write),
        (U | 0b01100, "umax", 2, Write),    (U | 0b01101, "umin", 2, Write),
        (0b00001, "sqadd", 3, Write),       (0b00101, "sqsub", 3, Write),
        (0b01000, "sshl", 2, Write),        (U | 0b01000, "ushl", 2, Write),
        (0b00110, "cmgt", 2, Write),        (0b00111, "cmge", 2, Write),
        (U | 0b10001, "cmeq", 2, Write),
    ];

    /// The same in floats.
    pub const THREE_FLOAT: [Row; 3] = [
        (0b11001, "fmla", 4, Sum(Float)),   (0b11010, "fadd", 4, Write),
        (U | 0b11011, "fmul", 4, Write),
    ];

    /// Dot products and products of matrices.
    pub const DOT: [Row; 6] = [
        (0b0010, "sdot", 4, Sum(Dot)),      (U | 0b0010, "udot", 4, Sum(Dot)),
        (0b0011, "usdot", 4, Sum(Dot)),     (0b0100, "smmla", 4, Sum(Dot)),
        (U | 0b0100, "ummla", 4, Sum(Dot)), (0b0101, "usmmla", 4, Sum(Dot)),
    ];

    /// A wide result of two narrow registers.
    pub const LONG: [Row; 12] = [
        (0b0000, "saddl", 3, Write),        (U, "uaddl", 3, Write),
        (0b0010, "ssubl", 3, Write),        (U | 0b0010, "usubl", 3, Write),
        (0b1000, "smlal", 4, Sum(Integer)), (U | 0b1000, "umlal", 4, Sum(Integer)),
        (0b1010, "smlsl", 4, Sum(Integer)), (U | 0b1010, "umlsl", 4, Sum(Integer)),
        (0b1100, "smull", 4, Write),        (U | 0b1100, "umull", 4, Write),
        (0b0101, "sabal", 4, Sum(Integer)), (U | 0b0101, "uabal", 4, Sum(Integer)),
    ];

    /// One register to another.
    pub const TWO: [Row; 12] = [
        (0b00010, "saddlp", 3, Write),          (U | 0b00010, "uaddlp", 3, Write),
        (0b00110, "sadalp", 4, Sum(Integer)),   (U | 0b00110, "uadalp", 4, Sum(Integer)),
        (0b11101, "scvtf", 4, Write),           (U | 0b11101, "ucvtf", 4, Write),
        (0b10111, "fcvtl", 4, Write),           (0b10110, "fcvtn", 4, Write),
        (U | 0b01011, "neg", 2, Write),         (0b00101, "cnt", 2, Write),
        (0b10010, "xtn", 2, Write),             (U | 0b00101, "not", 1, Write),
    ];

    /// All lanes of one register to one.
    pub const ACROSS: [Row; 3] = [
        (0b11011, "addv", 3, Write),            (0b00011, "saddlv", 3, Write),
        (U | 0b00011, "uaddlv", 3, Write),
    ];

    /// A shift by a constant.
    pub const SHIFT: [Row; 10] = [
        (0b00000, "sshr", 2, Write),        (U, "ushr", 2, Write),
        (0b00010, "ssra", 3, Merge),        (U | 0b00010, "usra", 3, Merge),
        (0b01010, "shl", 2, Write),         (U | 0b01010, "sli", 2, Merge),
        (U | 0b01000, "sri", 2, Merge),     (0b10100, "sshll", 2, Write),
        (U | 0b10100, "ushll", 2, Write),   (0b11100, "scvtf", 4, Write),
    ];

    /// A register and one element of another.
    pub const ELEMENT: [Row; 14] = [
        (0b1110, "sdot", 4, Sum(Dot)),      (U | 0b1110, "udot", 4, Sum(Dot)),
        (0b1111, "usdot", 4, Sum(Dot)),     (0b1000, "mul", 4, Write),
        (U, "mla", 4, Sum(Integer)),        (U | 0b0100, "mls", 4, Sum(Integer)),
        (0b0001, "fmla", 4, Sum(Float)),    (0b0101, "fmls", 4, Sum(Float)),
        (0b1001, "fmul", 4, Write),         (0b1010, "smull", 4, Write),
        (U | 0b1010, "umull", 4, Write),    (0b0010, "smlal", 4, Sum(Integer)),
        (U | 0b0010, "umlal", 4, Sum(Integer)), (0b0110, "smlsl", 4, Sum(Integer)),
    ];

    /// Two registers interleaved or taken apart.
    pub const PERMUTE: [Row; 6] = [
        (0b001, "uzp1", 2, Permute),    (0b101, "uzp2", 2, Permute),
        (0b010, "trn1", 2, Permute),    (0b110, "trn2", 2, Permute),
        (0b011, "zip1", 2, Permute),    (0b111, "zip2", 2, Permute),
    ];
}
use tables::{ACROSS, DOT, ELEMENT, LONG, PERMUTE, SHIFT, THREE_FLOAT, THREE_SAME, TWO};

/// See [`decode`](super::decode).
pub fn decode(word: u32) -> Option<Instruction> {
    // Groups whose bit patterns exclude one another.
    let group: fn(u32) -> Option<Instruction> = match word {
        _ if word & 0x9f20_0400 == 0x0e20_0400 => three_same,
        _ if word & 0x9f20_8400 == 0x0e00_8400 => dot,
        _ if word & 0x9f20_0c00 == 0x0e20_0000 => long,
        _ if word & 0x9f3e_0c00 == 0x0e20_0800 => two,
        _ if word & 0x9f3e_0c00 == 0x0e30_0800 => across,
        _ if word & 0x9f80_0400 == 0x0f00_0400 => shift,
        _ if word & 0x9f00_0400 == 0x0f00_0000 => element,
        _ if word & 0xbf20_8c00 == 0x0e00_0800 => permute,
        _ if word & 0xbfe0_8c00 == 0x0e00_0000 => table,
        _ if word & 0xbfe0_8400 == 0x2e00_0000 => extract,
        _ if word & 0x9fe0_8400 == 0x0e00_0400 => copy,
        _ => from_general,
    };
    group(word)
}

/// Whether the operation is on 128 bits.
fn is_wide(word: u32) -> bool {
    word >> 30 & 1 == 1
}

/// As much of a register as an operation of this width reads.
fn read(word: u32, low: u32) -> Registers {
    let register = number(word, low);
    if is_wide(word) {
        whole(register)
    } else {
        lower(register)
    }
}

fn find(rows: &[Row], word: u32, opcode: u32) -> Option<Row> {
    let key = (word >> 29 & 1) << 5 | opcode;
    rows.iter().find(|row| row.0 == key).copied()
}

/// An instruction of a table. A `long` one has 128 bits on one side whatever its Q says.
fn build(word: u32, row: Row, sources: Registers, long: bool) -> Instruction {
    let (_, name, latency, role) = row;
    let target = whole(number(word, 0));
    let mut instruction = Instruction::new(name, Kind::Vector);
    instruction.reads = sources;
    match role {
        Write => {}
        Merge => instruction.reads |= target,
        Permute => instruction.kind = Kind::Permute,
        Sum(family) => {
            instruction.kind = Kind::Accumulate(family);
            instruction.reads |= target;
            instruction.accumulator = target;
        }
    }
    instruction.writes.push((target, latency));
    instruction.vector_pipes = if long || is_wide(word) { 2 } else { 1 };
    instruction
}

fn three_same(word: u32) -> Option<Instruction> {
    let (opcode, size) = (word >> 11 & 31, word >> 22 & 3);
    let sources = read(word, 5) | read(word, 16);
    let row = match opcode {
        0b00011 => {
            let which = (word >> 29 & 1) << 2 | size;
            let role = if which > 4 { Merge } else { Write };
            (0, LOGIC[which as usize], 1, role)
        }
        0b11001 if size >= 2 => (0, "fmls", 4, Sum(Float)),
        0b11000.. if size < 2 => find(&THREE_FLOAT, word, opcode)?,
        _ => {
            let (key, name, latency, role) = find(&THREE_SAME, word, opcode)?;
            let is_short_add = opcode == 0b10000 && !is_wide(word);
            (key, name, if is_short_add { 2 } else { latency }, role)
        }
    };
    Some(build(word, row, sources, false))
}

fn dot(word: u32) -> Option<Instruction> {
    let row = find(&DOT, word, word >> 11 & 15).filter(|_| word >> 22 & 3 == 2)?;
    Some(build(word, row, read(word, 5) | read(word, 16), false))
}

fn long(word: u32) -> Option<Instruction> {
    let row = find(&LONG, word, word >> 12 & 15)?;
    Some(build(word, row, read(word, 5) | read(word, 16), true))
}

fn two(word: u32) -> Option<Instruction> {
    let row = find(&TWO, word, word >> 12 & 31)?;
    let is_narrowing = matches!(row.1, "xtn" | "fcvtn");
    let is_long = is_narrowing || row.1 == "fcvtl";
    let mut sources = read(word, 5);
    if is_narrowing {
        sources = whole(number(word, 5));
        if is_wide(word) {
            sources |= lower(number(word, 0)); // the half that stays
        }
    }
    Some(build(word, row, sources, is_long))
}

fn across(word: u32) -> Option<Instruction> {
    let row = find(&ACROSS, word, word >> 12 & 31)?;
    Some(build(word, row, read(word, 5), true))
}

fn shift(word: u32) -> Option<Instruction> {
    if word >> 19 & 15 == 0 {
        return constant(word);
    }
    let row = find(&SHIFT, word, word >> 11 & 31)?;
    let is_long = matches!(row.1, "sshll" | "ushll");
    Some(build(word, row, read(word, 5), is_long))
}

/// MOVI and MVNI, of which those that change a part of a register are left out.
fn constant(word: u32) -> Option<Instruction> {
    let mode = word >> 12 & 15;
    let is_whole = mode & 1 == 0 || mode >= 0b1100;
    is_whole.then(|| build(word, (0, "movi", 2, Write), 0, false))
}

fn element(word: u32) -> Option<Instruction> {
    let row = find(&ELEMENT, word, word >> 12 & 15)?;
    // Elements of 16 bits take a bit of the register's number for their own.
    let is_half_word = word >> 22 & 3 == 1;
    let register = number(word, 16) & if is_half_word { 15 } else { 31 };
    let is_upper = word >> 11 & 1 == 1;
    let element = if is_upper {
        whole(register)
    } else {
        lower(register)
    };
    let is_long = matches!(row.1, "smull" | "umull" | "smlal" | "umlal" | "smlsl");
    Some(build(word, row, read(word, 5) | element, is_long))
}

fn permute(word: u32) -> Option<Instruction> {
    let row = find(&PERMUTE, word & !(1 << 29), word >> 12 & 7)?;
    Some(build(word, row, read(word, 5) | read(word, 16), false))
}

/// TBL and TBX: a cycle for each register of the table.
fn table(word: u32) -> Option<Instruction> {
    let (first, count) = (number(word, 5), (word >> 13 & 3) + 1);
    let row = match word >> 12 & 1 {
        0 => (0, "tbl", 1 + u64::from(count), Write),
        _ => (0, "tbx", 1 + u64::from(count), Merge),
    };
    let tables = (0..count).fold(0, |all, i| all | whole((first + i) % 32));
    let mut instruction = build(word, row, tables | read(word, 16), false);
    instruction.vector_cycles = u64::from(count);
    Some(instruction)
}

fn extract(word: u32) -> Option<Instruction> {
    let row = (0, "ext", 2, Write);
    Some(build(word, row, read(word, 5) | read(word, 16), false))
}

/// DUP, INS, UMOV, SMOV.
fn copy(word: u32) -> Option<Instruction> {
    let (target, source) = (number(word, 0), number(word, 5));
    if word >> 29 & 1 == 1 {
        return Some(build(word, (0, "ins", 2, Merge), whole(source), true));
    }
    match word >> 11 & 15 {
        0b0000 => Some(build(word, (0, "dup", 2, Write), whole(source), false)),
        0b0001 => {
            let mut dup = build(word, (0, "dup", 3, Write), general(source), false);
            dup.kind = Kind::FromGeneral;
            Some(dup)
        }
        0b0011 => Some(insert(word, target, source)),
        0b0101 | 0b0111 => {
            let mut move_out = Instruction::new("umov", Kind::Vector);
            move_out.reads = whole(source);
            move_out.writes.push((general(target), 2));
            move_out.vector_pipes = 1;
            Some(move_out)
        }
        _ => None,
    }
}

/// INS from a general register takes no vector pipe: it goes beside a 128-bit operation.
fn insert(word: u32, target: u32, source: u32) -> Instruction {
    let is_upper_half = word >> 16 & 31 == 0b11000;
    let mut insert = Instruction::new("ins", Kind::FromGeneral);
    insert.merges = lower(target);
    insert.reads = general(source) | lower(target);
    let written = if is_upper_half {
        whole(target) & !lower(target)
    } else {
        whole(target)
    };
    insert.writes.push((written, 3));
    insert
}

/// FMOV of a whole D or S register, which clears the rest of it.
fn from_general(word: u32) -> Option<Instruction> {
    if word & 0xffff_fc00 != 0x9e67_0000 && word & 0xffff_fc00 != 0x1e27_0000 {
        return None;
    }
    let mut fmov = Instruction::new("fmov", Kind::FromGeneral);
    fmov.reads = general(number(word, 5));
    fmov.writes.push((whole(number(word, 0)), 3));
    Some(fmov)
}
