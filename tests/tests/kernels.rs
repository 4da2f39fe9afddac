//! The kernels that this CPU can run, against their references.

use std::process::Command;

#[test]
fn kernels_equal_their_references_on_one_round_of_inputs() {
    let output = Command::new(env!("CARGO_BIN_EXE_kernelcheck"))
        .args(["--rounds", "1"])
        .output()
        .expect("kernelcheck was built beside this test");
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{report}");
}
