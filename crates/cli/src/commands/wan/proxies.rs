//! `wan --api`, `wan --proxies`: several named paths in one process, changed while it runs by an HTTP API that Toxiproxy's
//! clients understand.
//!
//! ```text
//!   a test ══ HTTP, loopback ══▶ api ─▶ registry ── orders ─▶ worker "db"    ─ a thread with a relay and its path
//!   a shell ── Unix socket ── control ──▶   │           └──▶ worker "queue" ─ another, of datagrams
//!                                           └──────────────▶ worker "lab"   ─ a third, between two interfaces
//! ```
//!
//! Interfaces are opened before rights are given up, so only the file that a run begins with names some; one that is disabled
//! stays open, and lets nothing through.
//!
//! Each proxy has the path of the command line, and its own changes of that; its toxics are those of
//! [`softtimers_wan::toxic`].

mod answer;
pub(crate) mod args;
mod control;
mod fields;
mod proxy;
mod refusal;
mod registry;
pub(crate) mod run;
mod serve;
mod show;
mod worker;
