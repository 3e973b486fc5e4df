//! **Makes a released quinn send evenly**, without a fork. Packets leave a few at a time, at the rate that
//! congestion control allows, and slow start ends when the path is full. A short queue on the path drops
//! fewer of them.
//!
//! ```text
//!             quinn, as it is                       softtimers-quinn
//!   ┌──────────────────────────────────┐
//!   │ congestion controller ── window ─┼──▶ SmoothController: window ÷ round trip ─┐
//!   │ driver of a connection           │                                           ▼
//!   │   builds one transmit ───────────┼──▶ SmoothSocket::try_send ─▶ Gate: leave, or "would block"
//!   │   waits until writable ◀─────────┼─── SmoothPoller, a soft timer             │ one timer driver
//!   │   … or for the next ACK          │                                           │ for all of them
//!   └──────────────────────────────────┘                                           ▼ the socket
//! ```
//!
//! ```no_run
//! # async fn run(config: quinn::ClientConfig, addr: std::net::SocketAddr) -> Result<(), Box<dyn std::error::Error>> {
//! let endpoint = softtimers_quinn::client_with_transport(config, quinn::TransportConfig::default())?;
//! let connection = endpoint.connect(addr, "example.org")?.await?;
//! # drop(connection);
//! # Ok(()) }
//! # let _ = run;
//! ```
//!
//! Read in this order:
//!
//! 1. [`client_with_transport`] and [`server_with_transport`]: the usual entry points. They combine
//!    [`SmoothRuntime`] and [`SmoothController`].
//! 2. [`EvenCubic`]: the congestion controller, useful without the gate as well.
//! 3. [`gate`]: when a transmit may leave, and why not before.
//! 4. [`KnownCapacity`]: no slow start if the capacity is known.
//!
//! `docs/quinn.md` describes the gain, the cost, and when not to use it.
#![forbid(unsafe_code)]
#![doc(test(attr(deny(warnings))))]

mod controller;
mod counters;
mod current;
mod endpoint;
mod even;
pub mod gate;
mod known;
mod runtime;
mod shared;
mod socket;
mod timer;

pub use controller::SmoothController;
pub use counters::Counters;
pub use endpoint::{client_with_transport, server_with_transport, with_even_controller};
pub use even::EvenCubic;
pub use known::KnownCapacity;
pub use runtime::SmoothRuntime;

/// The programs of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
