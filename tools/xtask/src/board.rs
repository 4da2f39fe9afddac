//! The boards: every folder of `boards/` with a `Cargo.toml`.

use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::{exit, workspace};

/// The board of the machine that one works on; what `build` builds unless told otherwise.
pub const HOST: &str = "host";

/// A board, as far as building it goes.
pub struct Board {
    /// Folder name below `boards/`.
    pub name: String,
    /// Rust target of its binary.
    pub target: String,
    /// Bytes that the binary that ships may have.
    pub image_bytes_max: u64,
}

impl Board {
    /// Cargo's name for the board's crate.
    pub fn package(&self) -> String {
        format!("board-{}", self.name)
    }

    /// The program as linked, with its symbols.
    pub fn linked(&self) -> PathBuf {
        workspace::target()
            .join(&self.target)
            .join("release")
            .join(self.program())
    }

    /// The program as shipped, without them.
    pub fn shipped(&self) -> PathBuf {
        workspace::target().join("ship").join(self.program())
    }

    fn program(&self) -> String {
        format!("rushlight-{}", self.name)
    }
}

/// All boards, by name.
pub fn all() -> Result<Vec<Board>> {
    let folder = workspace::root().join("boards");
    let mut boards = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot list {folder:?}"))? {
        let manifest = entry?.path().join("Cargo.toml");
        if manifest.is_file() {
            boards.push(read(&manifest)?);
        }
    }
    boards.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(boards)
}

/// The board called `name`, or a usage error that lists all.
pub fn named(name: &str) -> Result<Board> {
    match all()?.into_iter().find(|board| board.name == name) {
        Some(board) => Ok(board),
        None => exit::usage(&format!("no board is called `{name}`"), &names()),
    }
}

/// One line with the names of all boards.
pub fn names() -> String {
    let names: Vec<String> = all()
        .unwrap_or_default()
        .into_iter()
        .map(|board| board.name)
        .collect();
    format!("boards: {}", names.join(", "))
}

fn read(manifest: &Path) -> Result<Board> {
    let text = fs::read_to_string(manifest)?;
    let lacks = |what: &str| format!("{}: `{SECTION}` lacks `{what}`", manifest.display());
    let target = declared(&text, "target").with_context(|| lacks("target = \"...\""))?;
    let limit = declared(&text, "image_bytes_max").and_then(|limit| limit.parse().ok());
    let image_bytes_max = limit.with_context(|| lacks("image_bytes_max = NUMBER"))?;
    let target = match target {
        "native" => format!("{ARCH}-unknown-linux-musl"),
        target => target.to_owned(),
    };
    let name = manifest
        .parent()
        .and_then(Path::file_name)
        .context("a board has a folder")?;
    Ok(Board {
        name: name.to_string_lossy().into_owned(),
        target,
        image_bytes_max,
    })
}

/// The section of a board's manifest that is ours; Cargo passes over it.
const SECTION: &str = "[package.metadata.board]";

/// What a manifest declares, without its quotes. Two lines of one section do not ask for a TOML
/// parser, which would be the largest thing to compile before the first build of a board.
fn declared<'m>(manifest: &'m str, key: &str) -> Option<&'m str> {
    let section = manifest.split_once(SECTION)?.1;
    let mut lines = section.lines().take_while(|line| !line.starts_with('['));
    let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "))?;
    let value = value.split('#').next()?.trim();
    Some(value.trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::declared;

    #[test]
    fn value_is_read_from_its_own_section_only() {
        let board = "[package]\n[package.metadata.board]\n# why\ntarget = \"native\" # so\nbytes = 12\n[[bin]]\n";
        assert_eq!(declared(board, "target"), Some("native"));
        assert_eq!(declared(board, "bytes"), Some("12"));
        assert_eq!(declared(board, "byte"), None);
        let other = "[package.metadata.board]\n\n[lib]\ntarget = \"native\"\n";
        assert_eq!(declared(other, "target"), None);
        assert_eq!(declared("target = \"native\"\n", "target"), None);
    }
}
