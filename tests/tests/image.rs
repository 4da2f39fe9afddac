//! The shipped programs as files: static, small, without a heap and without `std`, and without
//! instructions that not every processor has, but where kernels are chosen for those that do.

use std::fs;

use cycles::decode::{Extension, extension};
use cycles::gate::{self, Measured};
use cycles::image::{Function, functions};
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Object, ObjectSection, ObjectSymbol, SectionKind, elf};
use tests::{ARM64, Board, HOST, run_arm64, workspace};

/// The largest pages that a 64-bit Arm kernel may have; a Raspberry Pi 5's has 16 KiB.
const ARM64_PAGE_BYTES_MAX: u64 = 64 * 1024;

/// The C allocator's calls, and musl's names for what lies behind them.
const HEAP: [&str; 17] = [
    "malloc",
    "calloc",
    "realloc",
    "free",
    "posix_memalign",
    "aligned_alloc",
    "memalign",
    "valloc",
    "reallocarray",
    "malloc_usable_size",
    "__libc_malloc",
    "__libc_calloc",
    "__libc_realloc",
    "__libc_free",
    "__libc_malloc_impl",
    "__simple_malloc",
    "__bump_malloc",
];

/// Whether a symbol shows that a heap or Rust's `std` or `alloc` was linked in.
fn is_forbidden(symbol: &str) -> bool {
    if HEAP.contains(&symbol) {
        return true;
    }
    // Rust's allocator shims have no path, and newer compilers mangle them: look inside the name.
    if symbol.contains("__rust_alloc") || symbol.contains("__rust_realloc") {
        return true;
    }
    if symbol.contains("__rust_dealloc") || symbol.contains("__rdl_") {
        return true;
    }
    // A method of a foreign type demangles to `<std::io::Error as core::fmt::Debug>::fmt`.
    let path = format!("{:#}", rustc_demangle::demangle(symbol));
    let path = path.trim_start_matches(['<', '&', '*']);
    path.starts_with("std::") || path.starts_with("alloc::")
}

/// The loaded bytes of a program and where they go: all that its run depends on.
fn segments(image: &[u8]) -> Vec<(u64, u64, Vec<u8>)> {
    let file = ElfFile64::<object::Endianness>::parse(image).unwrap();
    let endian = file.endian();
    let loaded = file
        .elf_program_headers()
        .iter()
        .filter(|s| s.p_type(endian) == elf::PT_LOAD);
    loaded
        .map(|segment| {
            let bytes = segment.data(endian, image).unwrap();
            // The first segment holds the ELF header, which tells where the section table is.
            let header = if segment.p_offset(endian) == 0 { 64 } else { 0 };
            (
                segment.p_vaddr(endian),
                segment.p_memsz(endian),
                bytes[header..].to_vec(),
            )
        })
        .collect()
}

fn program_is_static(board: Board) {
    let image = fs::read(board.shipped()).unwrap();
    let file = ElfFile64::<object::Endianness>::parse(image.as_slice()).unwrap();
    let endian = file.endian();
    assert_eq!(file.elf_header().e_type.get(endian), elf::ET_EXEC);
    for segment in file.elf_program_headers() {
        let kind = segment.p_type(endian);
        assert_ne!(kind, elf::PT_INTERP, "{board:?} asks for a program loader");
        assert_ne!(kind, elf::PT_DYNAMIC, "{board:?} asks for libraries");
        let flags = segment.p_flags(endian).0;
        let is_code_to_write_to = flags & elf::PF_W.0 != 0 && flags & elf::PF_X.0 != 0;
        assert!(
            !is_code_to_write_to,
            "{board:?} has a segment to write to and to run"
        );
    }
}

fn program_has_no_heap_and_no_std(board: Board) {
    let image = fs::read(board.linked()).unwrap();
    let file = ElfFile64::<object::Endianness>::parse(image.as_slice()).unwrap();
    let names: Vec<&str> = file
        .symbols()
        .map(|symbol| symbol.name().unwrap())
        .collect();
    assert!(
        names.contains(&"main"),
        "{board:?} has lost its symbols: nothing can be told"
    );
    let forbidden: Vec<_> = names
        .into_iter()
        .filter(|name| is_forbidden(name))
        .collect();
    assert!(forbidden.is_empty(), "{board:?} holds {forbidden:#?}");
}

fn shipped_program_is_the_linked_one(board: Board) {
    let linked = segments(&fs::read(board.linked()).unwrap());
    let shipped = segments(&fs::read(board.shipped()).unwrap());
    assert!(
        linked == shipped,
        "{board:?} was built by cargo alone: run `cargo xtask build`"
    );
}

