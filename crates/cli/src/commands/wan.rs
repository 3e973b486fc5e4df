//! `softtimers wan`: a network path in front of a command or between two addresses, without root; with privileges, between
//! two interfaces.
//!
//! [`softtimers_wan`] is the path; this module has the flags, the control socket and the summary.
//!
//! ```text
//!   clients ──▶ --listen ─▶ [ queue ▐ rate ▌ loss, delay ] ─▶ --to
//!                       ◀─ [ delay, loss ▌ rate ▐ queue ] ◀─
//!                 --control: set up delay 50ms │ SIGTERM: the summary
//! ```

pub(crate) mod args;
pub(crate) mod control;
pub(crate) mod delays;
pub(crate) mod ends;
pub(crate) mod inside;
mod lateness;
mod lines;
mod live;
mod picture;
pub(crate) mod plan;
mod profile;
pub(crate) mod proxies;
mod record;
pub(crate) mod run;
pub(crate) mod scenario;
mod seconds;
pub(crate) mod self_test;
mod served;
mod setting;
mod show;
mod table;
