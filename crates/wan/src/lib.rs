//! A network path in a test, or between two sockets, without root: rate, delay, jitter, reordering, a queue,
//! loss, duplicates and damage, each direction apart, the same for the same seed.
//!
//! netem does this in the kernel, for those who may change the kernel's queues. Here a path is a value. In a
//! test it runs in virtual time, and a minute of transfer takes as long as its packets take to compute:
//!
//! ```text
//!                         ┌──────────────── Wan ────────────────┐
//!   client ── offer Up ──▶│ queue ▐ link ▌ loss, copy ─ delay ─▶│── pop_due ──▶ server
//!     ▲                   │                                     │                 │
//!     └─────── pop_due ◀──│◀─ delay ─ copy, loss ▐ link ▌ queue │◀── offer Down ──┘
//!                         └─────────────────────────────────────┘
//!                            poll_at(): when to look next
//! ```
//!
//! - [`Wan`] and [`Direction`] are the model: packets in, packets out, time as an argument, no clock and no
//!   I/O. [`PathConfig`] has the parameters, [`Counters`] and [`Measured`] what became of them.
//! - `udp::Relay` and `tcp::Relay` (Linux) are the same model between sockets, for any number of clients;
//!   `interfaces::Bridge` is, with privileges, between two interfaces, for whatever crosses them; and `inside` makes
//!   networks in which nobody needs any.
//!
//! - `tokio` (feature of the same name) puts streams and datagrams of tokio behind a path, on a clock that can be paused.
//!
//! In the repository, `examples/wan` has QUIC of quinn-proto, TCP of smoltcp and a server of hyper over such a path.
//!
//! # What holds
//!
//! 1. **By the seed.** The same packets at the same times give the same deliveries, bit for bit, on every
//!    machine: integers throughout, no clock, and numbers at random that do not depend on how often one looks.
//! 2. **Exactly.** A busy link drifts by no nanosecond in any time, and the queue drops what it must: 9 of
//!    30 at once where 20 may wait.
//! 3. **Nothing unaccounted.** What was offered has come out, was dropped by the queue, lost, refused for want of
//!    room, or is held, and is counted as such.
//! 4. **Bounded.** What is held has a limit in packets and in bytes.
//! 5. **Changeable.** [`Direction::set`] neither loses nor reorders what is held, and a [`Scenario`] changes a path at
//!    exact times.
//!
//! # When not to use this
//!
//! - **You may load netem and want the whole machine's traffic shaped**, at rates of many Gbit/s: use netem.
//! - **Contention is the question**: many hops, routing, other flows' congestion control. This is one
//!   bottleneck each way; use ns-3 or the like.
//! - **You need a radio channel, not its effects.** A recording ([`DeliveryTrace`]) and loss in bursts
//!   ([`GilbertElliott`]) are effects.
//! - **Delays of microseconds in real time.** The relay is as late as its wake-ups, some 20 to 100 µs on a
//!   common machine; `lateness_ns` of [`Measured`] says how much. In virtual time there is no such bound.
#![forbid(unsafe_code)]
#![doc(test(attr(deny(warnings))))]

pub mod account;
pub mod aqm;
pub mod bottleneck;
pub mod change;
pub mod delay;
pub mod direction;
pub mod distribution;
#[cfg(feature = "tokio")]
mod endpoints;
#[cfg(any(target_os = "linux", feature = "tokio"))]
mod flow;
pub mod incidence;
#[cfg(target_os = "linux")]
pub mod inside;
#[cfg(target_os = "linux")]
pub mod interfaces;
#[cfg(target_os = "linux")]
pub mod live;
pub mod loss;
pub mod path;
pub mod probability;
#[doc(hidden)]
pub mod properties;
pub mod queue;
pub mod scenario;
pub mod slots;
#[cfg(target_os = "linux")]
pub mod tcp;
#[cfg(feature = "tokio")]
pub mod tokio;
pub mod toxic;
pub mod trace;
#[cfg(target_os = "linux")]
pub mod udp;
pub mod wan;

#[doc(inline)]
pub use account::{Counters, Measured};
#[doc(inline)]
pub use aqm::{Aqm, CodelConfig, FqCodelConfig, PieConfig};
#[doc(inline)]
pub use bottleneck::Bottleneck;
#[doc(inline)]
pub use change::Change;
#[doc(inline)]
pub use delay::{Ahead, Jitter, Late, Reorder, Spread};
#[doc(inline)]
pub use direction::{Admission, Delivery, Direction, Traits};
#[doc(inline)]
pub use distribution::{DelayTable, DelayTableError};
#[doc(inline)]
pub use incidence::Incidence;
#[doc(inline)]
pub use loss::{GilbertElliott, Loss};
#[doc(inline)]
pub use path::{PathConfig, PathError};
#[doc(inline)]
pub use probability::{Probability, ProbabilityError};
#[doc(inline)]
pub use queue::{Backlog, Limit, Queue};
#[doc(inline)]
pub use scenario::Scenario;
#[doc(inline)]
pub use slots::Slots;
#[doc(inline)]
pub use trace::{DeliveryTrace, TraceError};
#[doc(inline)]
pub use wan::{Wan, WanBuilder, Way};

/// The programs of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
