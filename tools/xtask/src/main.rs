//! `cargo xtask`: the one entry for set-up, builds, tests and the demo.
fn main() {}
