//! When a trial is over: [`Quiet`].

use std::time::Duration;

use softtimers::Timestamp;

/// The end of a trial: the sender has gone, and what still waits in buffers comes out.
#[derive(Debug, Default)]
pub(crate) struct Quiet {
    /// The count of received packets at the last check, and the time since which it has not changed.
    since: Option<(Timestamp, u64)>,
}

impl Quiet {
    /// Begins to wait for the end: the sender has gone.
    pub(crate) fn begin(&mut self, now: Timestamp, received: u64) {
        self.since = Some((now, received));
    }

    /// Says whether nothing has come for long enough, and nothing waits behind.
    pub(crate) fn is_over(&mut self, now: Timestamp, received: u64, waits: bool) -> bool {
        match self.since {
            Some((since, before)) if before == received && !waits => {
                now.saturating_duration_since(since) >= SETTLED
            }
            Some(_) => {
                self.since = Some((now, received));
                false
            }
            None => false,
        }
    }

    /// Returns when to check again.
    pub(crate) fn until(&self) -> Option<Timestamp> {
        self.since.map(|(since, _)| since + SETTLED)
    }
}

/// Longer than any poll can be postponed.
const SETTLED: Duration = Duration::from_millis(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_over_when_nothing_comes_and_nothing_waits() {
        let at = |millis: u64| Timestamp::from_micros(1_000 * millis);
        let mut quiet = Quiet::default();
        assert!(!quiet.is_over(at(90), 5, false), "the sender is there");
        quiet.begin(at(100), 5);
        assert!(!quiet.is_over(at(110), 5, false) && !quiet.is_over(at(120), 6, false));
        assert!(!quiet.is_over(at(149), 6, false) && !quiet.is_over(at(151), 6, true));
        assert!(!quiet.is_over(at(180), 6, false) && quiet.is_over(at(181), 6, false));
    }
}
