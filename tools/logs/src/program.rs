//! A linked program, as far as its logs go.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use defmt_decoder::Table;
use object::Object;

/// A program and the texts that its frames have numbers for.
pub struct Program {
    path: PathBuf,
    table: Table,
    /// The first eight bytes of its build id, as its first frame shows them.
    pub build: String,
}

impl Program {
    /// Reads a program with its symbols.
    ///
    /// # Errors
    /// The file cannot be read, or is not such a program.
    pub fn open(path: &Path) -> Result<Program> {
        let name = path.display();
        let elf = fs::read(path).with_context(|| format!("cannot read {name}"))?;
        let file = object::File::parse(&*elf).with_context(|| format!("{name} is no program"))?;
        let id = file.build_id().ok().flatten();
        let id = id.with_context(|| format!("{name} has no build id"))?;
        let build = id
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let table =
            Table::parse(&elf).with_context(|| format!("cannot read the texts of {name}"))?;
        let table = table.with_context(|| {
            format!("{name} has no texts of a log: give the program as linked, not as shipped")
        })?;
        Ok(Program {
            path: path.to_owned(),
            table,
            build,
        })
    }

    /// The line of a frame, which comes without its zero byte; nothing if it is none.
    pub fn line(&self, frame: &[u8]) -> Option<String> {
        let mut decoder = self.table.new_stream_decoder();
        decoder.received(frame);
        decoder.received(&[0]);
        let frame = decoder.decode().ok()?;
        Some(frame.display_message().to_string())
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (build {})", self.path.display(), self.build)
    }
}
