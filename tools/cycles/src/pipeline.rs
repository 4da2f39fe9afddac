//! The issue rules of the Cortex-A55, and the cycles of a loop by them.
//!
//! Two instructions a cycle at most, strictly in the order of the program, each when what it reads
//! is ready and what it occupies is free. Where the rules come from:
//!
//! | rule | from |
//! |---|---|
//! | a 128-bit operation takes both vector pipes and issues first in its cycle; two 64-bit ones fit into one | Arm's optimisation guide, by SLOTHY and LLVM (`AArch64SchedA55.td`) |
//! | LDR D, LDR X, LD1R, PRFM: the load pipe for a cycle, beside a 128-bit operation | Arm's kernels in gemmlowp and ruy, ncnn's notes; PRFM: LLVM |
//! | LDR Q: load and vector pipes for two cycles; LDP X, LDP D: the load pipe for two, LDP Q for four; LD1 two for each register | ncnn, ONNX Runtime, SLOTHY |
//! | INS and FMOV from a general register take no vector pipe | gemmlowp, ruy, XNNPACK |
//! | INS may follow in the next cycle upon the load of the other half; halves are tracked apart | gemmlowp's and ruy's schedules |
//! | a sum is ready for the next of its kind after 4 cycles (LLVM) or 1 (Arm's guide, for multiply-accumulates): the caller says which | open; a good schedule costs the same by both |
//! | ZIP, UZP, TRN wait a cycle more for a short vector operation | SLOTHY |
//! | a taken branch ends its cycle, and costs nothing else | gemmlowp: 24 FMLA and a branch in 24 cycles |
//!
//! Caches beyond the first, fetch and the clock are not modelled, and no figure has met a board.

use crate::decode::{Instruction, Kind, Registers};

/// Cycles that a merging INS may come before the register that it completes would be ready.
const MERGE_EARLY: u64 = 2;
/// Times that a loop is run: the second half is measured.
const ROUNDS: u64 = 200;
/// Registers of [`Registers`].
const REGISTERS: usize = 97;

/// Who wrote a register last.
#[derive(Clone, Copy)]
struct Written {
    /// When it can be read.
    ready: u64,
    /// When its writer issued.
    issued: u64,
    by: Kind,
}

/// The core between two instructions.
struct Core {
    accumulate: u64,
    cycle: u64,
    /// Instructions, and of them integer operations and branches, of this cycle.
    issued: usize,
    alus: usize,
    branches: usize,
    /// The cycles at which units are free again.
    vector_free: [u64; 2],
    load_free: u64,
    store_free: u64,
    multiplier_free: u64,
    registers: [Written; REGISTERS],
}

/// Cycles of an iteration of the loop `body`, run until it repeats. `accumulate` is how long a sum
/// takes to the next multiply-accumulate of its kind.
pub fn cycles(body: &[Instruction], accumulate: u64) -> f64 {
    let mut core = Core::new(accumulate);
    let mut half = 0;
    for round in 0..ROUNDS {
        if round == ROUNDS / 2 {
            half = core.cycle;
        }
        for (i, instruction) in body.iter().enumerate() {
            core.issue(instruction);
            if instruction.branch && i + 1 == body.len() {
                core.next_cycle();
            }
        }
    }
    (core.cycle - half) as f64 / (ROUNDS - ROUNDS / 2) as f64
}

impl Core {
    fn new(accumulate: u64) -> Self {
        let before = Written {
            ready: 0,
            issued: 0,
            by: Kind::Scalar,
        };
        Self {
            accumulate,
            cycle: 0,
            issued: 0,
            alus: 0,
            branches: 0,
            vector_free: [0; 2],
            load_free: 0,
            store_free: 0,
            multiplier_free: 0,
            registers: [before; REGISTERS],
        }
    }

    fn next_cycle(&mut self) {
        self.cycle += 1;
        (self.issued, self.alus, self.branches) = (0, 0, 0);
    }

    fn issue(&mut self, instruction: &Instruction) {
        let ready = members(instruction.reads)
            .map(|register| self.ready_for(instruction, register))
            .max()
            .unwrap_or(0);
        while self.cycle < ready || !self.has_room(instruction) {
            self.next_cycle();
        }
        self.occupy(instruction);
        for &(registers, latency) in &instruction.writes {
            for register in members(registers) {
                self.registers[register] = Written {
                    ready: self.cycle + latency,
                    issued: self.cycle,
                    by: instruction.kind,
                };
            }
        }
    }

