//! The kernels that this CPU can run, against their references.

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
    // Every CPU runs the references: of seven formats, and of a tier with its fourteen operations.
    assert!(checked >= Some(7 + 15), "{report}");
}

#[test]
fn a_run_that_checks_no_kernel_fails() {
    let output = kernelcheck(&["--op", "typo"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no kernel"));
}
