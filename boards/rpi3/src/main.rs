//! Raspberry Pi 3 in all its forms: four Cortex-A53, without SDOT; 1 GB of memory, or half of that.
#![no_std]
#![no_main]

use runtime::board::Board;

runtime::main!(Board {
    name: "rpi3",
    memory_budget: None, // what the kernel says is available
    clusters: &[(4, "Cortex-A53")],
    console: Some("ttyS0:115200"), // the mini UART, on the pins
    context_default: 2048,
});
