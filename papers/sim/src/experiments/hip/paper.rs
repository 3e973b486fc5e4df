//! The paper's figures: Tables 1 and 3 of Dovrolis, Thayer and Ramanathan 2001.

use std::time::Duration;

/// One of its six traces of a workstation on 10 Mbit/s Ethernet, with its results.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct PaperTrace {
    /// T-High-1 and so on.
    pub(crate) name: &'static str,
    /// Table 1: from the first packet to the last.
    pub(crate) duration: Duration,
    /// Table 1: packets received.
    pub(crate) packets: u32,
    /// Table 1: average gap, in milliseconds.
    pub(crate) gap_ms: f64,
    /// Table 1: average packet length, in bytes.
    pub(crate) bytes: u16,
    /// The figures of Table 3.
    pub(crate) found: Table3,
}

/// A column of Table 3. Times in microseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Table3 {
    /// Interrupts only: the overhead, which equals the delay.
    pub(crate) interrupts_overhead: f64,
    /// Polling only, by HIP's periods.
    pub(crate) polling_overhead: f64,
    /// The overhead of HIP.
    pub(crate) overhead: f64,
    /// The delay of polling only.
    pub(crate) polling_delay: f64,
    /// The delay of HIP.
    pub(crate) delay: f64,
    /// HIP: how many interrupts.
    pub(crate) interrupts: u32,
    /// HIP: how many polls.
    pub(crate) polls: u32,
    /// HIP: how many of them were empty.
    pub(crate) unsuccessful: u32,
    /// HIP: over all polls. Packets per interrupt are 1.0 everywhere.
    pub(crate) packets_per_poll: f64,
}

impl Table3 {
    /// HIP's overhead computed from the counts beside it: interrupts, polls, bytes, and at most two changes
    /// of mode for each ten empty polls. For T-Med-1 the printed 2.6 is below the 2.8 that its counts give
    /// without any change.
    pub(crate) fn consistent_overhead(&self, packets: u32, bytes: u16) -> f64 {
        let looks = f64::from(self.interrupts) * 5.0 + f64::from(self.polls) * 0.5;
        let counted = looks / f64::from(packets) + 0.5 * f64::from(bytes) / 1_500.0;
        self.overhead.max(counted)
    }
}

/// Table 1 and Table 3.
pub(crate) const TRACES: [PaperTrace; 6] = [
    trace("t-high-1", 11_500, 4_502, 2.5, 904, [5.3, 0.9, 0.9, 1_698.0, 1_557.0], [103, 4_415, 1_813], 1.0),
    trace("t-high-2", 16_700, 5_407, 3.1, 949, [5.3, 0.9, 0.9, 1_640.0, 1_547.0], [111, 5_458, 2_224], 1.0),
    trace(
        "t-med-1",
        255_000,
        3_736,
        68.2,
        421,
        [5.1, 6.3, 2.6, 3_455.0, 1_074.0],
        [1_750, 2_429, 1_511],
        0.8,
    ),
    trace(
        "t-med-2",
        341_900,
        3_997,
        85.6,
        561,
        [5.2, 5.4, 4.1, 4_598.0, 1_321.0],
        [2_792, 2_726, 2_093],
        0.4,
    ),
    trace("t-low-1", 1_118_700, 3_779, 296.0, 90, [5.0, 18.4, 3.3, 3_919.0, 393.0], [2_329, 1_404, 825], 1.0),
    trace(
        "t-low-2",
        1_302_300,
        4_044,
        322.0,
        101,
        [5.0, 20.3, 3.4, 3_975.0, 367.0],
        [2_531, 1_504, 869],
        1.0,
    ),
];

#[expect(clippy::too_many_arguments, reason = "a column of a table")]
const fn trace(
    name: &'static str,
    duration_ms: u64,
    packets: u32,
    gap_ms: f64,
    bytes: u16,
    averages: [f64; 5],
    counts: [u32; 3],
    packets_per_poll: f64,
) -> PaperTrace {
    let [interrupts_overhead, polling_overhead, overhead, polling_delay, delay] = averages;
    let [interrupts, polls, unsuccessful] = counts;
    PaperTrace {
        name,
        duration: Duration::from_millis(duration_ms),
        packets,
        gap_ms,
        bytes,
        found: Table3 {
            interrupts_overhead,
            polling_overhead,
            overhead,
            polling_delay,
            delay,
            interrupts,
            polls,
            unsuccessful,
            packets_per_poll,
        },
    }
}
