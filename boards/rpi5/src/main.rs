//! Raspberry Pi 5 and 500: four Cortex-A76.
#![no_std]
#![no_main]

use runtime::board::Board;

runtime::main!(Board {
    name: "rpi5",
    memory_budget: None, // what the kernel says is available
    clusters: &[(4, "Cortex-A76")],
    console: Some("ttyAMA10:115200"), // the connector for it
    context_default: 2048,
});
