//! What `--console` says.

use crate::sys::{BAUD_RATES, Baud};
use core::ffi::CStr;
use heapless::CString;

/// Room for a path, and the NUL at its end.
const PATH_BYTES: usize = 256;
/// Seconds without a byte taken after which nobody seems to read.
const PATIENCE_SECONDS: u32 = 30;

/// `DEV:BAUD[,crlf][,xonxoff][,echo][,wait=SECONDS]`, where DEV is a terminal; or `-[,...]`: stdin
/// and stdout as they are.
#[derive(Clone, Debug)]
pub struct Spec {
    /// As it was given, for messages.
    pub word: &'static CStr,
    /// The terminal, and its speed; none for stdin and stdout.
    pub terminal: Option<(CString<PATH_BYTES>, Baud)>,
    /// Write LF as CR LF.
    pub crlf: bool,
    /// Each side may stop the other.
    pub xonxoff: bool,
    /// Show what is typed.
    pub echo: bool,
    /// Milliseconds without a byte taken, after which an answer is given up.
    pub patience_ms: u32,
}

/// What is wrong with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpecError {
    /// It is not of the form above.
    Malformed,
    /// A speed that there is no constant for.
    UnknownBaud,
}

impl Spec {
    /// stdin and stdout.
    pub fn standard_streams() -> Spec {
        Spec {
            word: c"-",
            terminal: None,
            crlf: false,
            xonxoff: false,
            echo: false,
            patience_ms: 1000 * PATIENCE_SECONDS,
        }
    }

    /// Reads the flag's value. A path may have colons, and no comma.
    ///
    /// # Errors
    /// It is malformed.
    pub fn parse(word: &'static CStr) -> Result<Spec, SpecError> {
        let text = word.to_str().map_err(|_| SpecError::Malformed)?;
        let mut parts = text.split(',');
        let device = parts.next().unwrap_or_default();
        let mut spec = Spec {
            word,
            ..Spec::standard_streams()
        };
        if device != "-" {
            let (path, baud) = device.rsplit_once(':').ok_or(SpecError::Malformed)?;
            let mut terminal = CString::new();
            terminal
                .extend_from_bytes(path.as_bytes())
                .map_err(|_| SpecError::Malformed)?;
            let baud = baud.parse().ok().and_then(Baud::new);
            spec.terminal = Some((terminal, baud.ok_or(SpecError::UnknownBaud)?));
        }
        for part in parts {
            match part {
                "crlf" => spec.crlf = true,
                "xonxoff" => spec.xonxoff = true,
                "echo" => spec.echo = true,
                _ => spec.patience_ms = patience(part).ok_or(SpecError::Malformed)?,
            }
        }
        match spec.terminal {
            None if spec.xonxoff => Err(SpecError::Malformed), // nothing to set
            _ => Ok(spec),
        }
    }
}

/// `wait=SECONDS`, at least one and at most a day, in milliseconds.
fn patience(part: &str) -> Option<u32> {
    let seconds = part.strip_prefix("wait=")?.parse::<u32>().ok()?;
    (1..=86_400).contains(&seconds).then_some(1000 * seconds)
}

/// The speeds that there are, for a message.
pub struct BaudRates;

impl core::fmt::Display for BaudRates {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for (index, (rate, _)) in BAUD_RATES.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{rate}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_may_have_colons() {
        let word = c"/dev/serial/by-path/pci-0000:00:14.0:115200,crlf,wait=5";
        let spec = Spec::parse(word).unwrap();
        let (path, baud) = spec.terminal.unwrap();
        assert_eq!(path.as_c_str(), c"/dev/serial/by-path/pci-0000:00:14.0");
        assert_eq!(Some(baud), Baud::new(115_200));
        assert!(spec.crlf && !spec.echo && !spec.xonxoff);
        assert_eq!(spec.patience_ms, 5000);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for (word, error) in [
            (c"/dev/ttyS0", SpecError::Malformed),
            (c"/dev/ttyS0:115201", SpecError::UnknownBaud),
            (c"/dev/ttyS0:fast", SpecError::UnknownBaud),
            (c"/dev/ttyS0:9600,lfcr", SpecError::Malformed),
            (c"/dev/ttyS0:9600,wait=0", SpecError::Malformed),
            (c"-,xonxoff", SpecError::Malformed),
            (c"", SpecError::Malformed),
        ] {
            assert_eq!(Spec::parse(word).err(), Some(error), "{word:?}");
        }
    }
}
