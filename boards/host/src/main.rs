//! The board's program.
#![no_std]
#![no_main]

/// The C entry point.
#[allow(unsafe_code)] // the symbol that crt1.o calls
#[unsafe(no_mangle)]
pub extern "C" fn main(_argc: libc::c_int, _argv: *const *const libc::c_char) -> libc::c_int {
    0
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
