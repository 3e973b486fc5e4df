//! softtimers beside what programs use today: what the benches of `cargo bench -p softtimers-lab` share, the rig, and the
//! published figures.
//!
//! Each bench compares in one run, for this machine's speed is another one a second later
//! ([`paired`](softtimers_measure::paired)). The engines are those of the command, so what is measured is what ships; what a
//! peer needs only a bench sees.
//!
//! ```text
//!   cargo bench -p softtimers-lab --bench NAME ──┐
//!   cargo lab measure: the command, C, benches ──┼─▶ tables, bars ──▶ --json FILE ──▶ docs/data ──▶ cargo lab render ──▶ docs
//!   cargo lab rig: between interfaces ───────────┘
//! ```
//!
//! The question of each bench is in [`bench::BENCHES`], and `cargo bench -p softtimers-lab --bench NAME -- --help` says it.
//!
//! Nothing depends on this crate and it is never published: nobody else builds the peers.
#![forbid(unsafe_code)]

pub mod bench;
pub mod command;
pub mod cpu;
pub mod events;
pub mod figures;
pub mod least;
pub mod measure;
pub mod pacing;
mod pages;
mod pictures;
pub mod random;
pub mod receivers;
pub mod render;
pub mod rig;
pub mod server;
pub mod start;
pub mod traffic;
pub mod turns;
