//! Prompt caches.

use std::sync::OnceLock;

use runtime::arena::{self, rounded};
use runtime::gguf::Gguf;
use runtime::kv::{KvCache, KvFormat};
use runtime::model::Config;
use runtime::prompt_cache::{self, Identity, Unusable};
use runtime::sys::Errno;
use xxhash_rust::xxh64::xxh64;

use super::model;
use crate::memory::Block;

const IDENTITY: Identity = Identity {
    model: 1,
    key_format: KvFormat::F16,
    value_format: KvFormat::Q8_0,
};
const PROMPT: [u32; 11] = [1, 5, 5, 7, 300, 2, 1, 9, 4, 4, 8];
/// Positions of the cache: two blocks.
const CONTEXT: usize = 16;

/// Runs `test` with an empty cache of a small model.
fn with_cache<T>(test: impl FnOnce(&mut KvCache<'_>) -> T) -> T {
    static CONFIG: OnceLock<Config> = OnceLock::new();
    let config = CONFIG.get_or_init(|| {
        let file = &model::ggufs()[0];
        Config::read(&Gguf::check(file).expect("a file")).expect("a model")
    });
    let (keys, values) = (IDENTITY.key_format, IDENTITY.value_format);
    let bytes = [keys, values].map(|format| rounded(KvCache::bytes(config, CONTEXT, format)));
    let bytes = bytes.iter().sum();
    let mut block = Block::new(bytes);
    let (_, mut kv, _) = arena::split(block.bytes(), 0, bytes).expect("room for it");
    let kv = kv.open();
    let mut cache = KvCache::new(&kv, config, CONTEXT, keys, values).expect("planned");
    test(&mut cache)
}

/// Files of prompts that are shorter than [`PROMPT`], as long, and longer.
pub(super) fn prompt_caches() -> Vec<Vec<u8>> {
    let file = |prompt: &[u32]| {
        let mut file = Vec::new();
        let mut out = |bytes: &[u8]| {
            file.extend_from_slice(bytes);
            Ok(())
        };
        let written = with_cache(|cache| prompt_cache::write(&mut out, &IDENTITY, prompt, cache));
        written.expect("a vector takes it");
        file
    };
    let longer = [&PROMPT[..], &[3; 5]].concat();
    [&PROMPT[..5], &PROMPT, &longer].map(file).to_vec()
}

/// A prompt cache, with its checksum made right.
pub(super) fn read(bytes: &[u8]) {
    match shared(bytes) {
        Ok(shared) => assert!(shared < PROMPT.len()),
        Err(error) => assert!(!matches!(error, Unusable::Read(_)), "no more than there is"),
    }
}

/// How many tokens it shares with [`PROMPT`].
fn shared(bytes: &[u8]) -> Result<usize, Unusable> {
    let mut bytes = bytes.to_vec();
    if let Some((covered, checksum)) = bytes.split_last_chunk_mut::<8>() {
        *checksum = xxh64(covered, 0).to_le_bytes();
    }
    let mut rest = &bytes[..];
    let mut source = |out: &mut [u8]| {
        let (part, after) = rest
            .split_at_checked(out.len())
            .ok_or(Errno::UNEXPECTED_END)?;
        out.copy_from_slice(part);
        rest = after;
        Ok(())
    };
    let size = bytes.len() as u64;
    with_cache(|cache| prompt_cache::read(&mut source, size, &IDENTITY, &PROMPT, cache))
}

#[cfg(test)]
mod tests {
    use super::{prompt_caches, shared};

    #[test]
    fn seeds_are_taken() {
        let taken: Result<Vec<_>, _> = prompt_caches().iter().map(|file| shared(file)).collect();
        assert_eq!(taken, Ok(vec![5, 10, 10]));
    }
}
