//! What a run of `bench` will do.

use std::time::Duration;

use softtimers::Percent;

use super::receiving;
use crate::args::{BenchArgs, Beside, TrialLength};
use crate::failure::Failure;
use crate::forward::mode::Looking;
use crate::output::Output;

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
    /// Rules of the filter.
    pub work: u32,
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
        if args.nice.is_some() && args.stages == 1 {
            return Err(Failure::usage("--nice: for --stages 2, it is that of the second"));
        }
        let mut multiples = args.rates.clone();
        multiples.sort_by(f64::total_cmp);
        let offers =
            if args.at.is_empty() { Offers::Multiples(multiples) } else { Offers::Rates(args.at.clone()) };
        Ok(BenchPlan {
            receiver: ReceiverPlan {
                looking: receiving::looking(&args.receiving)?,
                stages: args.stages,
                work: args.work,
                cpu_limit: receiving::cpu_limit(&args.receiving)?,
                nice: args.nice.unwrap_or(0),
                beside: args.beside,
                recv_buffer: receiving::recv_buffer(args.recv_buffer)?,
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

/// Of a trial of so many datagrams: a timer of 20 ms is to fire in it.
const SHORTEST: Duration = Duration::from_millis(40);
const LONGEST: Duration = Duration::from_secs(60);
