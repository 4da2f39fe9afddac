//! Cores, cycles and time: what of Linux the measurement needs.
#![allow(unsafe_code)] // system calls that the standard library does not have

use std::fs::{self, File};
use std::io::{self, Read};
use std::mem;
use std::os::fd::FromRawFd;

/// The cores that this process may run on.
pub fn allowed_cpus() -> Vec<usize> {
    // SAFETY: a `cpu_set_t` is an array of integers, of which all bits clear is a value.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    let size = mem::size_of_val(&set);
    // SAFETY: `set` is borrowed for writing and has `size` bytes; 0 is the calling thread.
    let result = unsafe { libc::sched_getaffinity(0, size, &raw mut set) };
    if result != 0 {
        return vec![0];
    }
    (0..8 * size)
        // SAFETY: `cpu` is below the number of bits in the set.
        .filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) })
        .collect()
}

/// Has the calling thread run on one core.
pub fn pin(cpu: usize) -> Result<(), String> {
    // SAFETY: a `cpu_set_t` is an array of integers, of which all bits clear is a value.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    let size = mem::size_of_val(&set);
    if cpu >= 8 * size {
        return Err(format!("there is no core {cpu}"));
    }
    // SAFETY: `cpu` is below the number of bits in the set.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: `set` has `size` bytes; 0 is the calling thread.
    match unsafe { libc::sched_setaffinity(0, size, &raw const set) } {
        0 => Ok(()),
        _ => Err(format!("core {cpu}: {}", io::Error::last_os_error())),
    }
}

/// What the calling thread has used of a core: other programs may take turns without being counted.
pub fn thread_seconds() -> f64 {
    let mut time = mem::MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: `time` is where the system may write the time that it is asked for.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, time.as_mut_ptr()) };
    assert_eq!(result, 0, "clock_gettime");
    // SAFETY: the call succeeded, so it wrote it.
    let time = unsafe { time.assume_init() };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The first version of the kernel's `perf_event_attr`, which every kernel still takes.
#[repr(C)]
struct EventAttributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}

/// Counts the cycles of the calling thread outside of the kernel, where that is allowed.
pub struct Cycles(File);

impl Cycles {
    /// A counter that runs, or none: not every kernel and container has them.
    pub fn open() -> Option<Self> {
        const EXCLUDE_KERNEL: u64 = 1 << 5;
        const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
        let attributes = EventAttributes {
            kind: 0, // PERF_TYPE_HARDWARE
            size: mem::size_of::<EventAttributes>() as u32,
            config: 0, // PERF_COUNT_HW_CPU_CYCLES
            sample_period: 0,
            sample_type: 0,
            read_format: 0,
            flags: EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR,
            wakeup_events: 0,
            breakpoint_type: 0,
            breakpoint_address: 0,
        };
        let (this_thread, any_cpu, no_group, no_flags) = (0_i32, -1_i32, -1_i32, 0_u64);
        // SAFETY: `attributes` is laid out and sized as the call reads it, and outlives it.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                this_thread,
                any_cpu,
                no_group,
                no_flags,
            )
        };
        let fd = i32::try_from(fd).ok().filter(|&fd| fd >= 0)?;
        // SAFETY: the call succeeded, so `fd` is open, and nothing else knows it.
        Some(Self(unsafe { File::from_raw_fd(fd) }))
    }

    /// What was counted so far.
    pub fn read(&mut self) -> Option<u64> {
        let mut count = [0; 8];
        self.0.read_exact(&mut count).ok()?;
        Some(u64::from_ne_bytes(count))
    }
}

/// The clock of a core in Hz, as the kernel last set it.
pub fn frequency(cpu: usize) -> Option<f64> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq");
    let kilohertz: f64 = fs::read_to_string(path).ok()?.trim().parse().ok()?;
    Some(kilohertz * 1e3)
}

/// What this machine calls itself.
pub fn machine() -> String {
    let model = fs::read_to_string("/proc/device-tree/model").ok();
    let model = model.map(|model| model.trim_end_matches('\0').to_owned());
    let field = |name| {
        let info = fs::read_to_string("/proc/cpuinfo").ok()?;
        let line = info.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let part = || field("CPU part").map(|part| format!("CPU part {part}"));
    let names = [model, field("model name").or_else(part)];
    let names: Vec<String> = names.into_iter().flatten().collect();
    match names.is_empty() {
        true => std::env::consts::ARCH.to_owned(),
        false => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowed_core_can_be_pinned_and_one_beyond_all_cannot() {
        let cpus = allowed_cpus();
        pin(cpus[0]).unwrap();
        assert_eq!(allowed_cpus(), [cpus[0]]);
        assert_eq!(pin(1 << 20).unwrap_err(), "there is no core 1048576");
    }
}
