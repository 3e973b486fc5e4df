//! The arguments of `bench`, and its plan.

use std::time::Duration;

use clap::{Args, ValueEnum};
use softtimers_load::overload::Receiver;
use softtimers_measure::failure::Failure;
use softtimers_measure::units::{self, SendRate};

use crate::args::OutputArgs;
use crate::commands::receiving::{self, ReceivingArgs};
use crate::run::output::Output;

/// `softtimers bench`.
#[derive(Args, Debug, Clone)]
#[command(after_long_help = BENCH_EXAMPLES)]
pub(crate) struct BenchArgs {
    /// As in `forward`.
    #[command(flatten)]
    pub(crate) receiving: ReceivingArgs,

    /// 1: filter each datagram and send it on before the next; 2: queue it for a second thread on the same CPU
    #[arg(long, value_name = "1|2", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2), help_heading = RECEIVER)]
    pub(crate) stages: u8,

    /// Rules that each datagram is compared with: 0 to 10000000; their cost is measured and reported
    #[arg(long, value_name = "RULES", default_value_t = 20_000, value_parser = work, help_heading = RECEIVER)]
    pub(crate) work: u32,

    /// Nice value of the second stage: 0 to 19; with 19 the receiver always goes first, as interrupts do
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=19), help_heading = RECEIVER, hide_short_help = true)]
    pub(crate) nice: Option<u8>,

    /// Other load on the receiver's CPU
    #[arg(long, value_enum, default_value_t, help_heading = RECEIVER)]
    pub(crate) beside: Beside,

    /// Receive buffer to ask for: 4KiB to 1GiB; the system may grant less
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = units::bytes, help_heading = RECEIVER, hide_short_help = true)]
    pub(crate) recv_buffer: u64,

    /// Rates to offer, as multiples of the loss-free rate: 0 to 100
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "0.2,0.5,0.8,1,1.25,1.5,2,3,5", value_parser = multiple, help_heading = LOAD)]
    pub(crate) rates: Vec<f64>,

    /// Rates to offer instead, without a search; 0pps to let the receiver idle
    #[arg(long, value_name = "RATE,…", value_delimiter = ',', conflicts_with = "rates", value_parser = rate, help_heading = LOAD)]
    pub(crate) at: Vec<u64>,

    /// Length of each trial: a time (20ms to 60s) or a number of datagrams
    #[arg(long, value_name = "TIME|N", default_value = "500ms", value_parser = trial, help_heading = LOAD)]
    pub(crate) trial: TrialLength,

    /// Datagrams sent back to back: 1 to 64
    ///
    /// More where the sender cannot reach a rate otherwise, which is reported.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64), help_heading = LOAD, hide_short_help = true)]
    pub(crate) burst: u32,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// The groups of its own flags.
const RECEIVER: &str = "Receiver";
const LOAD: &str = "Offered load";

/// `--beside`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Beside {
    /// Nothing
    #[default]
    None,
    /// A computation with the nice value 19: the receiver may take all from it
    Compute,
}

/// `--trial`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TrialLength {
    /// A time.
    Time(Duration),
    /// A number of datagrams.
    Datagrams(u64),
}

/// A run of `bench`.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct BenchPlan {
    /// The receiver that is measured.
    pub(crate) receiver: Receiver,
    /// Datagrams back to back.
    pub(crate) burst: u32,
    /// The length of each trial.
    pub(crate) trial: TrialLength,
    /// The offers to the receiver.
    pub(crate) offers: Offers,
    pub(crate) output: Output,
}

/// The offers to a receiver.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Offers {
    /// Multiples of its capacity, which is found first.
    Multiples(Vec<f64>),
    /// These rates, in packets a second.
    Rates(Vec<u64>),
}

