//! Logits to a token.
//!
//! Greedy unless a temperature is given: the highest logit, of equals the lowest id. Otherwise the
//! stages of llama.cpp in its order, each on what the one before left: repeat penalty, top-k, top-p
//! ("nucleus": Holtzman and others, 2020), min-p (Nguyen and others, 2024), temperature, draw.
//!
//! A run is the same on every machine. The softmax comes from the caller, whose kernels give the
//! same bits everywhere; candidates are ordered by logit and then by id; sums go in that order, in
//! double precision; the generator is [`Random`], and each draw takes one number of it.

use core::fmt;

use crate::arena::{ArenaError, Forward, Open, rounded};

/// How tokens are chosen. The defaults are llama.cpp's, but for the temperature.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// Logits are divided by it. 0 or less: greedy.
    pub temperature: f32,
    /// Only so many of the best are candidates. 0: all.
    pub top_k: u32,
    /// Only the best that together have this probability are candidates. 1 or more: all.
    pub top_p: f32,
    /// Only those with this share of the best one's probability are candidates. 0 or less: all.
    pub min_p: f32,
    /// How much less likely a token becomes that was there lately. 1: no less.
    pub repeat_penalty: f32,
    /// How many tokens count as lately.
    pub repeat_last_n: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            temperature: 0.0,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            repeat_penalty: 1.0,
            repeat_last_n: 64,
        }
    }
}

/// Why no token was chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SamplerError {
    /// A setting is not a number, or a penalty not above 0.
    BadSetting {
        /// The flag that sets it.
        name: &'static str,
    },
    /// There are no logits.
    NoLogits,
    /// A logit is NaN or infinite.
    NotFinite {
        /// Of this token, the first such.
        id: u32,
        /// The bits of the logit.
        bits: u32,
    },
    /// The Forward scope is too small.
    Arena(ArenaError),
}

impl From<ArenaError> for SamplerError {
    fn from(error: ArenaError) -> Self {
        SamplerError::Arena(error)
    }
}

impl fmt::Display for SamplerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            SamplerError::BadSetting { name } => write!(f, "{name} has no such value"),
            SamplerError::NoLogits => f.write_str("the model gave no logits"),
            SamplerError::NotFinite { id, bits } => {
                write!(f, "the logit of token {id} is {}", f32::from_bits(bits))
            }
            SamplerError::Arena(ArenaError { wanted, left }) => {
                write!(f, "the sampler needs {wanted} bytes more, {left} are left")
            }
        }
    }
}

/// Checks that every logit is a number.
///
/// # Errors
/// The first that is NaN or infinite.
pub fn check_finite(logits: &[f32]) -> Result<(), SamplerError> {
    match logits.iter().position(|logit| !logit.is_finite()) {
        None => Ok(()),
        Some(id) => Err(SamplerError::NotFinite {
            id: id as u32,
            bits: logits[id].to_bits(),
        }),
    }
}

/// Chooses tokens.
#[derive(Clone, Debug)]
pub struct Sampler {
    settings: Settings,
    random: Random,
}

impl Sampler {
    /// A sampler that draws what the seed makes it draw.
    ///
    /// # Errors
    /// A setting is not a number, or a penalty not above 0.
    pub fn new(settings: Settings, seed: u64) -> Result<Self, SamplerError> {
        let Settings {
            temperature,
            top_p,
            min_p,
            repeat_penalty,
            ..
        } = settings;
        for (name, is_good) in [
            ("--temp", temperature.is_finite()),
            ("--top-p", top_p.is_finite()),
            ("--min-p", min_p.is_finite()),
            (
                "--repeat-penalty",
                repeat_penalty.is_finite() && repeat_penalty > 0.0,
            ),
        ] {
            if !is_good {
                return Err(SamplerError::BadSetting { name });
            }
        }
        Ok(Sampler {
            settings,
            random: Random::new(seed),
        })
    }

