//! Reference vocabularies: each a GGUF file without tensors, with texts (`.inp`) and the token ids
//! (`.out`) that the reference tokenizer makes of them.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::fetch::{Fetch, Pin};
use crate::{llama_cpp, workspace};

/// Where the files lie among the sources.
const FOLDER: &str = "models";

/// The vocabulary of Llama 2.
const LLAMA_SPM: &str = "ggml-vocab-llama-spm.gguf";

/// A file of the archive.
struct Member {
    name: &'static str,
    pin: Pin,
}

const fn member(name: &'static str, bytes: u64, sha256: &'static str) -> Member {
    Member {
        name,
        pin: Pin { bytes, sha256 },
    }
}

static MEMBERS: [Member; 9] = [
    member(
        LLAMA_SPM,
        723_869,
        "16c3724582d59aa8bf84711894e833f916ee46a31d80e21312759c48bf8d0e69",
    ),
    member(
        "ggml-vocab-llama-spm.gguf.inp",
        1943,
        "be0a11f7071f0c67d3053a2d377d8f35f0dbcb77ff11a60300fb57d36b477cf0",
    ),
    member(
        "ggml-vocab-llama-spm.gguf.out",
        2685,
        "ad6905c925c49c022974fe67e030382e8a4f56eb4489a0b9481dcedb1ec73b29",
    ),
    member(
        "ggml-vocab-llama-bpe.gguf",
        7_818_140,
        "97272e430d53bc7688f52d5e0ad8ea8f163ede9f1bbd1694feaa504797d5d96e",
    ),
    member(
        "ggml-vocab-llama-bpe.gguf.inp",
        1943,
        "be0a11f7071f0c67d3053a2d377d8f35f0dbcb77ff11a60300fb57d36b477cf0",
    ),
    member(
        "ggml-vocab-llama-bpe.gguf.out",
        1739,
        "118abf2034a197fc5c9dec5204dfdeee7004c7c70952ae577f66b99e212fab9b",
    ),
    member(
        "ggml-vocab-gpt-2.gguf",
        1_766_807,
        "cedc56ca6e2e89f63e781696d1fd76b4b1d49e6720dee86463e915f6e90016ac",
    ),
    member(
        "ggml-vocab-gpt-2.gguf.inp",
        1943,
        "be0a11f7071f0c67d3053a2d377d8f35f0dbcb77ff11a60300fb57d36b477cf0",
    ),
    member(
        "ggml-vocab-gpt-2.gguf.out",
        2147,
        "48e8c4cb3ad5c37915b225f872222567c1c4dd4d66951aa53460c8d152ff6d60",
    ),
];

/// Fetches the vocabularies unless they are all there.
pub fn ensure() -> Result<()> {
    if missing().is_empty() {
        return Ok(());
    }
    let fetch = Fetch::begin()?;
    let wanted = missing();
    if !wanted.is_empty() {
        eprintln!("fetch: reference vocabularies, from a source archive of 77 MB");
        download(&wanted, &fetch).context("cannot fetch the reference vocabularies")?;
    }
    Ok(())
}

/// Where the vocabulary of Llama 2, which is TinyLlama's too, lies once [`ensure`] has been called.
pub fn llama_spm() -> PathBuf {
    place(LLAMA_SPM)
}

fn missing() -> Vec<&'static Member> {
    MEMBERS
        .iter()
        .filter(|member| !member.pin.is_at(&place(member.name)))
        .collect()
}

fn place(name: &str) -> PathBuf {
    workspace::cache().join("vocab").join(name)
}

fn download(wanted: &[&'static Member], fetch: &Fetch) -> Result<()> {
    let mut found = 0;
    llama_cpp::each_source(fetch, |path, source| {
        let is_here = |member: &Member| path == Path::new(FOLDER).join(member.name);
        if let Some(member) = wanted.iter().copied().find(|member| is_here(member)) {
            let mut file = fetch.file(&member.pin)?;
            io::copy(source, &mut file)?;
            file.finish(&place(member.name))?;
            found += 1;
        }
        Ok(())
    })?;
    ensure!(
        found == wanted.len(),
        "the archive has {found} of {} files",
        wanted.len()
    );
    Ok(())
}
