//! How the processors are clocked and cooled at a moment, and whether they were held back between two.
//!
//! No source tells of every machine, so all are asked. A cooling device, or the firmware of a
//! Raspberry Pi, says so itself; a lower limit of the frequency is what a cooling device leaves
//! behind; x86-64 counts its interventions; and a clock that has fallen by more than a tenth while
//! there was work shows what nothing else tells of, such as a limit of power.

use super::Root;
use core::fmt::Arguments;
use heapless::String;

const CPU: &str = "/sys/devices/system/cpu/cpu";
const THERMAL: &str = "/sys/class/thermal";
/// Thermal zones, and cooling devices, that are looked for.
const DEVICES_MAX: usize = 32;

/// Processors at a moment. What cannot be read is absent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct State {
    /// Their current frequency, MHz; the mean, if they differ.
    pub mhz: Option<u64>,
    /// The highest that one of them is made for, MHz.
    pub mhz_max: Option<u64>,
    /// The hottest thermal zone of the machine, degrees Celsius.
    pub celsius: Option<i64>,
    /// The frequency that they may have now, MHz; the mean.
    limit_mhz: Option<u64>,
    /// Whether a cooling device holds processors back.
    cooled: Option<bool>,
    /// How often x86-64 processors held themselves back since they were switched on.
    interventions: Option<u64>,
    /// What the firmware of a Raspberry Pi says.
    firmware: Option<u32>,
}

/// Whether processors were held back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Throttled {
    /// They were: what says so, in a word.
    Yes(&'static str),
    /// No source says so.
    No,
    /// There is no source.
    Unknown,
}

impl Throttled {
    /// In the words of the log.
    pub fn name(self) -> &'static str {
        match self {
            Throttled::Yes(_) => "yes",
            Throttled::No => "no",
            Throttled::Unknown => "unknown",
        }
    }
}

impl State {
    /// Reads it for the processors `cpus`; the temperature is the machine's.
    pub fn read(root: Root<'_>, cpus: &[u32]) -> State {
        let frequency = |file: &'static str| {
            let each = cpus.iter().filter_map(move |&cpu| khz(root, cpu, file));
            each.map(|khz| khz / 1000)
        };
        State {
            mhz: mean(frequency("scaling_cur_freq")),
            mhz_max: frequency("cpuinfo_max_freq").max(),
            celsius: hottest(root),
            limit_mhz: mean(frequency("scaling_max_freq")),
            cooled: cooled(root),
            interventions: interventions(root, cpus),
            firmware: firmware(root),
        }
    }

    /// Whether the processors were held back from `before` until now.
    pub fn throttled_since(&self, before: &State) -> Throttled {
        // A source that was there at both moments, and what it says.
        let sources = [
            (
                "firmware",
                both(before.firmware, self.firmware, firmware_throttled),
            ),
            (
                "cooling",
                both(before.cooled, self.cooled, |before, now| before | now),
            ),
            (
                "limit",
                both(before.limit_mhz, self.limit_mhz, |before, now| now < before),
            ),
            (
                "count",
                both(before.interventions, self.interventions, |before, now| {
                    now > before
                }),
            ),
            ("frequency", both(before.mhz, self.mhz, has_fallen)),
        ];
        let says_so = sources.iter().find(|source| source.1 == Some(true));
        match says_so {
            Some(&(name, _)) => Throttled::Yes(name),
            None if sources.iter().all(|source| source.1.is_none()) => Throttled::Unknown,
            None => Throttled::No,
        }
    }
}

fn both<T>(before: Option<T>, now: Option<T>, say: impl Fn(T, T) -> bool) -> Option<bool> {
    Some(say(before?, now?))
}

fn has_fallen(before_mhz: u64, now_mhz: u64) -> bool {
    now_mhz < before_mhz - before_mhz / 10
}

fn mean(numbers: impl Iterator<Item = u64>) -> Option<u64> {
    let add = |(sum, count): (u64, u64), number| (sum.saturating_add(number), count + 1);
    let (sum, count) = numbers.fold((0, 0), add);
    sum.checked_div(count)
}

