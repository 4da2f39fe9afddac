//! Boards with Intel's N100: four cores of one kind, x86-64 with AVX2 and AVX-VNNI.
#![no_std]
#![no_main]

use runtime::board::Board;

runtime::main!(Board {
    name: "n100",
    memory_budget: None, // what the kernel says is available
    clusters: &[(4, "N100")],
    console: None,
    context_default: 2048,
});
