//! The sampler: the reference's chain, the same draw for the same seed, and no bad logits.

use runtime::arena::{self, Forward, Region};
use runtime::sampler::{Random, Sampler, SamplerError, Settings};
use tests::memory::Block;

/// Settings that cut nothing.
const OPEN: Settings = Settings {
    temperature: 1.0,
    top_k: 0,
    top_p: 1.0,
    min_p: 0.0,
    repeat_penalty: 1.0,
    repeat_last_n: 64,
};

fn softmax(values: &mut [f32]) {
    assert!(values.iter().all(|value| value.is_finite()));
    let most = values.iter().copied().fold(f32::MIN, f32::max);
    values
        .iter_mut()
        .for_each(|value| *value = (*value - most).exp());
    let sum: f32 = values.iter().sum();
    values.iter_mut().for_each(|value| *value /= sum);
}

/// Runs `test` with scratch for so many logits.
fn with_scratch<T>(vocab: usize, test: impl FnOnce(Region<'_, Forward>) -> T) -> T {
    let mut block = Block::new(Sampler::bytes(vocab));
    let (_, _, forward) = arena::split(block.bytes(), 0, 0).unwrap();
    test(forward)
}

/// Tokens that a sampler chooses one after another, always from the same logits.
fn chosen(
    settings: Settings,
    seed: u64,
    logits: &[f32],
    history: &[u32],
    count: usize,
) -> Vec<u32> {
    with_scratch(logits.len(), |mut forward| {
        let mut sampler = Sampler::new(settings, seed).unwrap();
        let mut sample = || {
            let (mut logits, scratch) = (logits.to_vec(), forward.open());
            sampler
                .sample(&mut logits, history, &softmax, &scratch)
                .unwrap()
        };
        (0..count).map(|_| sample()).collect()
    })
}

fn one(settings: Settings, logits: &[f32], history: &[u32]) -> u32 {
    chosen(settings, 1, logits, history, 1)[0]
}

fn random_logits(random: &mut Random, count: usize) -> Vec<f32> {
    let mut logit = || (random.unit() * 16.0 - 8.0) as f32;
    (0..count).map(|_| logit()).collect()
}

/// The chain in double precision, with a full sort: candidates, best first, and their shares.
fn model(settings: Settings, logits: &[f32], history: &[u32]) -> Vec<(u32, f64)> {
    let mut logits: Vec<f64> = logits.iter().map(|&logit| logit.into()).collect();
    let start = history
        .len()
        .saturating_sub(settings.repeat_last_n as usize);
    let mut lately = history[start..].to_vec();
    lately.sort_unstable();
    lately.dedup();
    for id in lately {
        let (logit, penalty) = (&mut logits[id as usize], f64::from(settings.repeat_penalty));
        *logit = if *logit <= 0.0 {
            *logit * penalty
        } else {
            *logit / penalty
        };
    }
    let mut best: Vec<u32> = (0..logits.len() as u32).collect();
    best.sort_by(|&a, &b| {
        logits[b as usize]
            .total_cmp(&logits[a as usize])
            .then(a.cmp(&b))
    });
    if settings.top_k > 0 {
        best.truncate(settings.top_k as usize);
    }
    let shares = |best: &[u32], temperature: f64| -> Vec<f64> {
        let most = logits[best[0] as usize];
        let weight = |&id: &u32| ((logits[id as usize] - most) / temperature).exp();
        let sum: f64 = best.iter().map(weight).sum();
        best.iter().map(|id| weight(id) / sum).collect()
    };
    if settings.top_p < 1.0 {
        let mut sum = 0.0;
        let reaches = |share: &f64| {
            sum += share;
            sum >= settings.top_p.into()
        };
        let last = shares(&best, 1.0).iter().position(reaches);
        best.truncate(last.map_or(best.len(), |last| last + 1));
    }
    let shares_left = shares(&best, 1.0);
    let least = f64::from(settings.min_p) * shares_left[0];
    let kept = shares_left.iter().filter(|&&share| share >= least).count();
    best.truncate(kept.max(1));
    let shares = shares(&best, settings.temperature.into());
    best.into_iter().zip(shares).collect()
}

#[test]
fn greedy_takes_the_highest_logit_and_of_equals_the_lowest_id() {
    let greedy = Settings {
        temperature: 0.0,
        ..Settings::default()
    };
    assert_eq!(one(greedy, &[1.0, 3.0, 2.0, 3.0], &[]), 1);
    assert_eq!(one(greedy, &[-1.0, -1.0], &[]), 0);
    assert_eq!(one(greedy, &[0.0, -0.0], &[]), 0);
    assert_eq!(one(greedy, &[f32::MIN], &[]), 0);
    assert_eq!(
        one(
            Settings {
                temperature: -1.0,
                ..greedy
            },
            &[1.0, 3.0],
            &[]
        ),
        1
    );
}

#[test]
fn repeat_penalty_is_the_references() {
    let greedy = Settings {
        temperature: 0.0,
        repeat_penalty: 2.0,
        ..OPEN
    };
    // A positive logit is divided, a negative one multiplied; each once.
    assert_eq!(one(greedy, &[3.0, 2.0, 1.0], &[0]), 1);
    assert_eq!(one(greedy, &[3.0, 1.4, 1.0], &[0, 0, 0]), 0);
    assert_eq!(one(greedy, &[-1.0, -1.5, -3.0], &[0]), 1);
    // Only the last few count, and only tokens that are.
    let window = Settings {
        repeat_last_n: 2,
        ..greedy
    };
    assert_eq!(one(window, &[3.0, 2.0], &[0, 7, u32::MAX]), 0);
    assert_eq!(one(window, &[3.0, 2.0], &[1, 0, 7]), 1);
    assert_eq!(
        one(
            Settings {
                repeat_last_n: 0,
                ..greedy
            },
            &[3.0, 2.0],
            &[0]
        ),
        0
    );
    let endless = Settings {
        repeat_last_n: u32::MAX,
        ..greedy
    };
    assert_eq!(one(endless, &[3.0, 2.0], &[0, 7, 7, 7]), 1);
    // What it makes too great stays finite.
    let huge = Settings {
        repeat_penalty: 1e30,
        ..OPEN
    };
    assert_eq!(one(huge, &[f32::MIN, 0.0], &[0, 1]), 1);
}

#[test]
fn draws_are_those_of_the_chain_in_double_precision() {
    let mut random = Random::new(5);
    let settings = |top_k, top_p, min_p, temperature, repeat_penalty| Settings {
        temperature,
        top_k,
        top_p,
        min_p,
        repeat_penalty,
        repeat_last_n: 5,
    };
    for settings in [
        OPEN,
        settings(0, 1.0, 0.0, 0.5, 1.0),
        settings(40, 0.95, 0.05, 0.8, 1.1),
        settings(3, 1.0, 0.0, 2.0, 1.0),
        settings(0, 0.9, 0.0, 1.0, 1.3),
        settings(0, 1.0, 0.1, 1.0, 1.0),
        settings(0, 0.7, 0.2, 1.5, 0.8),
        settings(500, 0.5, 0.0, 0.7, 1.0),
        settings(1, 0.0, 1.0, 9.0, 1.0),
    ] {
        for seed in 0..60 {
            let count = 1 + (random.bits() % 300) as usize;
            let logits = random_logits(&mut random, count);
            let history: Vec<u32> = (0..8)
                .map(|_| random.bits() as u32 % count as u32)
                .collect();
            let found = chosen(settings, seed, &logits, &history, 1)[0];
            let mut candidates = model(settings, &logits, &history);
            // Without a cut the sampler goes by id.
            if settings.top_k == 0 && settings.top_p >= 1.0 && settings.min_p <= 0.0 {
                candidates.sort_by_key(|&(id, _)| id);
            }
            let target = Random::new(seed).unit();
            let mut sum = 0.0;
            let expected = candidates.iter().find(|(_, share)| {
                sum += share;
                sum > target
            });
            let expected = expected.map_or(candidates[0].0, |&(id, _)| id);
            assert_eq!(found, expected, "{settings:?} seed {seed} {count}");
        }
    }
}

#[test]
fn draws_are_spread_as_the_probabilities_are() {
    const DRAWS: usize = 40_000;
    let logits = [2.0, -1.0, 0.5, 1.0, -4.0, 2.0];
    for settings in [
        OPEN,
        Settings {
            temperature: 0.6,
            top_k: 4,
            ..OPEN
        },
        Settings {
            top_p: 0.9,
            min_p: 0.02,
            ..OPEN
        },
    ] {
        let draws = chosen(settings, 9, &logits, &[], DRAWS);
        let candidates = model(settings, &logits, &[]);
        let all: usize = candidates
            .iter()
            .map(|&(id, share)| {
                let count = draws.iter().filter(|&&draw| draw == id).count();
                let (mean, deviation) = (
                    share * DRAWS as f64,
                    (DRAWS as f64 * share * (1.0 - share)).sqrt(),
                );
                assert!(
                    (count as f64 - mean).abs() < 5.0 * deviation + 1.0,
                    "{id}: {count}"
                );
                count
            })
            .sum();
        assert_eq!(all, DRAWS, "nothing else is drawn");
    }
}

#[test]
fn each_stage_cuts_what_it_should() {
    // Probabilities 0.4, 0.3, 0.2, 0.1.
    let logits = [0.4f32, 0.3, 0.2, 0.1].map(f32::ln);
    let drawn = |settings| {
        let mut ids = chosen(settings, 2, &logits, &[], 400);
        ids.sort_unstable();
        ids.dedup();
        ids
    };
    assert_eq!(drawn(OPEN), [0, 1, 2, 3]);
    assert_eq!(drawn(Settings { top_k: 2, ..OPEN }), [0, 1]);
    assert_eq!(drawn(Settings { top_k: 9, ..OPEN }), [0, 1, 2, 3]);
    assert_eq!(
        drawn(Settings {
            top_p: 0.69,
            ..OPEN
        }),
        [0, 1]
    );
    assert_eq!(
        drawn(Settings {
            top_p: 0.71,
            ..OPEN
        }),
        [0, 1, 2]
    );
    assert_eq!(drawn(Settings { top_p: 0.0, ..OPEN }), [0]);
    assert_eq!(drawn(Settings { min_p: 0.6, ..OPEN }), [0, 1]);
    assert_eq!(drawn(Settings { min_p: 2.0, ..OPEN }), [0]);
    // Top-p counts among what top-k left: 0.4 of 0.7 is above 0.5.
    assert_eq!(
        drawn(Settings {
            top_k: 2,
            top_p: 0.5,
            ..OPEN
        }),
        [0]
    );
    // The temperature comes last: it changes nothing in what is cut.
    assert_eq!(
        drawn(Settings {
            top_p: 0.69,
            temperature: 50.0,
            ..OPEN
        }),
        [0, 1]
    );
    assert_eq!(
        drawn(Settings {
            temperature: 1e-30,
            ..OPEN
        }),
        [0]
    );
}

#[test]
fn same_seed_gives_the_same_tokens() {
    let logits = random_logits(&mut Random::new(4), 5000);
    let settings = Settings {
        temperature: 0.8,
        ..Settings::default()
    };
    let draws = |seed| chosen(settings, seed, &logits, &[1, 2, 3], 50);
    assert_eq!(draws(1), draws(1));
    assert_ne!(draws(1), draws(2));
}

#[test]
fn generator_is_the_published_one() {
    // SplitMix64 from seed 0, then xoshiro256++ over that state.
    let mut random = Random::new(0);
    let mut state = [
        0xE220_A839_7B1D_CDAFu64,
        0x6E78_9E6A_A1B9_65F4,
        0x06C4_5D18_8009_454F,
        0xF88B_B8A8_724C_81EC,
    ];
    for _ in 0..100 {
        let [s0, s1, s2, s3] = state;
        assert_eq!(
            random.bits(),
            s0.wrapping_add(s3).rotate_left(23).wrapping_add(s0)
        );
        let (t2, t3) = (s2 ^ s0, s3 ^ s1);
        state = [s0 ^ t3, s1 ^ t2, t2 ^ s1 << 17, t3.rotate_left(45)];
    }
    let units: Vec<f64> = (0..1000).map(|_| random.unit()).collect();
    assert!(units.iter().all(|unit| (0.0..1.0).contains(unit)));
    let mean = units.iter().sum::<f64>() / 1000.0;
    assert!((mean - 0.5).abs() < 0.05);
}

#[test]
fn logits_that_are_no_numbers_are_an_error() {
    with_scratch(4, |mut forward| {
        let mut sampler = Sampler::new(Settings::default(), 0).unwrap();
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let scratch = forward.open();
            let found = sampler.sample(&mut [0.0, 1.0, bad, bad], &[], &softmax, &scratch);
            let error = found.unwrap_err();
            assert_eq!(
                error,
                SamplerError::NotFinite {
                    id: 2,
                    bits: bad.to_bits()
                }
            );
            assert_eq!(error.to_string(), format!("the logit of token 2 is {bad}"));
        }
        let found = sampler.sample(&mut [], &[], &softmax, &forward.open());
        assert_eq!(found, Err(SamplerError::NoLogits));
    });
}

