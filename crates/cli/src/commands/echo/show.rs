//! What the client tells: the keys of `softtimers.echo-client/1`.

use serde::{Deserialize, Serialize};
use softtimers_measure::distribution::Distribution;

use crate::run::output::Report;
use crate::run::table::Table;

/// What the client saw.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct EchoReport {
    /// Replies that came in time.
    pub(crate) replies: u64,
    /// Replies per second of the run; the server's work rate.
    pub(crate) replies_per_s: f64,
    /// Requests without a reply within 100 ms.
    pub(crate) lost: u64,
    /// From request to reply.
    pub(crate) rtt_ns: Distribution,
    /// The length of the run.
    pub(crate) duration_s: f64,
}

impl Report for EchoReport {
    const SCHEMA: &'static str = "softtimers.echo-client/1";

    fn table(&self) -> Table {
        let mut table = Table::default();
        table.row("replies", self.replies);
        table.row("replies/s", format!("{:.0}", self.replies_per_s));
        table.row("lost", self.lost);
        table.distribution("round trip", &self.rtt_ns);
        table
    }
}
