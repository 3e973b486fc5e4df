//! Which kernels and consumers use which parameters.

use super::config::Kernel;
use crate::Parameters;
use crate::experiment::Need;

pub(super) const LIVELOCK: &[Need] = &[
    Need { of: &["quota"], with: "a kernel that polls: polled, high-ipl, clocked", met: polls },
    Need {
        of: &["batching", "transmit", "ip"],
        with: "kernel unmodified or no-polling",
        met: |parameters| !polls(parameters),
    },
    Need {
        of: &["period"],
        with: "kernel clocked",
        met: |parameters| parameters.choice("kernel") == "clocked",
    },
    Need {
        of: &["high", "low", "timeout"],
        with: "feedback yes",
        met: |parameters| parameters.choice("feedback") == "yes",
    },
    Need {
        of: &["queue"],
        with: "consumer screend or monitor",
        met: |parameters| parameters.choice("consumer") != "kernel",
    },
    // Elsewhere a packet takes longer than the wire, so the transmitter is idle whenever one comes to it.
    Need {
        of: &["eager"],
        with: "a kernel that polls, ip interrupt or a cost below 100",
        met: |parameters| {
            polls(parameters) || parameters.choice("ip") == "interrupt" || parameters.count("cost") < 100
        },
    },
];

pub(super) const MLFRR: &[Need] = &[
    LIVELOCK[0],
    LIVELOCK[1],
    LIVELOCK[2],
    LIVELOCK[3],
    LIVELOCK[4],
    LIVELOCK[5],
    Need { of: &["rate"], with: "livelock, not with livelock-mlfrr, which searches for it,", met: |_| false },
];

fn polls(parameters: &Parameters) -> bool {
    Kernel::named(parameters.choice("kernel")).polls()
}
