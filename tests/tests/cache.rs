//! The KV cache by its contract: what is stored is what attention reads, in every format.

use kernels_asm::activation::ActivationFormat::Per32;
use kernels_asm::half::{f16_to_f32, f32_to_f16};
use kernels_asm::registry::Kernels;
use kernels_asm::vector::score_stride;
use runtime::arena::{self, ALIGNMENT};
use runtime::kv::{Attention, KvCache, KvFormat};
use runtime::model::Config;
use runtime::model::architecture::Architecture;
use runtime::model::rope::Rope;
use std::ops::Range;
use tests::detected_features;

const DIM: usize = 64;
const KV_HEADS: usize = 2;
const HEADS: usize = 6;
const GROUP: usize = HEADS / KV_HEADS;
const LAYERS: usize = 3;
const POSITIONS: usize = 29;
const FORMATS: [KvFormat; 3] = [KvFormat::F32, KvFormat::F16, KvFormat::Q8_0];

fn config(head_dim: usize) -> Config {
    Config {
        architecture: Architecture::from_name(b"llama").expect("a known name"),
        layers: LAYERS,
        width: HEADS * head_dim,
        hidden: 8,
        heads: HEADS,
        kv_heads: KV_HEADS,
        head_dim,
        vocabulary: 8,
        context_max: 64,
        norm_epsilon: 1e-5,
        rope: Rope::plain(10_000.0),
        local_rope: None,
        window: None,
        global_every: 0,
        score_scale: 0.125,
        score_cap: None,
        logit_cap: None,
    }
}

fn kernels() -> Kernels {
    Kernels::resolve(detected_features(), None, &[]).expect("nothing is forced")
}

/// Numbers that look random, the same for the same seed.
fn numbers(seed: usize, len: usize) -> Vec<f32> {
    let number = |i: usize| {
        let bits = ((seed * 977 + i + 1) as u32).wrapping_mul(0x9e37_79b9);
        (bits ^ bits >> 15) as f32 / u32::MAX as f32 * 4.0 - 2.0
    };
    (0..len).map(number).collect()
}

/// What a cache of `format` makes of numbers, from the rule.
fn stored(format: KvFormat, x: &[f32]) -> Vec<f32> {
    match format {
        KvFormat::F32 => x.to_vec(),
        KvFormat::F16 => x.iter().map(|&x| f16_to_f32(f32_to_f16(x))).collect(),
        KvFormat::Q8_0 => x.chunks(Per32.block_len()).flat_map(block).collect(),
    }
}

fn block(x: &[f32]) -> Vec<f32> {
    let amax = x.iter().fold(0.0f32, |amax, x| amax.max(x.abs()));
    if x.iter().any(|x| !x.is_finite()) {
        return vec![f32::NAN; x.len()];
    }
    let scale = f16_to_f32(f32_to_f16(amax / 127.0));
    let digit = |x: &f32| (x * (127.0 / amax)).round_ties_even();
    x.iter()
        .map(|x| if amax == 0.0 { 0.0 } else { scale * digit(x) })
        .collect()
}

/// Results of every layer and head over all positions, each as `change` makes it.
fn attend(formats: [KvFormat; 2], change: impl Fn(usize, &[f32]) -> Vec<f32>) -> Vec<f32> {
    attend_over(0..POSITIONS, formats, |half, _, x| change(half, x))
}

/// The same over some positions, after all are stored; `change` is told the position.
fn attend_over(
    positions: Range<usize>,
    formats: [KvFormat; 2],
    change: impl Fn(usize, usize, &[f32]) -> Vec<f32>,
) -> Vec<f32> {
    with_cache(formats, change, |cache| {
        let window = Some(positions.len());
        let attend = |layer| {
            let queries = numbers(1000 + layer, GROUP * DIM);
            let of = |head| attend_to(cache, [layer, head], positions.end - 1, window, &queries);
            (0..KV_HEADS).flat_map(of).collect::<Vec<f32>>()
        };
        (0..LAYERS).flat_map(attend).collect()
    })
}

/// Result of one KV head for the tokens from `position` on that `queries` are of.
fn attend_to(
    cache: &KvCache<'_>,
    [layer, head]: [usize; 2],
    position: usize,
    window: Option<usize>,
    queries: &[f32],
) -> Vec<f32> {
    let mut out = vec![f32::NAN; queries.len()];
    let attention = Attention {
        queries,
        heads: GROUP,
        window,
        scale: 0.125,
        cap: None,
        scores: &mut vec![f32::NAN; queries.len() / DIM * score_stride(POSITIONS)],
        out: &mut out,
    };
    cache.attend(&kernels(), layer, head, position, attention);
    out
}

