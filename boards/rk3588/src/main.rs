//! Boards with Rockchip's RK3588 or RK3588S: four Cortex-A76 and four Cortex-A55.
#![no_std]
#![no_main]

use runtime::board::Board;

runtime::main!(Board {
    name: "rk3588",
    memory_budget: None, // what the kernel says is available
    clusters: &[(4, "Cortex-A76"), (4, "Cortex-A55")],
    console: Some("ttyFIQ0:1500000"), // as Rockchip's kernel has it
    context_default: 2048,
});