    /// Bytes of the Forward scope that [`sample`](Self::sample) takes at most.
    pub const fn bytes(vocab: usize) -> usize {
        rounded(vocab * size_of::<u32>()) // candidates
            + rounded(vocab * size_of::<f32>()) // their probabilities
            + rounded(vocab.div_ceil(64) * size_of::<u64>()) // tokens that were there lately
    }

    /// Chooses a token. `history` are the tokens so far, prompt included. `softmax` turns finite
    /// numbers into probabilities, in place. The logits are changed by the penalty.
    ///
    /// # Errors
    /// A logit is NaN or infinite, or there is none; the scope is too small.
    pub fn sample(
        &mut self,
        logits: &mut [f32],
        history: &[u32],
        softmax: &dyn Fn(&mut [f32]),
        scratch: &Open<'_, Forward>,
    ) -> Result<u32, SamplerError> {
        check_finite(logits)?;
        self.penalise(logits, history, scratch)?;
        let best = greatest(logits).ok_or(SamplerError::NoLogits)?;
        if self.settings.temperature <= 0.0 {
            return Ok(best as u32);
        }
        let mut ranking = Ranking::new(logits, scratch.alloc(logits.len())?);
        let values = scratch.alloc::<f32>(logits.len())?;
        let kept = self.cut(&mut ranking, values, softmax);
        let weights = &mut values[..kept];
        for (place, weight) in weights.iter_mut().enumerate() {
            // Against the best one, so that the quotient cannot be too great; it can be too small.
            let below = logits[ranking.id(place) as usize] - logits[best];
            *weight = (below / self.settings.temperature).max(f32::MIN);
        }
        softmax(weights);
        Ok(ranking.id(self.draw(weights)))
    }

    /// Makes tokens of the last few less likely, each once (Keskar and others, "CTRL", 2019, with
    /// negative logits multiplied instead of divided, as in llama.cpp).
    fn penalise(
        &self,
        logits: &mut [f32],
        history: &[u32],
        scratch: &Open<'_, Forward>,
    ) -> Result<(), SamplerError> {
        let penalty = self.settings.repeat_penalty;
        if penalty == 1.0 {
            return Ok(());
        }
        let seen = scratch.alloc::<u64>(logits.len().div_ceil(64))?;
        seen.fill(0);
        let count = history.len().min(self.settings.repeat_last_n as usize);
        for &id in &history[history.len() - count..] {
            let id = id as usize;
            let Some(logit) = logits.get_mut(id) else {
                continue;
            };
            let (word, bit) = (&mut seen[id / 64], 1 << (id % 64));
            if *word & bit == 0 {
                *word |= bit;
                let less = match *logit <= 0.0 {
                    true => *logit * penalty,
                    false => *logit / penalty,
                };
                *logit = less.clamp(f32::MIN, f32::MAX);
            }
        }
        Ok(())
    }

    /// Ranks what top-k, top-p and min-p leave, and says how many that are: at least one. Where
    /// nothing is cut nothing is ranked.
    fn cut(
        &self,
        ranking: &mut Ranking<'_>,
        values: &mut [f32],
        softmax: &dyn Fn(&mut [f32]),
    ) -> usize {
        let Settings {
            top_k,
            top_p,
            min_p,
            ..
        } = self.settings;
        let all = values.len();
        let most = match top_k {
            0 => all,
            _ => all.min(top_k as usize),
        };
        let by_probability = top_p < 1.0 || min_p > 0.0;
        if most < all {
            ranking.rank(most);
            if !by_probability {
                return most;
            }
            // Probabilities among the best, by place.
            for (place, value) in values[..most].iter_mut().enumerate() {
                *value = ranking.logits[ranking.id(place) as usize];
            }
            softmax(&mut values[..most]);
        } else {
            if !by_probability {
                return all;
            }
            // Probabilities among all, by id; no more are ranked than are kept.
            values.copy_from_slice(ranking.logits);
            softmax(values);
        }
        let mut sum = 0.0;
        let mut best = 0.0;
        for place in 0..most {
            let probability = if most < all {
                values[place]
            } else {
                ranking.rank(place + 1);
                values[ranking.id(place) as usize]
            };
            if place == 0 {
                best = probability;
            } else if probability < min_p * best {
                return place;
            }
            sum += f64::from(probability);
            if top_p < 1.0 && sum >= f64::from(top_p) {
                return place + 1;
            }
        }
        most
    }

