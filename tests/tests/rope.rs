//! The rotary table: right, and the same bits on every architecture.

use runtime::arena;
use runtime::model::rope::{Rope, RopeTable};

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
