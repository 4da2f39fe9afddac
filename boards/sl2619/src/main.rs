//! Synaptics Astra SL2619: two Cortex-A55, 2 GB of memory and no swap.
#![no_std]
#![no_main]

use runtime::board::Board;

runtime::main!(Board {
    name: "sl2619",
    memory_budget: Some(1_500_000_000), // free at run time, with the vendor's system
    clusters: &[(2, "Cortex-A55")],
    console: Some("ttyS0:115200"),
    context_default: 2048,
});
