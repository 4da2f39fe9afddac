//! What this machine is: instruction-set features, processors and clusters, memory, heat.
//!
//! Everything is read from the kernel (auxiliary vector, `/proc`, `/sys`) or the processor itself.
//! What cannot be read is absent, never guessed.

use crate::sys;
use core::ffi::CStr;
use core::fmt::Write;
use heapless::{String, Vec};
use kernels_asm::features::{Core, Features};

/// The features of this processor that kernels may ask for.
#[cfg(target_arch = "x86_64")]
pub fn features() -> Features {
    use core::arch::x86_64::__cpuid_count;
    let bit = |register: u32, bit: u32| register >> bit & 1 == 1;
    if __cpuid_count(0, 0).eax < 7 {
        return Features::SSE2;
    }
    let (base, extended) = (__cpuid_count(1, 0), __cpuid_count(7, 0));
    let (more, osxsave) = (__cpuid_count(7, 1), bit(base.ecx, 27));
    // XCR0 says which registers the operating system saves: bits 1, 2 for AVX; 5, 6, 7 for AVX-512.
    let saved = if osxsave {
        extended_control_register()
    } else {
        0
    };
    let (ymm, zmm) = (saved & 0x06 == 0x06, saved & 0xe6 == 0xe6);
    let mut found = Features::SSE2;
    if ymm && bit(base.ecx, 12) && bit(base.ecx, 29) && bit(extended.ebx, 5) {
        found = found.with(Features::AVX2); // with FMA and F16C
        if bit(more.eax, 4) {
            found = found.with(Features::AVX_VNNI);
        }
        let avx512 = bit(extended.ebx, 16) && bit(extended.ebx, 30) && bit(extended.ebx, 31);
        if zmm && avx512 && bit(extended.ecx, 11) {
            found = found.with(Features::AVX512_VNNI);
        }
    }
    found
}

/// XCR0. Only where CPUID says OSXSAVE.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)] // one instruction that the intrinsics put behind a target feature
fn extended_control_register() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: the caller has seen OSXSAVE, so XGETBV exists; it reads a register.
    unsafe {
        core::arch::asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high,
            options(nomem, nostack));
    }
    u64::from(high) << 32 | u64::from(low)
}

/// The features of this processor that kernels may ask for.
#[cfg(target_arch = "aarch64")]
pub fn features() -> Features {
    // Linux, arch/arm64/include/uapi/asm/hwcap.h; the auxiliary vector's keys, include/uapi/linux.
    const AT_HWCAP: u64 = 16;
    const AT_HWCAP2: u64 = 26;
    const HWCAP_ASIMD: u64 = 1 << 1;
    const HWCAP_ASIMDDP: u64 = 1 << 20;
    const HWCAP2_I8MM: u64 = 1 << 13;
    let (first, second) = (sys::auxiliary(AT_HWCAP), sys::auxiliary(AT_HWCAP2));
    let mut found = Features::NONE;
    for (set, feature) in [
        (first & HWCAP_ASIMD, Features::NEON),
        (first & HWCAP_ASIMDDP, Features::DOTPROD),
        (second & HWCAP2_I8MM, Features::I8MM),
    ] {
        if set != 0 {
            found = found.with(feature);
        }
    }
    found
}

/// The features of this processor that kernels may ask for.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub fn features() -> Features {
    Features::NONE
}

/// How processors run instructions: it decides in which order kernels had better bring them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cores {
    /// In the order of the program, on one of them at least.
    InOrder,
    /// In an order of their own, on all of them.
    OutOfOrder,
    /// They do not say which they are.
    Unknown,
}

impl Cores {
    /// The core that kernels should be tuned for.
    ///
    /// Order costs a core that makes its own little, and lack of it costs one that does not much:
    /// what is unknown is taken for in-order.
    pub fn tuning(self) -> Option<Core> {
        match self {
            Cores::InOrder => Some(Core::CortexA55),
            Cores::Unknown if cfg!(target_arch = "aarch64") => Some(Core::CortexA55),
            Cores::Unknown | Cores::OutOfOrder => None,
        }
    }

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Cores::InOrder => "in-order",
            Cores::OutOfOrder => "out-of-order",
            Cores::Unknown => "unknown",
        }
    }
}

/// What the processors `cpus` are. Work is shared out evenly, so one in-order processor among them
/// decides, and one that cannot be told decides over those that order for themselves.
#[cfg(target_arch = "aarch64")]
pub fn cores(cpus: &[u32]) -> Cores {
    cores_among(cpus.iter().map(|&cpu| midr(cpu).map(of_midr)))
}

