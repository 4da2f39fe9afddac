//! The gate of the team in every order of events that the memory model allows: loom tries them all.
//! The code is that of the runtime; what an operating system gives is loom's here.

#![allow(unsafe_code)] // loom's cells: it ends the test where two touch one at once

#[path = "../../runtime/src/sys/team/gate.rs"]
#[allow(missing_docs)]
mod gate;

use gate::{Gate, JobNumber};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
use loom::thread;

/// Pieces of a job.
const PIECES: usize = 2;
/// The job that ends a member's life, which nothing does in the runtime.
const LAST: u32 = u32::MAX;

loom::lazy_static! {
    /// As the kernel does it: comparing and going to sleep are one, for whoever wakes.
    static ref SLEEPERS: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
}

fn sleepers() -> MutexGuard<'static, ()> {
    SLEEPERS.0.lock().unwrap()
}

fn futex_wait(word: &AtomicU32, seen: u32) {
    let guard = sleepers();
    if word.load(Ordering::SeqCst) == seen {
        drop(SLEEPERS.1.wait(guard).unwrap());
    }
}

fn futex_wake_all(_word: &AtomicU32) {
    let _guard = sleepers();
    SLEEPERS.1.notify_all();
}

/// One look: to spin longer is to be scheduled later, which loom tries anyway.
fn spin_until(done: impl Fn() -> bool) -> bool {
    done()
}

struct Team {
    gate: Gate,
    job: UnsafeCell<u32>,
    claimed: AtomicU32,
    done: [UnsafeCell<u32>; PIECES],
}

impl Team {
    /// Takes up pieces while there are any. Loom sees whether two take the same one at once.
    fn work(&self, job: u32) {
        while let Some(done) = self
            .done
            .get(self.claimed.fetch_add(1, Ordering::Relaxed) as usize)
        {
            // SAFETY: the piece was claimed; loom checks that nobody else is at it.
            done.with_mut(|done| unsafe { *done = job });
        }
    }

    fn member(&self) {
        let mut last = JobNumber::NONE;
        loop {
            last = self.gate.enter(last);
            // SAFETY: nobody writes the job while a member is inside; loom checks it.
            let job = self.job.with(|job| unsafe { *job });
            if job != LAST {
                self.work(job);
            }
            self.gate.leave();
            if job == LAST {
                return;
            }
        }
    }

    fn give(&self, job: u32) {
        // SAFETY: the gate is closed, and nobody inside; loom checks it.
        self.job.with_mut(|slot| unsafe { *slot = job });
        self.gate.open();
    }

    fn run(&self, job: u32) {
        self.claimed.store(0, Ordering::Relaxed);
        self.give(job);
        self.work(job);
        self.gate.close();
        for done in &self.done {
            // SAFETY: nobody is inside any more; loom checks it.
            assert_eq!(done.with(|done| unsafe { *done }), job);
        }
    }
}

/// A caller with so many others, over so many jobs.
fn model(members: usize, jobs: u32, preemptions: Option<usize>) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = preemptions;
    model.check(move || {
        let team = Arc::new(Team {
            gate: Gate::new(AtomicU32::new(0)),
            job: UnsafeCell::new(0),
            claimed: AtomicU32::new(0),
            done: std::array::from_fn(|_| UnsafeCell::new(0)),
        });
        let spawn = |_| {
            let team = team.clone();
            thread::spawn(move || team.member())
        };
        let members: Vec<_> = (0..members).map(spawn).collect();
        (1..=jobs).for_each(|job| team.run(job));
        team.give(LAST);
        for member in members {
            member.join().unwrap();
        }
        team.gate.close();
    });
}

#[test]
fn one_member_and_two_jobs() {
    model(1, 2, Some(3));
}

#[test]
fn two_members_and_a_job() {
    model(2, 1, Some(1));
}
