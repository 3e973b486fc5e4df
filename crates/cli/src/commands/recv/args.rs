//! The arguments of `recv`.

use std::time::Duration;

use clap::Args;
use softtimers_load::recv::{RecvConfig, RecvPlan};
use softtimers_load::traffic::End;
use softtimers_measure::failure::Failure;
use softtimers_measure::processor::Processor;
use softtimers_measure::units;

use crate::address;
use crate::args::{EndArgs, StreamArgs};
use crate::commands::traffic_page::{Page, PageArgs};
use crate::run::output::Output;

/// `softtimers recv`.
#[derive(Args, Debug, Clone)]
#[command(after_long_help = RECV_EXAMPLES, next_help_heading = "Receiving")]
#[command(mut_arg("duration", |arg| arg.help("Stop after this time: 10 (seconds), 500ms, 2min [default: run until Ctrl-C]")))]
#[command(mut_arg("count", |arg| arg.help("Stop after N datagrams")))]
pub(crate) struct RecvArgs {
    /// Address to listen on: IP:PORT; 0.0.0.0:PORT for all interfaces, port 0 for any free port
    ///
    /// IPv6 as [IP]:PORT. The address in use is printed to stderr.
    #[arg(value_name = "ADDR")]
    pub(crate) address: String,

    /// When it ends, whatever the senders send.
    #[command(flatten)]
    pub(crate) end: EndArgs,

    /// Stop at the sender's end message
    ///
    /// The end message can get lost: it also stops when nothing has come for 10 s, or for three intervals if that is
    /// longer. A sender states an interval of at most 4.29 s; --interval may be longer.
    #[arg(long, display_order = 5)]
    pub(crate) once: bool,

    /// Interval to judge gaps by [default: the one that the first sender states]
    #[arg(short = 'i', long = "expect-interval", visible_alias = "interval", value_name = "TIME", value_parser = units::positive_duration, display_order = 2)]
    pub(crate) expect_interval: Option<Duration>,

    /// Measure every sender without asking: any program, several at a time, `send --no-handshake`
    ///
    /// Another program's datagrams are a flow for each address and port. Their rate and gaps are measured, with
    /// --expect-interval their bursts, too. Loss, reordering and delay are unknown: a dash, or null in JSON. Other
    /// programs send no end message, so --once ends such a run by silence.
    ///
    /// Without it only the first sender that agrees is counted, from its address and with its token, and those that
    /// follow it from the same IP address. Anything else in this format is counted as strangers, and datagrams in no
    /// format of softtimers as foreign. With it, any host that reaches the port can change the counts.
    #[arg(long, display_order = 6)]
    pub(crate) any: bool,

    /// With --any: read RTP, so that loss and order of each stream are known
    ///
    /// A flow for each address, port and SSRC. What is no RTP, RTCP included, counts as foreign.
    #[arg(long, requires = "any", display_order = 6)]
    pub(crate) rtp: bool,

    /// Report also the 64 gaps that follow this long after the first datagram
    #[arg(long, value_name = "TIME", value_parser = units::duration, hide = true)]
    pub(crate) strip_after: Option<Duration>,

    /// Run the receiver on CPU N
    #[arg(long, value_name = "N", display_order = 7)]
    pub(crate) cpu: Option<usize>,

    #[command(flatten)]
    pub(crate) page: PageArgs,

    /// Overwrite the file of --report
    #[arg(long, requires = "report", help_heading = "Output", hide_short_help = true)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) output: StreamArgs,
}

/// A run of `recv`.
#[derive(Debug)]
pub(crate) struct Recv {
    pub(crate) plan: RecvPlan,
    /// The page to be drawn, and whether to overwrite its file.
    pub(super) page: (PageArgs, bool),
    /// The page, once its file is open.
    pub(super) open: Option<Page>,
    /// The configuration in effect; the socket's, once it is bound.
    pub(super) config: RecvConfig,
    pub(crate) output: Output,
}

impl Recv {
    /// Interprets the arguments of `recv`.
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
            rtp: args.rtp,
            expect_interval: args.expect_interval,
            strip_after: args.strip_after,
            cpu: args.cpu.map(Processor::new).transpose()?,
        };
        let (page, output) = ((args.page.clone(), args.force), Output::from(&args.output));
        Ok(Recv { plan, page, open: None, config: RecvConfig::default(), output })
    }
}

const RECV_EXAMPLES: &str = "\
Examples:
  softtimers recv 0.0.0.0:9000
  softtimers recv 127.0.0.1:0 --once --json > run.json
  softtimers recv 0.0.0.0:7000 --any -i 40us   # how evenly any program sends
  softtimers recv 0.0.0.0:5004 --any --rtp -t 1min
  softtimers recv 127.0.0.1:9000 -t 10 -i 40us --assert 'lost==0'

Exit codes:
   0  done; every --assert held
   1  an --assert did not hold, or the run broke off
   2  bad usage or input; nothing was received
  77  not possible on this machine; the message says what is missing";
