//! `wan --api`, `wan --proxies`: several named paths in one process, changed while it runs by an HTTP API that Toxiproxy's
//! clients understand.
//!
//! ```text
//!   a test ══ HTTP, loopback ══▶ api ─▶ registry ── orders ─▶ worker "db"    ─ a thread with a relay and its path
//!   a shell ── Unix socket ── control ──▶   │           └──▶ worker "queue" ─ another, of datagrams
//!                                           └──────────────▶ worker "lab"   ─ a third, between two interfaces
//! ```
//!
//! Interfaces are opened before privileges are dropped, so only the initial file can name some; a disabled proxy keeps
//! its interfaces open and passes nothing.
//!
//! Each proxy has the path of the command line, with its own changes; its toxics are those of
//! [`softtimers_wan::toxic`].

mod answer;
mod control;
mod exposition;
mod fields;
pub(crate) mod plan;
mod proxy;
mod refusal;
mod registry;
pub(crate) mod run;
mod serve;
mod show;
mod worker;
