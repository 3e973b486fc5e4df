//! Medians, and how far they can be trusted: [`Estimate`].
//!
//! A shared machine's figures have a long tail to one side, so nothing here is a mean, and nothing assumes a normal
//! distribution:
//!
//! ```text
//!   sorted    · · ┃ · · ┃ · · · ▌ · · · ┃ · · ┃ · ·
//!               low  quartile  median  quartile  high
//!               └────────── 95% interval ──────────┘   by the sign test, of six values or more
//! ```

use serde::{Deserialize, Serialize};

/// The median of what was measured, and where the true one lies.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Estimate {
    /// The number of values it is made of.
    pub values: usize,
    /// The median of the values.
    pub median: f64,
    /// The lower and the upper quartile.
    pub quartiles: [f64; 2],
    /// The interval in which the true median is with a confidence of 95%; `None` for fewer than six values, which
    /// cannot say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
}

impl Estimate {
    /// The estimate of these values; those that are no number are left out. `None` of nothing.
    pub fn from_values(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        Estimate::of_sorted(&sorted(values.into_iter().filter(|value| value.is_finite())))
    }

    /// The estimate of the ratios of pairs, such as of two contenders in the same round: 1 of equal ones, also of zeros. What
    /// has no partner is left out. One by zero is infinite, and so may be the median and the ends; JSON has `null` for them.
    pub fn of_ratios(of: &[f64], to: &[f64]) -> Option<Self> {
        Estimate::of_sorted(&sorted(of.iter().zip(to).map(|(of, to)| if of == to { 1.0 } else { of / to })))
    }

    fn of_sorted(sorted: &[f64]) -> Option<Self> {
        let [low, median, high] = quarters(sorted);
        (!median.is_nan()).then_some(Estimate {
            values: sorted.len(),
            median,
            quartiles: [low, high],
            interval: within(sorted),
        })
    }

    /// The same in another unit; `factor` is greater than zero.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Estimate {
            median: self.median * factor,
            quartiles: self.quartiles.map(|value| value * factor),
            interval: self.interval.map(|interval| interval.map(|value| value * factor)),
            ..self
        }
    }
}

/// The median; of an even number of values the mean of the two in the middle. What is `None` or no number is left
/// out. `None` of nothing. O(n log n).
pub fn median<V: Into<Option<f64>>>(values: impl IntoIterator<Item = V>) -> Option<f64> {
    let [_, median, _] = quartiles(values.into_iter().filter_map(Into::into));
    median.is_finite().then_some(median)
}

/// The least of the sorted values that `share` of them do not exceed; `None` of nothing.
///
/// ```
/// use softtimers_measure::estimate::quantile;
///
/// let sorted = [10, 20, 30, 40];
/// assert_eq!([0.0, 0.5, 0.51, 1.0].map(|share| quantile(&sorted, share)), [10, 20, 30, 40].map(Some));
/// assert_eq!(quantile::<u8>(&[], 0.5), None);
/// ```
pub fn quantile<T: Copy>(sorted: &[T], share: f64) -> Option<T> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

/// Those that are numbers, ascending.
fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().filter(|value| !value.is_nan()).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The lower quartile, the median and the upper quartile; NaN of nothing. O(n log n).
pub fn quartiles(values: impl Iterator<Item = f64>) -> [f64; 3] {
    quarters(&sorted(values.filter(|value| value.is_finite())))
}

fn quarters(values: &[f64]) -> [f64; 3] {
    let at = |place: usize| values.get(place).copied().unwrap_or(f64::NAN);
    let (count, middle) = (values.len(), values.len() / 2);
    let median =
        if count > 0 && count % 2 == 0 { f64::midpoint(at(middle - 1), at(middle)) } else { at(middle) };
    [at(count / 4), median, at(count * 3 / 4)]
}