fn khz(root: Root<'_>, cpu: u32, file: &str) -> Option<u64> {
    root.number(format_args!("{CPU}{cpu}/cpufreq/{file}"))
}

/// The hottest thermal zone, degrees Celsius.
fn hottest(root: Root<'_>) -> Option<i64> {
    let zones = (0..DEVICES_MAX)
        .filter_map(|zone| root.signed(format_args!("{THERMAL}/thermal_zone{zone}/temp")));
    zones.max().map(|millidegrees| millidegrees / 1000)
}

/// Whether a cooling device of processors is at work. Fans are cooling devices too, and none of
/// these.
fn cooled(root: Root<'_>) -> Option<bool> {
    // Linux, drivers/thermal/cpufreq_cooling.c since 5.12 and before; drivers/acpi.
    const PROCESSORS: [&str; 3] = ["cpufreq-", "thermal-cpufreq-", "Processor"];
    let devices = (0..DEVICES_MAX).filter_map(|device| {
        let folder = format_args!("{THERMAL}/cooling_device{device}");
        let mut buffer = [0; 64];
        let kind = root.text(format_args!("{folder}/type"), &mut buffer)?;
        let is_ours = PROCESSORS.iter().any(|start| kind.starts_with(start));
        let state = root.number(format_args!("{folder}/cur_state"))?;
        is_ours.then_some(state > 0)
    });
    devices.reduce(|one, other| one | other)
}

/// How often x86-64 processors held themselves back, for heat of a core or of all.
fn interventions(root: Root<'_>, cpus: &[u32]) -> Option<u64> {
    let files = ["core_throttle_count", "package_throttle_count"];
    let counts = cpus.iter().flat_map(|cpu| {
        let count = move |file| root.number(format_args!("{CPU}{cpu}/thermal_throttle/{file}"));
        files.into_iter().filter_map(count)
    });
    counts.reduce(u64::saturating_add)
}

/// What the firmware of a Raspberry Pi says of its processors: the file is one of its own kernel,
/// which warns in its log of the first read after a start.
fn firmware(root: Root<'_>) -> Option<u32> {
    let read = |path: Arguments<'_>| {
        let mut buffer = [0; 32];
        u32::from_str_radix(root.text(path, &mut buffer)?.trim(), 16).ok()
    };
    // Raspberry Pi 3 and 4, and 5.
    ["soc", "soc@107c000000"].into_iter().find_map(|soc| {
        read(format_args!(
            "/sys/devices/platform/{soc}/{soc}:firmware/get_throttled"
        ))
    })
}

/// Bits of `get_throttled`: 1, 2 and 3 are a capped frequency, throttling and the soft limit of
/// temperature now, and 16 places higher since the start of the system.
fn firmware_throttled(before: u32, now: u32) -> bool {
    const NOW: u32 = 0b1110;
    now & NOW != 0 || (now & !before) >> 16 & NOW != 0
}

/// Who sets the frequency of a processor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Governor {
    /// Its name.
    pub name: String<32>,
    /// Whether it keeps the frequency at the least, whatever there is to do.
    pub is_slow: bool,
}

impl Governor {
    /// That of processor `cpu`.
    pub fn read(root: Root<'_>, cpu: u32) -> Option<Governor> {
        // Drivers with a governor of their own, which is called like the generic one, and does
        // more the more there is to do: Linux, Documentation/admin-guide/pm.
        const OWN: [&str; 2] = ["intel_pstate", "amd-pstate-epp"];
        let word = |file: &str| {
            let mut buffer = [0; 32];
            let text = root.text(format_args!("{CPU}{cpu}/cpufreq/{file}"), &mut buffer)?;
            String::<32>::try_from(text.trim()).ok()
        };
        let name = word("scaling_governor")?;
        let driver = word("scaling_driver").unwrap_or_default();
        let is_slow = name == "powersave" && !OWN.contains(&driver.as_str());
        Some(Governor { name, is_slow })
    }
}
