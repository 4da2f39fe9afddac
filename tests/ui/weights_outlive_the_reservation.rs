//! What the Model scope hands out lives no longer than the reservation. (error: E0597)

use runtime::arena;

fn main() {
    let weights = {
        let mut block = vec![0; 4096];
        let (model, _, _) = arena::split(&mut block, 1024, 0).unwrap();
        model.open_once().alloc::<u8>(64).unwrap()
    };
    weights[0] = 1;
}
