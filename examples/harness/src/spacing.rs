//! How evenly packets come, and how late an event was.

use std::time::Duration;

use softtimers::Timestamp;

/// The gaps between the packets of a stream, relative to its target interval.
///
/// A gap below half of it is *back to back*: the network sees the two packets as one burst. A burst is a run
/// of packets joined by such gaps.
#[derive(Clone, Debug)]
pub struct Spacing {
    interval: Duration,
    last: Option<Timestamp>,
    burst: u64,
    /// Packets in the longest burst.
    pub longest_burst: u64,
    /// Gaps below half the interval.
    pub back_to_back: u64,
    /// All gaps, in nanoseconds.
    pub gaps: Sorted,
}

impl Spacing {
    /// Creates it without packets.
    pub fn new(interval: Duration) -> Self {
        Spacing { interval, last: None, burst: 0, longest_burst: 0, back_to_back: 0, gaps: Sorted::default() }
    }

    /// Records a packet at `time`.
    pub fn packet(&mut self, time: Timestamp) {
        let gap = self.last.map(|last| time.saturating_duration_since(last));
        self.last = Some(time);
        match gap {
            Some(gap) if gap * 2 < self.interval => {
                self.back_to_back += 1;
                self.burst += 1;
            }
            _ => self.burst = 1,
        }
        self.longest_burst = self.longest_burst.max(self.burst);
        if let Some(gap) = gap {
            self.gaps.add(gap.as_nanos() as i64);
        }
    }

    /// Adds another stream, without a gap between the two.
    pub fn join(&mut self, other: Spacing) {
        self.longest_burst = self.longest_burst.max(other.longest_burst);
        self.back_to_back += other.back_to_back;
        self.gaps.join(other.gaps);
        (self.last, self.burst) = (None, 0);
    }

    /// The share of gaps that are back to back, in percent.
    pub fn back_to_back_percent(&self) -> f64 {
        100.0 * self.back_to_back as f64 / self.gaps.len().max(1) as f64
    }
}

/// Some thousand values in nanoseconds, negative if early, kept one by one: exact, and sufficient for seconds.
#[derive(Clone, Debug, Default)]
pub struct Sorted {
    values: Vec<i64>,
}

impl Sorted {
    /// Adds a value in nanoseconds.
    pub fn add(&mut self, nanos: i64) {
        self.values.push(nanos);
    }

    /// Adds by how much `time` was later than `intended`; negative if earlier.
    pub fn add_lateness(&mut self, intended: Timestamp, time: Timestamp) {
        self.add(time.as_nanos() as i64 - intended.as_nanos() as i64);
    }

    /// Adds all values of `other`.
    pub fn join(&mut self, other: Sorted) {
        self.values.extend(other.values);
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the smallest value.
    pub fn least(&self) -> Option<i64> {
        self.values.iter().copied().min()
    }

    /// Returns the least value that this share of all does not exceed; `None` without values.
    pub fn quantile(&self, share: f64) -> Option<i64> {
        let mut sorted = self.values.clone();
        sorted.sort_unstable();
        let rank = (share * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.max(1) - 1).copied()
    }

    /// Returns `p50 / p99` in units of `unit_ns` nanoseconds; `–` without values.
    pub fn p50_p99(&self, unit_ns: f64) -> String {
        if self.is_empty() {
            return "–".into();
        }
        let at = |share: f64| self.quantile(share).unwrap_or(0) as f64 / unit_ns;
        format!("{:.1} / {:.1}", at(0.5), at(0.99))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spacing(times: &[u64]) -> Spacing {
        let mut spacing = Spacing::new(Duration::from_micros(40));
        times.iter().for_each(|&time| spacing.packet(Timestamp::from_micros(time)));
        spacing
    }

    #[test]
    fn bursts_are_runs_of_short_gaps() {
        let one = spacing(&[0, 40, 45, 50, 90, 110, 129]);
        assert_eq!((one.back_to_back, one.longest_burst, one.gaps.len()), (3, 3, 6));
        assert_eq!(one.back_to_back_percent(), 50.0);
    }

    #[test]
    fn there_is_no_gap_between_two_streams() {
        let mut both = spacing(&[0, 1, 2]);
        both.join(spacing(&[3, 4]));
        assert_eq!((both.back_to_back, both.longest_burst, both.gaps.len()), (3, 3, 3));
    }

    #[test]
    fn of_ten_the_tenth_is_the_99th_percentile() {
        let mut late = Sorted::default();
        (1..=10).for_each(|micros| late.add_lateness(Timestamp::ZERO, Timestamp::from_micros(micros)));
        assert_eq!(
            [0.0, 0.5, 0.9, 0.99, 1.0].map(|share| late.quantile(share)),
            [1, 5, 9, 10, 10].map(|micros| Some(micros * 1_000))
        );
    }

    #[test]
    fn early_is_negative_and_nothing_is_a_dash() {
        let mut late = Sorted::default();
        assert_eq!(late.p50_p99(1e3), "–");
        late.add_lateness(Timestamp::from_micros(5), Timestamp::from_micros(3));
        assert_eq!((late.p50_p99(1e3).as_str(), late.least()), ("-2.0 / -2.0", Some(-2_000)));
    }
}
