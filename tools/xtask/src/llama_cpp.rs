//! The sources of llama.cpp, at the one version that everything here refers to: its vocabularies
//! are references for ours, its benchmark is what ours is compared with.
//!
//! They come inside the source archive of its Python binding.

use std::fs;
use std::path::{Component, Path};

use anyhow::{Context, Result};
use flate2::read::GzDecoder;
use sha2::{Digest, Sha256};
use tar::{Archive as Tar, Entry};

use crate::fetch::{self, Archive, Fetch};

/// The version of the archive.
pub const VERSION: &str = "0.3.36";
const PACKAGE: &str = "llama-cpp-python";
const SHA256: &str = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e";
/// Where llama.cpp lies inside the archive, below a folder with the version in its name.
const FOLDER: &str = "vendor/llama.cpp";

/// A file of the archive, ready to be read.
pub type Source<'a> = Entry<'a, GzDecoder<&'a [u8]>>;

/// Downloads the archive of 77 MB and shows each file of llama.cpp to `visit`, with its path
/// there.
pub fn each_source(
    fetch: &Fetch,
    mut visit: impl FnMut(&Path, &mut Source) -> Result<()>,
) -> Result<()> {
    let archive = fs::read(fetch.archive(PACKAGE, VERSION, &Archive::Source)?)?;
    fetch::check(Sha256::new_with_prefix(&archive), SHA256)?;
    let mut tar = Tar::new(GzDecoder::new(archive.as_slice()));
    for entry in tar.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        if let Some(inside) = inside(&path).filter(|_| entry.header().entry_type().is_file()) {
            visit(inside, &mut entry).with_context(|| format!("in {}", path.display()))?;
        }
    }
    Ok(())
}

/// The part of an archive's path that llama.cpp itself gave it.
fn inside(path: &Path) -> Option<&Path> {
    let mut components = path.components();
    let version = components.next();
    let inside = components.as_path().strip_prefix(FOLDER).ok()?;
    matches!(version, Some(Component::Normal(_))).then_some(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_counts_from_the_folder_of_llama_cpp() {
        let path = |name: &'static str| inside(Path::new(name));
        let expected = Some(Path::new("models/x.gguf"));
        assert_eq!(path("pkg-1.0/vendor/llama.cpp/models/x.gguf"), expected);
        assert_eq!(path("pkg-1.0/setup.py"), None);
        assert_eq!(path("vendor/llama.cpp/models/x.gguf"), None);
    }
}
