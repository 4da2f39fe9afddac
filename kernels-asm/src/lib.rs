//! Kernels over packed GGUF weights, and the one list of them.
#![no_std]