/// Runs `work` with a cache of which every position is stored, in each half as `change` makes it.
fn with_cache<R>(
    formats: [KvFormat; 2],
    change: impl Fn(usize, usize, &[f32]) -> Vec<f32>,
    work: impl FnOnce(&KvCache<'_>) -> R,
) -> R {
    let (config, kernels) = (config(DIM), kernels());
    let [key_format, value_format] = formats;
    let bytes = formats.map(|format| KvCache::bytes(&config, POSITIONS, format));
    let total = bytes[0] + bytes[1];
    let mut block = vec![0u8; total + ALIGNMENT];
    let start = block.as_ptr().align_offset(ALIGNMENT);
    let (_, mut kv, _) = arena::split(&mut block[start..][..total], 0, total).expect("room");
    let scope = kv.open();
    let mut cache = KvCache::new(&scope, &config, POSITIONS, key_format, value_format)
        .expect("the bytes that the cache reports");
    assert_eq!(scope.used(), total);

    for layer in 0..LAYERS {
        for position in 0..POSITIONS {
            let seed = 2 * (layer * POSITIONS + position);
            let key = change(0, position, &numbers(seed, KV_HEADS * DIM));
            let value = change(1, position, &numbers(seed + 1, KV_HEADS * DIM));
            cache.store(layer).run(&kernels, position, &key, &value);
        }
    }
    work(&cache)
}

#[test]
fn attention_over_any_pair_of_formats_is_that_over_the_numbers_stored() {
    for (key, value) in FORMATS.iter().flat_map(|k| FORMATS.map(|v| (*k, v))) {
        let found = attend([key, value], |_, x| x.to_vec());
        let expected = attend([KvFormat::F32; 2], |half, x| stored([key, value][half], x));
        assert!(found.iter().all(|x| x.is_finite()));
        let same = |(f, e): (&f32, &f32)| f.to_bits() == e.to_bits();
        assert!(found.iter().zip(&expected).all(same), "{key:?}, {value:?}");
    }
}

#[test]
fn attention_over_a_window_is_that_over_its_positions_wherever_they_lie() {
    for format in FORMATS {
        // What lies before the window is as great as anything in it.
        let over = |positions: Range<usize>| {
            let start = positions.start;
            attend_over(positions, [format; 2], |half, position, _| {
                let seed = position.wrapping_sub(start).wrapping_mul(2) % 10_000;
                numbers(seed + half, KV_HEADS * DIM)
            })
        };
        for len in [1, 7, 8, 9, 17] {
            let expected = over(0..len);
            for start in 1..=POSITIONS - len {
                let found = over(start..start + len);
                let same = |(f, e): (&f32, &f32)| f.to_bits() == e.to_bits();
                assert!(
                    found.iter().zip(&expected).all(same),
                    "{format:?}: {len} positions from {start}"
                );
            }
        }
    }
}

#[test]
fn tokens_together_attend_as_each_alone() {
    // What no token before may see, and what one that sees it cannot hide.
    const BAD: [usize; 2] = [13, 22];
    let spoil = |half: usize, position: usize, x: &[f32]| match (half, position) {
        (1, p) if BAD.contains(&p) => vec![f32::NAN; x.len()],
        (_, p) if p % 5 == 0 => x.iter().map(|x| x * -0.0).collect(),
        _ => x.to_vec(),
    };
    for format in FORMATS {
        with_cache([format; 2], spoil, |cache| {
            for window in [None, Some(1), Some(2), Some(7), Some(8), Some(9), Some(16)] {
                for (tokens, first) in [2, 4, 5, 16]
                    .into_iter()
                    .flat_map(|tokens| (0..=POSITIONS - tokens).map(move |first| (tokens, first)))
                {
                    let queries = numbers(first, tokens * GROUP * DIM);
                    let together = attend_to(cache, [1, 1], first, window, &queries);
                    let tokens = together.chunks(GROUP * DIM);
                    let pairs = tokens.zip(queries.chunks(GROUP * DIM));
                    for (position, (found, query)) in (first..).zip(pairs) {
                        let what = format!("{format:?} at {position} from {first}, {window:?}");
                        let alone = attend_to(cache, [1, 1], position, window, query);
                        let same = |(f, e): (&f32, &f32)| {
                            f.to_bits() == e.to_bits() || f.is_nan() && e.is_nan()
                        };
                        assert!(found.iter().zip(&alone).all(same), "{what}");
                        let start = (position + 1).saturating_sub(window.unwrap_or(POSITIONS));
                        // Its first block is read whole, with weights of 0.
                        let sees_bad = BAD.iter().any(|p| (start / 8 * 8..=position).contains(p));
                        assert_eq!(found.iter().any(|x| x.is_nan()), sees_bad, "{what}");
                    }
                }
            }
        });
    }
}

#[test]
fn key_or_value_that_is_not_finite_leaves_no_finite_result_behind() {
    for (format, bad) in FORMATS
        .iter()
        .flat_map(|f| [f32::NAN, f32::INFINITY, f32::NEG_INFINITY].map(|bad| (*f, bad)))
    {
        // In the second block of every head; of values, in the same dimension of the result.
        for half in [0, 1] {
            let found = attend([format; 2], |of, x| {
                let mut x = x.to_vec();
                if of == half {
                    x[40] = bad;
                    x[DIM + 40] = bad;
                }
                x
            });
            assert!(
                found.iter().skip(40).step_by(DIM).all(|x| !x.is_finite()),
                "{format:?} of half {half} hides {bad}"
            );
        }
    }
}

#[test]
fn q8_0_value_beyond_its_scale_is_not_finite() {
    let found = attend([KvFormat::Q8_0; 2], |half, x| {
        let factor = if half == 1 { 1e8 } else { 1.0 };
        x.iter().map(|x| x * factor).collect()
    });
    assert!(found.iter().all(|x| !x.is_finite()));
}

#[test]
fn q8_0_takes_34_bytes_for_32_numbers_and_refuses_other_heads() {
    let numbers = LAYERS * 64 * KV_HEADS * DIM;
    let bytes = KvCache::bytes(&config(DIM), 64, KvFormat::Q8_0);
    assert_eq!(bytes, numbers / 32 * 34);
    for dim in (8..=256).step_by(8) {
        let refused = KvFormat::Q8_0.check(&config(dim)).is_err();
        assert_eq!(refused, dim % 32 != 0, "{dim}");
        assert!(KvFormat::F16.check(&config(dim)).is_ok());
    }
}

#[test]
fn cache_format_names_are_read_back() {
    for format in FORMATS {
        assert_eq!(KvFormat::from_name(format.name()), Some(format));
    }
    assert_eq!(KvFormat::from_name("q4_0"), None);
}
