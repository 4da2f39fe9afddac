//! Changed files, texts, templates and lines: none makes a reader panic or takes it long. `cargo
//! xtask fuzz` looks further, led by what the code does.

#[test]
fn no_changed_input_makes_a_reader_panic_or_takes_it_long() {
    tests::mutations::run(240_000);
}