/// Returns the interval in which the median of the distribution that these sorted numbers were drawn from is, with a
/// confidence of 95% at least. `None` for fewer than six, which cannot say.
///
/// By the sign test, which asks nothing of their distribution: how many lie below the true median is a matter of tossed coins.
fn within(values: &[f64]) -> Option<[f64; 2]> {
    let count = values.len() as f64;
    // The logarithm of the chance of `below` heads, and the chance of as many at most.
    let (mut chance, mut tail, mut below) = (-count * std::f64::consts::LN_2, 0.0, 0);
    while below < values.len() {
        tail += chance.exp();
        if tail > 0.025 {
            break;
        }
        chance += ((count - below as f64) / (below + 1) as f64).ln();
        below += 1;
    }
    Some([values[below.checked_sub(1)?], values[values.len() - below]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quartiles_leave_out_what_is_no_number() {
        assert_eq!(quartiles([4.0, f64::NAN, 1.0, 3.0, 2.0].into_iter()), [2.0, 2.5, 4.0]);
        assert!(quartiles(std::iter::empty()).iter().all(|value| value.is_nan()));
        assert_eq!(
            (median([4.0, 1.0]), median([Some(2.0), None]), median::<f64>([])),
            (Some(2.5), Some(2.0), None)
        );
        assert_eq!(
            (Estimate::from_values([f64::NAN]), Estimate::from_values([1.0; 5]).unwrap().interval),
            (None, None)
        );
    }

    /// The places are those of the tables of the sign test.
    #[test]
    fn the_median_lies_where_the_sign_test_says() {
        let of = |count: u32| {
            let estimate = Estimate::from_values((1..=count).map(f64::from))?;
            estimate.interval.map(|[low, high]| [low, estimate.median, high])
        };
        assert_eq!([of(0), of(1), of(5)], [None; 3]);
        assert_eq!(of(6), Some([1.0, 3.5, 6.0]));
        assert_eq!(of(20), Some([6.0, 10.5, 15.0]));
        assert_eq!(of(24), Some([7.0, 12.5, 18.0]));
        assert_eq!(of(41), Some([14.0, 21.0, 28.0]));
        let [low, _, high] = of(10_000).unwrap();
        assert!((4_900.0..4_905.0).contains(&low) && (5_097.0..5_102.0).contains(&high), "{low} {high}");
    }

    #[test]
    fn a_ratio_by_zero_is_evidence() {
        let with_zeros = |zeros: f64, others: f64| [[zeros; 4].as_slice(), &[others; 6]].concat();
        let (first, last) = (with_zeros(0.0, 0.001), with_zeros(0.5, 0.0005));
        let ratios = Estimate::of_ratios(&last, &first).unwrap();
        assert_eq!((ratios.median, ratios.interval), (0.5, Some([0.5, f64::INFINITY])));
        assert_eq!(Estimate::of_ratios(&[0.0, 1.0], &[0.0, 0.0]).unwrap().median, f64::INFINITY);
    }

    /// Drawn again and again from numbers whose median is known, the interval has it 95 times in a hundred, at least.
    #[test]
    fn the_interval_has_the_true_median_as_often_as_it_says() {
        let mut state = 1_u64;
        let mut drawn = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Skewed, as durations are: the median of the square is the square of the median.
            ((state >> 33) as f64 / (1_u64 << 31) as f64).powi(2)
        };
        let covers = (0..2_000).filter(|_| {
            let [low, high] = Estimate::from_values((0..15).map(|_| drawn())).unwrap().interval.unwrap();
            (low..=high).contains(&0.25)
        });
        let covers = covers.count();
        assert!((1_900..2_000).contains(&covers), "{covers} of 2,000");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn an_estimate_is_ordered_and_knows_no_order(mut values in prop::collection::vec(-1e6..1e6_f64, 1..60), factor in 0.1..10.0) {
            let estimate = Estimate::from_values(values.clone()).unwrap();
            let [low, high] = estimate.quartiles;
            prop_assert!(low <= estimate.median && estimate.median <= high);
            prop_assert_eq!(estimate.interval.is_some(), values.len() >= 6);
            prop_assert!(estimate.interval.is_none_or(|[low, high]| (low..=high).contains(&estimate.median)));
            let scaled = Estimate::from_values(values.iter().map(|value| value * factor)).unwrap();
            let times = estimate.times(factor);
            prop_assert_eq!((times.quartiles, times.interval), (scaled.quartiles, scaled.interval));
            prop_assert!((times.median - scaled.median).abs() <= 1e-15 * factor * 1e6);
            values.reverse();
            prop_assert_eq!(Estimate::from_values(values), Some(estimate));
        }

        /// One round in which the machine stood still moves the median by a place at the most.
        #[test]
        fn one_wild_value_moves_a_median_by_a_place(mut values in prop::collection::vec(0.0..1e3_f64, 3..60), at in 0usize..60, wild in 1e3..1e9_f64) {
            values.sort_by(f64::total_cmp);
            let mut spoilt = values.clone();
            spoilt[at % values.len()] = wild;
            // The one that moves it furthest takes the place of the least.
            let furthest = values[1..].iter().copied().chain([wild]);
            let [least, spoilt, most] = [values.clone(), spoilt, furthest.collect()].map(|values| median(values).unwrap());
            prop_assert!(least <= spoilt && spoilt <= most);
        }
    }
}
