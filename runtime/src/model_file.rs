//! The model's file: opened, mapped for its header, and checked.

use crate::error::Error;
use crate::gguf::Gguf;
use crate::image::Image;
use crate::load::LoadError;
use crate::options::{Options, UsageError};
use crate::sys::{Fd, FileKind};

/// An open model file with its checked header.
pub struct ModelFile {
    /// For reading tensors.
    pub file: Fd,
    /// Views of the mapping.
    pub gguf: Gguf<'static>,
    /// Where packed weights lie, if the file is an image of them.
    pub image: Option<Image<'static>>,
}

impl ModelFile {
    /// Opens the file that `-m` names, a GGUF or a packed image. Only its header is touched.
    ///
    /// # Errors
    /// There is no such file, or it is neither.
    pub fn open(options: &Options) -> Result<ModelFile, Error> {
        let path = options.model.ok_or(UsageError::MissingModel)?;
        let unreadable = |errno| Error::File { path, errno };
        let file = Fd::open_file(path).map_err(unreadable)?;
        if !matches!(
            file.kind().map_err(unreadable)?,
            FileKind::Regular | FileKind::Block
        ) {
            return Err(Error::NotAFile { path });
        }
        file.keep(); // no program of ours writes a new file over it, by whatever name
        let size = file.size().map_err(unreadable)?;
        let bytes = file.map(size as usize).map_err(unreadable)?;
        if Image::is_one(bytes) {
            let image = Image::check(bytes).map_err(LoadError::Image)?;
            return Ok(ModelFile {
                file,
                gguf: image.gguf()?,
                image: Some(image),
            });
        }
        Ok(ModelFile {
            file,
            gguf: Gguf::check(bytes)?,
            image: None,
        })
    }
}
