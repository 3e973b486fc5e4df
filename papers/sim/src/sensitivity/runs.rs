//! The runs of each [`Figure`] that show whether a constant moves it, as short as possible. The rows are not
//! the figure's values, but they change when those do.

use std::time::Duration;

use crate::constants::Figure::{self, *};
use crate::setting::Setting;

/// A parameter and its value; the others have their defaults.
type Set = (&'static str, Setting);

/// One experiment, a few times.
pub(super) struct Runs {
    of: Figure,
    pub(super) experiment: &'static str,
    pub(super) sets: &'static [&'static [Set]],
}

/// The runs of a figure.
///
/// # Panics
/// If it has none.
pub(super) fn of(figure: Figure) -> &'static Runs {
    ALL.iter().find(|runs| runs.of == figure).unwrap_or_else(|| panic!("{figure:?}: nothing is run"))
}

/// Livelock below and beyond each kernel's capacity; HIP with a slow clock, for few polls in traces that last
/// for minutes; timers of which some expire, and with a clock so fast that some are overdue.
static ALL: &[Runs] = &[
    Runs {
        of: Unmodified,
        experiment: "livelock",
        sets: &[&[rate(2_000), UNMODIFIED, SHORT], &[rate(7_000), UNMODIFIED, SHORT]],
    },
    Runs {
        of: UnmodifiedScreend,
        experiment: "livelock",
        sets: &[&[rate(3_000), UNMODIFIED, SCREEND, SHORT], &[rate(5_000), UNMODIFIED, SCREEND, SHORT]],
    },
    Runs {
        of: NoPolling,
        experiment: "livelock",
        sets: &[&[rate(2_000), NO_POLLING, SHORT], &[rate(7_000), NO_POLLING, SHORT]],
    },
    Runs { of: Quota5, experiment: "livelock", sets: &[&[rate(2_000), SHORT], &[rate(7_000), SHORT]] },
    Runs {
        of: Quotas,
        experiment: "livelock",
        sets: &[
            &[rate(2_000), quota(10), SHORT],
            &[rate(2_000), quota(100), SHORT],
            &[rate(7_000), quota(10), SHORT],
            &[rate(7_000), quota(100), SHORT],
        ],
    },
    // Quotas on both sides of the best one, at the rate of the page's row.
    Runs {
        of: BestQuota,
        experiment: "livelock",
        sets: &[
            &[rate(10_700), quota(7), SHORT],
            &[rate(10_700), quota(8), SHORT],
            &[rate(10_700), quota(9), SHORT],
            &[rate(10_700), quota(10), SHORT],
        ],
    },
    Runs {
        of: Feedback,
        experiment: "livelock",
        sets: &[
            &[rate(2_000), quota(10), SCREEND, choice("feedback", "yes"), SHORT],
            &[rate(7_000), quota(10), SCREEND, choice("feedback", "yes"), SHORT],
        ],
    },
    Runs {
        of: User,
        experiment: "livelock",
        sets: &[
            &[rate(2_000), USER, SHORT],
            &[rate(2_000), USER, limit("cpu-limit", 50), SHORT],
            &[rate(7_000), USER, SHORT],
            &[rate(7_000), USER, limit("cpu-limit", 50), SHORT],
        ],
    },
    Runs { of: FirstOfBurst, experiment: "livelock-burst", sets: &[&[count("burst", 4)]] },
    Runs {
        of: BurstOfThree,
        experiment: "livelock-burst",
        sets: &[&[NO_POLLING], &[choice("kernel", "polled")], &[choice("kernel", "eager")]],
    },
    Runs {
        of: Starvation,
        experiment: "livelock",
        sets: &[&[rate(6_000), UNMODIFIED, choice("ip", "interrupt"), choice("transmit", "lower"), SHORT]],
    },
    Runs {
        of: Captures,
        experiment: "livelock-monitor",
        sets: &[&[SHORT], &[choice("file", "null"), SHORT]],
    },
    Runs {
        of: HipInterrupts,
        experiment: "hip",
        sets: &[&table_3("interrupts", "counter"), &table_3("interrupts", "event")],
    },
    Runs {
        of: HipPolling,
        experiment: "hip",
        sets: &[&table_3("polling", "counter"), &table_3("polling", "event")],
    },
    Runs { of: Hip, experiment: "hip", sets: &[&table_3("hip", "counter"), &table_3("hip", "event")] },
    Runs {
        of: HipTradeOffs,
        experiment: "hip",
        sets: &[
            &trade_off("t-high-1"),
            &trade_off("t-high-2"),
            &trade_off("t-med-1"),
            &trade_off("t-med-2"),
            &trade_off("t-low-1"),
            &trade_off("t-low-2"),
        ],
    },
    Runs { of: Pacing, experiment: "pacing", sets: &[&[SHORT]] },
    Runs { of: PacingHardware, experiment: "pacing", sets: &[&[choice("strategy", "interrupts"), SHORT]] },
    Runs { of: SlowStart, experiment: "slowstart", sets: &[&[], &[count("packets", 5)]] },
    Runs {
        of: BigAcks,
        experiment: "pacing-acks",
        sets: &[
            &[choice("answer", "self-clocked"), millis("duration", 800)],
            &[choice("answer", "paced"), millis("duration", 800)],
            &[choice("answer", "maxburst"), millis("duration", 800)],
            &[choice("answer", "window-cut"), millis("duration", 800)],
        ],
    },
    Runs {
        of: Polling,
        experiment: "polling",
        sets: &[
            &[choice("server", "apache"), choice("protocol", "http"), count("packets", 500)],
            &[choice("server", "flash"), choice("protocol", "http"), count("packets", 500)],
            &[choice("server", "apache"), choice("protocol", "p-http"), count("packets", 500)],
        ],
    },
    Runs { of: Deadlines, experiment: "deadline", sets: &[&[SHORT]] },
    Runs { of: OldList, experiment: "callout", sets: &[&alone("old"), &expire("old"), &overdue("old")] },
    Runs { of: ByHash, experiment: "callout", sets: &[&alone("hash"), &expire("hash"), &overdue("hash")] },
    Runs {
        of: ByHandle,
        experiment: "callout",
        sets: &[&alone("handles"), &expire("handles"), &overdue("handles")],
    },
    Runs {
        of: FramesByTick,
        experiment: "framerate",
        sets: &[&[count("frames", 100), limit("hz", 100)], &[count("frames", 100), limit("hz", 1_000)]],
    },
    Runs {
        of: FramesSmart,
        experiment: "framerate",
        sets: &[&[count("frames", 100), ("hz", Setting::Limit(None))]],
    },
    Runs { of: Noise, experiment: "noise", sets: &[&[count("phases", 200)]] },
];