/// Texts of the log stay in the file that is kept on the desk.
fn texts_of_the_log_are_not_on_the_board(board: Board) {
    let flags_of = |image: &[u8]| {
        let file = ElfFile64::<object::Endianness>::parse(image).unwrap();
        let section = file.section_by_name(".defmt")?;
        Some(section.elf_section_header().sh_flags.get(file.endian()).0)
    };
    let flags = flags_of(&fs::read(board.linked()).unwrap()).expect("a linked program has texts");
    assert_eq!(
        flags & elf::SHF_ALLOC.0,
        0,
        "{board:?} loads texts of the log"
    );
    assert_eq!(
        flags_of(&fs::read(board.shipped()).unwrap()),
        None,
        "{board:?}"
    );
}

/// A line of the 64-bit Arm program's list of kernels.
struct Listed {
    name: String,
    /// What it may use.
    extension: Option<Extension>,
    /// Whether it is tuned for an in-order core.
    tuned: bool,
}

fn listed() -> Vec<Listed> {
    let output = run_arm64("cortex-a53", &["kernels"], b"");
    let list = String::from_utf8(output.stdout).unwrap();
    let kernels = list.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let name = words.next()?.to_owned();
        let extension = match words.next()? {
            "dotprod" => Some(Extension::Dotprod),
            "i8mm" => Some(Extension::I8mm),
            "neon" | "reference" => None,
            _ => return None, // the line on the cores
        };
        let tuned = words.next()? == "cortex_a55";
        Some(Listed {
            name,
            extension,
            tuned,
        })
    });
    kernels.collect()
}

/// Instructions in a program's code that need an extension, and where they stand.
fn extended_instructions(image: &[u8]) -> Vec<(u64, Extension)> {
    let file = object::File::parse(image).unwrap();
    let mut found = Vec::new();
    for section in file
        .sections()
        .filter(|section| section.kind() == SectionKind::Text)
    {
        let (words, _) = section.data().unwrap().as_chunks::<4>();
        for (i, word) in words.iter().enumerate() {
            if let Some(extension) = extension(u32::from_le_bytes(*word)) {
                found.push((section.address() + 4 * i as u64, extension));
            }
        }
    }
    found
}

fn holds(function: &Function, address: u64) -> bool {
    let bytes = 4 * function.words.len() as u64;
    (function.address..function.address + bytes).contains(&address)
}

/// Where a program uses an extension, and in which function; those that none is listed for.
fn misplaced(image: &[u8], functions: &[Function], listed: &[Listed]) -> Vec<String> {
    let mut misplaced = Vec::new();
    let mut used = Vec::new();
    for (address, extension) in extended_instructions(image) {
        let function = functions.iter().find(|function| holds(function, address));
        let name = function.map_or("no function", |function| &function.name);
        let kernel = listed.iter().find(|kernel| kernel.name == name);
        if kernel.and_then(|kernel| kernel.extension) < Some(extension) {
            misplaced.push(format!("{extension:?} at {address:x} in {name}"));
        }
        used.push(name);
    }
    // The other way round: what is listed for an extension has been looked at. Formats that are
    // packed alike may share a function, which goes by the name of one of them.
    for Listed { name, .. } in listed.iter().filter(|kernel| kernel.extension.is_some()) {
        let is_function = functions.iter().any(|function| function.name == *name);
        if is_function && !used.contains(&name.as_str()) {
            misplaced.push(format!("{name} uses no extension"));
        }
    }
    assert!(!used.is_empty(), "no kernel uses an extension");
    misplaced
}

#[test]
fn arm64_program_uses_extensions_in_the_kernels_listed_for_them_alone() {
    let image = fs::read(ARM64.linked()).unwrap();
    let (functions, mut listed) = (functions(&image).unwrap(), listed());
    assert_eq!(misplaced(&image, &functions, &listed), [""; 0]);

    // If one were listed for less, it would be found.
    for kernel in &mut listed {
        kernel.extension = match kernel.name.as_str() {
            "gemv_q4_k_neon_dotprod" => None,
            "gemm_q4_k_neon_i8mm" => Some(Extension::Dotprod),
            "gemv_q4_k_neon" => Some(Extension::Dotprod),
            _ => kernel.extension,
        };
    }
    let found = misplaced(&image, &functions, &listed);
    for (start, end) in [
        ("Dotprod at ", " in gemv_q4_k_neon_dotprod"),
        ("I8mm at ", " in gemm_q4_k_neon_i8mm"),
        ("gemv_q4_k_neon uses", " no extension"),
    ] {
        let is_it = |line: &&String| line.starts_with(start) && line.ends_with(end);
        assert!(found.iter().any(|line| is_it(&line)), "{start}{end}");
    }
}

