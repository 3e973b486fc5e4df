//! The arguments of `noise`, and its plan.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;
use softtimers_measure::failure::Failure;
use softtimers_measure::processor::Processor;
use softtimers_measure::units;

use softtimers_run::args::OutputArgs;
use softtimers_run::output::Output;

/// `softtimers noise`.
#[derive(Args, Debug, Clone)]
#[command(after_long_help = EXAMPLES, next_help_heading = "Phases")]
pub(crate) struct NoiseArgs {
    /// Phases to measure: 100 to 1000000
    #[arg(long, value_name = "N", default_value = "10000", value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    pub(crate) phases: u32,

    /// Length of a phase that nothing delays: 100us to 10ms
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = phase)]
    pub(crate) phase: Duration,

    /// A phase counts as delayed beyond TIMES the median: 1 to 100
    #[arg(long, value_name = "TIMES", default_value = "1.6", value_parser = threshold)]
    pub(crate) threshold: f64,

    /// Nodes of the jobs, separated by commas: 1 to 100000
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "1,10,100,1000", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) nodes: Vec<u32>,

    /// Scheduling class; fifo measures under SCHED_FIFO too, after the ordinary class
    ///
    /// SCHED_FIFO takes a privilege. The thread sleeps for 5 ms after every 50 ms, and is killed if it ever runs for 0.5 s
    /// without a pause.
    #[arg(long, value_name = "CLASS", default_value = "other")]
    pub(crate) class: NoiseClass,

    /// Measure on CPU N [default: the one it runs on]
    #[arg(long, value_name = "N")]
    pub(crate) cpu: Option<usize>,

    /// Seed of the phases that are drawn for the jobs
    #[arg(long, value_name = "N", default_value = "1", hide_short_help = true)]
    pub(crate) seed: u64,

    /// Measure the cost of waking up this often instead: 1Hz to 100kHz [default: 10Hz to 20kHz]
    ///
    /// Beside a computation and on an idle CPU: by a periodic tick, and by smart timers that are late by at most as much.
    #[arg(long, value_name = "HZ,HZ", num_args = 0..=1, value_delimiter = ',', default_missing_value = RATES, value_parser = frequency, conflicts_with_all = ["phases", "phase", "threshold", "nodes", "class"], help_heading = WAKE_UPS)]
    pub(crate) rates: Option<Vec<NonZeroU32>>,

    /// Time that each method has the CPU in a round: 10ms to 10s, and at least ten periods
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = turn, requires = "rates", help_heading = WAKE_UPS)]
    pub(crate) turn: Duration,

    /// Rounds, each of the computation alone and with both methods: 1 to 1000
    #[arg(long, value_name = "N", default_value = "7", value_parser = clap::value_parser!(u32).range(1..=1_000), requires = "rates", help_heading = WAKE_UPS)]
    pub(crate) rounds: u32,

    /// Timers of the application, with periods of 0.1 to 1 s: 0 to 10000
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u32).range(0..=10_000), requires = "rates", help_heading = WAKE_UPS)]
    pub(crate) timers: u32,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// A group of flags.
const WAKE_UPS: &str = "Cost of wake-ups (--rates)";

/// Scheduling classes to measure under.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum NoiseClass {
    /// The ordinary one
    Other,
    /// The ordinary one, then SCHED_FIFO
    Fifo,
}

/// The CPU to measure, the seed, and the output.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Setup {
    /// The CPU that is measured.
    pub(crate) cpu: usize,
    #[serde(skip)]
    pub(super) seed: u64,
    #[serde(skip)]
    pub(super) processor: Processor,
    #[serde(skip)]
    pub(super) output: Output,
}

impl Setup {
    /// Interprets the arguments.
    ///
    /// # Errors
    /// A usage failure for a CPU that this process may not run on.
    fn new(args: &NoiseArgs) -> Result<Self, Failure> {
        let unknown = |error| Failure::broke_off("asking for the CPU", &error);
        let processor = args.cpu.map_or_else(|| Processor::current().map_err(unknown), Processor::new)?;
        Ok(Setup { cpu: processor.number(), seed: args.seed, processor, output: Output::from(&args.output) })
    }
}

/// The plan of `noise`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Noise {
    /// Phases under each class.
    pub(crate) phases: u32,
    /// The time of a phase that nothing delays.
    pub(crate) phase_ns: u64,
    /// The multiple of the median beyond which a phase counts as delayed.
    pub(crate) threshold: f64,
    /// The nodes of the jobs.
    pub(crate) nodes: Vec<u32>,
    /// Whether it also measures under `SCHED_FIFO`.
    pub(crate) fifo: bool,
    #[serde(skip)]
    pub(super) phase: Duration,
    /// The CPU, and the output.
    #[serde(flatten)]
    pub(crate) setup: Setup,
}