impl BenchPlan {
    /// Interprets the arguments of `bench`.
    ///
    /// # Errors
    /// A usage failure that names the value and what is allowed.
    pub(crate) fn new(args: &BenchArgs) -> Result<Self, Failure> {
        if args.nice.is_some() && args.stages == 1 {
            return Err(Failure::usage("--nice: for --stages 2, it is that of the second"));
        }
        let mut multiples = args.rates.clone();
        multiples.sort_by(f64::total_cmp);
        let offers =
            if args.at.is_empty() { Offers::Multiples(multiples) } else { Offers::Rates(args.at.clone()) };
        Ok(BenchPlan {
            receiver: Receiver {
                looking: args.receiving.looking()?,
                stages: args.stages,
                rules: args.work,
                cpu_limit: args.receiving.cpu_limit()?,
                nice: args.nice.unwrap_or(0),
                computes: args.beside == Beside::Compute,
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
    /// Returns the length of the trial at this rate.
    pub(crate) fn at(self, packets_per_second: f64) -> Duration {
        match self {
            TrialLength::Time(time) => time,
            TrialLength::Datagrams(number) => {
                let seconds = number as f64 / packets_per_second.max(1.0);
                Duration::from_secs_f64(seconds.clamp(SHORTEST.as_secs_f64(), LONGEST_TRIAL.as_secs_f64()))
            }
        }
    }
}

fn work(text: &str) -> Result<u32, String> {
    let rules = text.parse().ok().filter(|rules| (0..=10_000_000).contains(rules));
    rules.ok_or_else(|| "0 to 10000000 rules, not a time: the report says what they cost here".to_owned())
}

fn trial(text: &str) -> Result<TrialLength, String> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let allowed = 100..=100_000_000;
        let datagrams = text.parse().ok().filter(|number| allowed.contains(number));
        return datagrams.map(TrialLength::Datagrams).ok_or("100 to 100000000 datagrams".to_owned());
    }
    let time = units::duration(text).map_err(|error| format!("{error}; or a number of datagrams"))?;
    let allowed = Duration::from_millis(20)..=Duration::from_secs(60);
    if allowed.contains(&time) { Ok(TrialLength::Time(time)) } else { Err("20ms to 60s".to_owned()) }
}

fn multiple(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| (0.0..=100.0).contains(number));
    number.ok_or_else(|| "a multiple of the capacity, from 0 to 100".to_owned())
}

/// Parses a rate in packets a second; zero lets the receiver idle.
fn rate(text: &str) -> Result<u64, String> {
    let most = 100_000_000;
    if text.eq_ignore_ascii_case("0pps") {
        return Ok(0);
    }
    match units::rate(text).map_err(|error| error.to_string())? {
        SendRate::PacketsPerSecond(rate) if rate <= most => Ok(rate),
        _ => Err(format!("0pps to {}Mpps", most / 1_000_000)),
    }
}

/// The shortest trial with a given number of datagrams: long enough for a timer of 20 ms.
const SHORTEST: Duration = Duration::from_millis(40);
const LONGEST_TRIAL: Duration = Duration::from_secs(60);

const BENCH_EXAMPLES: &str = "\
Examples:
  softtimers bench
  softtimers bench --mode naive
  softtimers bench --stages 2 --burst 4 --assert 'curve.asymptote_share>=0.9'
  softtimers bench --stages 2 --nice 19 --mode naive --rates 1,5
  softtimers bench --mode hip --work 0 --at 500pps,5kpps,50kpps --json
  softtimers bench --cpu-limit 50% --beside compute --rates 5

How to read it: docs/overload.md.

Exit codes:
   0  done; every --assert held
   1  an --assert did not hold, or a trial broke off
   2  bad usage or input; nothing was measured
  77  not possible on this machine; the message says what is missing";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_is_a_time_or_a_number() {
        assert_eq!(trial("10000"), Ok(TrialLength::Datagrams(10_000)));
        assert_eq!(trial("20ms"), Ok(TrialLength::Time(Duration::from_millis(20))));
        assert_eq!(trial("19ms").unwrap_err(), "20ms to 60s");
        assert_eq!(trial("99").unwrap_err(), "100 to 100000000 datagrams");
        assert_eq!(trial("99999999999999999999").unwrap_err(), "100 to 100000000 datagrams");
        assert!(trial("").unwrap_err().ends_with("; or a number of datagrams"));
    }

    #[test]
    fn multiples_are_finite() {
        assert_eq!((multiple("0"), multiple("1.25")), (Ok(0.0), Ok(1.25)));
        for text in ["-1", "nan", "inf", "100.1", ""] {
            assert!(multiple(text).is_err(), "{text}");
        }
        assert_eq!((rate("2kpps"), rate("10Mbit").unwrap_err()), (Ok(2_000), "0pps to 100Mpps".to_owned()));
    }
}
