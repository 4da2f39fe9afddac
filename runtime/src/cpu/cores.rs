//! Which cores the processors are, and how they run instructions.
//!
//! A 64-bit Arm core says which it is in its main ID register: the implementer in its highest byte,
//! a part in bits 4 to 15. Names and numbers are those of Linux's arch/arm64/include/asm/cputype.h.

use super::{Root, cpu_mask};
use crate::sys;
use core::fmt::{self, Display, Write};
use heapless::{String, Vec};
use kernels_asm::features::Core;

const ARM: u32 = 0x41;
const QUALCOMM: u32 = 0x51;

/// Cores by implementer and part; those that run instructions in the order of the program are all
/// in it, of the others those that boards have.
const PARTS: [(u32, u32, &str, Cores); 25] = [
    (ARM, 0xd02, "Cortex-A34", Cores::InOrder),
    (ARM, 0xd03, "Cortex-A53", Cores::InOrder),
    (ARM, 0xd04, "Cortex-A35", Cores::InOrder),
    (ARM, 0xd05, "Cortex-A55", Cores::InOrder),
    (ARM, 0xd46, "Cortex-A510", Cores::InOrder),
    (ARM, 0xd80, "Cortex-A520", Cores::InOrder),
    (ARM, 0xd8f, "Cortex-A320", Cores::InOrder),
    // A53 and A55 with changes
    (QUALCOMM, 0x801, "Kryo-2xx-Silver", Cores::InOrder),
    (QUALCOMM, 0x803, "Kryo-3xx-Silver", Cores::InOrder),
    (QUALCOMM, 0x805, "Kryo-4xx-Silver", Cores::InOrder),
    (ARM, 0xd07, "Cortex-A57", Cores::OutOfOrder),
    (ARM, 0xd08, "Cortex-A72", Cores::OutOfOrder),
    (ARM, 0xd09, "Cortex-A73", Cores::OutOfOrder),
    (ARM, 0xd0a, "Cortex-A75", Cores::OutOfOrder),
    (ARM, 0xd0b, "Cortex-A76", Cores::OutOfOrder),
    (ARM, 0xd0c, "Neoverse-N1", Cores::OutOfOrder),
    (ARM, 0xd0d, "Cortex-A77", Cores::OutOfOrder),
    (ARM, 0xd40, "Neoverse-V1", Cores::OutOfOrder),
    (ARM, 0xd41, "Cortex-A78", Cores::OutOfOrder),
    (ARM, 0xd44, "Cortex-X1", Cores::OutOfOrder),
    (ARM, 0xd47, "Cortex-A710", Cores::OutOfOrder),
    (ARM, 0xd49, "Neoverse-N2", Cores::OutOfOrder),
    (ARM, 0xd4d, "Cortex-A715", Cores::OutOfOrder),
    (ARM, 0xd4f, "Neoverse-V2", Cores::OutOfOrder),
    (ARM, 0xd81, "Cortex-A720", Cores::OutOfOrder),
];

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
    /// What the processors `cpus` are. Work is shared out evenly, so one in-order processor among
    /// them decides, and one that cannot be told decides over those that order for themselves.
    pub fn of(root: Root<'_>, cpus: &[u32]) -> Cores {
        Cores::among(cpus.iter().map(|&cpu| midr(root, cpu).map(order)))
    }

    /// What decides among several.
    fn among(each: impl Iterator<Item = Option<Cores>>) -> Cores {
        let worse = |one: Cores, other: Cores| match (one, other) {
            (Cores::InOrder, _) | (_, Cores::InOrder) => Cores::InOrder,
            (Cores::Unknown, _) | (_, Cores::Unknown) => Cores::Unknown,
            _ => Cores::OutOfOrder,
        };
        each.map(|cores| cores.unwrap_or(Cores::Unknown))
            .reduce(worse)
            .unwrap_or(Cores::Unknown)
    }

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

/// What the processors `cpus` of this system are.
pub fn cores(cpus: &[u32]) -> Cores {
    Cores::of(Root::SYSTEM, cpus)
}

/// Implementer and part of a main ID register.
fn part(midr: u32) -> (u32, u32) {
    (midr >> 24, midr >> 4 & 0xfff)
}

/// How a core runs instructions: whatever names itself and is not listed is taken for out-of-order.
fn order(midr: u32) -> Cores {
    let (implementer, number) = part(midr);
    let listed = PARTS.iter().find(|row| (row.0, row.1) == part(midr));
    match (listed, implementer, number) {
        (Some(row), ..) => row.3,
        (None, 0, _) => Cores::Unknown, // kept for software
        (None, ..) => Cores::OutOfOrder,
    }
}

/// The main ID register of a processor: from sysfs, or where that has none (Linux before 4.7,
/// emulators) of the processor that this thread is on.
fn midr(root: Root<'_>, cpu: u32) -> Option<u32> {
    let mut buffer = [0; 32];
    let path = format_args!("/sys/devices/system/cpu/cpu{cpu}/regs/identification/midr_el1");
    root.text(path, &mut buffer)
        .and_then(midr_in)
        .or_else(own_midr)
}

