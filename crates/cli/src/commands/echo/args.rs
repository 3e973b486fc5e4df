//! The arguments of `echo-client`, and its plan.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use softtimers_measure::failure::Failure;
use softtimers_measure::units;

use crate::address;
use crate::args::{OutputArgs, datagram_size};
use crate::run::output::Output;

/// `softtimers echo-client`.
#[derive(Args, Debug, Clone)]
pub(crate) struct EchoClientArgs {
    /// The echo server
    #[arg(value_name = "ADDR")]
    pub(crate) address: String,

    /// Datagrams under way at any time
    #[arg(long, value_name = "N", default_value = "64", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) window: u32,

    /// Bytes of UDP payload in each
    #[arg(long, value_name = "BYTES", default_value = "64", value_parser = datagram_size)]
    pub(crate) size: u32,

    /// End after this time
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = units::positive_duration)]
    pub(crate) duration: Duration,

    /// Never sleep: for a client that has a CPU to itself
    #[arg(long)]
    pub(crate) spin: bool,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// A run of `echo-client`.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Echo {
    /// The echo server: a loopback address, for this client sends as fast as it can.
    pub(crate) server: SocketAddr,
    /// The number of datagrams under way.
    pub(crate) window: usize,
    /// Bytes of payload in each.
    pub(crate) size: usize,
    /// The length of the run.
    pub(crate) duration: Duration,
    /// Whether it never sleeps.
    pub(crate) spin: bool,
    pub(crate) output: Output,
}

impl Echo {
    /// Interprets the arguments of `echo-client`.
    ///
    /// # Errors
    /// A usage failure that names the value and what is allowed.
    pub(crate) fn new(args: &EchoClientArgs) -> Result<Self, Failure> {
        let server = address::resolve(&args.address)?;
        address::check_destination(server)?;
        address::check_route(server)?;
        if !server.ip().to_canonical().is_loopback() {
            return Err(Failure::usage(format_args!(
                "address {server}: this client sends as fast as it can; loopback addresses are allowed, such as 127.0.0.1:{}",
                server.port()
            )));
        }
        Ok(Echo {
            server,
            window: args.window as usize,
            size: args.size as usize,
            duration: args.duration,
            spin: args.spin,
            output: Output::from(&args.output),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{Cli, Command};
    use clap::Parser;

    #[test]
    fn the_echo_client_stays_on_this_machine() {
        let args = |address: &str| match Cli::parse_from(["softtimers", "echo-client", address]).command {
            Command::EchoClient(args) => Echo::new(&args),
            other => panic!("{other:?}"),
        };
        assert!(args("127.0.0.1:9").is_ok());
        assert!(args("[::ffff:127.0.0.1]:9").is_ok());
        assert!(args("192.0.2.1:9").is_err());
    }
}
