//! What a run will do, once the arguments have been understood together: no field of a plan can
//! contradict another, so the engines that carry it out check nothing again.
//!
//! Making a plan looks up names and asks the kernel for a route. It sends nothing.

mod bench;
mod flows;
mod forward;
mod generate;
mod idle;
mod receiving;
mod recv;
mod replay;
mod send;
mod send_config;

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::time::Duration;

use softtimers_measure::failure::Failure;

use crate::address;
use crate::args::{EndArgs, OutputArgs, StreamArgs};
use crate::run::output::Output;

pub use bench::{BenchPlan, Offers, ReceiverPlan};
pub use flows::Phase;
pub use forward::{Between, ForwardPlan, InterfacesConfig, LegConfig};
pub use generate::{GenerateConfig, GeneratePlan};
pub use idle::IdlePlan;
pub use recv::RecvPlan;
pub use replay::{ReplayConfig, ReplayPlan};
pub(crate) use send::ticking;
pub use send::{SendPlan, Work};
pub use send_config::SendConfig;

/// The bounds of a run. At least one is set in a [`SendPlan`], unless a recording ends it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct End {
    /// The longest time.
    pub duration: Option<Duration>,
    /// The most datagrams.
    pub count: Option<u64>,
}

impl From<&OutputArgs> for Output {
    fn from(args: &OutputArgs) -> Self {
        Output { json: args.json, stream: false, assertions: args.assertions.clone() }
    }
}

impl From<&StreamArgs> for Output {
    fn from(args: &StreamArgs) -> Self {
        Output { stream: args.json_stream, ..Output::from(&args.output) }
    }
}

impl From<&EndArgs> for End {
    fn from(args: &EndArgs) -> Self {
        End { duration: args.duration, count: args.count }
    }
}

fn destination(address: &str) -> Result<SocketAddr, Failure> {
    let destination = address::resolve(address)?;
    address::check_destination(destination)?;
    address::check_route(destination)?;
    Ok(destination)
}

/// Short enough to be typed.
pub(crate) fn any_seed() -> u64 {
    RandomState::new().hash_one("seed") >> 32
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Long enough for a percentile per mille at 1,000 packets/s, short enough to wait for.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);
