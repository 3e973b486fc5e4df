//! Sends paced UDP traffic from a loop that may be busy, and measures how it arrives: for the command `softtimers`, with
//! **no promise of a stable API**.
//!
//! ```text
//!   traffic ─▶ plan ─▶ send ─▶ engines ─▶ session ─▶ flow ══ wire ══▶ recv ─▶ ledger ─▶ statistics
//!   what       by whom  ask,    who        work,      counts            reads   judges
//!                       begin   notices    end        what left
//! ```
//!
//! - The content of a run: [`traffic`], a [`pattern`], a [`quantum`], or a [`recording`]; and its other [`work`].
//! - The timing: [`engines`], one file each behind one trait, in one list.
//! - The runs: [`send`], [`recv`], [`turns`] (engines compared in one process).
//! - Receivers without our traffic: [`mode`] says when they poll, [`overload`] what they deliver beyond their capacity.
//! - Shared by both ends: [`wire`], [`handshake`], [`receipt`], and [`gaps`], which measures evenness.
#![forbid(unsafe_code)]
#![doc(test(attr(deny(warnings))))]

pub mod dscp;
pub mod engines;
pub mod gaps;
pub mod handshake;
pub mod mode;
pub mod overload;
pub mod pattern;
pub mod plan;
#[doc(hidden)]
#[cfg(any(test, feature = "checks"))]
pub mod properties;
pub mod quantum;
pub mod receipt;
pub mod recording;
pub mod recv;
pub mod replay;
pub mod send;
mod session;
pub mod traffic;
pub mod train;
pub mod turns;
pub mod wire;
pub mod work;
