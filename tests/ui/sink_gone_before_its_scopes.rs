//! Whom the scopes report to lives at least as long as they do. (error: E0597)

use runtime::arena;
use runtime::trace::{Trace, TraceSink};

struct Silent;

impl TraceSink for Silent {}

fn main() {
    let mut block = vec![0; 4096];
    let (_, _, mut forward) = {
        let sink = Silent;
        arena::split_traced(&mut block, 0, 0, Trace::new(Some(&sink))).unwrap()
    };
    forward.open();
}
