//! What a run of `bench` will do.

use std::time::Duration;

use softtimers::Percent;
use softtimers::poll::AggregationConfig;

use crate::args::{BenchArgs, Beside, TrialLength};
use crate::failure::Failure;
use crate::forward::mode::{Looking, Mode};
use crate::output::Output;
use crate::units::show_duration;

/// A run of `bench`.
#[derive(Clone, PartialEq, Debug)]
pub struct BenchPlan {
    /// What is measured.
    pub receiver: ReceiverPlan,
    /// Datagrams back to back.
    pub burst: u32,
    /// How long it is sent to, each time.
    pub trial: TrialLength,
    /// What it is offered.
    pub offers: Offers,
    /// How to print the report.
    pub output: Output,
}

/// A receiver under overload.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ReceiverPlan {
    /// When it looks.
    pub looking: Looking,
    /// One thread, or two with a queue between.
    pub stages: u8,
    /// What the filter is to cost.
    pub work: Duration,
    /// The share of a processor that input may have.
    pub cpu_limit: Option<Percent>,
    /// The nice value of the second stage.
    pub nice: u8,
    /// What else wants its processor.
    pub beside: Beside,
    /// What is asked for, in bytes.
    pub recv_buffer: usize,
}

/// What a receiver is offered.
#[derive(Clone, PartialEq, Debug)]
pub enum Offers {
    /// Multiples of what it can do, which is found first.
    Multiples(Vec<f64>),
    /// These rates, in packets a second.
    Rates(Vec<u64>),
}

impl BenchPlan {
    /// Understands the arguments of `bench`.
    ///
    /// # Errors
    /// A usage failure that names the value and what is allowed.
    pub fn new(args: &BenchArgs) -> Result<Self, Failure> {
        if args.work > MOST_WORK {
            let (work, most) = (show_duration(args.work), show_duration(MOST_WORK));
            return Err(Failure::usage(format_args!("--work {work}: at most {most}")));
        }
        if args.nice.is_some() && args.stages == 1 {
            return Err(Failure::usage("--nice: for --stages 2, it is that of the second"));
        }
        let recv_buffer = usize::try_from(args.recv_buffer).ok();
        let recv_buffer =
            recv_buffer.filter(|bytes| (LEAST_BUFFER..=MOST_BUFFER).contains(bytes)).ok_or_else(|| {
                Failure::usage(format_args!("--recv-buffer {}B: 4KiB to 1GiB", args.recv_buffer))
            })?;
        let mut multiples = args.rates.clone();
        multiples.sort_by(f64::total_cmp);
        let offers =
            if args.at.is_empty() { Offers::Multiples(multiples) } else { Offers::Rates(args.at.clone()) };
        Ok(BenchPlan {
            receiver: ReceiverPlan {
                looking: looking(args)?,
                stages: args.stages,
                work: args.work,
                cpu_limit: cpu_limit(args)?,
                nice: args.nice.unwrap_or(0),
                beside: args.beside,
                recv_buffer,
            },
            burst: args.burst,
            trial: args.trial,
            offers,
            output: Output::from(&args.output),
        })
    }
}

impl TrialLength {
    /// How long it is at this rate.
    pub fn at(self, packets_per_second: f64) -> Duration {
        match self {
            TrialLength::Time(time) => time,
            TrialLength::Datagrams(number) => {
                let seconds = number as f64 / packets_per_second.max(1.0);
                Duration::from_secs_f64(seconds.clamp(SHORTEST.as_secs_f64(), LONGEST.as_secs_f64()))
            }
        }
    }
}

fn looking(args: &BenchArgs) -> Result<Looking, Failure> {
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

fn cpu_limit(args: &BenchArgs) -> Result<Option<Percent>, Failure> {
    match args.cpu_limit {
        Some(share) if share.get() == 0 => Err(Failure::usage("--cpu-limit 0%: 1% to 100%")),
        Some(_) if args.mode == Mode::Naive => Err(Failure::usage("--cpu-limit: --mode naive keeps none")),
        limit => Ok(limit),
    }
}

/// A datagram in a hundredth of a second leaves few for a trial.
const MOST_WORK: Duration = Duration::from_millis(10);
/// A few datagrams.
const LEAST_BUFFER: usize = 4 << 10;
/// What the system can count: it doubles what is asked for.
const MOST_BUFFER: usize = 1 << 30;
/// As the flag has it.
const DEFAULT_QUOTA: u32 = 64;
/// Of a trial of so many datagrams: a timer of 20 ms is to fire in it.
const SHORTEST: Duration = Duration::from_millis(40);
const LONGEST: Duration = Duration::from_secs(60);
