//! QEMU's `virt` machine with Cortex-A55s: the board that everybody has. The program is the first
//! process of its system, `/init` of an initramfs; docs/virt.md has the whole.
#![no_std]
#![no_main]

use core::ffi::{c_char, c_int};
use runtime::board::Board;
use runtime::entry;
use runtime::sys::Arguments;

static BOARD: Board = Board {
    name: "virt",
    memory_budget: None, // what the kernel says is available, whatever `-m` gave it
    context_default: 2048,
};

/// What the C library's start-up code calls.
#[allow(unsafe_code)] // the symbol that crt1.o looks for, and its arguments
#[unsafe(no_mangle)]
extern "C" fn main(argc: c_int, argv: *const *const c_char) -> c_int {
    // SAFETY: the C library passes argc strings that live as long as the process.
    let arguments = unsafe { Arguments::new(argc, argv) };
    entry::start(&BOARD, arguments)
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    entry::panicked(info)
}
