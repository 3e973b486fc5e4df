//! The figures that the simulated machines remake: [`Figure`]. What a constant moves, and was fitted to, is said by these.

/// A figure, a table or a statement of a paper with numbers, as far as one experiment shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "`about` says it of each, where it also can be printed")]
pub enum Figure {
    Unmodified,
    UnmodifiedScreend,
    NoPolling,
    Quota5,
    Quotas,
    BestQuota,
    Feedback,
    User,
    FirstOfBurst,
    BurstOfThree,
    Starvation,
    Captures,
    HipTraces,
    HipInterrupts,
    HipPolling,
    Hip,
    HipTradeOffs,
    Pacing,
    PacingHardware,
    SlowStart,
    BigAcks,
    Polling,
    Deadlines,
    OldList,
    ByHash,
    ByHandle,
    FramesByTick,
    FramesSmart,
    Noise,
}

use Figure::{
    BestQuota, BigAcks, BurstOfThree, ByHandle, ByHash, Captures, Deadlines, Feedback, FirstOfBurst,
    FramesByTick, FramesSmart, Hip, HipInterrupts, HipPolling, HipTraces, HipTradeOffs, NoPolling, Noise,
    OldList, Pacing, PacingHardware, Polling, Quota5, Quotas, SlowStart, Starvation, Unmodified,
    UnmodifiedScreend, User,
};

impl Figure {
    /// In the order of `docs/papers.md`.
    pub const ALL: [Figure; 29] = [
        Pacing,
        PacingHardware,
        SlowStart,
        Polling,
        Deadlines,
        BigAcks,
        Unmodified,
        NoPolling,
        UnmodifiedScreend,
        Quota5,
        Quotas,
        BestQuota,
        Feedback,
        User,
        FirstOfBurst,
        BurstOfThree,
        Starvation,
        Captures,
        HipTraces,
        HipInterrupts,
        HipPolling,
        Hip,
        HipTradeOffs,
        OldList,
        ByHash,
        ByHandle,
        FramesByTick,
        FramesSmart,
        Noise,
    ];

    /// Its name, as the list of constants prints it.
    pub fn about(self) -> &'static str {
        match self {
            Unmodified => "livelock figures 2 and 5, unmodified",
            UnmodifiedScreend => "livelock figure 2, with screend",
            NoPolling => "livelock figure 5, no polling",
            Quota5 => "livelock figure 5, quota of 5",
            Quotas => "livelock figure 7",
            BestQuota => "livelock §6.6.2",
            Feedback => "livelock figures 6 and 9",
            User => "livelock figure 10",
            FirstOfBurst => "livelock §4.3",
            BurstOfThree => "livelock §8.2",
            Starvation => "livelock §4.4",
            Captures => "livelock figure 15",
            HipTraces => "HIP Table 1",
            HipInterrupts => "HIP Table 3, interrupts",
            HipPolling => "HIP Table 3, polling",
            Hip => "HIP Table 3, HIP",
            HipTradeOffs => "HIP figures 3 and 4",
            Pacing => "soft timers Tables VIII and IX",
            PacingHardware => "soft timers §5.6, hardware timer",
            SlowStart => "soft timers Tables X and XI",
            BigAcks => "soft timers A.3",
            Polling => "soft timers Table XII",
            Deadlines => "soft timers Table XIII",
            OldList => "callouts Table I, old list",
            ByHash => "callouts Table I, by hash",
            ByHandle => "callouts Table I, by handle",
            FramesByTick => "smart timers figure 1",
            FramesSmart => "smart timers figure 1, smart",
            Noise => "smart timers §2.2",
        }
    }

    /// The first cells of its rows in `docs/papers.md`.
    pub fn rows(self) -> &'static [&'static str] {
        match self {
            Unmodified => &["Figure 2: unmodified kernel, peak", "the same, at 11,000 offered"],
            UnmodifiedScreend => &["the same with screend: livelock at"],
            NoPolling => &["Figure 5: without polling, at 11,000 offered"],
            Quota5 => &["Figure 5: polled, quota of 5"],
            Quotas => &["Figure 7: quota of 10 / 20 / 100 / none"],
            BestQuota => &["§6.6.2: the best quota"],
            Feedback => &["Figure 6: screend with feedback"],
            User => &["Figure 10: user's share at limits of 25 / 50 / 75 / 100%"],
            FirstOfBurst => &["§4.3: first packet of a burst, for each other one"],
            // In the page's text.
            BurstOfThree => &[],
            Starvation => &["§4.4: transmit starvation by priority"],
            Captures => &["§9: captures to disk go flat at"],
            HipTraces => &["Table 1: the traces"],
            HipInterrupts => &["Table 3: interrupts alone, µs a packet"],
            HipPolling => &["the same, polling"],
            Hip => {
                &["the same, HIP", "the same, HIP's delay, µs", "the same, HIP against polling at high rates"]
            }
            HipTradeOffs => &["Figures 3, 4: γ and φ"],
            Pacing => &[
                "Table VIII: 40 µs wanted, burst interval 12 / 35 µs",
                "Table IX: 60 µs held up to a burst interval of",
                "§5.6: deviation of the gaps",
            ],
            PacingHardware => &["§5.6: a hardware timer at 40 / 60 µs"],
            SlowStart => &[
                "Table XI: 100 packets, 100 Mbit/s, 100 ms: less than slow start",
                "Table X, XI: the largest transfers",
            ],
            BigAcks => &["A.3: transfers with big ACKs"],
            Polling => &["Table XII: throughput of a server that polls"],
            Deadlines => &["Table XIII: deadline of 10 / 50 µs: overhead"],
            OldList => &["Table I: set and cancel, 0 / 1,000 outstanding, old list"],
            ByHash => &["the same, wheel by function and argument"],
            ByHandle => &["the same, wheel by handle"],
            FramesByTick => &["Figure 1: 60 frames/s at 100 ticks a second"],
            FramesSmart => &["the same with smart timers"],
            Noise => &["§2.2: undelayed phases of 100 nodes, p of 1%"],
        }
    }
}