    /// When `instruction` may read `register`.
    fn ready_for(&self, instruction: &Instruction, register: usize) -> u64 {
        let written = self.registers[register];
        let is_in = |set: Registers| set >> register & 1 == 1;
        if is_in(instruction.merges) {
            return written
                .ready
                .saturating_sub(MERGE_EARLY)
                .max(written.issued + 1);
        }
        if is_in(instruction.accumulator) && written.by == instruction.kind {
            return written.issued + self.accumulate;
        }
        let is_short_vector = written.ready < written.issued + 3
            && matches!(
                written.by,
                Kind::Vector | Kind::Permute | Kind::Accumulate(_)
            );
        match instruction.kind {
            Kind::Permute if is_short_vector => written.ready + 1,
            _ => written.ready,
        }
    }

    /// Whether what `instruction` needs is free in this cycle.
    fn has_room(&self, instruction: &Instruction) -> bool {
        let now = self.cycle;
        let free_pipes = self.vector_free.iter().filter(|&&free| free <= now).count();
        let first_slot_only = instruction.vector_pipes == 2;
        self.issued < if first_slot_only { 1 } else { 2 }
            && free_pipes >= instruction.vector_pipes
            && (instruction.load_cycles == 0 || self.load_free <= now)
            && (instruction.store_cycles == 0 || self.store_free <= now)
            && !(instruction.multiplier && self.multiplier_free > now)
            && !(instruction.alu && self.alus == 2)
            && !(instruction.branch && self.branches == 1)
    }

    fn occupy(&mut self, instruction: &Instruction) {
        let now = self.cycle;
        let free = self.vector_free.iter_mut().filter(|free| **free <= now);
        for pipe in free.take(instruction.vector_pipes) {
            *pipe = now + instruction.vector_cycles;
        }
        if instruction.load_cycles > 0 {
            self.load_free = now + instruction.load_cycles;
        }
        if instruction.store_cycles > 0 {
            self.store_free = now + instruction.store_cycles;
        }
        if instruction.multiplier {
            self.multiplier_free = now + 1;
        }
        self.issued += 1;
        self.alus += usize::from(instruction.alu);
        self.branches += usize::from(instruction.branch);
    }
}

/// The numbers of the registers in a set.
fn members(mut set: Registers) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let register = set.trailing_zeros() as usize;
        set &= set.wrapping_sub(1);
        (register < 128).then_some(register)
    })
}

#[cfg(test)]
mod tests {
    //! Sequences whose cost on the core is known, each with who says so.

    use super::cycles;
    use crate::decode::decode;

    /// Cycles by a sum's latency of 4 and of 1.
    fn cost(words: &[u32]) -> (f64, f64) {
        let body: Vec<_> = words
            .iter()
            .map(|&word| decode(word).unwrap_or_else(|| panic!("{word:08x}")))
            .collect();
        (cycles(&body, 4), cycles(&body, 1))
    }

    /// `sdot v<i>.4s, v16.16b, v24.4b[0]`
    fn sdot(i: u32) -> u32 {
        0x4f98_e200 | i
    }

    /// Four SDOT, each followed by one of `beside`.
    fn beside_sdot(beside: impl Fn(u32) -> u32) -> (f64, f64) {
        let words: Vec<_> = (0..4).flat_map(|i| [sdot(i), beside(i)]).collect();
        cost(&words)
    }

    fn repeated(word: impl Fn(u32) -> u32, count: u32) -> (f64, f64) {
        cost(&(0..count).map(word).collect::<Vec<_>>())
    }

    #[test]
    fn independent_128_bit_operations_issue_one_a_cycle() {
        assert_eq!(repeated(sdot, 4), (4.0, 4.0)); // LLVM, SLOTHY
        assert_eq!(repeated(|i| 0x6f0c_0604 + i, 4), (4.0, 4.0)); // ushr v4.16b, v16.16b, #4
        assert_eq!(repeated(|i| 0x4e21_da04 + i, 4), (4.0, 4.0)); // scvtf v4.4s, v16.4s
        assert_eq!(repeated(|i| 0x4e31_ce04 + i, 8), (8.0, 8.0)); // fmla v4.4s, v16.4s, v17.4s
        assert_eq!(repeated(|i| 0x4e02_0024 + i, 2), (2.0, 2.0)); // tbl v4.16b, {v1.16b}, v2.16b
    }

