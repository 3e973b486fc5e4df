//! What a run of `recv` will do.

use std::net::SocketAddr;
use std::time::Duration;

use super::End;
use crate::address;
use crate::args::RecvArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::processor::Processor;

/// A run of `recv`.
#[derive(Clone, PartialEq, Debug)]
pub struct RecvPlan {
    /// Where to listen; port 0 for any.
    pub local: SocketAddr,
    /// When the run ends: as soon as either bound is reached, or on a signal.
    pub end: End,
    /// Whether it also ends when every sender heard has said goodbye.
    pub once: bool,
    /// Whether every sender is believed, agreed or not, and several at a time.
    pub any: bool,
    /// The interval to judge gaps by, if the senders are not to be believed.
    pub expect_interval: Option<Duration>,
    /// How long after the first datagram a stretch of gaps is kept, if one is asked for.
    pub strip_after: Option<Duration>,
    /// Where the receiver is kept.
    pub cpu: Option<Processor>,
    /// How to print the report.
    pub output: Output,
}

impl RecvPlan {
    /// Understands the arguments of `recv`.
    ///
    /// # Errors
    /// A usage failure that names the value and what is allowed.
    pub fn new(args: &RecvArgs) -> Result<Self, Failure> {
        let local = address::resolve(&args.address)?;
        address::check_local(local)?;
        Ok(RecvPlan {
            local,
            end: End::from(&args.end),
            once: args.once,
            any: args.any,
            expect_interval: args.expect_interval,
            strip_after: args.strip_after,
            cpu: args.cpu.map(Processor::new).transpose()?,
            output: Output::from(&args.output),
        })
    }
}
