//! A slice from the Forward scope must be gone before the scope is opened again. (error: E0499)

use runtime::arena;

fn main() {
    let mut block = vec![0; 4096];
    let (_, _, mut forward) = arena::split(&mut block, 0, 0).unwrap();
    let scratch = forward.open();
    let logits = scratch.alloc::<f32>(8).unwrap();
    let _next_step = forward.open();
    logits[0] = 1.0;
}
