//! The kernels that this CPU can run, against their references.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn kernelcheck(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kernelcheck"))
        .args(arguments)
        .output()
        .expect("kernelcheck was built beside this test")
}

#[test]
fn kernels_equal_their_references_on_one_round_of_inputs() {
    let output = kernelcheck(&["--rounds", "1"]);
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{report}");
    let checked: Option<usize> = report
        .lines()
        .last()
        .and_then(|line| line.strip_suffix(" kernels checked"))
        .and_then(|number| number.parse().ok());
    // Every CPU runs the references: those of seven formats and of the float operations.
    assert!(checked >= Some(8), "{report}");
}

#[test]
fn a_run_that_checks_no_kernel_fails() {
    let output = kernelcheck(&["--op", "typo"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no kernel"));
}

/// The assembler refuses SDOT and SMMLA without these directives.
#[test]
fn assembly_allows_the_instructions_of_its_tier_and_takes_them_back() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernels-asm/src/aarch64");
    let mut files = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let source = fs::read_to_string(&path).unwrap();
        let found: Vec<&str> = source
            .lines()
            .filter_map(|line| line.trim().strip_prefix(".arch_extension "))
            .collect();
        let expected: &[&str] = match name {
            _ if name.ends_with("_neon_dotprod") => &["dotprod", "nodotprod"],
            _ if name.ends_with("_neon_i8mm") => &["i8mm", "noi8mm"],
            _ => &[],
        };
        assert_eq!(found, expected, "{name}");
        files += usize::from(path.extension().is_some_and(|extension| extension == "S"));
    }
    assert!(files >= 14, "{files} files of assembly");
}
