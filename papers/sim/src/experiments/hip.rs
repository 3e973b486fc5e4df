//! **HIP on a simulated machine**: when are polls better than interrupts, and by how much? The simulation of
//! Dovrolis, Thayer and Ramanathan, *HIP: Hybrid Interrupt-Polling for the Network Interface*, 2001, §6, with
//! the same [`Hip`](softtimers_poll::Hip) that programs use, and every scheme that it was or can be compared
//! with.
//!
//! ```text
//!   recording, paper's trace, pattern ──▶ Receiver ──▶ ReceiveStats: the columns of Table 3
//!                                           │    ▲
//!                                  arrived, looked  next
//!                                           ▼    │
//!                                     core::poll: Hip, Interrupts, Watchdog, …
//! ```
//!
//! 1. `scheme` has the compared schemes and their settings; [`engine::receiver`](crate::engine::receiver) is
//!    the machine.
//! 2. `paper` has the paper's figures, `traces` the reconstruction of its lost traces, `fit` the search that
//!    produced it.
//! 3. [`HIP`] and [`HIP_TRACES`] are the experiments of the command.

mod fit;
mod needs;
mod paper;
mod parameters;
mod scheme;
mod source;
mod table_1;
mod table_3;
mod traces;

pub(super) use table_1::HIP_TRACES;
#[cfg(test)]
pub(crate) use table_1::traces_of;
pub(super) use table_3::HIP;

#[cfg(test)]
mod tests;
