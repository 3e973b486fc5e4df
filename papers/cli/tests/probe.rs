//! `probe`, by the real command, on the real kernel.

mod common;
#[path = "probe/kernel.rs"]
mod kernel;
