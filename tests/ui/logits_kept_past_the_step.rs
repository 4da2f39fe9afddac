//! Logits are of their step: the next one takes their place. (error: E0499)

use runtime::arena::{Forward, Region};
use runtime::kv::KvCache;
use runtime::model::Engine;

fn steps(engine: &mut Engine<'_>, cache: &mut KvCache<'_>, forward: &mut Region<'_, Forward>) {
    let mut step = engine.forward(cache, &forward.open(), &[1], 0).unwrap();
    let logits = engine.logits(&mut step, 0);
    let _next = engine.forward(cache, &forward.open(), &[2], 1);
    logits[0] = 1.0;
}

fn main() {
    let _ = steps;
}
