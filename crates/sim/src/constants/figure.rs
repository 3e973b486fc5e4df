//! The figures that the simulated machines remake: [`Figure`]. What a constant moves, and was fitted to, is said by these.

use std::time::Duration;

use super::Machine;
use crate::parameter::{Parameters, Setting};
use crate::streams::Streams;
use crate::table::Row;
use crate::watch::Steps;
use crate::{
    Experiment, acks, callout, deadline, framerate, hip, livelock, noise, pacing, polling, slowstart,
};

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

/// What is run of it, with which settings: as little as shows whether it moves.
type Runs = (&'static Experiment, Vec<Vec<(&'static str, Setting)>>);

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
            Unmodified => "livelock figure 2, without screend",
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
            Hip => &["the same, HIP", "the same, HIP's delay, µs"],
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

    /// The rows of a reduced run of it on this machine: not the figure's values, but they move when those do.
    ///
    /// # Panics
    /// If the experiment refuses its own settings.
    pub fn run(self, machine: &Machine) -> Vec<Row> {
        if self == HipTraces {
            return hip::traces_of(machine, Streams::new(1));
        }
        let (experiment, runs) = self.runs();
        let rows = runs.into_iter().flat_map(|set| {
            let base = Parameters::on(experiment.name, experiment.parameters, machine);
            let parameters = set.into_iter().fold(base, |all, (name, setting)| all.with(name, setting));
            let found = (experiment.run)(&parameters, Streams::new(1), &Steps::unwatched());
            found.unwrap_or_else(|error| panic!("{self:?}: {error}"))
        });
        rows.collect()
    }

    fn runs(self) -> Runs {
        let choice = |name, word| (name, Setting::Choice(word));
        let count = |name, number| (name, Setting::Count(number));
        let short = |set: Vec<(&'static str, Setting)>| -> Vec<(&'static str, Setting)> {
            set.into_iter().chain([("duration", Setting::Time(Duration::from_millis(20)))]).collect()
        };
        // Below and beyond what each kernel can.
        let router = |sets: Vec<Vec<(&'static str, Setting)>>| -> Runs {
            let at = |rate| {
                move |set: &Vec<(&'static str, Setting)>| -> Vec<(&'static str, Setting)> {
                    [("rate", Setting::Count(rate))].into_iter().chain(set.iter().cloned()).collect()
                }
            };
            let slow = sets.iter().map(at(2_000));
            (&livelock::LIVELOCK, slow.chain(sets.iter().map(at(7_000))).map(short).collect())
        };
        let limit = |name, limit| (name, Setting::Limit(Some(limit)));
        let screend = || choice("consumer", "screend");
        match self {
            Unmodified => router(vec![vec![choice("kernel", "unmodified")]]),
            UnmodifiedScreend => {
                router(vec![vec![choice("kernel", "unmodified"), screend(), count("rate", 5_000)]])
            }
            NoPolling => router(vec![vec![choice("kernel", "no-polling")]]),
            Quota5 => router(vec![vec![]]),
            Quotas => router(vec![vec![limit("quota", 10)], vec![limit("quota", 100)]]),
            BestQuota => router(vec![vec![limit("quota", 8)]]),
            Feedback => router(vec![vec![limit("quota", 10), screend(), choice("feedback", "yes")]]),
            User => {
                router(vec![vec![choice("user", "yes")], vec![choice("user", "yes"), limit("cpu-limit", 50)]])
            }
            FirstOfBurst => (&livelock::BURST, vec![vec![count("burst", 4)]]),
            BurstOfThree => {
                let kernels = ["no-polling", "polled", "eager"].map(|kernel| vec![choice("kernel", kernel)]);
                (&livelock::BURST, kernels.to_vec())
            }
            Starvation => router(vec![vec![
                choice("kernel", "unmodified"),
                choice("ip", "interrupt"),
                choice("transmit", "lower"),
                count("rate", 5_500),
            ]]),
            Captures => (&livelock::MONITOR, vec![short(vec![]), short(vec![choice("file", "null")])]),
            // See `run`: the distance from Table 3 takes too long.
            HipTraces => (&hip::HIP_TRACES, vec![]),
            HipInterrupts | HipPolling | Hip => {
                let scheme = match self {
                    HipInterrupts => "interrupts",
                    HipPolling => "polling",
                    _ => "hip",
                };
                // With a slow clock: few polls of traces that last for minutes.
                let millis = |name, millis| (name, Setting::Time(Duration::from_millis(millis)));
                let set = |reading| {
                    vec![
                        choice("scheme", scheme),
                        choice("reading", reading),
                        choice("fitted", reading),
                        millis("t-min", 100),
                        millis("t-max", 1_000),
                    ]
                };
                (&hip::HIP, HIP_READINGS.map(set).to_vec())
            }
            HipTradeOffs => {
                let set = |name| {
                    vec![
                        choice("scheme", "hip"),
                        choice("synthetic", name),
                        ("gamma", Setting::Real(1.0)),
                        ("phi", Setting::Real(1.0)),
                    ]
                };
                (
                    &hip::HIP,
                    ["t-high-1", "t-high-2", "t-med-1", "t-med-2", "t-low-1", "t-low-2"].map(set).to_vec(),
                )
            }
            Pacing => (&pacing::PACING, vec![short(vec![])]),
            PacingHardware => (&pacing::PACING, vec![short(vec![choice("strategy", "interrupts")])]),
            SlowStart => (&slowstart::SLOWSTART, vec![vec![], vec![count("packets", 5)]]),
            BigAcks => (
                &acks::ACKS,
                ["self-clocked", "paced", "maxburst", "window-cut"]
                    .map(|answer| {
                        vec![
                            choice("answer", answer),
                            ("duration", Setting::Time(Duration::from_millis(800))),
                        ]
                    })
                    .to_vec(),
            ),
            Polling => {
                let set = |(server, protocol)| {
                    vec![choice("server", server), choice("protocol", protocol), count("packets", 500)]
                };
                let sets = [("apache", "http"), ("flash", "http"), ("apache", "p-http")].map(set);
                (&polling::POLLING, sets.to_vec())
            }
            Deadlines => (&deadline::DEADLINE, vec![short(vec![])]),
            OldList | ByHash | ByHandle => {
                let kernel = match self {
                    OldList => "old",
                    ByHash => "hash",
                    _ => "handles",
                };
                // Some expire, so that each operation has its part.
                let set = |call: &[(&'static str, Setting)]| {
                    let mut set =
                        vec![choice("kernel", kernel), count("iterations", 300), count("outstanding", 50)];
                    set.extend_from_slice(call);
                    set
                };
                let expire = [limit("timeout", 2), ("cancelled", Setting::Real(50.0)), limit("rate", 1_000)];
                // So fast a clock that some are overdue.
                let overdue = [limit("timeout", 1), ("cancelled", Setting::Real(0.0)), count("hz", 100_000)];
                (&callout::CALLOUT, vec![set(&[]), set(&expire), set(&overdue)])
            }
            FramesByTick => {
                let set = |hz| vec![count("frames", 100), limit("hz", hz)];
                (&framerate::FRAMERATE, vec![set(100), set(1_000)])
            }
            FramesSmart => {
                (&framerate::FRAMERATE, vec![vec![count("frames", 100), ("hz", Setting::Limit(None))]])
            }
            Noise => (&noise::NOISE, vec![vec![count("phases", 200)]]),
        }
    }
}

const HIP_READINGS: [&str; 2] = ["counter", "event"];
