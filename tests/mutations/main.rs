//! Runs the first of the changed inputs of `tests/tests/mutations.rs`, to be built with a sanitizer: as
//! a program it needs none of what the tests are built with, and it is slow enough for a tenth.

fn main() {
    tests::mutations::run(24_000);
}
