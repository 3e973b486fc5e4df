//! What `echo-client` is asked for.

use std::time::Duration;

use clap::Args;
use softtimers_measure::units;

use super::{OutputArgs, datagram_size};

/// `softtimers echo-client`.
#[derive(Args, Debug, Clone)]
pub struct EchoClientArgs {
    /// The echo server
    #[arg(value_name = "ADDR")]
    pub address: String,

    /// Datagrams under way at any time
    #[arg(long, value_name = "N", default_value = "64", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub window: u32,

    /// Bytes of UDP payload in each
    #[arg(long, value_name = "BYTES", default_value = "64", value_parser = datagram_size)]
    pub size: u32,

    /// End after this time
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = units::positive_duration)]
    pub duration: Duration,

    /// Never sleep: for a client that has a processor to itself
    #[arg(long)]
    pub spin: bool,

    /// How to print.
    #[command(flatten)]
    pub output: OutputArgs,
}
