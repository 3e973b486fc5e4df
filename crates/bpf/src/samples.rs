//! Individual intervals, and results that depend on their order: [`Sample`].
//!
//! A histogram loses the order. Two of the paper's figures need it: medians of short windows (figure 3), and
//! the intervals without one of the sources (figure 4), where two intervals that the source separates become
//! one.

use softtimers_core::Histogram;

use crate::Source;

/// An interval between two trigger states of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// Its length in nanoseconds, limited to 134 ms.
    pub gap_ns: u32,
    /// The source that ended it; `None`: the CPU was idle in it.
    pub ended_by: Option<Source>,
}

impl Sample {
    /// Five bits of source, 27 of length.
    pub(crate) fn from_word(word: u32) -> Sample {
        Sample { gap_ns: word >> 5, ended_by: Source::ALL.get((word & 31) as usize).copied() }
    }

    /// Returns the intervals if `source` were not a trigger state: intervals that it ended are joined with
    /// the next one. Idle intervals are omitted, and so are joined ones that were partly idle.
    pub fn without(samples: &[Sample], source: Source) -> Histogram {
        let mut histogram = Histogram::new();
        let (mut gap, mut idle) = (0u64, false);
        for sample in samples {
            gap += u64::from(sample.gap_ns);
            idle |= sample.ended_by.is_none();
            if sample.ended_by == Some(source) {
                continue;
            }
            if !idle {
                histogram.record(gap);
            }
            (gap, idle) = (0, false);
        }
        histogram
    }

    /// Cuts `samples` into windows of `length_ns`, and returns for each window with intervals when it ends, from the first
    /// interval's beginning, and the median of its intervals (soft timers §5.5, figure 3). Idle intervals take time but are
    /// not counted.
    ///
    /// # Panics
    /// If the length is zero.
    pub fn medians(samples: &[Sample], length_ns: u64) -> Vec<(u64, u32)> {
        assert!(length_ns > 0, "a window of no length");
        let (mut medians, mut window) = (vec![], vec![]);
        let mut close = |window: &mut Vec<u32>, end| {
            if !window.is_empty() {
                let middle = (window.len() - 1) / 2;
                medians.push((end, *window.select_nth_unstable(middle).1));
                window.clear();
            }
        };
        let (mut at, mut end) = (0u64, length_ns);
        for sample in samples {
            at += u64::from(sample.gap_ns);
            if at > end {
                close(&mut window, end);
                end = at.div_ceil(length_ns) * length_ns;
            }
            if sample.ended_by.is_some() {
                window.push(sample.gap_ns);
            }
        }
        close(&mut window, end);
        medians
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use softtimers_core::WebServer;

    use super::*;

    fn gap(gap_ns: u32, ended_by: Option<Source>) -> Sample {
        Sample { gap_ns, ended_by }
    }

    const CALL: Option<Source> = Some(Source::Syscall);
    const FAULT: Option<Source> = Some(Source::PageFault);

    #[test]
    fn a_missing_source_merges_what_it_separates() {
        let samples = [gap(1, CALL), gap(2, FAULT), gap(3, FAULT), gap(4, CALL), gap(9, None), gap(5, CALL)];
        let without = Sample::without(&samples, Source::PageFault);
        assert_eq!((without.count(), without.min(), without.max()), (3, Some(1), Some(9)));
        let without = Sample::without(&samples, Source::Syscall);
        // 1 + 2, 3; then 4 + 9 was idle in part, and 5 goes on.
        assert_eq!((without.count(), without.max()), (2, Some(3)));
    }

    #[test]
    fn windows_have_medians_of_their_own() {
        let samples: Vec<Sample> =
            [10, 10, 10, 30, 50, 60, 10].iter().map(|&gap_ns| gap(gap_ns, CALL)).collect();
        // [10 10 10 30] ends at 60; 50 ends at 110, in the second window, 60 at 170; 10 at 180.
        assert_eq!(Sample::medians(&samples, 100), [(100, 10), (200, 50)]);
        let idle = [gap(10, CALL), gap(500, None), gap(20, CALL)];
        assert_eq!(Sample::medians(&idle, 100), [(100, 10), (600, 20)]);
        assert!(Sample::medians(&[], 1).is_empty());
    }

    /// Ten seconds of intervals as the paper's web server has them, by windows of 1 and 10 ms, sorted.
    fn medians() -> [Vec<u32>; 2] {
        let mut left = Duration::from_secs(10).as_nanos() as u64;
        let intervals = WebServer::new(1).map_while(|interval| {
            left = left.checked_sub(interval.as_nanos() as u64)?;
            Some(gap(interval.as_nanos() as u32, CALL))
        });
        let samples: Vec<Sample> = intervals.collect();
        [1_000_000, 10_000_000].map(|length_ns| {
            let mut medians: Vec<u32> =
                Sample::medians(&samples, length_ns).into_iter().map(|(_, median)| median).collect();
            medians.sort_unstable();
            medians
        })
    }

    /// Soft timers §5.3: a median for each window of 10 s.
    #[test]
    fn ten_seconds_are_a_series_of_ten_thousand_and_one_of_a_thousand() {
        let [short, long] = medians();
        // An interval may be longer than a window, and the last window is not full.
        assert!((9_900..=10_000).contains(&short.len()) && (990..=1_000).contains(&long.len()));
    }

    /// Soft timers §5.3: medians of ten times as many intervals vary less. Those of 1 ms are 14 to 26 µs for the most part, few
    /// above 40, and those of 10 ms 17 to 19.
    #[test]
    fn medians_of_longer_windows_lie_closer_together() {
        let [short, long] = medians();
        let quartiles = |medians: &[u32]| [medians[medians.len() / 4], medians[medians.len() * 3 / 4]];
        let spread = |medians: &[u32]| quartiles(medians)[1] - quartiles(medians)[0];
        assert!(spread(&long) * 2 < spread(&short), "{:?} of {:?}", quartiles(&long), quartiles(&short));
        let share = |medians: &[u32], within: std::ops::Range<u32>| {
            medians.iter().filter(|median| within.contains(median)).count() as f64 / medians.len() as f64
        };
        assert!(share(&short, 14_000..26_000) > 0.9 && share(&short, 40_000..u32::MAX) < 0.0113);
        assert!(share(&long, 17_000..19_000) > 0.6, "{:?}", quartiles(&long));
    }

    #[test]
    fn a_word_is_source_and_length() {
        assert_eq!(Sample::from_word(1234 << 5 | 1), gap(1234, FAULT));
        assert_eq!(Sample::from_word(7 << 5 | 10), gap(7, None));
    }
}
