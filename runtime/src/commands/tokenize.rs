//! `tokenize`: text to token ids.

use crate::arena;
use crate::error::Error;
use crate::model_file::ModelFile;
use crate::options::Options;
use crate::output::Output;
use crate::prompt;
use crate::sys;
use crate::tokenizer::Tokenizer;

/// The ids of a text, one a line, or its pieces.
///
/// # Errors
/// The vocabulary cannot be used, or stdout is closed.
pub fn run(options: &Options) -> Result<(), Error> {
    let ModelFile { gguf, .. } = ModelFile::open(options)?;
    let text = prompt::read(options)?;
    let index = Tokenizer::bytes(&gguf)?;
    let block = sys::reserve(arena::rounded(index) + Tokenizer::encode_bytes(text.len()))
        .map_err(Error::System)?;
    let (model, _, mut forward) = arena::split(block, index, 0)?;
    let tokenizer = Tokenizer::new(&gguf, &model.open_once())?;
    let scratch = forward.open();
    let ids = tokenizer.encode(text, &scratch)?;
    let bos = tokenizer
        .bos()
        .filter(|_| options.bos && tokenizer.adds_bos());
    let mut out = Output::default();
    for id in bos.into_iter().chain(ids.iter().copied()) {
        match options.ids {
            true => out.print(format_args!("{id}\n"))?,
            false => {
                let text = tokenizer.text(id).escape_ascii();
                out.print(format_args!("{id:>6} '{text}'\n"))?;
            }
        }
    }
    out.flush()
}
