//! The clients that a relay serves, and how far it trusts their addresses: `wan`, and `forward --udp`.

use std::time::Duration;

use clap::Args;
use ipnet::IpNet;
use softtimers::Rate;
use softtimers_measure::units::{self, SendRate};
use softtimers_wan::udp::ClientLimits;

use crate::address;

#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Clients")]
pub(crate) struct ClientArgs {
    /// Network whose clients get all answers, besides loopback
    ///
    /// Repeatable. Any host can forge the source address of a datagram. So a client that is not trusted is sent at most
    /// three times the bytes and datagrams that it has sent in total, and its prefix at most --answers-per-prefix a
    /// second. Trust networks whose addresses cannot be forged from elsewhere. Downloads need it, and so do protocols
    /// that answer one request with more than three datagrams.
    #[arg(long, value_name = "CIDR", value_parser = address::network, hide_short_help = true)]
    pub(crate) trust: Vec<IpNet>,

    /// Most clients at once: 1 to 65536
    ///
    /// A new UDP client then replaces the one with the least traffic.
    #[arg(long, value_name = "N", default_value_t = 1_024, value_parser = clap::value_parser!(u32).range(1..=65_536), hide_short_help = true)]
    pub(crate) clients: u32,

    /// Forget a client that has sent nothing for this time
    #[arg(long, value_name = "TIME", default_value = "2min", value_parser = units::positive_duration, hide_short_help = true)]
    pub(crate) client_timeout: Duration,

    /// Answers a second to a prefix that is not trusted: an IPv4 /24, an IPv6 /56
    #[arg(long, value_name = "RATE", default_value = "1kpps", value_parser = answers, hide_short_help = true)]
    pub(crate) answers_per_prefix: Rate,
}

impl ClientArgs {
    /// Returns the limits for a relay of datagrams.
    pub(crate) fn limits(&self) -> ClientLimits {
        ClientLimits {
            most: self.clients,
            idle: self.client_timeout,
            answers_per_prefix: self.answers_per_prefix,
            trust: self.trust.clone(),
            ..ClientLimits::default()
        }
    }
}

/// Parses the answers a second.
fn answers(text: &str) -> Result<Rate, String> {
    match units::rate(text).map_err(|error| error.to_string())? {
        SendRate::PacketsPerSecond(packets) => Rate::per_second(packets).map_err(|error| error.to_string()),
        SendRate::BitsPerSecond(_) => Err("answers a second are allowed, such as 1kpps".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_by_number() {
        assert_eq!(answers("2kpps"), Ok(Rate::per_second(2_000).unwrap()));
        for text in ["0pps", "2Mbit", "2", "2000000000pps"] {
            assert!(answers(text).is_err(), "{text}");
        }
    }
}
