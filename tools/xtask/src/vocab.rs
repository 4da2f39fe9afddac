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

static MEMBERS: [Member; 39] = [
    member(
        "ggml-vocab-command-r.gguf",
        10_874_545,
        "a2f8cfea952ef7c391a6d92a1c309d0bd32e36384d9b9230569a7425732f27d9",
    ),
    member(
        "ggml-vocab-command-r.gguf.inp",
        1943,
        "be0a11f7071f0c67d3053a2d377d8f35f0dbcb77ff11a60300fb57d36b477cf0",
    ),
    member(
        "ggml-vocab-command-r.gguf.out",
        1905,
        "d2a601336e422b60a264858c01b14c5d37575fe1f9adfcafc2f3b3707903903f",
    ),
    member(
        "ggml-vocab-deepseek-coder.gguf",
        1_156_067,
        "91cb1379f2e33af1c4866b194622b7a0e12e8f0c9dba7ba2f10d55978730bec1",
    ),
    member(
        "ggml-vocab-deepseek-coder.gguf.inp",
        1943,
        "be0a11f7071f0c67d3053a2d377d8f35f0dbcb77ff11a60300fb57d36b477cf0",
    ),
    member(
        "ggml-vocab-deepseek-coder.gguf.out",
        2096,
        "c2cea4584b0487e67fbd81f491bb44f89238722062126120d2c412edb3dbd853",
    ),
    member(
        "ggml-vocab-deepseek-llm.gguf",
        3_970_167,
        "867f77537b54565f0d81d508c04edc41aa1d4ffc1a92745f225b4c1b02755f76",
    ),
    member(
        "ggml-vocab-deepseek-llm.gguf.inp",
        1943,
        "be0a11f7071f0c67d3053a2d377d8f35f0dbcb77ff11a60300fb57d36b477cf0",
    ),
    member(
        "ggml-vocab-deepseek-llm.gguf.out",
        1920,
        "87cfc1a8a9a7ef25d04d28c26a67b6a620af7be938c9bd0feeb4d319b9302832",
    ),
    member(
        "ggml-vocab-falcon.gguf",
        2_287_728,
        "9f0bf8b0733680398b72e652e90f260f43782f326e75545fc0e49611a5ba35ad",
    ),
    member(
        "ggml-vocab-falcon.gguf.inp",
        1943,
        "be0a11f7071f0c67d3053a2d377d8f35f0dbcb77ff11a60300fb57d36b477cf0",
    ),
    member(
        "ggml-vocab-falcon.gguf.out",
        2002,
        "f8c80a0483582ef195c2129b69bb2e4e421b0f31ed7b35d84b63511d7ebae7cd",
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
        "ggml-vocab-mpt.gguf",
        1_771_393,
        "59dc382612866d1fc6c11ea531318d327598f3412d9c8f8600607cdf3030898f",
    ),
    member(
        "ggml-vocab-mpt.gguf.inp",
        1943,
        "be0a11f7071f0c67d3053a2d377d8f35f0dbcb77ff11a60300fb57d36b477cf0",
    ),
    member(
        "ggml-vocab-mpt.gguf.out",
        1895,
        "9d0982a7e7950b81bc2e325fb61bb7e295d2238934ab889737494de2dc4d906b",
    ),
    member(
        "ggml-vocab-phi-3.gguf",
        726_019,
        "967d7190d11c4842eab697079d98d56c2116e10eb617be355a2733bfc132e326",
    ),
    member(
        "ggml-vocab-phi-3.gguf.inp",
        1943,
        "be0a11f7071f0c67d3053a2d377d8f35f0dbcb77ff11a60300fb57d36b477cf0",
    ),
    member(
        "ggml-vocab-phi-3.gguf.out",
        2685,
        "ad6905c925c49c022974fe67e030382e8a4f56eb4489a0b9481dcedb1ec73b29",
    ),
    member(
        "ggml-vocab-qwen2.gguf",
        5_928_681,
        "44c2f46b715f585c6ab513970e8a006bfa5badd6108560054921cf598d154d8c",
    ),
    member(
        "ggml-vocab-qwen2.gguf.inp",
        1943,
        "be0a11f7071f0c67d3053a2d377d8f35f0dbcb77ff11a60300fb57d36b477cf0",
    ),
    member(
        "ggml-vocab-qwen2.gguf.out",
        1765,
        "de785bb305cc6fa9d43908ed5da337f853c0b79e971348fcfb9f0915a39c5363",
    ),
    member(
        "ggml-vocab-qwen35.gguf",
        5_928_682,
        "63ed952ff338996cf0bdf24a7b10015124273f75c6dc9bb427356aa3f67ec62c",
    ),
    member(
        "ggml-vocab-qwen35.gguf.inp",
        2651,
        "0fc6547e7876cd5b2ef64a9d319c6e39040eb53986660bd4227ed7ddef017a94",
    ),
    member(
        "ggml-vocab-qwen35.gguf.out",
        3570,
        "5efe225820325303857d0a087a8d59216f0d1e9a9e31133e7a5b44c3c4e1e9ca",
    ),
    member(
        "ggml-vocab-refact.gguf",
        1_720_710,
        "ac3ceda902fed91ccf74312b305d9b86c37e4f8e35fa9cc6ef3ce34fca7d4678",
    ),
    member(
        "ggml-vocab-refact.gguf.inp",
        1943,
        "be0a11f7071f0c67d3053a2d377d8f35f0dbcb77ff11a60300fb57d36b477cf0",
    ),
    member(
        "ggml-vocab-refact.gguf.out",
        1918,
        "c7e5c1c5dc1dfd3e0d56576bf699d2aca0b760b80779523ea9d323aad6cd1b88",
    ),
    member(
        "ggml-vocab-starcoder.gguf",
        1_719_346,
        "fedb892b4e1bd3c1f2fcdae356440b14fb458f4264d586e5c987ed93df4e174d",
    ),
    member(
        "ggml-vocab-starcoder.gguf.inp",
        1943,
        "be0a11f7071f0c67d3053a2d377d8f35f0dbcb77ff11a60300fb57d36b477cf0",
    ),
    member(
        "ggml-vocab-starcoder.gguf.out",
        1920,
        "3ef12183c57ad076f9defd8e5eb454f509f5f0865cad35646abb4c4b2d2c5764",
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
