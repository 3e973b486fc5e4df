//! How a receiver polls for packets: the same flags for `bench` and `forward`, since the former measures the latter's
//! receiver.

use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use softtimers::Percent;
use softtimers_load::mode::{Mode, PollingPlan};
use softtimers_measure::class::Class;
use softtimers_measure::failure::Failure;
use softtimers_measure::units;
use softtimers_poll::{Factor, HipConfig};

/// When it polls, and how much it may do at once.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Polling")]
pub(crate) struct ReceivingArgs {
    /// When to poll for packets
    #[arg(long, default_value_t, value_parser = modes())]
    pub(crate) mode: Mode,

    /// Longest wait for a poll [default: 200us; hip: 1ms]
    ///
    /// For the modes that poll.
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    pub(crate) max_delay: Option<Duration>,

    /// CPU share for each forwarding thread: 50%
    ///
    /// Its wake-ups and system calls are counted. Near the share, polls are --max-delay apart. Where even that is too much, the limit is kept and packets wait for
    /// longer. An idle machine's CPU is not withheld. Not with --mode naive.
    #[arg(long, value_name = "SHARE", value_parser = units::percent)]
    pub(crate) cpu_limit: Option<Percent>,

    /// Packets that each input may take in one turn: 1 to 65536
    ///
    /// Not with --mode naive.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_QUOTA, value_parser = clap::value_parser!(u32).range(1..=65_536), hide_short_help = true)]
    pub(crate) quota: u32,

    /// Packets wanted per poll on average (--mode poll, hybrid): 1 to 1024 [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_024), hide_short_help = true)]
    pub(crate) aggregate: Option<u32>,

    /// Parameters of --mode hip, as in the paper: gamma=2,phi=2.5,alpha=0.3,beta=0.3,unsuccessful=10
    ///
    /// Streams whose deviation is below gamma means are polled, a mean and phi deviations apart; alpha and beta are the weights of
    /// history, and after so many unsuccessful polls in a row interrupts come back. Those left out keep their measured values.
    #[arg(long, value_name = "NAME=VALUE,..", value_parser = hip_parameters, hide_short_help = true)]
    pub(crate) hip: Option<HipConfig>,
}

impl ReceivingArgs {
    /// Returns when it polls. Flags that the mode does not use are refused, so that none seems to have an effect.
    pub(super) fn looking(&self) -> Result<PollingPlan, Failure> {
        let mode = self.mode;
        let others = |has: fn(Mode) -> bool| {
            let modes = Mode::all().map(|(mode, _)| mode).filter(|mode| has(*mode));
            let names: Vec<_> = modes.map(Mode::name).collect();
            let (last, others) = names.split_last().unwrap_or((&"none", &[]));
            if others.is_empty() { (*last).to_owned() } else { format!("{} and {last}", others.join(", ")) }
        };
        if self.aggregate.is_some() && !mode.aggregates() {
            return Err(Failure::usage(format_args!("--aggregate: for --mode {}", others(Mode::aggregates))));
        }
        if self.max_delay.is_some() && !mode.delays() {
            return Err(Failure::usage(format_args!("--max-delay: for --mode {}", others(Mode::delays))));
        }
        if self.quota != DEFAULT_QUOTA && mode == Mode::NAIVE {
            return Err(Failure::usage(format_args!("--quota {}: --mode naive has none", self.quota)));
        }
        let looking = PollingPlan::new(mode, self.quota, self.aggregate, self.max_delay)
            .map_err(|_| Failure::usage(format_args!("--mode {mode}: needs a --max-delay")))?;
        let looking = match self.hip {
            Some(_) if mode != Mode::HIP => return Err(Failure::usage("--hip: for --mode hip")),
            Some(config) => looking.with_hip(config, self.max_delay),
            None => looking,
        };
        let class = Class::current();
        if looking.spins() && !class.may_spin() {
            return Err(Failure::usage(format_args!("--mode {mode}: it spins, and {class}")));
        }
        Ok(looking)
    }

    /// Returns the share of a CPU that input may have.
    pub(super) fn cpu_limit(&self) -> Result<Option<Percent>, Failure> {
        match self.cpu_limit {
            Some(share) if share.get() == 0 => Err(Failure::usage("--cpu-limit 0%: 1% to 100%")),
            // Its turns do not end.
            Some(_) if self.mode == Mode::NAIVE => {
                Err(Failure::usage("--cpu-limit: --mode naive keeps none"))
            }
            limit => Ok(limit),
        }
    }
}

/// Reads `gamma=2,phi=2.5`, any of HIP's parameters.
fn hip_parameters(text: &str) -> Result<HipConfig, String> {
    let mut config = HipConfig::default();
    for setting in text.split(',') {
        let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
        let factor = |most: f64| {
            let within = value.parse::<f64>().ok().filter(|value| (0.0..=most).contains(value));
            let thousandths = within.map(|value| Factor::thousandths((value * 1e3).round() as u32));
            thousandths.ok_or_else(|| format!("{name}={value}: a number from 0 to {most}"))
        };
        match name {
            "gamma" => config.gamma = factor(1_000.0)?,
            "phi" => config.phi = factor(1_000.0)?,
            "alpha" => config.alpha = factor(1.0)?,
            "beta" => config.beta = factor(1.0)?,
            "unsuccessful" => {
                let polls = value.parse().ok().filter(|polls| *polls > 0);
                config.unsuccessful =
                    polls.ok_or_else(|| format!("{name}={value}: a number of polls, 1 or more"))?;
            }
            _ => return Err(format!("'{name}': gamma, phi, alpha, beta, unsuccessful")),
        }
    }
    Ok(config)
}

/// Checks `--recv-buffer`.
pub(super) fn recv_buffer(bytes: u64) -> Result<usize, Failure> {
    usize::try_from(bytes)
        .ok()
        .filter(|bytes| (LEAST_BUFFER..=MOST_BUFFER).contains(bytes))
        .ok_or_else(|| Failure::usage(format_args!("--recv-buffer {bytes}B: 4KiB to 1GiB")))
}

/// Returns all modes; those with a name of their own here say how they use the other flags.
fn modes() -> impl TypedValueParser<Value = Mode> {
    let values = Mode::all().map(|(mode, about)| {
        let own = HELP.iter().find(|(name, _)| *name == mode.name()).map(|&(_, help)| help);
        PossibleValue::new(mode.name()).help(own.unwrap_or(about))
    });
    PossibleValuesParser::new(values).try_map(|name| name.parse::<Mode>())
}

const HELP: [(&str, &str); 5] = [
    ("poll", "Polls only, at the interval that finds --aggregate packets, at most --max-delay"),
    ("interrupt", "Sleeps when nothing is there, and is woken by the next packet"),
    ("hip", "Predicts the next packet from the mean and spread of the gaps (Dovrolis et al. 2001)"),
    ("hybrid", "Polls while --aggregate packets come within --max-delay, else sleeps"),
    ("naive", "Takes all there is before it sends anything, without a quota: shows what the others are for"),
];

/// The default quota.
const DEFAULT_QUOTA: u32 = 64;
/// The smallest buffer: a few datagrams.
const LEAST_BUFFER: usize = 4 << 10;
/// The largest buffer that the system can count: it doubles the requested size.
const MOST_BUFFER: usize = 1 << 30;
