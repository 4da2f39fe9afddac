//! Any 64-bit Arm board with Linux: one static binary for Armv8.0, which finds SDOT and SMMLA at run
//! time.
#![no_std]
#![no_main]

use runtime::board::Board;

runtime::main!(Board {
    name: "generic-arm64",
    memory_budget: None, // what the kernel says is available
    clusters: &[],       // any
    console: None,
    context_default: 2048,
});
