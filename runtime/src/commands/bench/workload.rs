//! What `bench` measures, as the command line says it: the flags and names of `llama-bench`.

use core::fmt;
use heapless::Vec;

/// Values of a flag that takes a list.
const LIST_MAX: usize = 8;

/// Numbers of tokens.
pub type Counts = Vec<usize, LIST_MAX>;

/// How rows are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// A table.
    Text,
    /// A line of names, then a line a row (RFC 4180).
    Csv,
    /// A JSON object a row.
    Jsonl,
}

impl Format {
    /// The format of that name.
    pub fn from_name(name: &str) -> Option<Format> {
        match name {
            "text" => Some(Format::Text),
            "csv" => Some(Format::Csv),
            "jsonl" => Some(Format::Jsonl),
            _ => None,
        }
    }
}

/// All that is to be measured.
#[derive(Clone, Debug)]
pub struct Workload {
    /// `-p`: prompts, of so many tokens.
    pub prompts: Counts,
    /// `-n`: tokens generated one after the other.
    pub generations: Counts,
    /// `-d`: tokens that the context holds before.
    pub depths: Counts,
    /// `-r`: how often each test is measured.
    pub repeats: usize,
    /// Whether each test runs once before it is measured.
    pub warms_up: bool,
    /// `--format`.
    pub format: Format,
}

impl Default for Workload {
    fn default() -> Self {
        let one = |count| Counts::from_iter([count]);
        Workload {
            prompts: one(512),
            generations: one(128),
            depths: one(0),
            repeats: 5,
            warms_up: true,
            format: Format::Text,
        }
    }
}

impl Workload {
    /// The tests, in the order in which they run: all of a depth, then those of the next.
    pub fn tests(&self) -> impl Iterator<Item = Test> {
        self.depths.iter().flat_map(|&depth| {
            let prompts = self.prompts.iter().map(|&count| (Kind::Prompt, count));
            let generations = self.generations.iter().map(|&count| (Kind::Decode, count));
            prompts
                .chain(generations)
                .filter(|&(_, count)| count > 0)
                .map(move |(kind, tokens)| Test {
                    kind,
                    tokens,
                    depth,
                })
        })
    }

    /// Tokens of context that the longest test needs; 0 if there is none.
    pub fn context(&self) -> usize {
        let ends = self.tests().map(|test| test.depth + test.tokens);
        ends.max().unwrap_or(0)
    }
}

/// The two phases of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// All tokens at once.
    Prompt,
    /// One token after the other.
    Decode,
}

/// One row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Test {
    /// Which phase.
    pub kind: Kind,
    /// Of how many tokens.
    pub tokens: usize,
    /// After how many others.
    pub depth: usize,
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Prompt => "pp",
            Kind::Decode => "tg",
        };
        write!(f, "{kind}{}", self.tokens)?;
        match self.depth {
            0 => Ok(()),
            depth => write!(f, " @ d{depth}"),
        }
    }
}

/// `512`, `pp512` or `128,pp512`: a list of counts, each below `limit`, with or without the name
/// that rows give it.
pub fn counts(text: &str, name: &str, limit: usize) -> Option<Counts> {
    let mut counts = Counts::new();
    for item in text.split(',') {
        let digits = item.strip_prefix(name).unwrap_or(item);
        let count = digits.parse().ok().filter(|&count| count <= limit)?;
        counts.push(count).ok()?;
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn counts_go_with_or_without_the_name_of_the_test() {
        let read = |text| counts(text, "pp", 1000);
        assert_eq!(read("512").unwrap(), [512]);
        assert_eq!(read("pp512,0").unwrap(), [512, 0]);
        for wrong in ["", "tg512", "1001", "-1", "1,", "pp", "1,2,3,4,5,6,7,8,9"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn tests_are_named_as_llama_bench_names_them() {
        let workload = Workload {
            prompts: Counts::from_iter([0, 512]),
            depths: Counts::from_iter([0, 1984]),
            ..Workload::default()
        };
        let names: std::vec::Vec<_> = workload.tests().map(|test| test.to_string()).collect();
        assert_eq!(names, ["pp512", "tg128", "pp512 @ d1984", "tg128 @ d1984"]);
        assert_eq!(workload.context(), 1984 + 512);
    }
}
