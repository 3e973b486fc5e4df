//! The client's report: the keys of `softtimers.echo-client/1`.

use serde::{Deserialize, Serialize};
use softtimers_measure::distribution::Distribution;

use super::args::Echo;
use crate::run::output::Report;
use crate::run::quantity::per_second;
use crate::run::table::Table;

/// The findings of the client.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct EchoReport {
    /// Replies received in time.
    pub(crate) replies: u64,
    /// Replies per second of the run, which is the server's work rate.
    pub(crate) replies_per_s: f64,
    /// Requests without a reply within 100 ms.
    pub(crate) lost: u64,
    /// From request to reply.
    pub(crate) rtt_ns: Distribution,
    /// The length of the run.
    pub(crate) duration_s: f64,
}

impl Report<Echo> for EchoReport {
    const SCHEMA: &'static str = "softtimers.echo-client/1";

    fn table(&self) -> Table {
        let mut table = Table::default();
        table.row("rate", per_second(self.replies_per_s));
        table.row("replies", self.replies);
        table.loss("lost", self.lost, self.replies + self.lost);
        table.times("round trip", &self.rtt_ns);
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::snapshot::{self, Live, times};

    #[test]
    fn snapshot() {
        let report = EchoReport {
            replies: 35_400,
            replies_per_s: 35_398.2,
            lost: 2,
            rtt_ns: times(),
            duration_s: 1.0,
        };
        let header = "echo-client to 127.0.0.1:7000: 128 requests of 32 B at once, for 1 s";
        snapshot::check("echo-client", header, &Live::none(), &report);
    }
}
