//! **HIP on a simulated machine**: when are polls better than interrupts, and by how much? The simulation of
//! Dovrolis, Thayer and Ramanathan, *HIP: Hybrid Interrupt-Polling for the Network Interface*, 2001, §6, with the
//! [`Hip`](softtimers_core::poll::Hip) that programs link, and everything it was or can be compared with.
//!
//! ```text
//!   recording, paper's trace, pattern ──▶ Receiver ──▶ Account: the columns of Table 3
//!                                           │    ▲
//!                                  arrived, looked  next
//!                                           ▼    │
//!                                     core::poll: Hip, Interrupts, Watchdog, …
//! ```
//!
//! 1. [`Scheme`] is what is compared, [`Settings`] what can be set of it, [`Receiver`] the machine, [`Timing`] how a
//!    poll comes about on it, [`Event`] its log.
//! 2. [`paper`] is what the paper says, [`traces`] what stands for its lost traces, [`fit`] where that is from.
//! 3. [`HIP`] and [`HIP_TRACES`] are the experiments of the command.

mod account;
mod experiment;
pub mod fit;
mod needs;
pub mod paper;
mod parameters;
mod receiver;
mod scheme;
mod source;
mod table_1;
mod timing;
pub mod traces;

pub use account::Account;
pub use experiment::HIP;
pub use receiver::{Event, Receiver};
pub use scheme::{Scheme, Settings};
pub use table_1::HIP_TRACES;
pub(crate) use table_1::traces_of;
pub use timing::{Passing, Soft, Timing};

#[cfg(test)]
mod tests;
