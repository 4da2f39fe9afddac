//! The rotary table: right, and the same bits on every architecture.

use runtime::arena;
use runtime::model::rope::{Rope, RopeTable, Scaling, Yarn};

const CONTEXT: usize = 4096;
const DIM: usize = 64;

/// Memory for one table, aligned as a reservation is.
#[repr(align(64))]
struct Block([u8; CONTEXT * DIM * 4]);

fn with_table(rope: &Rope, divisors: Option<&[f32]>, check: impl FnOnce(&RopeTable<'_>)) {
    let mut block = Box::new(Block([0; CONTEXT * DIM * 4]));
    let bytes = RopeTable::bytes(CONTEXT, DIM);
    let (model, _, _) = arena::split(&mut block.0, bytes, 0).expect("room for a table");
    let model = model.open_once();
    let table = RopeTable::new(&model, CONTEXT, DIM, rope, divisors).expect("room for a table");
    assert_eq!(model.used(), bytes, "the plan is exact");
    check(&table);
}

#[test]
fn angles_are_those_of_the_definition() {
    with_table(&Rope::plain(10_000.0), None, |table| {
        for position in [0, 1, 17, CONTEXT - 1] {
            let (cosines, sines) = table.position(position).split_at(DIM / 2);
            for pair in 0..DIM / 2 {
                let frequency = 10_000f64.powf(-2.0 * pair as f64 / DIM as f64);
                let (sin, cos) = (position as f64 * frequency).sin_cos();
                assert!(
                    (f64::from(cosines[pair]) - cos).abs() < 1e-7,
                    "{position} {pair}"
                );
                assert!(
                    (f64::from(sines[pair]) - sin).abs() < 1e-7,
                    "{position} {pair}"
                );
            }
        }
    });
}

/// Checks the angles of some pairs at a late position.
#[track_caller]
fn check_frequencies(rope: &Rope, divisors: Option<&[f32]>, expected: impl Fn(usize) -> f64) {
    let magnitude = rope.magnitude;
    with_table(rope, divisors, |table| {
        let position = CONTEXT - 1;
        let (cosines, sines) = table.position(position).split_at(DIM / 2);
        for pair in 0..DIM / 2 {
            let (sin, cos) = (position as f64 * expected(pair)).sin_cos();
            for (found, exact) in [(cosines[pair], cos), (sines[pair], sin)] {
                let error = (f64::from(found) - exact * magnitude).abs();
                assert!(error < 2e-7, "pair {pair}: {found} for {exact}");
            }
        }
    });
}

fn plain(pair: usize) -> f64 {
    10_000f64.powf(-2.0 * pair as f64 / DIM as f64)
}

#[test]
fn linear_scaling_and_divisors_divide_frequencies() {
    let linear = Rope {
        scaling: Scaling::Linear(4.0),
        ..Rope::plain(10_000.0)
    };
    check_frequencies(&linear, None, |pair| plain(pair) / 4.0);
    let divisors: Vec<f32> = (0..DIM / 2).map(|pair| 1.0 + 0.25 * pair as f32).collect();
    let expected = |pair| plain(pair) / f64::from(divisors[pair]);
    check_frequencies(&Rope::plain(10_000.0), Some(&divisors), expected);
}

/// Of 64 dimensions over a context of 2048, 32 turns are made at pair 8.04 and one at pair 20.1
/// (YaRN, section 3.2): up to pair 8 nothing changes, from pair 21 on all is divided.
#[test]
fn yarn_keeps_high_frequencies_and_divides_low_ones() {
    let yarn = Rope {
        scaling: Scaling::Yarn(Yarn {
            factor: 8.0,
            context: 2048,
            beta_fast: 32.0,
            beta_slow: 1.0,
        }),
        magnitude: 1.25,
        ..Rope::plain(10_000.0)
    };
    check_frequencies(&yarn, None, |pair| {
        let divided = ((pair as f64 - 8.0) / 13.0).clamp(0.0, 1.0);
        plain(pair) * (1.0 - divided) + plain(pair) / 8.0 * divided
    });
}

/// The number was the same on x86-64 and, under QEMU, on AArch64. A change of it changes every
/// golden result.
#[test]
fn table_has_the_same_bits_on_every_architecture() {
    with_table(&Rope::plain(100_000.0), None, |table| {
        let rows = (0..CONTEXT).flat_map(|position| table.position(position));
        let hash = rows.fold(0xcbf2_9ce4_8422_2325u64, |hash, angle| {
            (hash ^ u64::from(angle.to_bits())).wrapping_mul(0x100_0000_01b3)
        });
        assert_eq!(hash, 0xdaa2eaefffba80f9, "{hash:#x}");
    });
}
