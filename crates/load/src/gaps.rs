//! How evenly datagrams come: the gaps between them, and bursts.
//!
//! A gap shorter than half the target interval is *back to back*: a network sees the two datagrams
//! as one burst. A burst is a run of datagrams joined by such gaps.
//!
//! ```text
//!   target   |         |         |         |         |         |
//!   arrivals |         |  | |    |         |         |
//!   gaps       ordinary  b b  ordinary  …        longest burst: 3
//! ```

use std::time::Duration;

use serde::Serialize;
use softtimers_core::Timestamp;

use softtimers_measure::distribution::{Distribution, Quantile, Recorder};

/// The gaps of one flow or of several, all judged by one target interval.
///
/// # Cost
/// Memory of one [`Recorder`] and a [`Train`] per flow, whatever the number of datagrams; recording
/// takes some 15 ns.
#[derive(Debug, Clone)]
pub(crate) struct Gaps {
    target: Option<Duration>,
    gaps: Recorder,
    back_to_back: u64,
    longest_burst: u64,
}

/// One flow's place in its run of datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Train {
    last: Option<Timestamp>,
    /// Datagrams in the burst that is going on.
    burst: u64,
}

impl Gaps {
    /// No gaps yet. Without a target there are gaps but no bursts.
    pub(crate) fn new(target: Option<Duration>) -> Self {
        Gaps { target, gaps: Recorder::new(), back_to_back: 0, longest_burst: 0 }
    }

    /// Judges from now on by `target`, if there was no target yet.
    pub(crate) fn adopt_target(&mut self, target: Duration) {
        self.target.get_or_insert(target);
    }

    /// A datagram of the flow that `train` follows, at `time`. A time before the flow's last one
    /// (stamped by another core, or a clock that was set back) makes a gap of zero. Returns the gap; `None`
    /// of the flow's first.
    #[inline]
    pub(crate) fn record(&mut self, train: &mut Train, time: Timestamp) -> Option<Duration> {
        let gap = train.last.map(|last| time.saturating_duration_since(last));
        train.last = train.last.max(Some(time));
        train.burst = if gap.is_some_and(|gap| self.is_short(gap)) { train.burst + 1 } else { 1 };
        if let Some(gap) = gap {
            self.gaps.record_duration(gap);
            self.back_to_back += u64::from(self.is_short(gap));
        }
        self.longest_burst = self.longest_burst.max(train.burst);
        gap
    }

    fn is_short(&self, gap: Duration) -> bool {
        self.target.is_some_and(|target| gap.as_nanos() * 2 < target.as_nanos())
    }

    /// Adds what was seen elsewhere, judged by the same target.
    pub(crate) fn add(&mut self, other: &Gaps) {
        self.target = self.target.or(other.target);
        self.gaps += &other.gaps;
        self.back_to_back += other.back_to_back;
        self.longest_burst = self.longest_burst.max(other.longest_burst);
    }

    /// Forgets what was seen, but not the target.
    pub(crate) fn clear(&mut self) {
        self.gaps.clear();
        (self.back_to_back, self.longest_burst) = (0, 0);
    }

    /// Returns the distribution of the gaps.
    pub(crate) fn curve(&self) -> Vec<Quantile> {
        self.gaps.curve()
    }

    /// Returns the findings so far.
    pub(crate) fn report(&self) -> GapReport {
        let gap_ns = self.gaps.distribution();
        let judged = self.target.is_some();
        GapReport {
            gap_ns,
            back_to_back: (judged && gap_ns.count > 0)
                .then(|| self.back_to_back as f64 / gap_ns.count as f64),
            longest_burst: judged.then_some(self.longest_burst),
        }
    }
}

/// The least and the greatest figure of several flows; `null` where none has one.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Extremes {
    /// That of the flow with the least.
    pub min: Option<f64>,
    /// That of the flow with the most.
    pub max: Option<f64>,
}

