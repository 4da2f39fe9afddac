//! The model: what the file says it is, its weights, and the forward pass.

pub mod architecture;
mod bandwidth;
pub mod config;
mod error;
pub mod forward;
pub mod rope;
pub mod weights;

pub use config::Config;
pub use error::{ConfigError, Key};
pub use forward::{Engine, StepPlan};
pub use weights::{Embedding, Layer, Matrix, Weights};
