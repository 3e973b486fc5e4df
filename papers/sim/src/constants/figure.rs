//! The figures that the simulated machines reproduce: [`Figure`]. Constants refer to these for what they move
//! and were fitted to.

/// A row: a figure, its name as the list of constants prints it, the first cells of its rows in `papers/docs/papers.md`.
macro_rules! figures {
    ($($figure:ident: $about:literal, [$($row:literal),*];)*) => {
        /// A figure, a table or a numerical statement of a paper, as far as one experiment reproduces it.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Figure {
            $(#[doc = concat!("Remade: ", $about, ".")] $figure,)*
        }

        impl Figure {
            /// All figures, in the order of `papers/docs/papers.md`.
            pub const ALL: &[Figure] = &[$(Figure::$figure),*];

            /// Returns its name, as the list of constants prints it.
            pub fn about(self) -> &'static str {
                match self {
                    $(Figure::$figure => $about,)*
                }
            }

            /// Returns the first cells of its rows in `papers/docs/papers.md`. A figure in the page's text has none.
            pub fn rows(self) -> &'static [&'static str] {
                match self {
                    $(Figure::$figure => &[$($row),*],)*
                }
            }
        }
    };
}

figures! {
    Pacing: "soft timers Tables VIII and IX", ["Table VIII: 40 µs wanted, burst interval 12 / 35 µs", "Table IX: 60 µs held up to a burst interval of", "§5.6: deviation of the gaps"];
    PacingHardware: "soft timers §5.6, hardware timer", ["§5.6: a hardware timer at 40 / 60 µs"];
    SlowStart: "soft timers Tables X and XI", ["Table XI: 100 packets, 100 Mbit/s, 100 ms: less than slow start", "Table X, XI: the largest transfers"];
    Polling: "soft timers Table XII", ["Table XII: throughput of a server that polls"];
    Deadlines: "soft timers Table XIII", ["Table XIII: deadline of 10 / 50 µs: overhead"];
    BigAcks: "soft timers A.3", ["A.3: transfers with big ACKs"];
    Unmodified: "livelock figures 2 and 5, unmodified", ["Figure 2: unmodified kernel, peak", "the same, at 11,000 offered"];
    NoPolling: "livelock figure 5, no polling", ["Figure 5: without polling, at 11,000 offered"];
    UnmodifiedScreend: "livelock figure 2, with screend", ["the same with screend: livelock at"];
    Quota5: "livelock figure 5, quota of 5", ["Figure 5: polled, quota of 5"];
    Quotas: "livelock figure 7", ["Figure 7: quota of 10 / 20 / 100 / none"];
    BestQuota: "livelock §6.6.2", ["§6.6.2: the best quota"];
    Feedback: "livelock figures 6 and 9", ["Figure 6: screend with feedback"];
    User: "livelock figure 10", ["Figure 10: user's share at limits of 25 / 50 / 75 / 100%"];
    FirstOfBurst: "livelock §4.3", ["§4.3: first packet of a burst, for each other one"];
    BurstOfThree: "livelock §8.2", [];
    Starvation: "livelock §4.4", ["§4.4: transmit starvation by priority"];
    Captures: "livelock figure 15", ["§9: captures to disk go flat at"];
    HipTraces: "HIP Table 1", ["Table 1: the traces"];
    HipInterrupts: "HIP Table 3, interrupts", ["Table 3: interrupts alone, µs a packet"];
    HipPolling: "HIP Table 3, polling", ["the same, polling"];
    Hip: "HIP Table 3, HIP", ["the same, HIP", "the same, HIP's delay, µs", "the same, HIP against polling at high rates"];
    HipTradeOffs: "HIP figures 3 and 4", ["Figures 3, 4: γ and φ"];
    OldList: "callouts Table I, old list", ["Table I: set and cancel, 0 / 1,000 outstanding, old list"];
    ByHash: "callouts Table I, by hash", ["the same, wheel by function and argument"];
    ByHandle: "callouts Table I, by handle", ["the same, wheel by handle"];
    FramesByTick: "smart timers figure 1", ["Figure 1: 60 frames/s at 100 ticks a second"];
    FramesSmart: "smart timers figure 1, smart", ["the same with smart timers"];
    Noise: "smart timers §2.2", ["§2.2: undelayed phases of 100 nodes, p of 1%"];
}
