//! Raspberry Pi 4 and 400: four Cortex-A72, without SDOT.
#![no_std]
#![no_main]

use runtime::board::Board;

runtime::main!(Board {
    name: "rpi4",
    memory_budget: None, // what the kernel says is available
    clusters: &[(4, "Cortex-A72")],
    console: Some("ttyS0:115200"), // the mini UART, on the pins
    context_default: 2048,
});
