//! GGUF bytes in, text out: the `no_std`, heap-free core of Rushlight.
#![no_std]

pub mod arena;
pub mod board;
pub mod chat;
pub mod cpu;
pub mod gguf;
pub mod log;
pub mod sampler;
pub mod sys;
pub mod tokenizer;
