//! `THIRD-PARTY.md` names everything that the shipped programs are made of.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::process::Command;

use tests::workspace;

/// The crates that are linked into a board's program, without those of this workspace.
fn linked_crates(board: &str) -> BTreeSet<String> {
    let output = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()))
        .args([
            "tree",
            "--locked",
            "--package",
            &format!("board-{board}"),
            "--target",
            "all",
        ])
        // What is a macro runs in the compiler, and is no part of a program.
        .args(["--edges", "normal,no-proc-macro"])
        .args(["--prefix", "none", "--format", "{p}"])
        .current_dir(workspace())
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let tree = String::from_utf8(output.stdout).expect("crate names are UTF-8");
    // `name v1.2.3`; a crate of this workspace has its folder in brackets behind that.
    let foreign = tree.lines().filter(|line| !line.contains('/'));
    foreign
        .filter_map(|line| line.split(' ').next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_linked_crate_is_named() {
    let notices = fs::read_to_string(workspace().join("THIRD-PARTY.md")).unwrap();
    let mut boards = 0;
    for entry in fs::read_dir(workspace().join("boards")).unwrap() {
        let folder = entry.unwrap().path();
        if !folder.join("Cargo.toml").is_file() {
            continue;
        }
        boards += 1;
        let board = folder.file_name().unwrap().to_str().unwrap();
        let crates = linked_crates(board);
        assert!(
            crates.contains("libc"),
            "cargo tree shows too little: {crates:?}"
        );
        for name in crates {
            let row = format!("| {name} |");
            assert!(
                notices.contains(&row),
                "THIRD-PARTY.md has no row for {name} of {board}"
            );
        }
    }
    assert!(boards >= 2, "found {boards} boards");
}
