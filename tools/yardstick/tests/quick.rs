//! The yardstick on small matrices, which say right or wrong and nothing about speed.

use yardstick::HAS_KLEIDIAI;
use yardstick::options::Options;

#[test]
fn small_matrices_through_every_kernel_are_right() {
    let options = Options {
        quick: true,
        ..Options::default()
    };
    let report = yardstick::run(&options).unwrap();
    let of = |theirs: bool| {
        let is_theirs = move |name: &str| name.starts_with("kleidiai ") == theirs;
        let checked = report.checked.iter();
        checked.filter(move |checked| is_theirs(&checked.name))
    };
    // Two shapes, two numbers of threads, and our three formats or their four kernels.
    assert_eq!(of(false).count(), 2 * 2 * 3);
    assert!(of(false).all(|checked| checked.bits));
    if HAS_KLEIDIAI {
        assert_eq!(of(true).count(), 2 * 2 * 4);
    } else {
        println!(
            "nothing of KleidiAI was tested: {}",
            yardstick::kleidiai_note()
        );
    }
}

#[test]
fn name_that_nobody_has_is_an_error() {
    let options = Options {
        quick: true,
        only: "typo".to_owned(),
        ..Options::default()
    };
    let error = yardstick::run(&options).err();
    assert_eq!(error.as_deref(), Some("no contestant is called `typo`"));
}
