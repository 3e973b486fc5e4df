//! The benches of the papers: what their figures are on this machine, and the picture of the simulator's page.
//!
//! `cargo bench --manifest-path papers/Cargo.toml --bench NAME -- --help` prints the question of each.
#![forbid(unsafe_code)]

pub mod bench;
#[cfg(test)]
mod livelock;
pub mod pacing;
