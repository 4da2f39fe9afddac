//! The laptop or server that Rushlight is developed on: x86-64 or AArch64 Linux, one static binary.
#![no_std]
#![no_main]

use runtime::board::Board;

runtime::main!(Board {
    name: "host",
    memory_budget: None, // what the kernel says is available
    clusters: &[],       // any
    console: None,
    context_default: 2048,
});
