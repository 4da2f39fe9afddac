//! The kernels that this CPU can run, against their references; and which a CPU gets.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tests::{mixed_model, run_arm64};

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
    // Every CPU runs the references: of 16 formats, and of a tier with its fourteen operations.
    assert!(checked >= Some(16 + 15), "{report}");
}

#[test]
fn a_run_that_checks_no_kernel_fails() {
    let output = kernelcheck(&["--op", "typo"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no kernel"));
}

/// What `kernels` says on an emulated Arm processor.
fn list(cpu: &str, more: &[&str]) -> String {
    let output = run_arm64(cpu, &[&["kernels"], more].concat(), b"");
    assert_eq!(output.code, 0, "{}", output.stderr);
    String::from_utf8(output.stdout).unwrap()
}

/// The line of a kernel, its columns one space apart.
fn row(list: &str, kernel: &str) -> String {
    let mut rows = list
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let row = rows.find(|row| row[0] == kernel);
    row.unwrap_or_else(|| panic!("{kernel} is not in\n{list}"))
        .join(" ")
}

#[test]
fn kernels_for_the_cores_in_use_are_chosen() {
    let list = list("cortex-a76", &[]);
    for format in [
        "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "iq4_nl", "q4_k", "q5_k", "q6_k",
    ] {
        let plain = format!("gemv_{format}_neon_dotprod");
        let tuned = format!("{plain}_cortex_a55");
        assert_eq!(row(&list, &plain), format!("{plain} dotprod - chosen"));
        assert_eq!(
            row(&list, &tuned),
            format!("{tuned} dotprod cortex_a55 usable")
        );
    }
    assert!(
        list.ends_with("cores out-of-order: kernels for no core\n"),
        "{list}"
    );
}

#[test]
fn in_order_core_without_sdot_is_known_and_gets_what_it_can_run() {
    let list = list("cortex-a53", &[]);
    assert_eq!(row(&list, "gemv_q4_k_neon"), "gemv_q4_k_neon neon - chosen");
    let tuned = "gemv_q4_k_neon_dotprod_cortex_a55";
    assert_eq!(
        row(&list, tuned),
        format!("{tuned} dotprod cortex_a55 lacking")
    );
    assert!(
        list.ends_with("cores in-order: kernels for cortex_a55\n"),
        "{list}"
    );
}

#[test]
fn kernel_tuned_for_another_core_can_be_asked_for() {
    let tuned = "gemv_q4_k_neon_dotprod_cortex_a55";
    let list = list("cortex-a76", &["--kernel", &format!("Q4_K={tuned}")]);
    assert_eq!(
        row(&list, tuned),
        format!("{tuned} dotprod cortex_a55 chosen")
    );
}

/// The warnings of a run on an emulated Arm processor of a model in which every format occurs.
fn warnings(cpu: &str, more: &[&str]) -> Vec<String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join(format!("kernels-{cpu}-{}.gguf", more.len()));
    fs::write(&path, mixed_model::gguf(1)).unwrap();
    let arguments = [
        "-m",
        path.to_str().unwrap(),
        "-p",
        "a",
        "-n",
        "1",
        "-c",
        "32",
    ];
    let output = run_arm64(cpu, &[&arguments, more].concat(), b"");
    assert_eq!(output.code, 0, "{}", output.stderr);
    let lines = output.stderr.lines();
    let start = lines.take_while(|line| !line.contains("rushlight load"));
    let warnings = start.filter_map(|line| line.split_once("rushlight warning message="));
    warnings.map(|(_, message)| message.to_owned()).collect()
}

#[test]
fn formats_without_a_fast_kernel_are_warned_of_before_the_model_is_loaded() {
    let of = |formats: &[&str]| -> Vec<String> {
        let slow = "only the reference kernel, many times slower";
        let warning = |format| format!("\"{format}: {slow}\"");
        formats.iter().map(warning).collect()
    };
    let slow = ["IQ4_NL", "Q2_K", "Q3_K", "Q5_1", "TQ1_0", "TQ2_0"];
    let mut found = warnings("cortex-a53", &[]);
    found.sort();
    assert_eq!(found, of(&slow));
    assert_eq!(warnings("cortex-a76", &[]), of(&[]));
    let forced = warnings("cortex-a76", &["--kernel", "Q4_K=gemv_q4_k_reference"]);
    assert_eq!(forced, of(&["Q4_K"]));
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
            _ if name.contains("_neon_dotprod") => &["dotprod", "nodotprod"],
            _ if name.ends_with("_neon_i8mm") => &["i8mm", "noi8mm"],
            _ => &[],
        };
        assert_eq!(found, expected, "{name}");
        files += usize::from(path.extension().is_some_and(|extension| extension == "S"));
    }
    assert!(files >= 14, "{files} files of assembly");
}
