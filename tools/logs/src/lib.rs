//! Logs of `--log-format defmt` as the lines that `--log-format text` writes.
//!
//! A log is a stream of frames with a zero byte behind each. Between two frames there may be text,
//! which is passed on: a kernel's messages on the same serial line, or what a program says that
//! cannot make frames any more. Whatever else does not decode is reported with its place, and the
//! next frame is read. Frames have no checksum: a bit that changed in a number shows as another
//! number.

mod program;

pub use program::Program;

use std::io::{ErrorKind, Read, Write};

use anyhow::{Context, Result, bail};

/// No frame of ours is longer, and what is longer is not worth the decoder's recursion.
const FRAME_BYTES: usize = 2048;
/// What the first frame decodes to, with the build id of the program behind it.
const OPENING: &str = "rushlight log build=";
/// Text is shorter than this only by chance.
const TEXT_BYTES: usize = 16;

/// What was in a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Frames that decoded, without those that name the build.
    pub events: usize,
    /// Lines of text between them.
    pub texts: usize,
    /// Stretches that are neither.
    pub lost: usize,
}

/// Decodes `log` by the one of `programs` that wrote it: lines go to `lines` as they come, what is
/// wrong with the log goes to `notes`.
///
/// # Errors
/// None of the programs wrote the log, or it cannot be read, or the lines not be written.
pub fn decode(
    programs: &[Program],
    mut log: impl Read,
    lines: impl Write,
    notes: impl Write,
) -> Result<Summary> {
    let mut decoder = Decoder {
        programs,
        program: None,
        lines,
        notes,
        offset: 0,
        summary: Summary::default(),
    };
    let mut pending = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let count = match log.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error).context("the log cannot be read"),
        };
        for &byte in &buffer[..count] {
            match byte {
                0 => decoder.stretch(&pending, true)?,
                _ => pending.push(byte),
            }
            if byte == 0 {
                decoder.offset += pending.len() + 1;
                pending.clear();
            }
        }
        decoder.lines.flush()?;
    }
    decoder.stretch(&pending, false)?;
    decoder.lines.flush()?;
    Ok(decoder.summary)
}

struct Decoder<'p, L, N> {
    programs: &'p [Program],
    /// The one that wrote what is being read, once that is known.
    program: Option<&'p Program>,
    lines: L,
    notes: N,
    /// Where in the log the stretch at hand begins.
    offset: usize,
    summary: Summary,
}

impl<L: Write, N: Write> Decoder<'_, L, N> {
    /// Reads what is between two zero bytes, or behind the last one.
    fn stretch(&mut self, bytes: &[u8], is_whole: bool) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        // Text ends with its line, so a frame may follow it at once. Without the end of a line it is
        // taken for a part of a frame: that may be readable by chance.
        let line_end = bytes.iter().rposition(|&byte| byte == b'\n');
        let (text, rest) = bytes.split_at(line_end.map_or(0, |at| at + 1));
        if text.len() >= TEXT_BYTES && is_text(text) {
            self.text(text)?;
            return match rest {
                [] => Ok(()),
                rest => self.frame(rest, is_whole, text.len()),
            };
        }
        self.frame(bytes, is_whole, 0)
    }

    fn frame(&mut self, bytes: &[u8], is_whole: bool, skipped: usize) -> Result<()> {
        // The first frame has the same number and form in every program.
        let any = self.program.or(self.programs.first());
        let decoded = any.filter(|_| is_whole && bytes.len() <= FRAME_BYTES);
        let decoded = decoded.and_then(|program| program.line(bytes));
        match decoded {
            Some(line) if line.starts_with(OPENING) => self.opened(&line[OPENING.len()..]),
            Some(_) if self.program.is_none() => {
                self.assume()?;
                self.frame(bytes, is_whole, skipped)
            }
            Some(line) => {
                self.summary.events += 1;
                Ok(writeln!(self.lines, "{line}")?)
            }
            None => self.lost(bytes.len(), is_whole, skipped),
        }
    }

    /// Takes the program that has this build id.
    fn opened(&mut self, build: &str) -> Result<()> {
        let found = self.programs.iter().find(|one| one.build == build);
        if found.is_none() {
            let known: Vec<String> = self.programs.iter().map(Program::to_string).collect();
            bail!(
                "build {build} wrote the log, and not {}",
                known.join(" or ")
            );
        }
        self.program = found;
        Ok(())
    }

    /// Takes the only program, for a log that does not say which one wrote it.
    fn assume(&mut self) -> Result<()> {
        let [program] = self.programs else {
            bail!("the log does not say which build wrote it: name the program");
        };
        self.program = Some(program);
        let note = "the log does not say which build wrote it: these lines may be wrong";
        Ok(writeln!(self.notes, "{note}")?)
    }

    fn text(&mut self, bytes: &[u8]) -> Result<()> {
        for line in String::from_utf8_lossy(bytes).lines() {
            self.summary.texts += 1;
            writeln!(self.lines, "{}", line.trim_end_matches('\r'))?;
        }
        Ok(())
    }

    fn lost(&mut self, len: usize, is_whole: bool, skipped: usize) -> Result<()> {
        self.summary.lost += 1;
        let offset = self.offset + skipped;
        let why = if is_whole {
            "no frame"
        } else {
            "cut inside a frame"
        };
        Ok(writeln!(self.notes, "lost {len} bytes at {offset}: {why}")?)
    }
}

/// Whether a person could read it.
fn is_text(bytes: &[u8]) -> bool {
    let is_readable = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t' | '\x1b');
    str::from_utf8(bytes).is_ok_and(|text| text.chars().all(is_readable))
}
