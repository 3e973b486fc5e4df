//! What a run of `echo-client` will do.

use std::net::SocketAddr;
use std::time::Duration;

use softtimers_measure::failure::Failure;

use crate::address;
use crate::args::EchoClientArgs;
use crate::output::Output;

/// A run of `echo-client`.
#[derive(Clone, PartialEq, Debug)]
pub struct EchoClientPlan {
    /// The echo server: a loopback address, for this client sends as fast as it can.
    pub server: SocketAddr,
    /// Datagrams under way.
    pub window: usize,
    /// Bytes of payload in each.
    pub size: usize,
    /// The length of the run.
    pub duration: Duration,
    /// Whether it never sleeps.
    pub spin: bool,
    /// How to print the report.
    pub output: Output,
}

impl EchoClientPlan {
    /// Understands the arguments of `echo-client`.
    ///
    /// # Errors
    /// A usage failure that names the value and what is allowed.
    pub fn new(args: &EchoClientArgs) -> Result<Self, Failure> {
        let server = address::resolve(&args.address)?;
        address::check_destination(server)?;
        address::check_route(server)?;
        if !server.ip().to_canonical().is_loopback() {
            return Err(Failure::usage(format_args!(
                "address {server}: this client sends as fast as it can; loopback addresses are allowed, such as 127.0.0.1:{}",
                server.port()
            )));
        }
        Ok(EchoClientPlan {
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
    use crate::args::{Cli, Command};
    use clap::Parser;

    #[test]
    fn the_echo_client_stays_on_this_machine() {
        let args = |address: &str| match Cli::parse_from(["softtimers", "echo-client", address]).command {
            Command::EchoClient(args) => EchoClientPlan::new(&args),
            other => panic!("{other:?}"),
        };
        assert!(args("127.0.0.1:9").is_ok());
        assert!(args("[::ffff:127.0.0.1]:9").is_ok());
        assert!(args("192.0.2.1:9").is_err());
    }
}