/// What the processors are: x86-64 has no kernels that depend on it.
#[cfg(not(target_arch = "aarch64"))]
pub fn cores(_cpus: &[u32]) -> Cores {
    Cores::Unknown
}

/// What decides among several.
#[cfg_attr(not(target_arch = "aarch64"), allow(dead_code))]
fn cores_among(each: impl Iterator<Item = Option<Cores>>) -> Cores {
    let worse = |one: Cores, other: Cores| match (one, other) {
        (Cores::InOrder, _) | (_, Cores::InOrder) => Cores::InOrder,
        (Cores::Unknown, _) | (_, Cores::Unknown) => Cores::Unknown,
        _ => Cores::OutOfOrder,
    };
    each.map(|cores| cores.unwrap_or(Cores::Unknown))
        .reduce(worse)
        .unwrap_or(Cores::Unknown)
}

/// What a main ID register says: an implementer in its highest byte, a part in bits 4 to 15.
///
/// In-order cores are few and listed; whatever else names itself is taken for out-of-order.
#[cfg_attr(not(target_arch = "aarch64"), allow(dead_code))]
fn of_midr(midr: u32) -> Cores {
    const ARM: u32 = 0x41;
    const QUALCOMM: u32 = 0x51;
    match (midr >> 24, midr >> 4 & 0xfff) {
        (0, _) => Cores::Unknown, // kept for software
        // Cortex-A34, A53, A35, A55, A510, A520, A320
        (ARM, 0xd02 | 0xd03 | 0xd04 | 0xd05 | 0xd46 | 0xd80 | 0xd8f) => Cores::InOrder,
        // Kryo Silver of the 2xx, 3xx and 4xx: A53 and A55 with changes
        (QUALCOMM, 0x801 | 0x803 | 0x805) => Cores::InOrder,
        _ => Cores::OutOfOrder,
    }
}

/// The main ID register of a processor: from sysfs, or where that has none (Linux before 4.7,
/// emulators) of the processor that this thread is on.
#[cfg(target_arch = "aarch64")]
fn midr(cpu: u32) -> Option<u32> {
    const AT_HWCAP: u64 = 16;
    const HWCAP_CPUID: u64 = 1 << 11;
    let path = numbered(format_args!(
        "/sys/devices/system/cpu/cpu{cpu}/regs/identification/midr_el1"
    ))?;
    let path = CStr::from_bytes_until_nul(path.as_bytes()).ok()?;
    let mut buffer = [0; 32];
    let listed = sys::read_small(path, &mut buffer).and_then(midr_in);
    let has_register = sys::auxiliary(AT_HWCAP) & HWCAP_CPUID != 0;
    listed.or_else(|| has_register.then(own_midr))
}

/// The register in a line of sysfs, as `0x00000000412fd050`.
#[cfg_attr(not(target_arch = "aarch64"), allow(dead_code))]
fn midr_in(line: &str) -> Option<u32> {
    u32::from_str_radix(line.trim().strip_prefix("0x")?, 16).ok()
}

/// The register itself. Only where the kernel says HWCAP_CPUID.
#[cfg(target_arch = "aarch64")]
#[allow(unsafe_code)] // one instruction that no intrinsic has
fn own_midr() -> u32 {
    let register: u64;
    // SAFETY: the caller has seen HWCAP_CPUID, so the kernel answers for this instruction, which
    // reads a register.
    unsafe {
        core::arch::asm!("mrs {}, midr_el1", out(reg) register,
            options(nomem, nostack, preserves_flags));
    }
    register as u32 // the upper half is zero
}

/// A path under `/sys` or `/proc` with a number in it, ready for the kernel.
fn numbered(args: core::fmt::Arguments<'_>) -> Option<String<640>> {
    let mut path = String::new();
    path.write_fmt(args).ok()?;
    path.push('\0').ok()?;
    Some(path)
}

/// The number in a file of one line.
fn number_in(args: core::fmt::Arguments<'_>) -> Option<u64> {
    let path = numbered(args)?;
    let path = CStr::from_bytes_until_nul(path.as_bytes()).ok()?;
    let mut buffer = [0; 32];
    sys::read_small(path, &mut buffer)?.trim().parse().ok()
}

