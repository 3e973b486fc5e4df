//! Answers that relays withhold from clients that are not trusted: the notice at the first one, and the count at the
//! end. Shared by `wan` and `forward --udp`.

use serde::Serialize;
use softtimers_wan::udp::{NotSent, RelayStats};

use crate::run::output::say;
use crate::run::quantity::{bytes, counts};
use crate::run::screen::Tone;
use crate::run::table::Table;

/// Answers withheld from clients whose address may be forged, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct WithheldAnswers {
    /// All answers that were withheld.
    #[serde(rename = "withheld")]
    pub(crate) answers: u64,
    /// Answers beyond three times the bytes, or the datagrams, that the client had sent.
    #[serde(rename = "withheld_budget")]
    pub(crate) budget: u64,
    /// Answers beyond --answers-per-prefix.
    #[serde(rename = "withheld_rate")]
    pub(crate) rate: u64,
    /// Payload bytes in all of them.
    #[serde(rename = "withheld_bytes")]
    pub(crate) bytes: u64,
}

impl From<&RelayStats> for WithheldAnswers {
    fn from(stats: &RelayStats) -> Self {
        let RelayStats { withheld_budget: budget, withheld_rate: rate, withheld_bytes: bytes, .. } = *stats;
        WithheldAnswers { answers: budget + rate, budget, rate, bytes }
    }
}

impl WithheldAnswers {
    /// Adds a row unless it is zero.
    pub(crate) fn row(&self, table: &mut Table) {
        let WithheldAnswers { answers, budget, rate, bytes: volume } = *self;
        if answers > 0 {
            let why = counts([("over byte budget", budget), ("over prefix rate", rate)]);
            table.toned("withheld", format!("{answers}  {why}  {}", bytes(volume)), Tone::Bad);
        }
    }
}

/// Reports that an answer was withheld; once a run.
pub(crate) fn tell(why: NotSent) {
    let (client, bound) = match why {
        NotSent::Budget(client) => (client, "3 times what it sent"),
        NotSent::Rate(client) => (client, "--answers-per-prefix"),
        NotSent::Gone => return,
    };
    say(format_args!(
        "withholding answers to {client}: more than {bound}; downloads through a public relay need --trust CIDR (the \
         summary counts all)"
    ));
}
