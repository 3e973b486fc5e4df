//! Compares softtimers with the solutions that programs use today: shared code of the benches, the rig, and the published figures.
//!
//! Each bench compares within one run, since this machine's speed changes from one second to the next
//! ([`paired`](softtimers_trials::paired)). The engines are the command's, so the benches measure the shipped code;
//! code for peers is only in the benches.
//!
//! ```text
//!   cargo bench --manifest-path bench/Cargo.toml --bench NAME ──┐
//!   cargo lab measure: the command, C, benches ──┼─▶ tables, bars ──▶ --json FILE ──▶ docs/data ──▶ cargo xtask render ──▶ docs
//!   cargo lab rig: between interfaces, loaded by cargo lab generate ┘
//! ```
//!
//! [`bench::BENCHES`] has the question of each bench, and `cargo bench --manifest-path bench/Cargo.toml --bench NAME -- --help` prints
//! it.
//!
//! No crate depends on this one, and it is never published, so no user builds the peers.
#![forbid(unsafe_code)]

pub mod bench;
pub mod figures;
pub mod generate;
pub mod least;
pub mod measure;
pub mod receivers;
pub mod rig;
pub mod server;
pub mod start;
pub mod traffic;
