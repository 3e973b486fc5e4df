//! `probe`: how often this kernel passes trigger states, by BPF programs at its tracepoints.
//!
//! The kernel counts; this process only looks, four times a second, and waits for what ends the run. So what it
//! reports of an interval of the stream is as exact as the whole.
//!
//! ```text
//!   calls without ─▶ attach ─▶ calls with ─▶ count anew ─▶ CMD, or the time, or a signal ─▶ report
//!            └── what a trigger state costs more ──┘
//! ```

pub(crate) mod args;
mod caches;
mod companion;
mod cost;
mod run;
mod show;
mod stats;
mod table;
mod view;
