//! The program as a service of systemd, with its console on a terminal of the board.

use std::fs;

use anyhow::{Result, ensure};

use super::far::{Far, Folder};
use super::put::Parcel;
use crate::workspace;

/// The folder that the unit of `boards/` names.
pub const FOLDER: &str = "/opt/rushlight";
/// The model that it names.
const MODEL: &str = "model.rush";
/// The unit, a template whose instances are terminals.
const UNIT: &str = "rushlight@.service";

/// Checks what can be known before anything is sent.
pub fn check(far: &Far<'_>, terminal: &str, folder: &str) -> Result<()> {
    for (what, word) in [("terminal", terminal), ("folder of a service", folder)] {
        ensure!(is_plain(word), "no name for a {what}: `{word}`");
    }
    ensure!(
        folder.starts_with('/'),
        "the folder of a service starts at the root: `{folder}`"
    );
    let found = far.ask("command -v systemctl || :")?;
    ensure!(!found.is_empty(), "there is no systemd at {}", far.address);
    Ok(())
}

/// Installs the unit, and starts it; returns once the model is loaded there.
pub fn start(folder: &Folder<'_>, terminal: &str, model: &str) -> Result<()> {
    ensure!(
        is_plain(model),
        "no name for the model of a service: `{model}`"
    );
    let unit = fs::read_to_string(workspace::root().join("boards").join(UNIT))?;
    let unit = unit.replace(MODEL, model).replace(FOLDER, &folder.path);
    let here = workspace::target().join("deploy");
    fs::create_dir_all(&here)?;
    fs::write(here.join(UNIT), unit)?;
    Parcel::file(&here.join(UNIT), UNIT)?.put(folder)?;
    let instance = UNIT.replace('@', &format!("@{terminal}"));
    folder.show(&format!(
        "systemctl link {}/{UNIT} && systemctl daemon-reload && systemctl enable {instance} && \
         systemctl restart {instance} && systemctl --no-pager --full --lines=5 status {instance}",
        folder.path
    ))
}

/// Whether a word means itself in a unit, and in a shell.
fn is_plain(word: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+=,:@~".contains(&byte);
    !word.is_empty() && !word.starts_with('-') && word.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_names_what_is_replaced() {
        let unit = workspace::root().join("boards").join(UNIT);
        let unit = fs::read_to_string(unit).unwrap();
        let words = format!("ExecStart={FOLDER}/rushlight -m {FOLDER}/{MODEL} ");
        assert!(unit.contains(&words), "{unit}");
    }

    #[test]
    fn words_with_a_meaning_are_refused() {
        for word in ["", "-x", "a b", "a%i", "a$b", "a'b", "a\nb"] {
            assert!(!is_plain(word), "{word:?}");
        }
        assert!(is_plain("/opt/rush-light_2/model.rush"));
    }
}
