//! A team of threads that runs one job at a time, together.
//!
//! The caller is member 0. It opens a gate for each job; members wait there with a bounded spin and
//! then sleep on a futex, so an idle team costs nothing and a machine with fewer free processors
//! than members does not burn its time slices. The caller waits for those at work the same way.
//! There is one team in a process.

mod gate;

use super::{Errno, bind_to, futex_wait, futex_wake_all, now};
use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::hint::spin_loop;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use gate::{Gate, JobNumber};

/// Most threads of a team.
pub const THREADS_MAX: usize = 64;
/// Stack of each member but the caller.
pub const STACK_BYTES: usize = 128 * 1024;

/// How long a waiter spins before it sleeps: longer than most gaps between two jobs of a step, and
/// so short that members without a processor of their own lose little.
const SPIN_NS: u64 = 10_000;
/// Turns of the spin between two looks at the clock.
const TURNS: u32 = 16;

/// Spins until `done` says so, for [`SPIN_NS`] at most; whether it did.
fn spin_until(done: impl Fn() -> bool) -> bool {
    let began = now();
    loop {
        for _ in 0..TURNS {
            if done() {
                return true;
            }
            spin_loop();
        }
        if now() - began > SPIN_NS {
            return false;
        }
    }
}

type Job<'a> = dyn Fn(usize) + Sync + 'a;

struct Shared {
    taken: AtomicBool,
    gate: Gate,
    /// The job that the gate is open for. Written by the caller while the gate is closed and nobody
    /// inside; read by members who are inside.
    job: UnsafeCell<MaybeUninit<&'static Job<'static>>>,
}

// SAFETY: `job` is written only in `Team::run` before the gate is opened and after it was closed,
// when nobody is inside; members read it only inside.
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared {
    taken: AtomicBool::new(false),
    gate: Gate::new(AtomicU32::new(0)),
    job: UnsafeCell::new(MaybeUninit::uninit()),
};

/// The process's team.
pub struct Team {
    members: usize,
}

impl Team {
    /// Starts `cpus.len() - 1` threads, each on its own stack of [`STACK_BYTES`], and binds them
    /// and the caller to `cpus`: to all of these, not each to its own, so that the kernel can let
    /// them take turns on one that another program keeps busy. `stacks` holds
    /// `(cpus.len() - 1) * STACK_BYTES` bytes.
    ///
    /// # Errors
    /// The kernel starts no more threads.
    ///
    /// # Panics
    /// On a second team, or on more than [`THREADS_MAX`] members.
    pub fn start(cpus: &[u32], stacks: &'static mut [u8]) -> Result<Team, Errno> {
        assert!(
            (1..=THREADS_MAX).contains(&cpus.len()),
            "a team has 1 to 64 members"
        );
        assert!(
            !SHARED.taken.swap(true, Ordering::Relaxed),
            "one team in a process"
        );
        bind_to(cpus);
        let stacks = stacks.chunks_exact_mut(STACK_BYTES);
        for (member, stack) in (1..cpus.len()).zip(stacks) {
            spawn(member, stack)?;
        }
        Ok(Team {
            members: cpus.len(),
        })
    }

    /// Members, the caller included.
    pub fn len(&self) -> usize {
        self.members
    }

    /// Always false: the caller is a member.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Runs `job(member)` on the caller and on every other member that comes before the caller is
    /// done; returns when none of them is at it any more. So a job is work that whoever is there
    /// takes up piece by piece. What the members wrote happens before the return.
    pub fn run(&mut self, job: &Job<'_>) {
        if self.members == 1 {
            return job(0);
        }
        // SAFETY: only the lifetime changes. Members use the reference only inside the gate, and
        // this function returns only when it is closed and nobody is inside.
        let job = unsafe { core::mem::transmute::<&Job<'_>, &'static Job<'static>>(job) };
        // SAFETY: the gate is closed and nobody inside, so no member reads the job (see `Shared`),
        // and `&mut self` keeps other callers out.
        unsafe { (*SHARED.job.get()).write(job) };
        SHARED.gate.open();
        job(0);
        SHARED.gate.close();
    }
}

/// A member's life: it ends with the process.
extern "C" fn member(argument: *mut c_void) -> *mut c_void {
    let member = argument.addr(); // it is no address
    let mut last = JobNumber::NONE;
    loop {
        last = SHARED.gate.enter(last);
        // SAFETY: this member is inside, so the job was written before the gate was opened, and
        // stays until it has left (see `Shared`).
        let job = unsafe { (*SHARED.job.get()).assume_init() };
        job(member);
        SHARED.gate.leave();
    }
}

/// Starts a thread, which inherits the processors that the caller is bound to.
fn spawn(number: usize, stack: &'static mut [u8]) -> Result<(), Errno> {
    let argument = core::ptr::without_provenance_mut(number);
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let mut thread = MaybeUninit::<libc::pthread_t>::uninit();
    // SAFETY: the attributes are initialised before use; the stack is this thread's alone, for
    // ever; `member` has the signature that pthread_create asks for.
    let result = unsafe {
        libc::pthread_attr_init(attributes.as_mut_ptr());
        libc::pthread_attr_setstack(
            attributes.as_mut_ptr(),
            stack.as_mut_ptr().cast(),
            stack.len(),
        );
        libc::pthread_create(thread.as_mut_ptr(), attributes.as_ptr(), member, argument)
    };
    match result {
        0 => Ok(()),
        errno => Err(Errno(errno)),
    }
}