/// How fast a processor is next to the others of the machine; 0 where the kernel does not say.
fn capacity(cpu: u32) -> u64 {
    let folder = "/sys/devices/system/cpu/cpu";
    number_in(format_args!("{folder}{cpu}/cpu_capacity"))
        .or_else(|| number_in(format_args!("{folder}{cpu}/cpufreq/cpuinfo_max_freq")))
        .unwrap_or(0)
}

/// The processors to use, fastest cluster first: those that the process may run on, or that
/// `range` (a bit mask) allows. At most 64; `None` if `range` leaves none.
pub fn processors(range: Option<u64>) -> Option<Processors> {
    let mask = sys::allowed_cpus() & range.unwrap_or(u64::MAX);
    if mask == 0 {
        return None;
    }
    let mut cpus: Vec<(u32, u64), 64> = Vec::new();
    for cpu in (0..64).filter(|cpu| mask >> cpu & 1 == 1) {
        let _ = cpus.push((cpu, capacity(cpu))); // 64 have room
    }
    cpus.sort_unstable_by_key(|&(cpu, capacity)| (core::cmp::Reverse(capacity), cpu));
    let fastest = cpus.iter().filter(|cpu| cpu.1 == cpus[0].1).count();
    Some(Processors {
        cpus: cpus.iter().map(|cpu| cpu.0).collect(),
        fastest,
    })
}

/// The processors to use.
pub struct Processors {
    /// Their numbers, fastest first.
    pub cpus: Vec<u32, 64>,
    /// How many of them are in the fastest cluster.
    pub fastest: usize,
}

impl Processors {
    /// A processor for each of `threads` threads; they share where there are too few.
    pub fn assign(&self, threads: usize) -> Vec<u32, 64> {
        self.cpus.iter().copied().cycle().take(threads).collect()
    }
}

/// The current frequency of a processor, MHz.
pub fn frequency_mhz(cpu: u32) -> Option<u64> {
    let folder = "/sys/devices/system/cpu/cpu";
    number_in(format_args!("{folder}{cpu}/cpufreq/scaling_cur_freq")).map(|khz| khz / 1000)
}

/// The hottest thermal zone, degrees Celsius.
pub fn temperature_c() -> Option<u64> {
    let zones = (0..8)
        .filter_map(|zone| number_in(format_args!("/sys/class/thermal/thermal_zone{zone}/temp")));
    zones.max().map(|millidegrees| millidegrees / 1000)
}

/// What `/proc/cpuinfo` calls the processor, or its part number on Arm.
pub fn model_name(buffer: &mut [u8; 4096]) -> &str {
    let text = sys::read_small(c"/proc/cpuinfo", buffer).unwrap_or_default();
    let value = |key: &str| {
        text.lines()
            .find(|line| line.starts_with(key))
            .and_then(|line| line.split(": ").nth(1))
    };
    value("model name")
        .or_else(|| value("CPU part"))
        .unwrap_or("unknown")
}

/// `MemAvailable` of `/proc/meminfo`, bytes.
pub fn memory_available() -> Option<u64> {
    let mut buffer = [0; 2048];
    let text = sys::read_small(c"/proc/meminfo", &mut buffer)?;
    let line = text
        .lines()
        .find(|line| line.starts_with("MemAvailable:"))?;
    line.split_ascii_whitespace()
        .nth(1)?
        .parse::<u64>()
        .ok()
        .map(|kib| kib * 1024)
}

/// The least memory limit of this process's control group and of those it is in, bytes: of
/// version 2 (`memory.max`), or of version 1 where that still rules memory.
pub fn cgroup_memory_max() -> Option<u64> {
    let mut buffer = [0; 8192]; // a path has 4096 bytes at most, and version 1 has a dozen
    let groups = sys::read_small(c"/proc/self/cgroup", &mut buffer)?;
    let limits = groups.lines().filter_map(memory_group).filter_map(|group| {
        let MemoryGroup { mount, path, file } = group;
        let upwards = core::iter::successors(Some(path), |path| {
            path.rsplit_once('/').map(|(parent, _)| parent)
        });
        let limits = upwards.filter_map(|path| number_in(format_args!("{mount}{path}/{file}")));
        limits.min()
    });
    limits.min()
}

/// A control group that may limit memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct MemoryGroup<'a> {
    /// Where the hierarchy is mounted.
    mount: &'static str,
    /// Its path below that, empty for the root.
    path: &'a str,
    /// The file with the limit.
    file: &'static str,
}