/// The register in a line of sysfs, as `0x00000000412fd050`.
fn midr_in(line: &str) -> Option<u32> {
    u32::from_str_radix(line.trim().strip_prefix("0x")?, 16).ok()
}

/// The register itself, where the kernel answers for it.
#[cfg(target_arch = "aarch64")]
#[allow(unsafe_code)] // one instruction that no intrinsic has
fn own_midr() -> Option<u32> {
    const AT_HWCAP: u64 = 16;
    const HWCAP_CPUID: u64 = 1 << 11;
    if sys::auxiliary(AT_HWCAP) & HWCAP_CPUID == 0 {
        return None;
    }
    let register: u64;
    // SAFETY: HWCAP_CPUID was seen above, so the kernel answers for this instruction, which reads
    // a register.
    unsafe {
        core::arch::asm!("mrs {}, midr_el1", out(reg) register,
            options(nomem, nostack, preserves_flags));
    }
    Some(register as u32) // the upper half is zero
}

/// Other processors have no such register.
#[cfg(not(target_arch = "aarch64"))]
fn own_midr() -> Option<u32> {
    None
}

/// Room for the name of a kind of processors.
const NAME_BYTES: usize = 64;
/// Kinds of processors that are told apart; no system on a chip has as many.
const KINDS_MAX: usize = 8;

/// Processors of one kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kind {
    /// The core, or on x86-64 the model.
    pub name: String<NAME_BYTES>,
    /// How many of it are switched on.
    pub count: usize,
}

/// The kinds of a machine's processors, in the order of their numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Kinds(pub Vec<Kind, KINDS_MAX>);

impl Kinds {
    /// What processors this machine has. Those beyond the first 64 are not counted.
    pub fn read(root: Root<'_>) -> Kinds {
        let mut kinds = Kinds::default();
        let online = root
            .text(
                format_args!("/sys/devices/system/cpu/online"),
                &mut [0; 256],
            )
            .and_then(cpu_mask);
        let online = online.unwrap_or_else(sys::allowed_cpus);
        let model = model_name(root);
        for cpu in (0..64).filter(|cpu| online >> cpu & 1 == 1) {
            kinds.count(&match midr(root, cpu) {
                Some(midr) => core_name(midr),
                None => model.clone(),
            });
        }
        kinds
    }

    fn count(&mut self, name: &str) {
        match self.0.iter_mut().find(|kind| kind.name == name) {
            Some(kind) => kind.count += 1,
            None => {
                let name = String::try_from(name).unwrap_or_default();
                let _ = self.0.push(Kind { name, count: 1 }); // more kinds than there are: not told
            }
        }
    }
}

/// `Cortex-A55+Cortex-A76`
impl Display for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, kind) in self.0.iter().enumerate() {
            let plus = if index == 0 { "" } else { "+" };
            write!(f, "{plus}{}", kind.name)?;
        }
        Ok(())
    }
}

/// What a core is called, or else its numbers.
fn core_name(midr: u32) -> String<NAME_BYTES> {
    let mut name = String::new();
    let (implementer, number) = part(midr);
    // Both fit.
    let _ = match PARTS.iter().find(|row| (row.0, row.1) == part(midr)) {
        Some(row) => name.write_str(row.2),
        None => write!(name, "{implementer:#04x}/{number:#05x}"),
    };
    name
}

/// What `/proc/cpuinfo` calls the first processor, or its part number on Arm.
fn model_name(root: Root<'_>) -> String<NAME_BYTES> {
    let mut buffer = [0; 4096];
    let text = root.text(format_args!("/proc/cpuinfo"), &mut buffer);
    let text = text.unwrap_or_default();
    let value = |key: &str| {
        text.lines()
            .find(|line| line.starts_with(key))
            .and_then(|line| line.split(": ").nth(1))
    };
    let name = value("model name").or_else(|| value("CPU part"));
    let mut short = String::new();
    for character in name.unwrap_or("unknown").trim().chars() {
        if short.push(character).is_err() {
            break; // cut
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_order_cores_are_known_by_their_number() {
        for (line, expected, name) in [
            ("0x00000000412fd050\n", Cores::InOrder, "Cortex-A55"),
            ("0x00000000410fd034\n", Cores::InOrder, "Cortex-A53"),
            ("0x00000000411fd461\n", Cores::InOrder, "Cortex-A510"),
            ("0x0000000051df805e\n", Cores::InOrder, "Kryo-4xx-Silver"),
            ("0x00000000414fd0b1\n", Cores::OutOfOrder, "Cortex-A76"),
            ("0x00000000410fd083\n", Cores::OutOfOrder, "Cortex-A72"),
            ("0x00000000610f0220\n", Cores::OutOfOrder, "0x61/0x022"), // Apple
            ("0x0000000000000000\n", Cores::Unknown, "0x00/0x000"),
        ] {
            let midr = midr_in(line).unwrap();
            assert_eq!((order(midr), core_name(midr).as_str()), (expected, name));
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
        let among = |each: &[Option<Cores>]| Cores::among(each.iter().copied());
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
