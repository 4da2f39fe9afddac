//! Memory: what the machine has left, what this process holds, and how soon the kernel would end it.

use super::Root;

/// `MemAvailable` of `/proc/meminfo`, bytes.
pub fn memory_available(root: Root<'_>) -> Option<u64> {
    let mut buffer = [0; 2048];
    let text = root.text(format_args!("/proc/meminfo"), &mut buffer)?;
    let line = text
        .lines()
        .find(|line| line.starts_with("MemAvailable:"))?;
    let kib: u64 = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
    kib.checked_mul(1024)
}

/// What the kernel adds to this process when it looks for one to end: from -1000, never, to 1000,
/// first.
pub fn oom_score_adj(root: Root<'_>) -> Option<i64> {
    root.signed(format_args!("/proc/self/oom_score_adj"))
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
    let text = Root::SYSTEM.text(format_args!("/proc/self/status"), &mut buffer);
    let mut resident = Resident::default();
    for line in text.unwrap_or_default().lines() {
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
