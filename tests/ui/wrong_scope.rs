//! The Kv scope is not the Forward scope. (error: E0308)

use runtime::arena::{self, Forward, Open};

fn step(_scratch: &Open<'_, Forward>) {}

fn main() {
    let mut block = vec![0; 4096];
    let (_, mut kv, _) = arena::split(&mut block, 0, 1024).unwrap();
    step(&kv.open());
}
