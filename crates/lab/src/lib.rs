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
//! | bench | question |
//! |---|---|
//! | `work_kept` | how much work does a saturated loop keep beside a paced flow? |
//! | `timers` | what do setting, moving and expiring cost, by each structure of timers? |
//! | `callouts` | do set and cancel cost more, the more timers are outstanding (the BSD timers' Table I)? |
//! | `shared` | how long is the lock of shared timers held, when very many are due together? |
//! | `handover` | what does it cost to hand datagrams to the kernel, by each way and number at a time? |
//! | `kernel` | how often does the kernel pass trigger states, and what do events there cost a web server, against `bpf_timer`? |
//! | `null_events` | what does an event cost that does nothing, by each kind of timer? |
//! | `overload` | what does a receiver deliver at five times its capacity, and what does surviving cost when there is none? |
//! | `pacing` | the pacing experiments of the soft timers paper, live |
//! | `quinn` | what does quinn gain and cost if its packets leave evenly? |
//! | `server` | what does a web server gain that looks for requests, instead of being woken up for them (soft timers' Table XII)? |
//! | `quinn_start` | how long does a transfer take by slow start, and at the known capacity (Tables X and XI)? |
//!
//! Nothing depends on this crate and it is never published: nobody else builds the peers.
#![forbid(unsafe_code)]

pub mod bench;
pub mod callouts;
pub mod command;
pub mod cpu;
pub mod events;
pub mod least;
pub mod measure;
pub mod pacing;
pub mod random;
pub mod receivers;
pub mod render;
pub mod rig;
pub mod server;
pub mod start;
pub mod turns;
