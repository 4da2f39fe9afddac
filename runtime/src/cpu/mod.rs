//! What this machine is: instruction-set features, processors and clusters, clocks and heat, memory.
//!
//! Everything is read from the kernel (auxiliary vector, `/proc`, `/sys`) or the processor itself.
//! What cannot be read is absent, never guessed; files are read into buffers of a fixed size, and
//! whatever they hold is no reason to stop. Which processors are taken for what, and which files
//! say so, is in docs/boards.md.

mod cgroup;
mod clusters;
mod cores;
mod features;
mod memory;
mod root;
mod state;

pub use cgroup::MemoryLimits;
pub use clusters::{Processors, cpu_mask, processors};
pub use cores::{Cores, Kind, Kinds, cores};
pub use features::features;
pub use memory::{Resident, memory_available, oom_score_adj, resident};
pub use root::Root;
pub use state::{Governor, State, Throttled};
