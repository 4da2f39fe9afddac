//! How far a long piece of work is: a bar on a person's terminal, a line a second elsewhere, as on
//! the console of a system that has no other program.

use crate::log::{Log, LogFormat, event};
use crate::notify::Notify;
use crate::sys;
use core::fmt::Write;
use core::sync::atomic::{AtomicU64, Ordering};
use heapless::String;

/// Time between two bars.
const BAR_NS: u64 = 100_000_000;
/// Time between two lines. Work that takes less shows none.
const LINE_NS: u64 = 1_000_000_000;
/// Cells of the bar.
const CELLS: u64 = 30;

/// The progress of one piece of work.
pub struct Progress<'l> {
    log: &'l Log,
    /// Who is told too.
    notify: Option<&'l Notify>,
    /// What is done, such as `load`.
    work: &'static str,
    /// Bytes there are to do.
    total: u64,
    /// Bytes done so far.
    pub done: u64,
    began: u64,
    bar: bool,
    /// When to show it next. Atomic only because a team's job borrows it: one member shows.
    next: AtomicU64,
}

impl<'l> Progress<'l> {
    /// Starts the clock.
    pub fn new(log: &'l Log, work: &'static str, total: u64) -> Self {
        let is_for_a_person = log.fd.is_terminal() && !sys::has_taken_over();
        let bar = !log.quiet && log.format == LogFormat::Text && is_for_a_person;
        let began = sys::now();
        Progress {
            log,
            notify: None,
            work,
            total,
            done: 0,
            began,
            bar,
            next: AtomicU64::new(began + if bar { BAR_NS } else { LINE_NS }),
        }
    }

    /// A service manager is told of it, and that it goes on.
    #[must_use]
    pub fn told_to(mut self, notify: &'l Notify) -> Self {
        notify.status(format_args!("{}ing 0 %", self.work));
        self.notify = Some(notify);
        self
    }

    /// Shows that so many bytes are done, if it is time.
    pub fn show(&self, done: u64) {
        if let Some(notify) = self.notify {
            notify.alive();
        }
        let now = sys::now();
        if now < self.next.load(Ordering::Relaxed) {
            return;
        }
        let step = if self.bar { BAR_NS } else { LINE_NS };
        self.next.store(now + step, Ordering::Relaxed);
        let mb_s = done as f64 * 1e3 / (now - self.began) as f64;
        let percent = (done * 100).checked_div(self.total).unwrap_or(100);
        if let Some(notify) = self.notify {
            notify.status(format_args!("{}ing {percent} %", self.work));
        }
        if self.bar {
            self.draw(percent, mb_s);
        } else {
            event!(
                self.log,
                "progress",
                text work = self.work,
                count percent = percent,
                decimal mb_s = mb_s,
            );
        }
    }

    fn draw(&self, percent: u64, mb_s: f64) {
        let mut line = String::<128>::new();
        // The longest line has room.
        let _ = write!(line, "\r{} [", self.work);
        for cell in 0..CELLS {
            let _ = line.push(if cell * 100 < percent * CELLS {
                '#'
            } else {
                '.'
            });
        }
        let _ = write!(line, "] {percent:3} % {mb_s:6.0} MB/s\x1b[K");
        let _ = self.log.fd.write_all(line.as_bytes()); // as the log's own lines
    }

    /// Milliseconds since the start, and the speed over all of it in MB/s.
    pub fn finish(self) -> (f64, f64) {
        let ns = (sys::now() - self.began) as f64;
        (ns / 1e6, self.done as f64 * 1e3 / ns)
    }
}

impl Drop for Progress<'_> {
    /// Removes the bar, whatever ended the work: the next line may be an error.
    fn drop(&mut self) {
        if self.bar {
            let _ = self.log.fd.write_all(b"\r\x1b[K"); // as above
        }
    }
}
