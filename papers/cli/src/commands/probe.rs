//! `probe`: how often this kernel passes trigger states, by BPF programs at its tracepoints.
//!
//! The kernel counts; this process only reads the counters, four times a second, and waits for the end of the run. So
//! an interval of the stream is as exact as the total.
//!
//! ```text
//!   calls without ─▶ attach ─▶ calls with ─▶ count anew ─▶ CMD, or the time, or a signal ─▶ report
//!            └── cost per trigger state ───────┘
//! ```

pub(crate) mod args;
mod caches;
mod companion;
mod cost;
mod run;
mod series;
mod show;
mod stats;
mod table;
