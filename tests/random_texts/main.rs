//! Prints the texts of the seeds from 0 on, as many as it is told, each in hexadecimal on a line:
//! for `golden/make_random.py`, which asks the reference tokenizers for their tokens.

use std::fmt::Write;

use tests::random_text::random_text;

fn main() {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok());
    for seed in 0..count.expect("usage: random_texts COUNT") {
        let mut line = String::new();
        for byte in random_text(seed).bytes() {
            write!(line, "{byte:02x}").expect("a string takes everything");
        }
        println!("{line}");
    }
}
