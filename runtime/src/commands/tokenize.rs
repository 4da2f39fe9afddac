//! `tokenize`: text to token ids.

use crate::arena;
use crate::error::Error;
use crate::model_file::ModelFile;
use crate::options::Options;
use crate::output::Output;
use crate::prompt;
use crate::sys;
use crate::tokenizer::{Extent, Segment, Tokenizer};

/// The ids of a text, one a line, or its pieces. The model's file needs no weights.
///
/// # Errors
/// The vocabulary cannot be used, or stdout is closed.
pub fn run(options: &Options) -> Result<(), Error> {
    let ModelFile { gguf, .. } = ModelFile::open(options)?;
    let text = prompt::read(options)?;
    let index = Tokenizer::bytes(&gguf)?;
    let scratch = Extent::of(&gguf, text)?.encode_bytes();
    let block = sys::reserve(arena::rounded(index) + scratch).map_err(Error::System)?;
    let (model, _, mut forward) = arena::split(block, index, 0)?;
    let tokenizer = Tokenizer::new(&gguf, &model.open_once())?;
    let segment = match options.special {
        true => Segment::Marked(text),
        false => Segment::Text(text),
    };
    let mut bos = tokenizer
        .bos()
        .filter(|_| options.bos && tokenizer.adds_bos());
    let mut out = Output::default();
    let mut written = Ok(());
    let mut print = |id: u32| {
        if written.is_err() {
            return; // nobody reads any more, or a signal came
        }
        let line = match options.ids {
            true => out.print(format_args!("{id}\n")),
            false => {
                let text = tokenizer.text(id).escape_ascii();
                out.print(format_args!("{id:>6} '{text}'\n"))
            }
        };
        written = line;
    };
    let scratch = forward.open();
    let segments = core::iter::once(segment);
    tokenizer.encode_each(segments, &scratch, &mut |id| {
        // It stands once, also where the text brings it.
        if let Some(bos) = bos.take().filter(|&bos| bos != id) {
            print(bos);
        }
        print(id);
    })?;
    if let Some(bos) = bos {
        print(bos);
    }
    written?;
    out.flush()
}
