//! GGUF bytes in, text out: the `no_std`, heap-free core of Rushlight.
//!
//! The data flow, in the order of a run:
//!
//! 1. [`options`] read the command line, `prompt` the prompt's text
//! 2. [`gguf`] checks the file's header, [`model::config`] reads the model's shape from it
//! 3. [`cpu`] says what the processor has, `kernels_asm::registry` chooses the kernels
//! 4. [`plan`] adds up the memory and compares it with the budget; [`arena`] is the one reservation
//! 5. [`load`] streams the tensors and packs them into the arena, or [`image`] maps them packed
//! 6. [`tokenizer`] and [`chat`] turn the prompt into token ids
//! 7. [`model::forward`] turns tokens into logits, with [`kv`] as its memory
//! 8. [`sampler`] picks a token, the tokenizer's stream turns it into text on stdout
//!
//! A prompt comes from the command line, or prompts come one after the other by the [`console`].
//!
//! `selftest` says whether a CPU and a build compute what they must, `golden` whether a model does.
//!
//! A service manager is told how it goes by [`notify`].
//!
//! [`trace`] tells a sink what happens when; nobody listens by default.
//!
//! Where the kernel starts nothing else, `init` comes first.
//!
//! [`entry`] is where a board's `main` comes in; [`sys`] is the only room that knows Linux.
#![no_std]

pub mod arena;
pub mod board;
pub mod chat;
mod commands;
pub mod console;
mod conversation;
pub mod cpu;
pub mod entry;
pub mod error;
mod generate;
pub mod gguf;
mod golden;
mod ids;
pub mod image;
mod init;
pub mod kv;
pub mod load;
pub mod log;
pub mod model;
mod model_file;
mod new_file;
pub mod notify;
pub mod options;
mod output;
pub mod plan;
pub mod profile;
pub mod progress;
mod prompt;
pub mod prompt_cache;
pub mod sampler;
mod selftest;
pub mod session;
pub mod sys;
pub mod tokenizer;
pub mod trace;
