//! A plugin of QEMU that counts the instructions of the emulated program, block by block.
//!
//! `qemu-aarch64 -plugin libicount.so,out=FILE PROGRAM` writes a line for each block of code that
//! was translated: its address in hexadecimal, its instructions, and how often it was entered. The
//! counts do not depend on the machine that emulates. They are added up by code in line, without
//! locks: right for programs of one thread.
//!
//! The interface is version 1 of `qemu-plugin.h`, as in QEMU 7.2.

#![allow(unsafe_code)] // foreign calls, and what is exported for them

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs::File;
use std::io::{BufWriter, Result, Write};
use std::ptr;
use std::sync::{Mutex, OnceLock};

/// The version of the interface that this is written for.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static qemu_plugin_version: c_int = 1;

/// What QEMU knows a plugin by.
type Id = u64;
/// A block in translation, as QEMU sees it.
type Translation = c_void;

/// The one operation of code in line: addition.
const ADD_U64: c_int = 0;

unsafe extern "C" {
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: Id, call: extern "C" fn(Id, *mut Translation));
    fn qemu_plugin_register_vcpu_tb_exec_inline(
        block: *mut Translation,
        operation: c_int,
        number: *mut u64,
        operand: u64,
    );
    fn qemu_plugin_register_atexit_cb(
        id: Id,
        call: extern "C" fn(Id, *mut c_void),
        data: *mut c_void,
    );
    fn qemu_plugin_tb_n_insns(block: *const Translation) -> usize;
    fn qemu_plugin_tb_vaddr(block: *const Translation) -> u64;
}

/// A block that was translated.
struct Block {
    address: u64,
    instructions: usize,
    /// Kept for the life of the process: translated code adds to it.
    entered: *mut u64,
}

// SAFETY: `entered` is read once the emulated program, the only writer, has ended.
unsafe impl Send for Block {}

static BLOCKS: Mutex<Vec<Block>> = Mutex::new(Vec::new());
static OUT: OnceLock<String> = OnceLock::new();

/// QEMU's entry: reads the arguments, and asks to be told of translations and of the end.
///
/// # Safety
/// `argv` has `argc` C strings, as `qemu-plugin.h` promises.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: Id,
    _info: *const c_void,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    for index in 0..usize::try_from(argc).unwrap_or(0) {
        // SAFETY: `index` is below `argc`, and the caller has a C string there.
        let argument = unsafe { CStr::from_ptr(*argv.add(index)) };
        let argument = argument.to_string_lossy();
        let Some(path) = argument.strip_prefix("out=") else {
            eprintln!("icount: takes out=FILE, not {argument}");
            return -1;
        };
        OUT.get_or_init(|| path.to_owned());
    }
    if OUT.get().is_none() {
        eprintln!("icount: out=FILE is missing");
        return -1;
    }
    // SAFETY: `id` is the one that QEMU has just given, and both functions have its signatures.
    unsafe {
        qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
        qemu_plugin_register_atexit_cb(id, ended, ptr::null_mut());
    }
    0
}

/// A block was translated: its code is to count how often it is entered.
extern "C" fn translated(_id: Id, block: *mut Translation) {
    let entered = Box::into_raw(Box::new(0));
    // SAFETY: `block` is QEMU's for the length of this call; `entered` is never freed.
    let (address, instructions) = unsafe {
        qemu_plugin_register_vcpu_tb_exec_inline(block, ADD_U64, entered, 1);
        (qemu_plugin_tb_vaddr(block), qemu_plugin_tb_n_insns(block))
    };
    let mut blocks = BLOCKS.lock().unwrap_or_else(|broken| broken.into_inner());
    blocks.push(Block {
        address,
        instructions,
        entered,
    });
}

/// The emulated program has ended.
extern "C" fn ended(_id: Id, _data: *mut c_void) {
    if let Some(Err(error)) = OUT.get().map(|path| write(path)) {
        eprintln!("icount: {error}");
    }
}

fn write(path: &str) -> Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for block in &*BLOCKS.lock().unwrap_or_else(|broken| broken.into_inner()) {
        // SAFETY: from a `Box` that is never freed; nobody writes it any more.
        let entered = unsafe { *block.entered };
        writeln!(file, "{:x} {} {entered}", block.address, block.instructions)?;
    }
    file.flush()
}
