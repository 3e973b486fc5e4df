//! The trigger states that a loop driven by softtimers has passed: the number from each source, and the times between
//! them (soft timers §5.4, Table V and figure 4).

use softtimers::{Histogram, PerSource, SoftTimers, TriggerState};

/// The trigger states of a run.
#[derive(Clone, Debug)]
pub struct Triggers {
    /// The number passed, by source; none for a disabled one.
    pub passed: PerSource<u64>,
    /// The times between them, in nanoseconds.
    pub intervals: Histogram,
    /// The intervals without each source, by calculation; `None` if not requested.
    pub without: Option<PerSource<Box<Histogram>>>,
}

impl Triggers {
    /// Takes them from timers that record intervals; `None` if they do not.
    pub(crate) fn from_timers<E>(timers: &SoftTimers<E>) -> Option<Self> {
        let intervals = timers.intervals()?;
        let without =
            |source: TriggerState| intervals.without(source).cloned().map(Box::new).unwrap_or_default();
        let kept = intervals.without(TriggerState::Idle).is_some();
        Some(Triggers {
            passed: timers.stats().triggers,
            intervals: intervals.all(),
            without: kept.then(|| PerSource::from_fn(without)),
        })
    }

    /// Adds those of another run.
    pub fn merge(&mut self, other: &Triggers) {
        self.intervals.merge(&other.intervals);
        for source in TriggerState::ALL {
            self.passed[source] += other.passed[source];
            if let (Some(mine), Some(theirs)) = (&mut self.without, &other.without) {
                mine[source].merge(&theirs[source]);
            }
        }
    }

    /// Returns the share of a source, 0 to 1; `None` if there were no trigger states.
    pub fn share(&self, source: TriggerState) -> Option<f64> {
        let all = self.passed.total();
        (all > 0).then(|| self.passed[source] as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use softtimers::{Config, Timestamp};

    fn passed(config: Config, visits: &[(TriggerState, u64)]) -> Option<Triggers> {
        let mut timers = SoftTimers::<()>::new(config);
        for &(source, micros) in visits {
            let turn = timers.trigger(source, Timestamp::from_micros(micros));
            assert!(timers.next(&turn).is_none());
        }
        Triggers::from_timers(&timers)
    }

    #[test]
    fn runs_add_up() {
        use TriggerState::{Idle, Send};
        assert!(passed(Config::default(), &[(Send, 1)]).is_none());
        let config = Config::default().intervals_without_each(true);
        let mut triggers = passed(config, &[(Send, 1), (Idle, 4), (Send, 9)]).unwrap();
        triggers.merge(&passed(config, &[(Send, 1), (Send, 3)]).unwrap());
        assert_eq!((triggers.share(Send), triggers.share(Idle)), (Some(0.8), Some(0.2)));
        assert_eq!((triggers.intervals.count(), triggers.intervals.max()), (3, Some(5_000)));
        let without = triggers.without.unwrap();
        assert_eq!((without[Idle].max(), without[Send].count()), (Some(8_000), 0));
    }

    #[test]
    fn nothing_passed_has_no_shares() {
        let triggers = passed(Config::default().intervals(true), &[]).unwrap();
        assert!(triggers.share(TriggerState::Send).is_none() && triggers.without.is_none());
    }
}
