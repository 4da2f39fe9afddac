//! The Model scope is opened for good, once. (error: E0382)

use runtime::arena;

fn main() {
    let mut block = vec![0; 4096];
    let (model, _, _) = arena::split(&mut block, 1024, 0).unwrap();
    let _weights = model.open_once();
    let _again = model.open_once();
}
