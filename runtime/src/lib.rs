//! GGUF bytes in, text out: the `no_std`, heap-free core of Rushlight.
#![no_std]

pub mod arena;
pub mod gguf;
