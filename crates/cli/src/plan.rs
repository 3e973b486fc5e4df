//! What a run will do, once the arguments have been understood together: no field of a plan can
//! contradict another, so the engines that carry it out check nothing again.
//!
//! Making a plan looks up names and asks the kernel for a route. It sends nothing.

mod bench;
mod forward;
mod receiving;

use std::hash::{BuildHasher, RandomState};

use crate::args::{EndArgs, OutputArgs, StreamArgs};
use crate::run::output::Output;

pub use bench::{BenchPlan, Offers, ReceiverPlan};
pub use forward::{Between, ForwardPlan, InterfacesConfig, LegConfig};
pub use softtimers_load::traffic::End;

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

/// Short enough to be typed.
pub(crate) fn any_seed() -> u64 {
    RandomState::new().hash_one("seed") >> 32
}
