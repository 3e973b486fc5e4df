//! Mogul and Ramakrishnan, *Eliminating Receive Livelock in an Interrupt-Driven Kernel*, TOCS 15(3), 1997.
//!
//! A router that takes every packet as it arrives livelocks; one that polls with a quota, or closes input by
//! feedback from a queue or by a limit on its CPU time, does not. The kernels are models; the quota, the
//! round robin, the feedback and the limit are `softtimers_poll`'s.
//!
//! ```text
//!   parameters ─▶ config ─▶ router ── interrupts │ polled ──▶ counters ──▶ kernels, mlfrr, figures, burst, monitor
//!                  costs                4.2BSD     core::poll                 closed: without simulation
//! ```
//!
//! | experiment | of the paper |
//! |---|---|
//! | [`LIVELOCK`] | one kernel at one rate: sections 4, 6 and 7, with all parameters |
//! | [`MLFRR`] | the loss-free rate and the behaviour under overload: sections 3.1, 4.2 |
//! | [`FIGURES`] | figures 2, 5, 6, 7, 9, 10, point by point |
//! | [`FIT`] | the free constants, fitted to all of these at once |
//! | [`BURST`] | first packets of bursts: sections 4.3, 8.2 |
//! | [`MONITOR`] | tcpdump: section 9 |

mod burst;
mod closed;
mod config;
mod costs;
mod figures;
mod fit;
mod generator;
mod kernels;
mod mlfrr;
mod monitor;
mod parameters;
mod router;

pub(super) use burst::BURST;
pub(super) use figures::FIGURES;
pub(super) use fit::FIT;
pub(super) use kernels::LIVELOCK;
pub(super) use mlfrr::MLFRR;
pub(super) use monitor::MONITOR;

#[cfg(test)]
mod tests;