impl FromIterator<f64> for Extremes {
    fn from_iter<I: IntoIterator<Item = f64>>(figures: I) -> Self {
        figures.into_iter().fold(Extremes::default(), |Extremes { min, max }, figure| Extremes {
            min: Some(min.map_or(figure, |min| min.min(figure))),
            max: Some(max.map_or(figure, |max| max.max(figure))),
        })
    }
}

/// The keys that `send` and `recv` share.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct GapReport {
    /// Gaps between consecutive datagrams of a flow.
    pub gap_ns: Distribution,
    /// The share of gaps shorter than half the target interval; `null` without a gap or a target.
    pub back_to_back: Option<f64>,
    /// Datagrams in the longest burst: 1 if none stuck together, 0 if there was no datagram; `null`
    /// without a target.
    pub longest_burst: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn report(target: Option<u64>, times: &[u64]) -> GapReport {
        let mut gaps = Gaps::new(target.map(Duration::from_micros));
        let mut train = Train::default();
        for &time in times {
            gaps.record(&mut train, Timestamp::from_micros(time));
        }
        gaps.report()
    }

    #[test]
    fn an_even_flow_has_bursts_of_one() {
        let even = report(Some(40), &[0, 40, 80, 120]);
        assert_eq!((even.back_to_back, even.longest_burst), (Some(0.0), Some(1)));
        assert_eq!(even.gap_ns.p50, Some(40_000));
    }

    #[test]
    fn exactly_half_the_target_is_not_back_to_back() {
        assert_eq!(report(Some(40), &[0, 20]).back_to_back, Some(0.0));
        assert_eq!(report(Some(40), &[0, 19]).back_to_back, Some(1.0));
    }

    #[test]
    fn the_longest_of_several_bursts_counts() {
        let bursts = report(Some(40), &[0, 1, 100, 101, 102, 103, 200, 201, 202]);
        assert_eq!(bursts.longest_burst, Some(4));
        assert_eq!(bursts.back_to_back, Some(6.0 / 8.0));
    }

    #[test]
    fn nothing_seen_and_nothing_to_judge_by() {
        let none = report(Some(40), &[]);
        assert_eq!((none.gap_ns.count, none.back_to_back, none.longest_burst), (0, None, Some(0)));
        let one = report(Some(40), &[7]);
        assert_eq!((one.back_to_back, one.longest_burst), (None, Some(1)));
        let unjudged = report(None, &[0, 1, 2]);
        assert_eq!((unjudged.gap_ns.count, unjudged.back_to_back, unjudged.longest_burst), (2, None, None));
    }

    #[test]
    fn flows_do_not_mix() {
        let mut gaps = Gaps::new(Some(Duration::from_micros(40)));
        let (mut a, mut b) = (Train::default(), Train::default());
        for turn in 0..10 {
            gaps.record(&mut a, Timestamp::from_micros(turn * 40));
            gaps.record(&mut b, Timestamp::from_micros(turn * 40 + 1));
        }
        assert_eq!(gaps.report().back_to_back, Some(0.0));
        assert_eq!(gaps.report().longest_burst, Some(1));
    }

    #[test]
    fn a_clock_set_back_makes_no_giant_gap() {
        let back = report(None, &[100, 50, 140]);
        assert_eq!((back.gap_ns.min, back.gap_ns.max), (Some(0), Some(40_000)));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

        /// The streaming count agrees with one made from the whole list.
        #[test]
        fn bursts_agree_with_the_list(gaps in prop::collection::vec(0u64..100, 0..200), target in 1u64..100) {
            let mut times = vec![0];
            for gap in &gaps {
                times.push(times.last().unwrap() + gap);
            }
            let short: Vec<bool> = gaps.iter().map(|gap| gap * 2 < target).collect();
            let longest = short.split(|short| !short).map(|run| run.len() + 1).max().unwrap_or(1);
            let reported = report(Some(target), &times);
            prop_assert_eq!(reported.longest_burst, Some(longest as u64));
            let share = short.iter().filter(|&&short| short).count() as f64 / gaps.len() as f64;
            prop_assert_eq!(reported.back_to_back, (!gaps.is_empty()).then_some(share));
        }
    }
}
