//! The gate that members of a team pass to work on a job.
//!
//! The caller opens it for a job and closes it when nothing is left to take up. A member that finds
//! it open goes in; one that comes late finds it closed and waits for the next job. So the caller
//! waits for those who work, and never for one that is only on its way: where another program has
//! taken its processor, that would be milliseconds.
//!
//! All state is in one word, which is what waiters sleep on: how many are inside, whether the gate
//! is open, who sleeps, and a count of the jobs, by which a member knows a job that it has left.
//! Whoever is to be woken has set its bit in that word before it sleeps, and sleeps only if the
//! word is still the same; so no wake is missed (Drepper 2011, "Futexes are tricky").
//!
//! The parent says what atomics, spinning and sleeping are: the operating system's, or those of a
//! model checker (`tests/tests/gate.rs`).

use super::{AtomicU32, Ordering, futex_wait, futex_wake_all, spin_until};

/// One who is inside; they are counted in the lowest byte.
const ONE_INSIDE: u32 = 1;
const INSIDE: u32 = 0xff;
/// Whether members may go in.
const OPEN: u32 = 1 << 8;
/// Members sleep until it opens.
const MEMBERS_SLEEP: u32 = 1 << 9;
/// The caller sleeps until nobody is inside.
const CALLER_SLEEPS: u32 = 1 << 10;
/// One job; they are counted in the bits from here on, and wrap around.
const ONE_JOB: u32 = 1 << 11;

/// Which job: equal for the same one, and different for the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JobNumber(u32);

impl JobNumber {
    /// Before the first.
    pub const NONE: JobNumber = JobNumber(0);

    fn of(word: u32) -> Self {
        JobNumber(word / ONE_JOB)
    }
}

/// The gate.
pub struct Gate {
    word: AtomicU32,
}

impl Gate {
    /// A closed gate; `word` is 0.
    pub const fn new(word: AtomicU32) -> Self {
        Gate { word }
    }

    /// Opens the gate for the next job. The caller alone does this, with the gate closed and nobody
    /// inside. What it wrote before is seen by everybody who goes in.
    pub fn open(&self) {
        // Only the caller counts jobs, and members only set their bit while the gate is closed.
        let number = self.word.load(Ordering::Relaxed) / ONE_JOB;
        let opened = number.wrapping_add(1).wrapping_mul(ONE_JOB) | OPEN;
        if self.word.swap(opened, Ordering::Release) & MEMBERS_SLEEP != 0 {
            futex_wake_all(&self.word);
        }
    }

    /// Closes the gate, and returns when nobody is inside. The caller alone does this. It sees what
    /// those who were inside have written.
    pub fn close(&self) {
        self.word.fetch_and(!OPEN, Ordering::Relaxed);
        let is_empty = || self.word.load(Ordering::Acquire) & INSIDE == 0;
        if spin_until(is_empty) {
            return;
        }
        while !is_empty() {
            self.sleep(CALLER_SLEEPS, |word| word & INSIDE != 0);
        }
    }

    /// Waits for a job other than `last`, and goes in.
    pub fn enter(&self, last: JobNumber) -> JobNumber {
        let is_for_me = |word| word & OPEN != 0 && JobNumber::of(word) != last;
        loop {
            spin_until(|| is_for_me(self.word.load(Ordering::Relaxed)));
            let word = self.word.load(Ordering::Relaxed);
            if !is_for_me(word) {
                self.sleep(MEMBERS_SLEEP, |word| !is_for_me(word));
                continue;
            }
            let entered = self.word.compare_exchange_weak(
                word,
                word + ONE_INSIDE,
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            if entered.is_ok() {
                return JobNumber::of(word);
            }
        }
    }

    /// Goes out. What the member wrote is seen by the caller once the gate is closed.
    pub fn leave(&self) {
        let before = self.word.fetch_sub(ONE_INSIDE, Ordering::Release);
        if before & INSIDE == ONE_INSIDE && before & CALLER_SLEEPS != 0 {
            futex_wake_all(&self.word);
        }
    }

    /// Sleeps with `bit` set, if there still is a reason to; ends early for no reason, too.
    fn sleep(&self, bit: u32, has_reason: impl Fn(u32) -> bool) {
        let word = self.word.load(Ordering::Relaxed);
        if !has_reason(word) {
            return;
        }
        let set =
            self.word
                .compare_exchange(word, word | bit, Ordering::Relaxed, Ordering::Relaxed);
        if set.is_ok() {
            futex_wait(&self.word, word | bit);
        }
    }
}
