//! What `send --json-stream` counts in an interval: what left, when, and what was late.
//!
//! It is counted where the run counts as well, in the [`Tally`](super::tally::Tally), at each departure. What
//! the loop used and worked meanwhile is known at its end, and stands in the last object alone.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use softtimers::late::{LateCause, LateCounts};
use softtimers::{PerSource, TriggerState};
use softtimers_linux::signal_timer::Departure;

use crate::distribution::{Distribution, Recorder};
use crate::gaps::{GapReport, Gaps, Train};
use crate::stream::Account;

use super::report::LateReport;

/// The account of an interval.
#[derive(Clone, Debug)]
pub(super) struct Second {
    sent: u64,
    turns: u64,
    forfeited: u64,
    tried_again: u64,
    fired: PerSource<u64>,
    late: Recorder,
    causes: [LateCounts; LateCause::ALL.len()],
    gaps: Gaps,
}

/// A departure, as the run has counted it.
pub(super) struct Left {
    pub(super) departure: Departure,
    /// Turns that have begun since the last one.
    pub(super) turns: u64,
    /// Since the last one of its flow.
    pub(super) gap: Option<Duration>,
    pub(super) source: TriggerState,
    /// Why it was late, if it was and that is known.
    pub(super) cause: Option<LateCause>,
}

/// The keys of `interval` and of `total`. What is left of the whole run's is known at its end only.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct SecondReport {
    /// Departures in this time, over this time.
    achieved_pps: f64,
    sent: u64,
    forfeited: u64,
    late_ns: Distribution,
    /// Gaps whose second datagram left in this time.
    #[serde(flatten)]
    gaps: GapReport,
    packets_per_turn: Option<f64>,
    fired: BTreeMap<&'static str, u64>,
    late: BTreeMap<&'static str, LateReport>,
    /// Attempts that met a full buffer, a full queue or an earlier datagram's error.
    tried_again: u64,
}

impl Second {
    /// Of flows with this interval.
    pub(super) fn new(interval: Duration) -> Self {
        Second {
            sent: 0,
            turns: 0,
            forfeited: 0,
            tried_again: 0,
            fired: PerSource::default(),
            late: Recorder::new(),
            causes: Default::default(),
            gaps: Gaps::new(Some(interval)),
        }
    }

    /// A datagram of the flow that `train` follows has left.
    pub(super) fn departed(&mut self, train: &Train, left: &Left) {
        let Departure { sent, due, place } = left.departure;
        let lateness = sent.saturating_duration_since(place);
        self.sent += 1;
        self.turns += left.turns;
        self.fired[left.source] += 1;
        self.late.record_duration(lateness);
        self.gaps.count(train, left.gap);
        if let Some(cause) = left.cause {
            let pause = sent.saturating_duration_since(due);
            self.causes[cause as usize].count(if cause == LateCause::CatchUp { lateness } else { pause });
        }
    }

    /// So many places more have been given up, and so many attempts more had to be repeated.
    pub(super) fn trouble(&mut self, forfeited: u64, tried_again: u64) {
        self.forfeited += forfeited;
        self.tried_again += tried_again;
    }
}

impl Account for Second {
    type Figures = SecondReport;

    fn is_empty(&self) -> bool {
        self.sent + self.forfeited + self.tried_again == 0
    }

    fn clear(&mut self) {
        let Second { sent, turns, forfeited, tried_again, fired, late, causes, gaps } = self;
        [sent, turns, forfeited, tried_again].into_iter().for_each(|count| *count = 0);
        *fired = PerSource::default();
        *causes = Default::default();
        late.clear();
        gaps.clear();
    }

    fn add(&mut self, next: &Self) {
        self.sent += next.sent;
        self.turns += next.turns;
        self.forfeited += next.forfeited;
        self.tried_again += next.tried_again;
        for source in TriggerState::ALL {
            self.fired[source] += next.fired[source];
        }
        for (cause, more) in self.causes.iter_mut().zip(next.causes) {
            cause.add(more);
        }
        self.late.add(&next.late);
        self.gaps.add(&next.gaps);
    }

    fn figures(&self, time: Duration) -> SecondReport {
        let causes = LateCause::ALL.into_iter().zip(self.causes);
        SecondReport {
            achieved_pps: self.sent as f64 / time.as_secs_f64().max(f64::MIN_POSITIVE),
            sent: self.sent,
            forfeited: self.forfeited,
            late_ns: self.late.distribution(),
            gaps: self.gaps.report(),
            packets_per_turn: (self.turns > 0).then(|| self.sent as f64 / self.turns as f64),
            fired: self.fired.iter().map(|(source, &count)| (source.name(), count)).collect(),
            late: causes.map(|(cause, counts)| (cause.name(), LateReport::from(counts))).collect(),
            tried_again: self.tried_again,
        }
    }
}
