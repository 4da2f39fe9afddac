//! The budgets: a line for each case in a small file, and whether a count keeps its own.
//!
//! The compiler has a part in most counts, so the file names the one that it was written with.
//! Under another the tolerance is wider: what a new compiler changes is no fault of the code.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::{setup, workspace};

const FILE: &str = "tools/xtask/src/counts/budgets.csv";
const HEADER: &str = "instructions,model,phase,per_token,tolerance_pct";
/// How much more a case may take, unless its line says otherwise.
pub const TOLERANCE_PCT: f64 = 1.0;
/// How many times as much with another compiler.
const OTHER_COMPILER: f64 = 5.0;

/// A line of the file.
#[derive(Clone, PartialEq, Debug)]
pub struct Budget {
    /// The tier of kernels.
    pub instructions: String,
    pub model: String,
    pub phase: String,
    /// Instructions for each token.
    pub per_token: u64,
    pub tolerance_pct: f64,
}

impl Budget {
    fn is_for(&self, other: &Budget) -> bool {
        let key = |budget: &Budget| {
            let Budget {
                instructions,
                model,
                phase,
                ..
            } = budget.clone();
            (instructions, model, phase)
        };
        key(self) == key(other)
    }

    /// How much more `found` is, in percent.
    fn change_pct(&self, found: u64) -> f64 {
        (found as f64 / self.per_token as f64 - 1.0) * 100.0
    }
}

/// The file.
#[derive(PartialEq, Debug)]
pub struct Budgets {
    /// What `rustc --version` said when it was written.
    compiler: String,
    /// The same, here and now.
    compiler_here: String,
    lines: Vec<Budget>,
}

impl Budgets {
    /// Reads the file.
    pub fn read() -> Result<Self> {
        let path = path();
        let text = fs::read_to_string(&path);
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text, setup::ask_rustc(&["--version"])?).with_context(|| format!("in {FILE}"))
    }

    fn parse(text: &str, compiler_here: String) -> Result<Self> {
        let mut lines = text.lines();
        let compiler = lines.next().and_then(|line| line.strip_prefix("# "));
        let compiler = compiler.context("the first line names no compiler")?;
        if lines.next() != Some(HEADER) {
            bail!("the second line is not {HEADER}");
        }
        let lines = lines.map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            let [instructions, model, phase, per_token, tolerance] = fields[..] else {
                bail!("`{line}` has not five fields");
            };
            Ok(Budget {
                instructions: instructions.to_owned(),
                model: model.to_owned(),
                phase: phase.to_owned(),
                per_token: per_token.parse()?,
                tolerance_pct: tolerance.parse()?,
            })
        });
        Ok(Budgets {
            compiler: compiler.to_owned(),
            compiler_here,
            lines: lines.collect::<Result<_>>()?,
        })
    }

    fn budget(&self, found: &Budget) -> Option<&Budget> {
        self.lines.iter().find(|line| line.is_for(found))
    }

    /// A line of the table, for a person.
    pub fn line(&self, found: &Budget) -> String {
        let budget = self.budget(found);
        format!(
            "{:13} {:16} {:8} {:>14} {:>14} {:>8}",
            found.instructions,
            found.model,
            found.phase,
            found.per_token,
            budget.map_or("-".to_owned(), |budget| budget.per_token.to_string()),
            budget.map_or(String::new(), |budget| {
                format!("{:+.2} %", budget.change_pct(found.per_token))
            }),
        )
    }

    /// What is wrong with a count, if it is.
    pub fn failure(&self, found: &Budget) -> Option<String> {
        let name = format!("{}, {}, {}", found.instructions, found.model, found.phase);
        let Some(budget) = self.budget(found) else {
            return Some(format!("{name}: {} without a budget", found.per_token));
        };
        let (wider, note) = if self.compiler == self.compiler_here {
            (1.0, String::new())
        } else {
            (
                OTHER_COMPILER,
                format!(
                    "; that is with {}, here is {}",
                    self.compiler, self.compiler_here
                ),
            )
        };
        let tolerance = budget.tolerance_pct * wider;
        let change = budget.change_pct(found.per_token);
        let most = budget.per_token as f64 * (100.0 + tolerance) / 100.0;
        (found.per_token as f64 > most).then(|| {
            format!(
                "{name}: {} instructions a token, {change:.2} % above the budget of {}, of which \
                 {tolerance} % are allowed{note}",
                found.per_token, budget.per_token
            )
        })
    }

    /// Replaces or adds a line; its tolerance stays.
    pub fn set(&mut self, found: Budget) {
        match self.lines.iter_mut().find(|line| line.is_for(&found)) {
            Some(line) => line.per_token = found.per_token,
            None => self.lines.push(found),
        }
    }

    /// Writes the file, in the name of the compiler here.
    pub fn write(&self) -> Result<()> {
        let path = path();
        fs::write(&path, self.text()).with_context(|| format!("cannot write {}", path.display()))
    }

    fn text(&self) -> String {
        let mut text = format!("# {}\n{HEADER}\n", self.compiler_here);
        for line in &self.lines {
            let Budget {
                instructions,
                model,
                phase,
                per_token,
                tolerance_pct,
            } = line;
            writeln!(
                text,
                "{instructions},{model},{phase},{per_token},{tolerance_pct}"
            )
            .expect("a string takes all");
        }
        text
    }
}

fn path() -> PathBuf {
    workspace::root().join(FILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# rustc 1\n\
        instructions,model,phase,per_token,tolerance_pct\n\
        avx2,smollm2,decode,1000,1\n";

    fn budgets(compiler: &str) -> Budgets {
        Budgets::parse(TEXT, compiler.to_owned()).unwrap()
    }

    fn found(per_token: u64) -> Budget {
        Budget {
            per_token,
            ..budgets("").lines[0].clone()
        }
    }

    #[test]
    fn count_above_the_tolerance_fails_with_both_numbers() {
        assert_eq!(budgets("rustc 1").failure(&found(1010)), None);
        assert_eq!(budgets("rustc 1").failure(&found(500)), None);
        let failure = budgets("rustc 1").failure(&found(1011)).unwrap();
        assert!(
            failure.contains("1011") && failure.contains("1000"),
            "{failure}"
        );
    }

    #[test]
    fn another_compiler_is_given_more_room_and_named() {
        assert_eq!(budgets("rustc 2").failure(&found(1050)), None);
        let failure = budgets("rustc 2").failure(&found(1051)).unwrap();
        assert!(
            failure.ends_with("that is with rustc 1, here is rustc 2"),
            "{failure}"
        );
    }

    #[test]
    fn case_without_a_budget_fails() {
        let other = Budget {
            model: "other".to_owned(),
            ..found(1)
        };
        assert!(budgets("rustc 1").failure(&other).is_some());
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut budgets = budgets("rustc 1");
        assert_eq!(budgets.text(), TEXT);
        budgets.set(found(900));
        assert_eq!(budgets.text(), TEXT.replace("1000", "900"));
        assert!(Budgets::parse("", String::new()).is_err());
    }
}
