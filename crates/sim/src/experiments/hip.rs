//! **HIP on a simulated machine**: when are polls better than interrupts, and by how much? The simulation of
//! Dovrolis, Thayer and Ramanathan, *HIP: Hybrid Interrupt-Polling for the Network Interface*, 2001, §6, with the
//! [`Hip`](softtimers_core::poll::Hip) that programs link, and everything it was or can be compared with.
//!
//! ```text
//!   recording, paper's trace, pattern ──▶ Receiver ──▶ ReceiveStats: the columns of Table 3
//!                                           │    ▲
//!                                  arrived, looked  next
//!                                           ▼    │
//!                                     core::poll: Hip, Interrupts, Watchdog, …
//! ```
//!
//! 1. `scheme` is what is compared, and what can be set of it; [`engine::receiver`](crate::engine::receiver) is the machine.
//! 2. `paper` is what the paper says, `traces` what stands for its lost traces, `fit` where that is from.
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
