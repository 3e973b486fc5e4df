//! What `forward` is asked for.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use softtimers::Percent;

use super::{EndArgs, StreamArgs};
use crate::forward::mode::Mode;
use crate::units;

/// `softtimers forward`.
///
/// A relay of UDP datagrams that survives overload: what comes in at --udp goes out to --to, and answers come back the
/// same way. A quota bounds each turn, and what is too much is dropped in the receive buffer, before any work was
/// done for it. It needs no privileges.
#[derive(Args, Debug, Clone)]
#[command(after_help = FORWARD_EXAMPLES)]
pub struct ForwardArgs {
    /// Two interfaces to forward between: not there yet, only --udp is
    #[arg(value_name = "INTERFACE", num_args = 0..=2, hide = true)]
    pub interfaces: Vec<String>,

    /// Where clients send to; port 0 for any free one. The address in use is printed to stderr
    ///
    /// Only addresses of the loopback interface, unless --public is given.
    #[arg(long, value_name = "LISTEN", requires = "to")]
    pub udp: Option<String>,

    /// Where their datagrams go
    #[arg(long, value_name = "ADDR", requires = "udp")]
    pub to: Option<String>,

    /// Listen where other machines can reach it
    #[arg(long)]
    pub public: bool,

    /// When it looks for datagrams
    #[arg(long, value_enum, default_value_t)]
    pub mode: Mode,

    /// Datagrams that a side may have in one turn, each way
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub quota: u32,

    /// Datagrams wanted in a poll, on average [default: 5]; for the modes poll and hybrid
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub aggregate: Option<u32>,

    /// The longest that a datagram waits for a poll [default: 200us; of hip, 1ms]; not for the modes without polls
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    pub max_delay: Option<Duration>,

    /// Leave the rest of a processor to others: a share of each 10 ms, such as 50%; not for the mode naive
    #[arg(long, value_name = "SHARE", value_parser = units::percent)]
    pub cpu_limit: Option<Percent>,

    /// Ask for receive buffers of this size; the system may grant less
    ///
    /// They are the ring: what they have no room for is dropped at no cost. In overload a datagram waits in a full one
    /// for its turn, so a smaller one means less delay, and a larger one that longer bursts are kept.
    #[arg(long, value_name = "SIZE", default_value = "4MiB", value_parser = units::bytes)]
    pub recv_buffer: u64,

    /// Take datagrams of clients by the rules of this file, which is read again when it changes
    ///
    /// A rule is a line: 'from NET', 'from-port PORTS', 'to NET', 'port PORTS', 'length BYTES', 'rate RATE [burst
    /// TIME]', any of them, then 'accept' or 'reject'. The first that holds decides; the last has no clauses.
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,

    /// Answer Prometheus at this address, over HTTP; port 0 for any free one
    ///
    /// Only addresses of the loopback interface, unless --metrics-public is given.
    #[arg(long, value_name = "ADDR")]
    pub metrics: Option<String>,

    /// Answer Prometheus where other machines can reach it
    #[arg(long, requires = "metrics")]
    pub metrics_public: bool,

    /// The most clients at once
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub clients: u32,

    /// Forget a client that has sent nothing for so long
    #[arg(long, value_name = "TIME", default_value = "2min", value_parser = units::positive_duration)]
    pub client_timeout: Duration,

    /// When it ends; datagrams are those of clients.
    #[command(flatten)]
    pub end: EndArgs,

    /// How to print.
    #[command(flatten)]
    pub output: StreamArgs,
}

const FORWARD_EXAMPLES: &str = "\
Examples:
  softtimers forward --udp 127.0.0.1:5300 --to 127.0.0.1:53
  softtimers forward --udp 0.0.0.0:5300 --public --to 192.0.2.1:53 --rules screen.rules
  softtimers forward --udp 127.0.0.1:5300 --to 127.0.0.1:53 --metrics 127.0.0.1:9100 --json-stream
  softtimers forward --udp 127.0.0.1:0 --to 127.0.0.1:9000 --max-delay 1ms --cpu-limit 50%

Rules, in a file:
  from 192.0.2.0/24 rate 5kpps burst 50ms accept   # as long as they behave
  from 2001:db8::/32 length 0-512 accept
  reject                                           # the last rule decides about the rest

Presets: the defaults are those that measurements chose; the papers' are in docs/forward.md.

Exit codes:
   0  done, also by Ctrl-C or SIGTERM; every --assert held
   1  an --assert did not hold, or the run broke off
   2  bad usage or input; nothing was relayed
  77  not possible on this machine; the message says what is missing";
