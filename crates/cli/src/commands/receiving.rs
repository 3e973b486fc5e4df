//! How a receiver of packets goes about it: `bench` measures what `forward` does.

use std::time::Duration;

use clap::Args;
use softtimers::Percent;

use crate::forward::mode::Mode;
use crate::units;

/// When it looks, and how much it may do at once.
#[derive(Args, Debug, Clone)]
pub struct ReceivingArgs {
    /// When it looks for packets
    #[arg(long, value_enum, default_value_t)]
    pub mode: Mode,

    /// Packets that each input may have in one turn; not for the mode naive
    #[arg(long, value_name = "N", default_value_t = DEFAULT_QUOTA, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub quota: u32,

    /// Packets wanted in a poll, on average [default: 5]; for the modes poll and hybrid
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub aggregate: Option<u32>,

    /// The longest that a packet waits for a poll [default: 200us; of hip, 1ms]; not for the modes without polls
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    pub max_delay: Option<Duration>,

    /// Leave the rest of a processor to others: a share of each 10 ms, such as 50%; not for the mode naive
    #[arg(long, value_name = "SHARE", value_parser = units::percent)]
    pub cpu_limit: Option<Percent>,
}

/// What stands for no quota typed.
pub(crate) const DEFAULT_QUOTA: u32 = 64;
