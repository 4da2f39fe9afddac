//! Runs the changed inputs of `tests/tests/mutations.rs`: a program of its own has none of the tests'
//! dependencies, and so can be built with a sanitizer in a minute.

fn main() {
    tests::mutations::run();
}