#[test]
fn settings_that_are_no_numbers_are_an_error() {
    let name = |settings| match Sampler::new(settings, 0) {
        Err(SamplerError::BadSetting { name }) => name,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        name(Settings {
            temperature: f32::NAN,
            ..OPEN
        }),
        "--temp"
    );
    assert_eq!(
        name(Settings {
            top_p: f32::INFINITY,
            ..OPEN
        }),
        "--top-p"
    );
    assert_eq!(
        name(Settings {
            min_p: f32::NAN,
            ..OPEN
        }),
        "--min-p"
    );
    assert_eq!(
        name(Settings {
            repeat_penalty: 0.0,
            ..OPEN
        }),
        "--repeat-penalty"
    );
}

#[test]
fn scratch_is_as_much_as_is_said() {
    for vocab in [1, 63, 64, 65, 1000, 49_152] {
        let logits = random_logits(&mut Random::new(6), vocab);
        let settings = Settings {
            repeat_penalty: 1.1,
            ..OPEN
        };
        let mut block = Block::new(Sampler::bytes(vocab));
        let (_, _, mut forward) = arena::split(block.bytes(), 0, 0).unwrap();
        let scratch = forward.open();
        let mut sampler = Sampler::new(settings, 0).unwrap();
        sampler
            .sample(&mut logits.clone(), &[0], &softmax, &scratch)
            .unwrap();
        assert_eq!(scratch.used(), Sampler::bytes(vocab));

        let mut block = Block::new(0);
        let (_, _, mut forward) = arena::split(block.bytes(), 0, 0).unwrap();
        let found = sampler.sample(&mut logits.clone(), &[], &softmax, &forward.open());
        assert!(matches!(found, Err(SamplerError::Arena(_))));
    }
}
