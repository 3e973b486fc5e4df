//! What a receiver of packets is asked for: the same of `bench` and of `forward`.

use softtimers::Percent;
use softtimers_poll::AggregationConfig;

use crate::args::{DEFAULT_QUOTA, ReceivingArgs};
use crate::failure::Failure;
use crate::forward::mode::{Looking, Mode};

/// What a mode has no use for is refused, or it would seem to have been tried.
pub(super) fn looking(args: &ReceivingArgs) -> Result<Looking, Failure> {
    let mode = args.mode;
    if args.aggregate.is_some() && !mode.aggregates() {
        return Err(Failure::usage("--aggregate: for --mode poll and hybrid"));
    }
    if args.max_delay.is_some() && mode.default_delay().is_none() {
        return Err(Failure::usage("--max-delay: for --mode poll, hybrid and hip"));
    }
    if args.quota != DEFAULT_QUOTA && mode == Mode::Naive {
        return Err(Failure::usage(format_args!("--quota {}: --mode naive has none", args.quota)));
    }
    let aggregate = args.aggregate.unwrap_or(AggregationConfig::default().quota);
    Ok(Looking { mode, quota: args.quota, aggregate, max_delay: args.max_delay.or(mode.default_delay()) })
}

pub(super) fn cpu_limit(args: &ReceivingArgs) -> Result<Option<Percent>, Failure> {
    match args.cpu_limit {
        Some(share) if share.get() == 0 => Err(Failure::usage("--cpu-limit 0%: 1% to 100%")),
        // Its turns do not end.
        Some(_) if args.mode == Mode::Naive => Err(Failure::usage("--cpu-limit: --mode naive keeps none")),
        limit => Ok(limit),
    }
}

pub(super) fn recv_buffer(bytes: u64) -> Result<usize, Failure> {
    usize::try_from(bytes)
        .ok()
        .filter(|bytes| (LEAST_BUFFER..=MOST_BUFFER).contains(bytes))
        .ok_or_else(|| Failure::usage(format_args!("--recv-buffer {bytes}B: 4KiB to 1GiB")))
}

/// A few datagrams.
const LEAST_BUFFER: usize = 4 << 10;
/// What the system can count: it doubles what is asked for.
const MOST_BUFFER: usize = 1 << 30;
