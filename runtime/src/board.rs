//! What a board says of itself. A board is data: its program is one call of [`main!`](crate::main).
//!
//! What the tools have to know of it before there is a program, its target and the bytes that the
//! program may have, is in its `Cargo.toml`. boards/README.md has the rules.

use crate::cpu::Kinds;
use core::fmt;

/// A board's facts and defaults.
pub struct Board {
    /// Its name, in the logs.
    pub name: &'static str,
    /// Bytes that a run may take, where the board knows better than the kernel. Never more than
    /// the kernel has left.
    pub memory_budget: Option<u64>,
    /// Its processors: how many, and of which core, as `cpu::Kinds` names it or a part of that; on
    /// x86-64 a name has more to it. None where they may be any.
    pub clusters: &'static [(usize, &'static str)],
    /// Its console as its kernel names it, `ttyS0:115200`: where the program is process 1, the
    /// kernel's command line names none, and the device is there.
    pub console: Option<&'static str>,
    /// Context length unless `-c` is given; the model's own if that is shorter.
    pub context_default: usize,
}

impl Board {
    /// Whether a machine with such processors may be this board. Some of them may be switched off.
    pub fn may_have(&self, kinds: &Kinds) -> bool {
        let has = |name: &str, count| {
            let mut clusters = self.clusters.iter();
            clusters.any(|&(most, core)| name.contains(core) && count <= most)
        };
        self.clusters.is_empty() || kinds.0.iter().all(|kind| has(&kind.name, kind.count))
    }
}

/// `rk3588 (4 Cortex-A76, 4 Cortex-A55)`
impl fmt::Display for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        for (index, (count, core)) in self.clusters.iter().enumerate() {
            let start = if index == 0 { " (" } else { ", " };
            write!(f, "{start}{count} {core}")?;
        }
        f.write_str(if self.clusters.is_empty() { "" } else { ")" })
    }
}

/// Makes a program of a [`Board`]: the function that the C library's start-up code calls, and the
/// panic handler.
#[macro_export]
macro_rules! main {
    ($board:expr) => {
        static BOARD: $crate::board::Board = $board;

        /// What the C library's start-up code calls.
        #[allow(unsafe_code)] // the symbol that crt1.o looks for, and its arguments
        #[unsafe(no_mangle)]
        extern "C" fn main(
            argc: ::core::ffi::c_int,
            argv: *const *const ::core::ffi::c_char,
        ) -> ::core::ffi::c_int {
            // SAFETY: the C library passes argc strings that live as long as the process.
            let arguments = unsafe { $crate::sys::Arguments::new(argc, argv) };
            $crate::entry::start(&BOARD, arguments)
        }

        #[panic_handler]
        fn panic(info: &::core::panic::PanicInfo<'_>) -> ! {
            $crate::entry::panicked(info)
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Kind;
    use heapless::{String, Vec};

    const BOARD: Board = Board {
        name: "two-plus-two",
        memory_budget: None,
        clusters: &[(2, "Cortex-A76"), (2, "N100")],
        console: None,
        context_default: 2048,
    };

    fn kinds(list: &[(&str, usize)]) -> Kinds {
        let kinds = list.iter().map(|&(name, count)| Kind {
            name: String::try_from(name).unwrap(),
            count,
        });
        Kinds(Vec::from_iter(kinds))
    }

    #[test]
    fn board_may_have_less_of_its_processors_and_no_others() {
        for (list, expected) in [
            (&[][..], true),
            (&[("Cortex-A76", 2)], true),
            (&[("Cortex-A76", 1), ("Intel(R) N100", 2)], true),
            (&[("Cortex-A76", 3)], false),
            (&[("Cortex-A76", 2), ("Cortex-A55", 1)], false),
        ] {
            assert_eq!(BOARD.may_have(&kinds(list)), expected, "{list:?}");
        }
        let anything = Board {
            clusters: &[],
            ..BOARD
        };
        assert!(anything.may_have(&kinds(&[("Cortex-A55", 9)])));
    }

    #[test]
    fn board_is_shown_with_its_processors() {
        let mut text = String::<64>::new();
        fmt::write(&mut text, format_args!("{BOARD}")).unwrap();
        assert_eq!(text, "two-plus-two (2 Cortex-A76, 2 N100)");
    }
}
