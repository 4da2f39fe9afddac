//! The flags of one subcommand, read in order.

use std::str::FromStr;

use anyhow::Result;

use crate::exit;

/// What follows the subcommand. As an iterator it gives the flags; whoever wants the value of one
/// takes it before asking for the next.
pub struct Flags<'a> {
    words: &'a [&'a str],
    flag: &'a str,
    usage: &'static str,
}

impl<'a> Flags<'a> {
    /// All of `words`; `usage` is what a person reads who got one wrong.
    pub fn new(words: &'a [&'a str], usage: &'static str) -> Self {
        Flags {
            words,
            flag: "",
            usage,
        }
    }

    /// The value of the flag that was read last.
    pub fn value(&mut self) -> Result<&'a str> {
        let flag = self.flag;
        match self.next() {
            Some(value) => Ok(value),
            None => self.wrong(&format!("{flag} needs a value")),
        }
    }

    /// The same, as a number or another type that knows its own text.
    pub fn parsed<T: FromStr>(&mut self) -> Result<T> {
        let flag = self.flag;
        let value = self.value()?;
        match value.parse() {
            Ok(parsed) => Ok(parsed),
            Err(_) => self.wrong(&format!("{flag} cannot be `{value}`")),
        }
    }

    /// Refuses the flag that was read last.
    pub fn unknown<T>(&self) -> Result<T> {
        self.wrong(&format!("there is no flag `{}`", self.flag))
    }

    /// Refuses the whole.
    pub fn wrong<T>(&self, wrong: &str) -> Result<T> {
        exit::usage(wrong, self.usage)
    }
}

impl<'a> Iterator for Flags<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let (&word, rest) = self.words.split_first()?;
        self.words = rest;
        self.flag = word;
        Some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::Flags;

    #[test]
    fn value_belongs_to_the_flag_before_it() {
        let mut flags = Flags::new(&["--runs", "3", "--quick", "--runs", "x"], "usage");
        assert_eq!(flags.next(), Some("--runs"));
        assert_eq!(flags.parsed::<usize>().unwrap(), 3);
        assert_eq!(flags.next(), Some("--quick"));
        assert_eq!(flags.next(), Some("--runs"));
        let error = flags.parsed::<usize>().unwrap_err();
        assert_eq!(error.to_string(), "--runs cannot be `x`\nusage");
    }

    #[test]
    fn flag_without_its_value_is_refused() {
        let mut flags = Flags::new(&["--runs"], "usage");
        flags.next();
        let error = flags.value().unwrap_err();
        assert_eq!(error.to_string(), "--runs needs a value\nusage");
    }
}
