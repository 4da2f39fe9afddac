//! General registers, loads and stores, branches.

use super::{FLAGS, Instruction, Kind, Registers, general, general_or_sp, lower, number, whole};

/// Cycles until a base register that a load or store has moved on can be read.
const WRITEBACK: u64 = 2;
/// Cycles until what LDR X, LDR D or LDR S loads can be read.
const LOAD: u64 = 3;
/// The same of LDR Q, of LD1R, and of the second register of LDP X.
const LOAD_LATE: u64 = 4;

/// See [`decode`](super::decode).
pub fn decode(word: u32) -> Option<Instruction> {
    data(word)
        .or_else(|| branch(word))
        .or_else(|| single(word))
        .or_else(|| pair(word))
        .or_else(|| replicate(word))
        .or_else(|| several(word))
}

/// Where the registers of a data-processing group are.
#[derive(Clone, Copy)]
enum Shape {
    /// MOVZ, MOVN, ADR: a destination.
    Constant,
    /// MOVK: a destination that is also read.
    Insert,
    /// BFM: the same, and a source.
    InsertFrom,
    /// A destination and a source, of which 31 is the stack pointer.
    ImmediateSp,
    /// A destination and a source.
    Immediate,
    /// A destination and two sources.
    Three,
    /// The same, of a comparison: flags are read.
    Select,
    /// A destination and three sources, by the multiplier.
    Multiply,
}

/// (mask, value, name, shape, whether the flags are set)
#[rustfmt::skip] // a table: one row, one line
const DATA: [(u32, u32, &str, Shape, bool); 21] = [
    (0x7f80_0000, 0x1100_0000, "add", Shape::ImmediateSp, false),
    (0x7f80_0000, 0x5100_0000, "sub", Shape::ImmediateSp, false),
    (0x7f80_0000, 0x3100_0000, "adds", Shape::ImmediateSp, true),
    (0x7f80_0000, 0x7100_0000, "subs", Shape::ImmediateSp, true),
    (0x7f20_0000, 0x0b00_0000, "add", Shape::Three, false),
    (0x7f20_0000, 0x4b00_0000, "sub", Shape::Three, false),
    (0x7f20_0000, 0x2b00_0000, "adds", Shape::Three, true),
    (0x7f20_0000, 0x6b00_0000, "subs", Shape::Three, true),
    (0x7f80_0000, 0x1200_0000, "and", Shape::Immediate, false),
    (0x7f80_0000, 0x7200_0000, "ands", Shape::Immediate, true),
    (0x7f00_0000, 0x6a00_0000, "ands", Shape::Three, true),
    (0x7f00_0000, 0x0a00_0000, "and", Shape::Three, false),
    (0x7f00_0000, 0x2a00_0000, "orr", Shape::Three, false),
    (0x7f80_0000, 0x1280_0000, "movn", Shape::Constant, false),
    (0x7f80_0000, 0x5280_0000, "movz", Shape::Constant, false),
    (0x7f80_0000, 0x7280_0000, "movk", Shape::Insert, false),
    (0x7f80_0000, 0x1300_0000, "sbfm", Shape::Immediate, false),
    (0x7f80_0000, 0x3300_0000, "bfm", Shape::InsertFrom, false),
    (0x7f80_0000, 0x5300_0000, "ubfm", Shape::Immediate, false),
    (0x7fe0_0c00, 0x1a80_0000, "csel", Shape::Select, false),
    (0x7fe0_8000, 0x1b00_0000, "madd", Shape::Multiply, false),
];

fn data(word: u32) -> Option<Instruction> {
    let row = |row: &&(u32, u32, _, _, _)| word & row.0 == row.1;
    let &(_, _, name, shape, sets_flags) = DATA.iter().find(row)?;
    let (d, n, m, a) = (
        number(word, 0),
        number(word, 5),
        number(word, 16),
        number(word, 10),
    );
    let mut instruction = Instruction::new(name, Kind::Scalar);
    let (target, reads) = match shape {
        Shape::Constant => (general(d), 0),
        Shape::Insert => (general(d), general(d)),
        Shape::InsertFrom => (general(d), general(d) | general(n)),
        // Where flags are set, 31 as the destination is the comparison's zero.
        Shape::ImmediateSp if sets_flags => (general(d), general_or_sp(n)),
        Shape::ImmediateSp => (general_or_sp(d), general_or_sp(n)),
        Shape::Immediate => (general(d), general(n)),
        Shape::Three => (general(d), general(n) | general(m)),
        Shape::Select => (general(d), general(n) | general(m) | FLAGS),
        Shape::Multiply => (general(d), general(n) | general(m) | general(a)),
    };
    instruction.reads = reads;
    instruction.multiplier = matches!(shape, Shape::Multiply);
    instruction.alu = !instruction.multiplier;
    let latency = if instruction.multiplier { 3 } else { 1 };
    instruction.writes.push((target, latency));
    if sets_flags {
        instruction.writes.push((FLAGS, 1));
    }
    Some(instruction)
}

fn branch(word: u32) -> Option<Instruction> {
    let (name, reads) = if word & 0xff00_0010 == 0x5400_0000 {
        ("b.cond", FLAGS)
    } else if word & 0x7e00_0000 == 0x3400_0000 {
        ("cbz", general(number(word, 0)))
    } else if word & 0x7e00_0000 == 0x3600_0000 {
        ("tbz", general(number(word, 0)))
    } else if word & 0xfc00_0000 == 0x1400_0000 {
        ("b", 0)
    } else {
        return None;
    };
    let mut instruction = Instruction::new(name, Kind::Scalar);
    instruction.reads = reads;
    instruction.branch = true;
    Some(instruction)
}