/// The group of a line of `/proc/self/cgroup`, which reads `number:controllers:path`.
fn memory_group(line: &str) -> Option<MemoryGroup<'_>> {
    let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
    let path = path.trim_end_matches('/');
    let rules_memory = controllers.split(',').any(|name| name == "memory");
    let (mount, file) = match controllers {
        "" => ("/sys/fs/cgroup", "memory.max"),
        _ if rules_memory => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        _ => return None,
    };
    Some(MemoryGroup { mount, path, file })
}

/// What this process holds of memory, KiB. Zeros where `/proc` is not mounted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resident {
    /// All of it.
    pub total_kb: u64,
    /// Its own: reservation, stack, data.
    pub anonymous_kb: u64,
    /// Pages of mapped files, which the kernel can drop and read again.
    pub file_kb: u64,
    /// The most that `total_kb` ever was.
    pub peak_kb: u64,
    /// The kernel's tables of this process's pages.
    pub page_tables_kb: u64,
}

/// What this process holds of memory now (`/proc/self/status`).
pub fn resident() -> Resident {
    let mut buffer = [0; 2048];
    let text = sys::read_small(c"/proc/self/status", &mut buffer).unwrap_or_default();
    let mut resident = Resident::default();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let slot = match words.next() {
            Some("VmRSS:") => &mut resident.total_kb,
            Some("RssAnon:") => &mut resident.anonymous_kb,
            Some("RssFile:") => &mut resident.file_kb,
            Some("VmHWM:") => &mut resident.peak_kb,
            Some("VmPTE:") => &mut resident.page_tables_kb,
            _ => continue,
        };
        *slot = words.next().and_then(|kib| kib.parse().ok()).unwrap_or(0);
    }
    resident
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_of_either_version_names_its_limit() {
        let found = memory_group("0::/user.slice/a:b");
        let (mount, file) = ("/sys/fs/cgroup", "memory.max");
        let path = "/user.slice/a:b";
        assert_eq!(found, Some(MemoryGroup { mount, path, file }));
        let found = memory_group("4:cpu,memory:/docker/1f/");
        let (mount, file) = ("/sys/fs/cgroup/memory", "memory.limit_in_bytes");
        let path = "/docker/1f";
        assert_eq!(found, Some(MemoryGroup { mount, path, file }));
        assert_eq!(memory_group("0::/").map(|group| group.path), Some(""));
        assert_eq!(memory_group("8:pids:/memory"), None);
        assert_eq!(memory_group("nonsense"), None);
    }

    #[test]
    fn in_order_cores_are_known_by_their_number() {
        for (line, expected) in [
            ("0x00000000412fd050\n", Cores::InOrder), // Cortex-A55 r2p0
            ("0x00000000410fd034\n", Cores::InOrder), // Cortex-A53
            ("0x00000000411fd461\n", Cores::InOrder), // Cortex-A510
            ("0x0000000051df805e\n", Cores::InOrder), // Kryo 4xx Silver
            ("0x00000000414fd0b1\n", Cores::OutOfOrder), // Cortex-A76
            ("0x00000000410fd083\n", Cores::OutOfOrder), // Cortex-A72
            ("0x00000000610f0220\n", Cores::OutOfOrder), // Apple
            ("0x0000000000000000\n", Cores::Unknown),
        ] {
            assert_eq!(midr_in(line).map(of_midr), Some(expected), "{line}");
        }
    }

    #[test]
    fn lines_that_hold_no_register_are_refused() {
        for line in ["", "0x", "412fd050", "0x00000001412fd050", "0x412fd05g"] {
            assert_eq!(midr_in(line), None, "{line}");
        }
    }

    #[test]
    fn one_in_order_processor_decides_and_then_one_that_is_unknown() {
        use Cores::{InOrder, OutOfOrder, Unknown};
        let among = |each: &[Option<Cores>]| cores_among(each.iter().copied());
        assert_eq!(among(&[Some(OutOfOrder), Some(InOrder), None]), InOrder);
        assert_eq!(among(&[Some(OutOfOrder), None]), Unknown);
        assert_eq!(among(&[Some(OutOfOrder); 4]), OutOfOrder);
        assert_eq!(among(&[Some(InOrder); 4]), InOrder);
        assert_eq!(among(&[]), Unknown);
    }

    #[test]
    fn unknown_cores_get_the_order_that_costs_least_if_wrong() {
        assert_eq!(Cores::InOrder.tuning(), Some(Core::CortexA55));
        assert_eq!(Cores::OutOfOrder.tuning(), None);
        let expected = cfg!(target_arch = "aarch64").then_some(Core::CortexA55);
        assert_eq!(Cores::Unknown.tuning(), expected);
    }
}
