//! What `recv` is asked for.

use std::time::Duration;

use clap::Args;
use softtimers_load::recv::{RecvConfig, RecvPlan};
use softtimers_load::traffic::End;
use softtimers_measure::failure::Failure;
use softtimers_measure::processor::Processor;
use softtimers_measure::units;

use crate::address;
use crate::args::{EndArgs, StreamArgs};
use crate::run::output::Output;

/// `softtimers recv`.
///
/// Times are the kernel's receive timestamps, so the receiver can sleep between batches and still
/// see every gap. It needs no privileges. Without --duration, --count or --once it ends with Ctrl-C.
#[derive(Args, Debug, Clone)]
#[command(after_help = RECV_EXAMPLES)]
pub(crate) struct RecvArgs {
    /// Where to listen: 0.0.0.0:PORT for all interfaces; port 0 for any free one
    ///
    /// An IPv6 address stands in brackets. The address in use is printed to stderr.
    #[arg(value_name = "ADDR")]
    pub(crate) address: String,

    /// When it ends, whatever senders say.
    #[command(flatten)]
    pub(crate) end: EndArgs,

    /// End when every sender that was believed has said that it is done
    ///
    /// Goodbyes can be lost: it also ends when nothing has come for 10 s, or for three intervals if that
    /// is longer. A sender states at most 4.29 s; --expect-interval may be longer.
    #[arg(long)]
    pub(crate) once: bool,

    /// Believe every sender: without an agreement, and several at a time
    ///
    /// Without it only the first sender that agrees is counted, from its address and with its token, and those that follow it
    /// from the same IP address; all else in this format is counted as strangers, and what is in no format of softtimers as
    /// foreign. Needed for `send --no-handshake`, `send --driver xdp`, other programs, and several senders at a
    /// time. Anybody who reaches the port can then change what is counted.
    #[arg(long)]
    pub(crate) any: bool,

    /// The interval to judge gaps by [default: the one the first sender states]
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    pub(crate) expect_interval: Option<Duration>,

    /// Report also the 64 gaps that follow this long after the first datagram
    #[arg(long, value_name = "TIME", value_parser = units::duration, hide = true)]
    pub(crate) strip_after: Option<Duration>,

    /// Keep the receiver on processor N
    #[arg(long, value_name = "N")]
    pub(crate) cpu: Option<usize>,

    /// How to print.
    #[command(flatten)]
    pub(crate) output: StreamArgs,
}

/// A run of `recv`.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Recv {
    pub(crate) plan: RecvPlan,
    /// The configuration in effect; that of the socket once it is bound.
    pub(super) config: RecvConfig,
    /// How to print the report.
    pub(crate) output: Output,
}

impl Recv {
    /// Understands the arguments of `recv`.
    ///
    /// # Errors
    /// A usage failure that names the value and what is allowed.
    pub(crate) fn new(args: &RecvArgs) -> Result<Self, Failure> {
        let local = address::resolve(&args.address)?;
        address::check_local(local)?;
        let plan = RecvPlan {
            local,
            end: End::from(&args.end),
            once: args.once,
            any: args.any,
            expect_interval: args.expect_interval,
            strip_after: args.strip_after,
            cpu: args.cpu.map(Processor::new).transpose()?,
        };
        Ok(Recv { plan, config: RecvConfig::default(), output: Output::from(&args.output) })
    }
}

const RECV_EXAMPLES: &str = "\
Examples:
  softtimers recv 0.0.0.0:9000
  softtimers recv 127.0.0.1:0 --once --json > run.json
  softtimers recv 0.0.0.0:9000 --any   # several senders, or such as do not ask
  softtimers recv 127.0.0.1:9000 --duration 10s --expect-interval 40us --assert 'lost==0'

Exit codes:
   0  done; every --assert held
   1  an --assert did not hold, or the run broke off
   2  bad usage or input; nothing was received
  77  not possible on this machine; the message says what is missing";
