//! Which processors to use: those of the fastest cluster, a thread a core, the fastest first.

use super::Root;
use crate::sys;
use core::cmp::Reverse;
use heapless::Vec;

/// Processors there are at most: bits of a mask.
const CPUS_MAX: usize = 64;

/// The processors to use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Processors {
    /// Their numbers: a processor of each core, the fastest first, then those that share a core
    /// with one of them.
    pub cpus: Vec<u32, CPUS_MAX>,
    /// How many of them are in the fastest cluster, those that share a core not counted.
    pub fastest: usize,
}

/// The processors that the process may run on, of those that `range` (a bit mask) allows. At most
/// 64; `None` if that leaves none.
pub fn processors(range: Option<u64>) -> Option<Processors> {
    let mask = sys::allowed_cpus() & range.unwrap_or(u64::MAX);
    Processors::among(Root::SYSTEM, mask)
}

impl Processors {
    /// The processors of a bit mask; `None` if it is empty. The kernel's mask of a process has none
    /// that are switched off.
    ///
    /// A cluster is what comes within a tenth of the fastest processor. Equal cores differ by less:
    /// the clusters of an RK3588 by what its chip was rated for, the favoured cores of x86-64 by up to
    /// a fifteenth of their frequency. The next kind of core is slower by more: work is shared out in
    /// small parts, so one that is slower by a tenth is waited for hardly longer than the others.
    pub fn among(root: Root<'_>, mask: u64) -> Option<Processors> {
        struct Processor {
            cpu: u32,
            speed: u64,
            /// How many processors of the mask share its core and come before it.
            thread: u32,
        }
        let numbers = (0..CPUS_MAX as u32).filter(|cpu| mask >> cpu & 1 == 1);
        let numbers: Vec<u32, CPUS_MAX> = numbers.collect();
        let each = numbers.iter().zip(speeds(root, &numbers));
        let each = each.map(|(&cpu, speed)| Processor {
            cpu,
            speed,
            thread: (siblings(root, cpu) & mask & ((1 << cpu) - 1)).count_ones(),
        });
        let mut each: Vec<Processor, CPUS_MAX> = each.collect();
        each.sort_unstable_by_key(|each| (each.thread, Reverse(each.speed), each.cpu));
        let most = u128::from(each.first()?.speed);
        let is_fast = |each: &&Processor| 10 * u128::from(each.speed) >= 9 * most;
        let cores = each.iter().filter(|each| each.thread == 0);
        Some(Processors {
            fastest: cores.filter(is_fast).count(),
            cpus: each.iter().map(|each| each.cpu).collect(),
        })
    }

    /// A processor for each of `threads` threads; they share where there are too few.
    pub fn assign(&self, threads: usize) -> Vec<u32, CPUS_MAX> {
        self.cpus.iter().copied().cycle().take(threads).collect()
    }
}

/// How fast processors are next to one another: by the first measure that tells any two of them
/// apart. One that it is missing for is taken for the slowest; measures are never mixed.
///
/// `cpu_capacity` knows how much a core does in a clock; where the device tree does not say, or on
/// x86-64, it is missing or the same for all, and the highest frequency has to do.
fn speeds(root: Root<'_>, cpus: &[u32]) -> Vec<u64, CPUS_MAX> {
    let folder = "/sys/devices/system/cpu/cpu";
    let mut speeds = Vec::new();
    for file in ["cpu_capacity", "cpufreq/cpuinfo_max_freq"] {
        let number = |cpu: &u32| root.number(format_args!("{folder}{cpu}/{file}"));
        speeds = cpus.iter().map(|cpu| number(cpu).unwrap_or(0)).collect();
        if speeds.iter().any(|&speed| speed != speeds[0]) {
            break;
        }
    }
    speeds
}

/// The processors that share a core with one, as a mask; none if the kernel does not say.
fn siblings(root: Root<'_>, cpu: u32) -> u64 {
    let folder = "/sys/devices/system/cpu/cpu";
    let path = format_args!("{folder}{cpu}/topology/thread_siblings_list");
    let list = root.text(path, &mut [0; 256]).and_then(cpu_mask);
    list.unwrap_or(0)
}

/// A list of processors as the kernel writes it, `0-3,6`, as a bit mask of the first 64. Nothing
/// that is no list, or none of processors below 64.
pub fn cpu_mask(list: &str) -> Option<u64> {
    let mut mask = 0;
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        if first > last || last >= CPUS_MAX as u32 {
            return None;
        }
        mask |= u64::MAX >> (63 - last) & u64::MAX << first;
    }
    Some(mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_is_a_mask() {
        for (list, mask) in [
            ("4-7", Some(0xf0)),
            ("0", Some(1)),
            ("0-63", Some(u64::MAX)),
            ("0-3,6\n", Some(0x4f)),
            ("7,0", Some(0x81)),
            ("7-4", None),
            ("64", None),
            ("0,64", None),
            ("0,", None),
            ("", None),
            ("-3", None),
            ("0--3", None),
            ("0-3-5", None),
            ("4294967296", None),
        ] {
            assert_eq!(cpu_mask(list), mask, "{list}");
        }
    }
}
