//! The effort of a run, and the rounds of earlier ones: [`Plan`].

use softtimers_trials::paired::Measured;
use softtimers_trials::result::{Results, Table};

/// The number of rounds, the length of a transfer, and what `--extend` adds to.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) rounds: usize,
    pub(crate) megabytes: u64,
    pub(crate) earlier: Option<Results>,
}

impl Plan {
    /// Returns these rounds after those that an earlier run made of the same rows; the table keeps all of them.
    pub(crate) fn with_earlier(
        &self,
        table: &mut Table,
        rows: &[String],
        figures: &[&str],
        measured: Measured,
    ) -> Measured {
        let earlier = self.earlier.as_ref().and_then(|results| results.table(&table.key));
        let mut all = earlier.map(|earlier| earlier.samples.measured(rows, figures)).unwrap_or_default();
        all.append(measured);
        table.samples.add(&all);
        all
    }
}