/// `cargo xtask cycles` prints the figures, and goes by the files; this goes by the list.
#[test]
fn arm64_kernels_for_in_order_cores_keep_budgets_and_load_no_whole_registers() {
    let functions = functions(&fs::read(ARM64.linked()).unwrap()).unwrap();
    let budgets = gate::budgets(&workspace().join("kernels-asm/src/aarch64")).unwrap();
    let listed = listed();
    let tuned = listed.iter().filter(|kernel| kernel.tuned);
    let names: Vec<&str> = tuned.map(|kernel| kernel.name.as_str()).collect();
    assert!(names.len() >= 9, "{names:?}");
    for name in names {
        assert!(name.ends_with("_cortex_a55"), "{name}");
        let budget = budgets.iter().find(|budget| budget.kernel == name);
        let budget = budget.unwrap_or_else(|| panic!("{name} has no budget"));
        let function = gate::function(&functions, name).unwrap();
        let measured = Measured::of(&function.hot_loop().unwrap());
        assert_eq!(measured.wide_loads, 0, "{name}");
        assert_eq!(gate::failures(budget, &measured), [""; 0]);
    }
}

#[test]
fn host_program_is_static() {
    program_is_static(HOST);
}

#[test]
fn arm64_program_is_static() {
    program_is_static(ARM64);
}

#[test]
fn host_program_has_no_heap_and_no_std() {
    program_has_no_heap_and_no_std(HOST);
}

#[test]
fn arm64_program_has_no_heap_and_no_std() {
    program_has_no_heap_and_no_std(ARM64);
}

#[test]
fn host_texts_of_the_log_are_not_on_the_board() {
    texts_of_the_log_are_not_on_the_board(HOST);
}

#[test]
fn arm64_texts_of_the_log_are_not_on_the_board() {
    texts_of_the_log_are_not_on_the_board(ARM64);
}

#[test]
fn host_program_ships_as_linked() {
    shipped_program_is_the_linked_one(HOST);
}

#[test]
fn arm64_program_ships_as_linked() {
    shipped_program_is_the_linked_one(ARM64);
}

#[test]
fn programs_are_as_small_as_their_boards_ask() {
    for board in [HOST, ARM64] {
        let (bytes, most) = (
            fs::read(board.shipped()).unwrap().len(),
            board.image_bytes_max(),
        );
        assert!(bytes <= most, "{board:?}: {bytes} bytes, of {most} at most");
    }
}

/// A kernel maps whole pages: of two segments in one page the first would get the rights of the
/// second, and one whose place in the file is another within its page cannot be mapped.
#[test]
fn arm64_program_can_be_mapped_in_pages_of_any_size() {
    let image = fs::read(ARM64.shipped()).unwrap();
    let file = ElfFile64::<object::Endianness>::parse(image.as_slice()).unwrap();
    let endian = file.endian();
    let segments = file.elf_program_headers().iter();
    let loaded = segments.filter(|segment| segment.p_type(endian) == elf::PT_LOAD);
    let mut pages_end = 0;
    for segment in loaded {
        let (start, end) = (
            segment.p_vaddr(endian),
            segment.p_vaddr(endian) + segment.p_memsz(endian),
        );
        assert_eq!(segment.p_align(endian) % ARM64_PAGE_BYTES_MAX, 0);
        assert_eq!((start - segment.p_offset(endian)) % ARM64_PAGE_BYTES_MAX, 0);
        assert!(start / ARM64_PAGE_BYTES_MAX >= pages_end, "two in a page");
        pages_end = end.div_ceil(ARM64_PAGE_BYTES_MAX);
    }
    assert!(pages_end > 0, "no segment is loaded");
}

#[test]
fn heap_and_std_symbols_are_recognised() {
    for symbol in [
        "malloc",
        "malloc_usable_size",
        "__libc_malloc_impl",
        "__rust_alloc",
        "__rdl_realloc",
        "_RNvCs1234_7___rustc12___rust_alloc",
        "_ZN5alloc7raw_vec19RawVec$LT$T$C$A$GT$8grow_one17h0123456789abcdefE",
        "_ZN3std2io5stdio6_print17h0123456789abcdefE",
        "_ZN58_$LT$std..io..error..Error$u20$as$u20$core..fmt..Debug$GT$3fmt17h0123456789abcdefE",
        "_RNvNtCs1234_3std2rt10lang_start",
    ] {
        assert!(is_forbidden(symbol), "{symbol}");
    }
}

#[test]
fn other_symbols_are_let_through() {
    for symbol in [
        "main",
        "memcpy",
        "freeze",
        "__libc_start_main",
        "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE",
        "_ZN7runtime5arena5alloc17h0123456789abcdefE",
        "_RNvNtCs1234_7runtime5stdin4read",
    ] {
        assert!(!is_forbidden(symbol), "{symbol}");
    }
}
