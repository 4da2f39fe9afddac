//! QEMU's `virt` machine with Cortex-A55s: the board that everybody has. The program is the first
//! process of its system, `/init` of an initramfs; docs/virt.md has the whole.
#![no_std]
#![no_main]

use runtime::board::Board;

runtime::main!(Board {
    name: "virt",
    memory_budget: None, // what the kernel says is available, whatever `-m` gave it
    clusters: &[(2, "Cortex-A55")],
    console: Some("ttyAMA0:115200"),
    context_default: 2048,
});
