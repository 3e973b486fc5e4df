//! What `send` reports of polling: how much of a processor it took, and what its budget forced.

use std::time::Duration;

use serde::Serialize;
use softtimers::Polling;

use crate::output::Table;

/// The `polled` object.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct PolledReport {
    /// Time polled away with nothing due, as a share of one processor; `null` for timers without an idle
    /// policy.
    pub share: Option<f64>,
    /// What was allowed; `null` for those timers. A loop that has not polled may poll without a pause at first:
    /// the share of a run can be greater by that of 10 ms.
    pub budget_share: Option<f64>,
    /// Sleeps that would have been shorter, or none, with a larger budget.
    pub forced_sleeps: u64,
}

impl PolledReport {
    pub(super) fn new(polled: Option<Polling>, budget_share: Option<f64>, wall: Duration) -> Self {
        let share = |polled: Polling| polled.time.as_secs_f64() / wall.as_secs_f64().max(f64::MIN_POSITIVE);
        PolledReport {
            share: polled.map(share),
            budget_share,
            forced_sleeps: polled.map_or(0, |polled| polled.forced_sleeps),
        }
    }

    pub(super) fn row(&self, table: &mut Table) {
        let Some(share) = self.share else { return };
        let percent = |share: f64| format!("{:.2}%", share * 100.0);
        let mut text = format!("{} of one core", percent(share));
        if let Some(budget) = self.budget_share {
            text += &format!(", of a budget of {}; {} sleeps forced", percent(budget), self.forced_sleeps);
        }
        table.row("polled away", text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_what_polling_took_and_what_it_might() {
        let polled = Polling { time: Duration::from_millis(430), forced_sleeps: 12 };
        let row = |polled, budget| {
            let mut table = Table::default();
            PolledReport::new(polled, budget, Duration::from_secs(1)).row(&mut table);
            table.to_string()
        };
        let limited = "polled away  43.00% of one core, of a budget of 50.00%; 12 sleeps forced\n";
        assert_eq!(row(Some(polled), Some(0.5)), limited);
        assert_eq!(row(Some(polled), None), "polled away  43.00% of one core\n");
        assert_eq!(row(None, None), "");
    }
}