    /// A place, each as likely as its weight says.
    fn draw(&mut self, weights: &[f32]) -> usize {
        let total: f64 = weights.iter().map(|&weight| f64::from(weight)).sum();
        let target = self.random.unit() * total;
        let mut sum = 0.0;
        let drawn = weights.iter().position(|&weight| {
            sum += f64::from(weight);
            sum > target
        });
        // The last sum is the total, which is above the target unless all weights are 0.
        drawn.unwrap_or(0)
    }
}

/// The place of the greatest number; of equals the first.
fn greatest(numbers: &[f32]) -> Option<usize> {
    let places = 0..numbers.len();
    places.reduce(|best, place| match numbers[place] > numbers[best] {
        true => place,
        false => best,
    })
}

/// Tokens, as far as needed in order: by logit, of equals by id. A heap whose best is taken out
/// again and again, so that the first `k` of `n` take `n + k log n` steps.
struct Ranking<'a> {
    logits: &'a [f32],
    /// A heap of those that are not ranked, then those that are, best last.
    ids: &'a mut [u32],
    ranked: usize,
}

impl<'a> Ranking<'a> {
    /// Ranks nothing. `ids` is scratch, one for each logit.
    fn new(logits: &'a [f32], ids: &'a mut [u32]) -> Self {
        for (number, id) in ids.iter_mut().enumerate() {
            *id = number as u32;
        }
        Ranking {
            logits,
            ids,
            ranked: 0,
        }
    }

    /// Ranks the best `count`.
    fn rank(&mut self, count: usize) {
        if self.ranked == 0 {
            for node in (0..self.ids.len() / 2).rev() {
                self.sift(node);
            }
        }
        while self.ranked < count {
            self.ranked += 1;
            let last = self.ids.len() - self.ranked;
            self.ids.swap(0, last);
            self.sift(0);
        }
    }

    /// The token at a place; the token of that number while nothing is ranked.
    fn id(&self, place: usize) -> u32 {
        match self.ranked {
            0 => self.ids[place],
            _ => self.ids[self.ids.len() - 1 - place],
        }
    }

    /// Moves the token at a node of the heap down to where it belongs.
    fn sift(&mut self, mut node: usize) {
        let heap = self.ids.len() - self.ranked;
        loop {
            let children = (2 * node + 1..2 * node + 3).filter(|&child| child < heap);
            let best = children.fold(node, |best, child| {
                if self.is_before(self.ids[child], self.ids[best]) {
                    child
                } else {
                    best
                }
            });
            if best == node {
                return;
            }
            self.ids.swap(node, best);
            node = best;
        }
    }

    fn is_before(&self, one: u32, other: u32) -> bool {
        let (logit, than) = (self.logits[one as usize], self.logits[other as usize]);
        logit > than || logit == than && one < other
    }
}

/// Xoshiro256++ 1.0 (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021),
/// its state filled by SplitMix64 from the seed. Not for secrets.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The generator of that seed; every seed is good.
    pub fn new(seed: u64) -> Self {
        let mut at = seed;
        Random {
            state: core::array::from_fn(|_| {
                at = at.wrapping_add(0x9E37_79B9_7F4A_7C15);
                let mixed = (at ^ at >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
                mixed ^ mixed >> 31
            }),
        }
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.state;
        let bits = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        bits
    }

    /// The next number from 0 to below 1, a multiple of 2^-53.
    pub fn unit(&mut self) -> f64 {
        const STEP: f64 = 1.0 / (1u64 << 53) as f64;
        (self.bits() >> 11) as f64 * STEP
    }
}
