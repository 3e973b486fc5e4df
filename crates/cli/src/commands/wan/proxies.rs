//! `wan --api`, `wan --proxies`: several named paths in one process, changed while it runs by an HTTP API that Toxiproxy's
//! clients understand.
//!
//! ```text
//!   a test ══ HTTP, loopback ══▶ api ─▶ registry ── orders ─▶ worker "db"    ─ a thread with a relay and its path
//!                                                        └──▶ worker "queue" ─ another
//! ```
//!
//! Each proxy has the path of the command line, and its own changes of that; its toxics are those of
//! [`softtimers_wan::toxic`].

mod answer;
pub(crate) mod args;
mod fields;
mod registry;
pub(crate) mod run;
mod serve;
mod show;
mod worker;
