//! Token ids that come from no text of the user's: `--prompt-ids`, and those of measurements.

use crate::error::Error;
use crate::prompt::{self, PROMPT_BYTES_MAX};
use crate::sys;
use core::ffi::CStr;

/// Reads ids separated by white space into `ids`, and returns how many there are.
///
/// # Errors
/// The file cannot be read, it has more bytes than a prompt, a word is no id below `vocabulary`, or
/// there are more than fit: then reading stops, and the count in the error is one too many.
pub fn read(path: &'static CStr, vocabulary: usize, ids: &mut [u32]) -> Result<usize, Error> {
    let file = if path == c"-" {
        sys::STDIN
    } else {
        prompt::open(path)?
    };
    let mut buffer = [0; 4096];
    let (mut count, mut word, mut bytes_read) = (0, None::<u32>, 0);
    loop {
        let len = prompt::read_some(file, path, &mut buffer)?;
        bytes_read += len;
        if bytes_read > PROMPT_BYTES_MAX {
            return Err(Error::PromptTooLarge {
                bytes_max: PROMPT_BYTES_MAX,
            });
        }
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
                    count += 1;
                    let too_long = Error::PromptTooLong {
                        tokens: count,
                        context: ids.len(),
                    };
                    *ids.get_mut(count - 1).ok_or(too_long)? = id;
                }
            }
        }
        if len == 0 {
            return Ok(count);
        }
    }
}

/// Fills `ids` with ids of a vocabulary, neighbours far apart: the rows of a few tokens would stay
/// in the cache.
pub fn spread_over(vocabulary: usize, ids: &mut [u32]) {
    const STRIDE: usize = 7919;
    for (index, id) in ids.iter_mut().enumerate() {
        *id = ((1 + index * STRIDE) % vocabulary) as u32;
    }
}