impl Noise {
    /// Interprets the arguments.
    ///
    /// # Errors
    /// A usage failure for a CPU that this process may not run on, and for more real-time phases than fit into a
    /// minute.
    pub(crate) fn new(args: &NoiseArgs) -> Result<Self, Failure> {
        let setup = Setup::new(args)?;
        let fifo = args.class == NoiseClass::Fifo;
        if fifo && args.phase * args.phases > LONGEST_FIFO {
            let most = LONGEST_FIFO.as_nanos() / args.phase.as_nanos();
            return Err(Failure::usage(format_args!(
                "--phases {}: --class fifo may take a CPU for a minute, {most} such phases",
                args.phases
            )));
        }
        Ok(Noise {
            phases: args.phases,
            phase_ns: args.phase.as_nanos() as u64,
            threshold: args.threshold,
            nodes: args.nodes.clone(),
            fifo,
            phase: args.phase,
            setup,
        })
    }
}

/// The plan of `noise --rates`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Rates {
    /// The rates in wake-ups a second.
    pub(crate) rates: Vec<NonZeroU32>,
    /// The number of rounds for each rate.
    pub(crate) rounds: u32,
    /// The time for which each method has the CPU in a round; at least ten periods of the rate.
    pub(crate) turn_ns: u64,
    /// Timers of the application.
    pub(crate) timers: u32,
    #[serde(skip)]
    pub(super) turn: Duration,
    /// The CPU, and the output.
    #[serde(flatten)]
    pub(crate) setup: Setup,
}

impl Rates {
    /// Interprets the arguments.
    ///
    /// # Errors
    /// A usage failure for a CPU that this process may not run on.
    pub(crate) fn new(rates: &[NonZeroU32], args: &NoiseArgs) -> Result<Self, Failure> {
        Ok(Rates {
            rates: rates.to_vec(),
            rounds: args.rounds,
            turn_ns: args.turn.as_nanos() as u64,
            timers: args.timers,
            turn: args.turn,
            setup: Setup::new(args)?,
        })
    }
}

fn phase(text: &str) -> Result<Duration, String> {
    within(text, Duration::from_micros(100)..=Duration::from_millis(10))
}

fn turn(text: &str) -> Result<Duration, String> {
    within(text, Duration::from_millis(10)..=Duration::from_secs(10))
}

fn within(text: &str, allowed: RangeInclusive<Duration>) -> Result<Duration, String> {
    let time = units::duration(text).map_err(|error| error.to_string())?;
    let [least, most] = [allowed.start(), allowed.end()].map(|&end| units::show_duration(end));
    if allowed.contains(&time) { Ok(time) } else { Err(format!("{least} to {most} are allowed")) }
}

fn frequency(text: &str) -> Result<NonZeroU32, String> {
    let kilo = text.strip_suffix("kHz").map(|number| (number, 1_000));
    let typed = kilo.or_else(|| text.strip_suffix("Hz").map(|number| (number, 1)));
    let hz = typed.and_then(|(number, worth)| units::scaled(number, worth));
    let hz = hz.filter(|hz| (1..=100_000).contains(hz)).and_then(|hz| NonZeroU32::new(hz as u32));
    hz.ok_or_else(|| "1Hz to 100kHz are allowed, such as 250Hz".to_owned())
}

fn threshold(text: &str) -> Result<f64, String> {
    let times = text.parse().ok().filter(|times: &f64| (1.0..=100.0).contains(times));
    times.ok_or_else(|| "a number from 1 to 100 is allowed".to_owned())
}

const LONGEST_FIFO: Duration = Duration::from_secs(60);
/// The rates of the paper's figure 4, and higher ones.
const RATES: &str = "10Hz,50Hz,100Hz,250Hz,500Hz,1kHz,2kHz,5kHz,10kHz,20kHz";

const EXAMPLES: &str = "\
Examples:
  softtimers noise
  softtimers noise --phases 100000 --nodes 10,100,1000 --threshold 1.1
  sudo softtimers noise --class fifo --json > noise.json
  softtimers noise --assert 'p_delayed<0.001'
  softtimers noise --rates
  softtimers noise --rates 100Hz,1kHz,10kHz --rounds 3 --json

Exit codes:
   0  done; every --assert held
   1  an --assert did not hold, or the run broke off
   2  bad usage or input; nothing was measured
  77  not possible on this machine; the message says what is missing";
