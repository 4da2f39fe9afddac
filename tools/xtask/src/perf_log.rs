//! `cargo xtask perf-log`: writes down a change that was measured, kept or not.
//!
//! A row of `docs/perf-history.csv` holds the figures, an entry of `docs/logbook.md` says why they
//! are so. Neither is written without the command that shows them.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};

use crate::flags::Flags;
use crate::machine::{self, Machine};
use crate::workspace;

const USAGE: &str = "\
usage: cargo xtask perf-log --metric M --before X --after Y --command \"...\" --kept|--rejected
                            --model NAME --why \"one line of mechanism\" [--machine CLASS]
The class of this machine is the default. Newest entries come last.";

/// What one measured change leaves behind.
#[derive(Default)]
struct Entry {
    date: String,
    /// What was checked out: of a change not committed yet, the commit below it.
    commit: String,
    machine: String,
    model: String,
    metric: String,
    before: f64,
    after: f64,
    command: String,
    verdict: &'static str,
    why: String,
}

/// Appends the entry that `arguments` describe to both files.
pub fn run(arguments: &[&str]) -> Result<()> {
    let mut entry = parse(arguments)?;
    entry.date = machine::date("+%F")?;
    entry.commit = machine::commit()?;
    if entry.machine.is_empty() {
        entry.machine = Machine::here()?.class();
    }
    let docs = workspace::root().join("docs");
    append(&docs.join("perf-history.csv"), &entry.row())?;
    append(&docs.join("logbook.md"), &entry.prose())
}

fn parse(arguments: &[&str]) -> Result<Entry> {
    let mut entry = Entry::default();
    let (mut before, mut after) = (None, None);
    let mut flags = Flags::new(arguments, USAGE);
    while let Some(flag) = flags.next() {
        match flag {
            "--metric" => entry.metric = flags.value()?.to_owned(),
            "--before" => before = Some(flags.parsed()?),
            "--after" => after = Some(flags.parsed()?),
            "--command" => entry.command = flags.value()?.to_owned(),
            "--kept" => entry.verdict = "kept",
            "--rejected" => entry.verdict = "rejected",
            "--model" => entry.model = flags.value()?.to_owned(),
            "--machine" => entry.machine = flags.value()?.to_owned(),
            "--why" => entry.why = flags.value()?.to_owned(),
            _ => return flags.unknown(),
        }
    }
    let (Some(before), Some(after)) = (before, after) else {
        return flags.wrong("a change has a figure --before and one --after");
    };
    (entry.before, entry.after) = (before, after);
    for (flag, text) in [
        ("--command", entry.command.as_str()),
        ("--metric", &entry.metric),
        ("--model", &entry.model),
        ("--why", &entry.why),
        ("--kept or --rejected", entry.verdict),
    ] {
        if text.trim().is_empty() {
            return flags.wrong(&format!("nothing is written down without {flag}"));
        }
        if text.contains('\n') {
            return flags.wrong(&format!("{flag} takes one line"));
        }
    }
    Ok(entry)
}

impl Entry {
    fn row(&self) -> String {
        let fields = [
            &self.date,
            &self.commit,
            &self.machine,
            &self.model,
            &self.metric,
            &self.before.to_string(),
            &self.after.to_string(),
            &self.command,
            self.verdict,
        ];
        format!("{}\n", fields.map(quoted).join(","))
    }

    fn prose(&self) -> String {
        let Entry {
            date,
            commit,
            machine,
            model,
            metric,
            before,
            after,
            command,
            verdict,
            why,
        } = self;
        format!(
            "\n## {date}: {metric} {before} -> {after}, {verdict}\n\n\
             {why}\n\n\
             {model} on {machine}, at {commit}:\n\n    {command}\n"
        )
    }
}

/// A field of a CSV file, after RFC 4180: quoted where it has to be, quotes within it doubled.
fn quoted(field: &str) -> String {
    if field.contains(['"', ',', '\r', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

/// Appends to a file that is there already, with its header.
fn append(path: &Path, text: &str) -> Result<()> {
    let file = OpenOptions::new().append(true).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot append to {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    const WHOLE: [&str; 13] = [
        "--metric",
        "tg128 tok/s",
        "--before",
        "50",
        "--after",
        "52.5",
        "--model",
        "smollm2",
        "--command",
        "cargo xtask bench",
        "--why",
        "fewer loads",
        "--kept",
    ];

    #[test]
    fn csv_field_is_quoted_only_where_it_must_be() {
        for (field, expected) in [
            ("", ""),
            ("plain text", "plain text"),
            ("1,2", "\"1,2\""),
            ("-p \"Hi\"", "\"-p \"\"Hi\"\"\""),
            ("\"", "\"\"\"\""),
            ("two\nlines", "\"two\nlines\""),
            ("two\r", "\"two\r\""),
        ] {
            assert_eq!(quoted(field), expected);
        }
    }

    #[test]
    fn row_has_the_fields_of_the_header() {
        let mut entry = parse(&WHOLE).unwrap();
        entry.command = "rushlight -p \"a, b\"".to_owned();
        let expected = ",,,smollm2,tg128 tok/s,50,52.5,\"rushlight -p \"\"a, b\"\"\",kept\n";
        assert_eq!(entry.row(), expected);
        let history = include_str!("../../../docs/perf-history.csv");
        let header = "date,commit,machine,model,metric,before,after,command,verdict\n";
        assert!(history.starts_with(header));
    }

    #[test]
    fn entry_without_its_command_is_a_usage_error() {
        let command = WHOLE.iter().position(|word| *word == "--command").unwrap();
        let without = [&WHOLE[..command], &WHOLE[command + 2..]].concat();
        for arguments in [without, [&WHOLE[..], &["--command", " "]].concat()] {
            let error = parse(&arguments).err().unwrap();
            let exit = error.downcast::<Exit>().unwrap();
            assert_eq!(exit.code, 2);
            assert!(exit.message.contains("without --command"), "{exit}");
        }
    }

    #[test]
    fn entry_of_two_lines_is_refused() {
        assert!(parse(&[&WHOLE[..], &["--why", "one\ntwo"]].concat()).is_err());
    }
}
