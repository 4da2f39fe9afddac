//! Changed files, texts, templates and lines, the same ones in every run: for `tests/mutations.rs`,
//! and for the program `mutations`, which is that with few dependencies, to be built with a sanitizer.

use std::thread;
use std::time::{Duration, Instant};

use crate::targets::{TARGETS, Target};

/// No input takes longer, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(5);

/// A linear congruential generator.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % limit
    }
}

/// Values at which lengths, counts and offsets break.
const EXTREMES: [u64; 10] = [
    0,
    1,
    u64::MAX,
    1 << 63,
    (1 << 63) - 1,
    1 << 32,
    u32::MAX as u64,
    1 << 31,
    i32::MAX as u64,
    0x7fff_ffff_ffff_ffc0,
];

/// Bytes of a seed that are changed: a file's header is at its front.
const FRONT: usize = 12_000;

/// Changes a few bytes in place, or cuts the input short; how long it is now.
fn change(random: &mut Random, input: &mut Vec<u8>) {
    for _ in 0..1 + random.below(3) {
        let front = input.len().min(FRONT);
        if front == 0 {
            return;
        }
        // What counts most stands first: half of the changes go there.
        let front = if random.below(2) == 0 {
            front.min(400)
        } else {
            front
        };
        let at = random.below(front);
        match random.below(8) {
            0 => input[at] = 0xff,
            1 => input[at] ^= 1 << random.below(8),
            2 => input[at] = input[at].wrapping_add(1),
            3 | 4 => input[at] = random.below(256) as u8,
            5 | 6 => {
                let value = EXTREMES[random.below(EXTREMES.len())].to_le_bytes();
                let width = [2, 4, 8][random.below(3)].min(input.len() - at);
                input[at..at + width].copy_from_slice(&value[..width]);
            }
            _ => {
                // A part is repeated, or is missing.
                let end = (at + 1 + random.below(64)).min(input.len());
                match random.below(3) {
                    0 => input.truncate(at),
                    1 => drop(input.drain(at..end)),
                    _ => {
                        let part = input[at..end].to_vec();
                        input.splice(at..at, part);
                    }
                }
            }
        }
    }
}

/// Changes a target's seeds so many times in all; the longest that any took.
fn mutate(target: &Target, inputs: usize) -> Duration {
    let mut random = Random(1);
    let seeds = (target.seeds)();
    let mut longest = Duration::ZERO;
    for number in 0..inputs {
        let mut input = seeds[number % seeds.len()].clone();
        if number >= seeds.len() {
            change(&mut random, &mut input);
        }
        let began = Instant::now();
        (target.run)(&input);
        let took = began.elapsed();
        assert!(
            took < PATIENCE,
            "{}: input {number} took {took:?}",
            target.name
        );
        longest = longest.max(took);
    }
    longest
}

/// Changes the seeds of every target, each in a thread of its name: so many inputs in all, spread
/// evenly over the targets and their seeds.
///
/// # Panics
/// An input makes a target panic, or takes it long.
pub fn run(inputs: usize) {
    thread::scope(|scope| {
        for target in &TARGETS {
            let job = || {
                let began = Instant::now();
                let longest = mutate(target, inputs.div_ceil(TARGETS.len()));
                let (name, took) = (target.name, began.elapsed());
                println!("{name}: {took:.1?}, one at most {longest:.1?}");
            };
            let named = thread::Builder::new().name(target.name.to_owned());
            named.spawn_scoped(scope, job).expect("a thread");
        }
    });
}
