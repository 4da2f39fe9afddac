//! Where things are: the workspace, the cache, the build output.

use std::env;
use std::path::{Path, PathBuf};

/// The folder of the workspace's `Cargo.toml`.
pub fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask
        .ancestors()
        .nth(2)
        .expect("xtask lies two folders below the root")
        .to_path_buf()
}

/// What is downloaded once and never committed.
pub fn cache() -> PathBuf {
    root().join(env::var_os("RUSHLIGHT_CACHE").unwrap_or(".cache".into()))
}

/// Cargo's output folder.
pub fn target() -> PathBuf {
    root().join(env::var_os("CARGO_TARGET_DIR").unwrap_or("target".into()))
}
