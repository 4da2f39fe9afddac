//! A team of threads that runs one job at a time, together.
//!
//! The caller is member 0. A job is announced by counting up an epoch; members wait for the next
//! epoch with a bounded spin and then sleep on a futex, so an idle team costs nothing and a machine
//! with fewer free processors than members does not burn its time slices. The caller waits for the
//! members the same way. There is one team in a process.

use super::{Errno, futex_wait, futex_wake_all, now, pin_to};
use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::hint::spin_loop;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

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
    /// Counts jobs up.
    epoch: AtomicU32,
    /// Members who have not finished the job.
    running: AtomicU32,
    /// Members asleep, waiting for the next epoch.
    sleepers: AtomicU32,
    /// Whether the caller sleeps, waiting for the members.
    caller_sleeps: AtomicU32,
    /// The job of this epoch. Written by the caller while no member runs; read by members after
    /// they have seen the epoch.
    job: UnsafeCell<MaybeUninit<&'static Job<'static>>>,
}

// SAFETY: `job` is written only in `Team::run` before the epoch's release store and while
// `running` is 0; members read it only after the acquire load that saw that epoch.
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared {
    taken: AtomicBool::new(false),
    epoch: AtomicU32::new(0),
    running: AtomicU32::new(0),
    sleepers: AtomicU32::new(0),
    caller_sleeps: AtomicU32::new(0),
    job: UnsafeCell::new(MaybeUninit::uninit()),
};

/// The process's team.
pub struct Team {
    members: usize,
}

impl Team {
    /// Starts `cpus.len() - 1` threads, each on its own stack of [`STACK_BYTES`], and binds them
    /// and the caller to `cpus`. `stacks` holds `(cpus.len() - 1) * STACK_BYTES` bytes.
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
        pin_to(cpus[0]);
        let members = cpus[1..].iter().zip(stacks.chunks_exact_mut(STACK_BYTES));
        for (index, (&cpu, stack)) in members.enumerate() {
            spawn(index + 1, cpu, stack)?;
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

    /// Runs `job(member)` on every member at once and returns when all are done. What the members
    /// wrote happens before the return.
    pub fn run(&mut self, job: &Job<'_>) {
        if self.members == 1 {
            return job(0);
        }
        // SAFETY: only the lifetime changes. Members use the reference only until they count
        // `running` down, and this function returns only when all of them have.
        let job = unsafe { core::mem::transmute::<&Job<'_>, &'static Job<'static>>(job) };
        // SAFETY: `running` is 0, so no member reads the job (see `Shared`), and `&mut self` keeps
        // other callers out.
        unsafe { (*SHARED.job.get()).write(job) };
        SHARED
            .running
            .store(self.members as u32 - 1, Ordering::Relaxed);
        // Sequentially consistent with a member's `sleepers` and `epoch`: either it sees the new
        // epoch before it sleeps, or it is seen here as a sleeper and woken.
        SHARED.epoch.fetch_add(1, Ordering::SeqCst);
        if SHARED.sleepers.load(Ordering::SeqCst) != 0 {
            futex_wake_all(&SHARED.epoch);
        }
        job(0);
        wait_for_members();
    }
}

fn wait_for_members() {
    if spin_until(|| SHARED.running.load(Ordering::Acquire) == 0) {
        return;
    }
    SHARED.caller_sleeps.store(1, Ordering::SeqCst);
    loop {
        let running = SHARED.running.load(Ordering::SeqCst);
        if running == 0 {
            break;
        }
        futex_wait(&SHARED.running, running);
    }
    SHARED.caller_sleeps.store(0, Ordering::Relaxed);
}

/// Waits until the epoch is no longer `seen`, and returns the new one.
fn wait_for_epoch(seen: u32) -> u32 {
    if spin_until(|| SHARED.epoch.load(Ordering::Acquire) != seen) {
        return SHARED.epoch.load(Ordering::Acquire);
    }
    SHARED.sleepers.fetch_add(1, Ordering::SeqCst);
    let epoch = loop {
        let epoch = SHARED.epoch.load(Ordering::SeqCst);
        if epoch != seen {
            break epoch;
        }
        futex_wait(&SHARED.epoch, seen);
    };
    SHARED.sleepers.fetch_sub(1, Ordering::SeqCst);
    epoch
}

/// A member's life: it ends with the process.
extern "C" fn member(argument: *mut c_void) -> *mut c_void {
    // The argument is no address: the member's number, and its processor above that.
    let packed = argument.addr();
    pin_to((packed >> 16) as u32);
    let mut epoch = 0;
    loop {
        epoch = wait_for_epoch(epoch);
        // SAFETY: the epoch was seen, so its job is written and stays until `running` is counted
        // down below (see `Shared`).
        let job = unsafe { (*SHARED.job.get()).assume_init() };
        job(packed & 0xffff);
        if SHARED.running.fetch_sub(1, Ordering::SeqCst) == 1
            && SHARED.caller_sleeps.load(Ordering::SeqCst) != 0
        {
            futex_wake_all(&SHARED.running);
        }
    }
}

fn spawn(index: usize, cpu: u32, stack: &'static mut [u8]) -> Result<(), Errno> {
    let argument = core::ptr::without_provenance_mut((cpu as usize) << 16 | index);
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