const UNMODIFIED: Set = choice("kernel", "unmodified");
const NO_POLLING: Set = choice("kernel", "no-polling");
const SCREEND: Set = choice("consumer", "screend");
const USER: Set = choice("user", "yes");
const SHORT: Set = millis("duration", 20);

const fn choice(name: &'static str, word: &'static str) -> Set {
    (name, Setting::Choice(word))
}

const fn count(name: &'static str, number: u64) -> Set {
    (name, Setting::Count(number))
}

const fn limit(name: &'static str, number: u64) -> Set {
    (name, Setting::Limit(Some(number)))
}

const fn millis(name: &'static str, millis: u64) -> Set {
    (name, Setting::Time(Duration::from_millis(millis)))
}

const fn rate(number: u64) -> Set {
    count("rate", number)
}

const fn quota(number: u64) -> Set {
    limit("quota", number)
}

const fn table_3(scheme: &'static str, reading: &'static str) -> [Set; 5] {
    [
        choice("scheme", scheme),
        choice("reading", reading),
        choice("fitted", reading),
        millis("t-min", 100),
        millis("t-max", 1_000),
    ]
}

const fn trade_off(name: &'static str) -> [Set; 4] {
    [
        choice("scheme", "hip"),
        choice("synthetic", name),
        ("gamma", Setting::Real(1.0)),
        ("phi", Setting::Real(1.0)),
    ]
}

const fn alone(kernel: &'static str) -> [Set; 3] {
    [choice("kernel", kernel), count("iterations", 300), count("outstanding", 50)]
}

const fn expire(kernel: &'static str) -> [Set; 6] {
    [
        choice("kernel", kernel),
        count("iterations", 300),
        count("outstanding", 50),
        limit("timeout", 2),
        ("cancelled", Setting::Real(50.0)),
        limit("rate", 1_000),
    ]
}

const fn overdue(kernel: &'static str) -> [Set; 6] {
    [
        choice("kernel", kernel),
        count("iterations", 300),
        count("outstanding", 50),
        limit("timeout", 1),
        ("cancelled", Setting::Real(0.0)),
        count("hz", 100_000),
    ]
}
