//! A network path in a test, or between two sockets, without root: rate, delay, jitter, reordering, a queue, loss,
//! duplicates and damage, separately for each direction, and reproducible from a seed.
//!
//! netem does this in the kernel, for those who may change the kernel's queues. Here a path is a value. In a test it
//! runs in virtual time, and a minute of transfer takes only as long as computing its packets:
//!
//! ```text
//!                         ┌──────────────── Wan ────────────────┐
//!   client ── offer Up ──▶│ queue ▐ link ▌ loss, copy ─ delay ─▶│── pop_due ──▶ server
//!     ▲                   │                                     │                 │
//!     └─────── pop_due ◀──│◀─ delay ─ copy, loss ▐ link ▌ queue │◀── offer Down ──┘
//!                         └─────────────────────────────────────┘
//!                            poll_at(): when to call next
//! ```
//!
//! - [`Wan`] and [`Direction`] are the model: packets in, packets out, time as an argument, no clock and no I/O.
//!   [`PathConfig`] has the parameters, [`Counters`] and [`Measured`] the results.
//! - `Relay` (Linux) runs the same model between sockets, of datagrams or of streams, for any number of clients; or, with
//!   privileges, between two interfaces, for any traffic; and `inside` creates networks in which that needs no privileges.
//!
//! - `tokio` (feature of the same name) puts streams and datagrams of tokio behind a path, on a clock that can be paused.
//!
//! In the repository, `examples/wan` runs quinn-proto's QUIC, smoltcp's TCP and a hyper server over such a path.
//!
//! # Guarantees
//!
//! 1. **Reproducible.** The same packets at the same times give the same deliveries, bit for bit, on every machine:
//!    integers throughout, no clock, and random numbers that do not depend on when you call it.
//! 2. **Exact.** A busy link does not drift by a nanosecond, and the queue drops exactly what it must: 9 of 30 packets
//!    at once where 20 may wait.
//! 3. **Complete counts.** Every packet offered is counted: as out, dropped by the queue, lost, refused for want of
//!    room, or held.
//! 4. **Bounded.** Held packets have a limit in number and in bytes.
//! 5. **Changeable.** [`Direction::set`] neither loses nor reorders held packets, and a [`Scenario`] changes a path at
//!    exact times.
//!
//! # When not to use this
//!
//! - **You may load netem and want the whole machine's traffic shaped**, at rates of many Gbit/s: use netem.
//! - **Contention is your question**: many hops, routing, other flows' congestion control. This is one bottleneck in
//!   each direction; use ns-3 or the like.
//! - **You need a radio channel, not its effects.** A recording ([`DeliveryTrace`]) and loss in bursts
//!   ([`GilbertElliott`]) are effects.
//! - **You need delays of microseconds in real time.** The relay is late by its wake-ups, tens of microseconds on an
//!   idle machine; `lateness_ns` of [`Measured`] has the distribution. Virtual time has no such limit.
#![forbid(unsafe_code)]
#![doc(test(attr(deny(warnings))))]

mod account;
mod aqm;
mod bottleneck;
mod change;
mod delay;
mod direction;
mod distribution;
#[cfg(feature = "tokio")]
mod endpoints;
#[cfg(any(target_os = "linux", feature = "tokio"))]
mod flow;
mod incidence;
#[cfg(target_os = "linux")]
pub mod inside;
#[cfg(target_os = "linux")]
pub mod interfaces;
mod loss;
mod path;
mod probability;
#[doc(hidden)]
#[cfg(any(test, feature = "checks"))]
pub mod properties;
mod queue;
#[cfg(target_os = "linux")]
mod relay;
#[cfg(any(target_os = "linux", feature = "tokio"))]
mod repairs;
mod scenario;
mod slots;
#[cfg(target_os = "linux")]
pub mod tcp;
#[cfg(feature = "tokio")]
pub mod tokio;
pub mod toxic;
mod trace;
#[cfg(target_os = "linux")]
pub mod udp;
mod wan;

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
pub use loss::{FourStates, GilbertElliott, Loss};
#[doc(inline)]
pub use path::{PathConfig, PathError};
#[doc(inline)]
pub use probability::{Probability, ProbabilityError};
#[doc(inline)]
pub use queue::{Backlog, Limit, Queue};
#[cfg(target_os = "linux")]
#[doc(inline)]
pub use relay::{Carried, EdgeStats, Ended, Relay};
#[doc(inline)]
pub use scenario::Scenario;
#[doc(inline)]
pub use slots::Slots;
#[doc(inline)]
pub use trace::{DeliveryTrace, TraceError};
#[doc(inline)]
pub use wan::{Wan, WanBuilder, Way};

/// Compiles the programs of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
