//! Token ids as text: `--prompt-ids` in, `--ids` out.

use crate::error::Error;
use crate::sys::{self, Fd};
use core::ffi::CStr;

/// Reads ids separated by white space into `ids`, and returns how many there are.
///
/// # Errors
/// The file cannot be read, a word is no id below `vocabulary`, or there are more than fit.
pub fn read(path: &'static CStr, vocabulary: usize, ids: &mut [u32]) -> Result<usize, Error> {
    let unreadable = |errno| Error::File { path, errno };
    let file = if path == c"-" {
        sys::STDIN
    } else {
        Fd::open(path).map_err(unreadable)?
    };
    let mut buffer = [0; 4096];
    let (mut count, mut word) = (0, None::<u32>);
    loop {
        let len = file.read(&mut buffer).map_err(unreadable)?;
        // The end of the file ends a word as white space does.
        let bytes = if len == 0 { &b"\n"[..] } else { &buffer[..len] };
        for byte in bytes {
            match byte {
                b'0'..=b'9' => {
                    let grown = word.unwrap_or(0).saturating_mul(10);
                    word = Some(grown.saturating_add(u32::from(byte - b'0')));
                }
                _ if !byte.is_ascii_whitespace() => return Err(Error::BadPromptId),
                _ => {
                    let Some(id) = word.take() else { continue };
                    if id as usize >= vocabulary {
                        return Err(Error::BadPromptId);
                    }
                    if let Some(slot) = ids.get_mut(count) {
                        *slot = id;
                    }
                    count += 1;
                }
            }
        }
        if len == 0 {
            return match count <= ids.len() {
                true => Ok(count),
                false => Err(Error::PromptTooLong {
                    tokens: count,
                    context: ids.len(),
                }),
            };
        }
    }
}
