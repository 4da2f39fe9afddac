//! Misuses of the arena's scopes that must not compile.
//!
//! Each file of `ui/` is one, and its first line names the error that the compiler must give, and
//! no other. All are checked as examples of a package made for the purpose, by one run of cargo.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use tests::workspace;

/// Error codes by file stem.
type Codes = BTreeMap<String, Vec<String>>;

/// What the files say must be wrong with them.
fn wanted() -> Codes {
    let files = fs::read_dir(workspace().join("tests/ui")).expect("the folder of misuses");
    let code = |path: &Path| {
        let text = fs::read_to_string(path).expect("a misuse");
        let line = text.lines().next().expect("a first line");
        let code = line
            .split_once("(error: ")
            .and_then(|(_, rest)| rest.strip_suffix(')'));
        code.unwrap_or_else(|| panic!("no error named in {path:?}"))
            .to_owned()
    };
    files
        .map(|file| file.expect("a file").path())
        .map(|path| (stem(&path), vec![code(&path)]))
        .collect()
}

fn stem(path: &Path) -> String {
    path.file_stem()
        .expect("a name")
        .to_str()
        .expect("UTF-8")
        .to_owned()
}

/// A package whose examples are the misuses; its folder.
fn package() -> std::path::PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ui");
    let _ = fs::remove_dir_all(&folder); // of a run before
    fs::create_dir_all(folder.join("examples")).expect("a folder");
    fs::create_dir_all(folder.join("src")).expect("a folder");
    fs::write(folder.join("src/lib.rs"), "").expect("an empty library");
    let runtime = workspace().join("runtime");
    let manifest = format!(
        "[package]\nname = \"ui\"\nedition = \"2024\"\n\n\
         [dependencies]\nruntime = {{ path = {runtime:?} }}\n\n[workspace]\n"
    );
    fs::write(folder.join("Cargo.toml"), manifest).expect("a manifest");
    fs::copy(workspace().join("Cargo.lock"), folder.join("Cargo.lock")).expect("the lock file");
    for name in wanted().keys() {
        let file = format!("{name}.rs");
        let from = workspace().join("tests/ui").join(&file);
        fs::copy(from, folder.join("examples").join(file)).expect("a misuse");
    }
    folder
}

#[test]
fn misused_scopes_do_not_compile() {
    let output = Command::new(env!("CARGO"))
        .args([
            "check",
            "--offline",
            "--examples",
            "--keep-going",
            "--message-format",
            "json",
        ])
        .env(
            "CARGO_TARGET_DIR",
            Path::new(env!("CARGO_TARGET_TMPDIR")).join("ui-target"),
        )
        .current_dir(package())
        .output()
        .expect("cargo runs");
    let mut found = Codes::new();
    let mut said = String::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: serde_json::Value = serde_json::from_str(line).expect("JSON");
        said += message["message"]["rendered"].as_str().unwrap_or_default();
        if let Some(code) = message["message"]["code"]["code"].as_str() {
            let name = message["target"]["name"].as_str().expect("a target");
            found
                .entry(name.to_owned())
                .or_default()
                .push(code.to_owned());
        }
    }
    let log = String::from_utf8_lossy(&output.stderr);
    assert_eq!(found, wanted(), "{said}\n{log}");
}
