//! What a board says of itself. A board is data: its program is one call.

/// A board's facts and defaults.
pub struct Board {
    /// Its name, in the logs.
    pub name: &'static str,
    /// Bytes that a run may take, where the board knows better than the kernel.
    pub memory_budget: Option<u64>,
    /// Context length unless `-c` is given; the model's own if that is shorter.
    pub context_default: usize,
}