    #[test]
    fn two_64_bit_operations_issue_in_a_cycle() {
        // sdot v0.2s, v16.8b, v24.8b; LLVM, SLOTHY
        assert_eq!(repeated(|i| 0x0e98_9600 + i, 8), (4.0, 4.0));
    }

    #[test]
    fn chain_of_sums_costs_what_the_sum_takes() {
        assert_eq!(cost(&[sdot(0)]), (4.0, 1.0)); // LLVM says 4, Arm's guide 4(1)
    }

    #[test]
    fn loads_of_64_bits_fit_beside_a_128_bit_operation() {
        // gemmlowp, ruy, ncnn: LDR D; gemmlowp: LDR X
        assert_eq!(beside_sdot(|i| 0xfd40_0004 + i), (4.0, 4.0)); // ldr d4, [x0]
        assert_eq!(beside_sdot(|i| 0xf940_0004 + i), (4.0, 4.0)); // ldr x4, [x0]
        assert_eq!(beside_sdot(|_| 0xf980_0020), (4.0, 4.0)); // prfm pldl1keep, [x1]; XNNPACK
    }

    #[test]
    fn insertion_and_integer_operations_fit_beside_a_128_bit_operation() {
        assert_eq!(beside_sdot(|i| 0x4e18_1c24 + i), (4.0, 4.0)); // ins v4.d[1], x1; gemmlowp
        assert_eq!(beside_sdot(|i| 0x9100_0421 + 0x21 * i), (4.0, 4.0)); // add x1, x1, #1
    }

    #[test]
    fn load_of_128_bits_takes_two_cycles_and_pairs_with_nothing() {
        // ldr q4, [x0]; ncnn ("cannot be dual issued with fmla, wait 2 cycles"), ONNX Runtime
        assert_eq!(repeated(|i| 0x3dc0_0004 + i, 4), (8.0, 8.0));
        assert_eq!(beside_sdot(|i| 0x3dc0_0004 + i), (12.0, 12.0));
        assert_eq!(cost(&[0xad40_1404, 0xad41_1c06]), (8.0, 8.0)); // ldp q4, q5; q6, q7
        assert_eq!(cost(&[0x4c40_2004]), (8.0, 8.0)); // ld1 {v4.16b-v7.16b}, [x0]; SLOTHY
    }

    #[test]
    fn pairs_of_64_bits_take_two_cycles_of_the_load_pipe() {
        assert_eq!(cost(&[0x6d40_1404, 0x6d41_1c06]), (4.0, 4.0)); // ldp d4, d5, [x0]; d6, d7
        assert_eq!(cost(&[0xa940_1404, 0xa941_1c06]), (4.0, 4.0)); // ldp x4, x5, [x0]; x6, x7
        assert_eq!(repeated(|i| 0xfd40_0004 + i, 4), (4.0, 4.0)); // ldr d4, [x0]
        assert_eq!(repeated(|i| 0x4d40_c804 + i, 2), (2.0, 2.0)); // ld1r {v4.4s}, [x0]
    }

    #[test]
    fn loaded_value_is_waited_for() {
        // ldr d4, [x0]; shl v4.16b, v4.16b, #4; b: the load takes three cycles, and the branch
        // goes beside the shift.
        assert_eq!(cost(&[0xfd40_0004, 0x4f0c_5484, 0x17ff_fffe]), (4.0, 4.0));
    }

    #[test]
    fn half_is_completed_without_waiting_for_the_other() {
        // ldr d4, [x0]; ins v4.d[1], x1; b.ne: the pair follows by a cycle, as ruy has it.
        assert_eq!(cost(&[0xfd40_0004, 0x4e18_1c24, 0x54ff_ffc1]), (2.0, 2.0));
        // A use of the upper half waits for INS, three cycles: sdot v0.4s, v4.16b, v24.4b[0].
        let used = [0xfd40_0004, 0x4e18_1c24, 0x4f98_e080, 0x54ff_ffa1];
        assert_eq!(cost(&used), (5.0, 5.0));
    }

    #[test]
    fn taken_branch_ends_its_cycle() {
        // gemmlowp: an FMLA a cycle and the branch beside the last.
        let body: Vec<_> = (0..8).map(sdot).chain([0x54ff_ff01]).collect();
        assert_eq!(cost(&body), (8.0, 8.0));
        assert_eq!(cost(&[0x54ff_ffe1]), (1.0, 1.0));
    }
}
