//! Functions of a linked program, and the hot loop in each.

use anyhow::{Context, Result, bail, ensure};
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};

use crate::decode::{Instruction, branch_target, decode};

/// The machine code of a function.
pub struct Function {
    /// Its symbol.
    pub name: String,
    /// Where it stands.
    pub address: u64,
    /// Its instructions, and whatever data lies among them.
    pub words: Vec<u32>,
}

/// All functions of a linked 64-bit Arm program that still has its symbols.
///
/// # Errors
/// The bytes are no such program.
pub fn functions(program: &[u8]) -> Result<Vec<Function>> {
    let file = object::File::parse(program).context("not an object file")?;
    ensure!(
        file.architecture() == object::Architecture::Aarch64,
        "a program for {:?}, not for 64-bit Arm",
        file.architecture()
    );
    let mut functions = Vec::new();
    for symbol in file.symbols() {
        let Some(section) = symbol.section_index() else {
            continue;
        };
        if symbol.kind() != SymbolKind::Text || symbol.size() == 0 {
            continue;
        }
        let section = file.section_by_index(section)?;
        let bytes = section.data_range(symbol.address(), symbol.size())?;
        let bytes = bytes.with_context(|| format!("{:?} lies nowhere", symbol.name()))?;
        let (words, _) = bytes.as_chunks::<4>();
        functions.push(Function {
            name: symbol.name()?.to_owned(),
            address: symbol.address(),
            words: words.iter().map(|&word| u32::from_le_bytes(word)).collect(),
        });
    }
    ensure!(!functions.is_empty(), "the program has no symbols");
    Ok(functions)
}

impl Function {
    /// The instructions of the innermost loop with the most multiply-accumulates.
    ///
    /// # Errors
    /// There is no such loop, or it holds an instruction that the model does not know.
    pub fn hot_loop(&self) -> Result<Vec<Instruction>> {
        let loops = self.loops();
        let innermost = loops.iter().filter(|&&(head, end)| {
            !loops
                .iter()
                .any(|&other| other != (head, end) && head <= other.0 && other.1 <= end)
        });
        let sums = |&&(head, end): &&(usize, usize)| {
            let words = self.words[head..=end].iter();
            words
                .filter_map(|&word| decode(word))
                .filter(Instruction::accumulates)
                .count()
        };
        let Some(&(head, end)) = innermost.max_by_key(sums).filter(|hot| sums(hot) > 0) else {
            bail!(
                "{} has no innermost loop with a multiply-accumulate",
                self.name
            );
        };
        (head..=end).map(|i| self.instruction(i)).collect()
    }

    fn instruction(&self, i: usize) -> Result<Instruction> {
        decode(self.words[i]).with_context(|| {
            format!(
                "{}+{:#x}: the model does not know instruction {:08x}",
                self.name,
                4 * i,
                self.words[i]
            )
        })
    }

    /// Heads of loops and the last branch back to each, as indices of instructions.
    fn loops(&self) -> Vec<(usize, usize)> {
        let mut loops: Vec<(usize, usize)> = Vec::new();
        for (i, &word) in self.words.iter().enumerate() {
            let here = self.address + 4 * i as u64;
            let Some(target) = branch_target(word, here).filter(|&to| to <= here) else {
                continue;
            };
            let Some(offset) = target.checked_sub(self.address) else {
                continue;
            };
            let head = offset as usize / 4;
            loops.retain(|&(other, _)| other != head);
            loops.push((head, i));
        }
        loops
    }
}

#[cfg(test)]
mod tests {
    use super::Function;

    const SDOT: u32 = 0x4f98_e200;
    const ADD: u32 = 0x9100_0421;

    fn function(words: &[u32]) -> Function {
        Function {
            name: "test".to_owned(),
            address: 0x1000,
            words: words.to_vec(),
        }
    }

    /// B.NE, `back` instructions back.
    fn back(back: u32) -> u32 {
        0x5400_0001 | (back.wrapping_neg() & 0x7_ffff) << 5
    }

    #[test]
    fn hot_loop_is_the_innermost_with_most_sums() {
        // A loop of one SDOT, one of two, and one around both.
        let words = [ADD, SDOT, back(1), ADD, SDOT, SDOT, back(3), back(7)];
        let hot = function(&words).hot_loop().unwrap();
        let names: Vec<_> = hot.iter().map(|instruction| instruction.name).collect();
        assert_eq!(names, ["add", "sdot", "sdot", "b.cond"]);
    }

    #[test]
    fn function_without_a_loop_of_sums_is_an_error() {
        assert!(function(&[SDOT, 0xd65f_03c0]).hot_loop().is_err());
        assert!(function(&[ADD, back(1)]).hot_loop().is_err());
    }

    #[test]
    fn unknown_instruction_in_the_hot_loop_is_named() {
        let error = function(&[SDOT, 0x9ac1_0800, back(2)])
            .hot_loop()
            .unwrap_err();
        assert!(error.to_string().contains("test+0x4"), "{error}");
        assert!(error.to_string().contains("9ac10800"), "{error}");
    }
}