/// How an address is made, and whether its base moves on.
fn single_address(word: u32) -> Option<(Registers, bool)> {
    let base = general_or_sp(number(word, 5));
    if word & 0x3b00_0000 == 0x3900_0000 {
        return Some((base, false));
    }
    match word & 0x3b20_0c00 {
        0x3800_0000 => Some((base, false)), // a signed offset
        0x3800_0400 | 0x3800_0c00 => Some((base, true)),
        0x3820_0800 => Some((base | general(number(word, 16)), false)),
        _ => None,
    }
}

/// Loads and stores of one register, and prefetches.
fn single(word: u32) -> Option<Instruction> {
    let (address, moves) = single_address(word)?;
    let (size, is_vector, opcode) = (word >> 30, word >> 26 & 1 == 1, word >> 22 & 3);
    let is_128_bits = is_vector && opcode >= 2;
    if is_128_bits && size != 0 {
        return None;
    }
    let is_prefetch = !is_vector && size == 3 && opcode == 2;
    let is_load = if is_vector {
        opcode & 1 == 1
    } else {
        opcode != 0
    };
    let t = number(word, 0);
    let mut instruction = match (is_prefetch, is_load) {
        (true, _) => {
            let mut prefetch = Instruction::new("prfm", Kind::Load);
            prefetch.load_cycles = 1;
            prefetch
        }
        (false, true) => load(is_vector, is_128_bits, &[t]),
        (false, false) => store(is_vector, is_128_bits, &[t]),
    };
    address_into(&mut instruction, address, moves);
    Some(instruction)
}

/// LDP and STP, of 64 and 128 bits.
fn pair(word: u32) -> Option<Instruction> {
    if word & 0x3a00_0000 != 0x2800_0000 {
        return None;
    }
    let (size, is_vector, mode) = (word >> 30, word >> 26 & 1 == 1, word >> 23 & 3);
    let is_128_bits = match (is_vector, size) {
        (true, 2) => true,
        (true, 1) | (false, 2) => false,
        _ => return None,
    };
    let registers = [number(word, 0), number(word, 10)];
    let mut instruction = if word >> 22 & 1 == 1 {
        load(is_vector, is_128_bits, &registers)
    } else {
        store(is_vector, is_128_bits, &registers)
    };
    address_into(
        &mut instruction,
        general_or_sp(number(word, 5)),
        mode & 1 == 1,
    );
    Some(instruction)
}

/// The load path is 64 bits wide: a register of 128 takes it twice, and both vector pipes with it.
fn load(is_vector: bool, is_128_bits: bool, registers: &[u32]) -> Instruction {
    let name = if registers.len() == 2 { "ldp" } else { "ldr" };
    let mut load = Instruction::new(name, Kind::Load);
    for &register in registers {
        load.load_cycles += if is_128_bits { 2 } else { 1 };
        let latency = match (is_vector, is_128_bits) {
            (true, true) => LOAD_LATE + load.load_cycles - 2,
            (true, false) => LOAD,
            (false, _) if registers.len() == 2 => LOAD_LATE,
            (false, _) => LOAD,
        };
        let target = if is_vector {
            whole(register)
        } else {
            general(register)
        };
        load.writes.push((target, latency));
    }
    if is_128_bits {
        load.loads_128_bits = true;
        load.vector_pipes = 2;
        load.vector_cycles = load.load_cycles;
    }
    load
}

fn store(is_vector: bool, is_128_bits: bool, registers: &[u32]) -> Instruction {
    let name = if registers.len() == 2 { "stp" } else { "str" };
    let mut store = Instruction::new(name, Kind::Store);
    store.store_cycles = 1;
    store.vector_pipes = if is_128_bits { 2 } else { 0 };
    for &register in registers {
        store.reads |= match (is_vector, is_128_bits) {
            (true, true) => whole(register),
            (true, false) => lower(register),
            (false, _) => general(register),
        };
    }
    store
}

fn address_into(instruction: &mut Instruction, address: Registers, moves: bool) {
    instruction.reads |= address;
    if moves {
        instruction.writes.push((address, WRITEBACK));
        instruction.alu = true;
    }
}

/// LD1R, by itself or with its base moved on by its size or by a register.
fn replicate(word: u32) -> Option<Instruction> {
    let moves = match word & 0xbfe0_f000 {
        0x0d40_c000 => false,
        0x0dc0_c000 => true,
        _ => return None,
    };
    let base = general_or_sp(number(word, 5));
    let mut instruction = Instruction::new("ld1r", Kind::Load);
    instruction.load_cycles = 1;
    instruction.writes.push((whole(number(word, 0)), LOAD_LATE));
    address_into(&mut instruction, base, moves);
    if moves {
        instruction.reads |= general(number(word, 16));
    }
    Some(instruction)
}

/// LD1 of one to four successive 128-bit registers, by itself or with its base moved on.
fn several(word: u32) -> Option<Instruction> {
    let moves = match word & 0xffe0_0000 {
        0x4c40_0000 => false,
        0x4cc0_0000 => true,
        _ => return None,
    };
    let count = match word >> 12 & 15 {
        0b0111 => 1,
        0b1010 => 2,
        0b0110 => 3,
        0b0010 => 4,
        _ => return None, // LD2, LD3, LD4, which take registers apart
    };
    let first = number(word, 0);
    let registers = [0, 1, 2, 3].map(|i| (first + i) % 32);
    let mut instruction = load(true, true, &registers[..count]);
    instruction.name = "ld1";
    address_into(&mut instruction, general_or_sp(number(word, 5)), moves);
    // A base that a register moves on; 31 stands for the size.
    if moves {
        instruction.reads |= general(number(word, 16));
    }
    Some(instruction)
}
