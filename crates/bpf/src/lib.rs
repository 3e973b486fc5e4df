//! The Linux kernel's own trigger states, through eBPF on an unmodified kernel: how often they occur, and
//! events that fire there.
//!
//! Soft timers (Aron and Druschel 2000) were a patch to FreeBSD: the kernel checked a clock at the end of
//! each system call, interrupt and exception. A BPF program at the tracepoint that marks such a point does
//! the same without a patch.
//!
//! ```text
//!   kernel ──▶ tracepoint ──▶ probe.bpf.c       intervals by the source that ended them ──▶ Probe
//!                        └──▶ softtimer.bpf.h   gate ─▶ wheel ─▶ your handler           ──▶ Facility, the experiments
//! ```
//!
//! [`Probe`] is the meter of `softtimers probe`. `include/softtimer.bpf.h` is for authors of BPF programs, in
//! C; [`Facility`] runs the paper's experiments with it. Both load objects that were compiled from the C
//! source beside them and are part of the crate, so building it needs no clang. Links are held by descriptor
//! and nothing is pinned: nothing stays in the kernel after the process ends, however it ends.
//!
//! Needs CAP_BPF and CAP_PERFMON, and a kernel with BTF: 5.8 for the probe, 6.7 for the facility. [`Error`]
//! says which of these is missing.

#![forbid(unsafe_code)]

mod batches;
mod egress;
mod error;
mod facility;
mod fast_path;
mod load;
mod object;
mod orders;
mod probe;
mod queues;
mod samples;
mod source;
mod tcp;
mod timers;

pub use batches::{BatchTotals, Batches, FlushedBy};
pub use egress::{Egress, EgressCounts, EgressPace};
pub use error::Error;
pub use facility::{Facility, FacilityRun, FacilityStats};
pub use fast_path::{FastCount, FastCounts, FastHook, FastPath, FastPolicy, FastRule, FastSide, FastTurns};
pub use object::{Verified, processors};
pub use orders::Events;
pub use probe::{Counted, Intervals, Probe, ProbeConfig, ProcessorIntervals};
pub use samples::Sample;
pub use source::Source;
pub use tcp::{TcpCapacity, TcpCounts, TcpPace, TcpWindow};
pub use timers::{TimerStats, Timers, TimersRun};

/// The programs of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
