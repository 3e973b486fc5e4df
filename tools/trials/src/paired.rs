//! Contenders that take turns, so that the machine's drift is the same for all: [`Paired`], [`Measured`].
//!
//! A shared machine's speed differs by a fifth from one second to the next. Runs after each other compare it with itself;
//! rounds in which everybody has a turn compare the contenders:
//!
//! ```text
//!   round 0   A  B  C  ──▶ B ÷ A  ┐                             another one first each time
//!   round 1   B  C  A  ──▶ B ÷ A  ├─▶ median, 95% interval
//!   round 2   C  A  B  ──▶ B ÷ A  ┘
//!   round 3   A  B  C  ──▶ set aside: the host or others had more than 5%; made again, as often as is allowed
//! ```
//!
//! ```
//! use softtimers_trials::paired::Paired;
//!
//! let measured = Paired::new(7).contest(&[4, 16], &mut ["heap", "wheel"], |size, who, round| {
//!     round.put(&format!("{who}, {size}"), "ns", f64::from(*size) * if *who == "heap" { 2.0 } else { 1.0 });
//!     Ok::<(), std::io::Error>(())
//! })?;
//! let ratio = measured.ratio("ns", "heap, 16", "wheel, 16").unwrap();
//! // Rounds that something disturbed are set aside, so there may be fewer than seven.
//! assert_eq!(ratio.median, 2.0);
//! # Ok::<(), std::io::Error>(())
//! ```

use std::collections::BTreeMap;

use softtimers_measure::estimate::Estimate;
use softtimers_measure::machine::BackgroundLoad;

/// Figures of one round, by row and name.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Round {
    figures: BTreeMap<(String, String), f64>,
    disturbed: Option<String>,
}

impl Round {
    /// Notes a figure; `None` and what is no number are left out.
    pub fn put(&mut self, row: &str, name: &str, figure: impl Into<Option<f64>>) {
        if let Some(figure) = figure.into().filter(|figure: &f64| figure.is_finite()) {
            self.figures.insert((row.to_owned(), name.to_owned()), figure);
        }
    }

    /// Returns a figure that was noted.
    pub fn figure(&self, row: &str, name: &str) -> Option<f64> {
        self.figures.get(&(row.to_owned(), name.to_owned())).copied()
    }

    /// Sets the round aside for a reason of the experiment's own; the first one counts.
    pub fn set_aside(&mut self, reason: impl Into<String>) {
        self.disturbed.get_or_insert_with(|| reason.into());
    }

    /// All figures, as `(row, name, figure)`.
    pub fn figures(&self) -> impl Iterator<Item = (&str, &str, f64)> {
        self.figures.iter().map(|((row, name), figure)| (row.as_str(), name.as_str(), *figure))
    }
}

/// The number of rounds in which contenders are compared, and the limits on disturbance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Paired {
    rounds: usize,
    tries: usize,
    beside_others: bool,
    as_a_whole: bool,
}

impl Paired {
    /// Plans `rounds` rounds, at least one; rounds that are set aside are not repeated.
    pub fn new(rounds: usize) -> Self {
        Paired { rounds: rounds.max(1), tries: rounds.max(1), beside_others: false, as_a_whole: false }
    }

    /// Repeats rounds that were set aside: up to `times` as many in all.
    #[must_use]
    pub fn repeating(self, times: usize) -> Self {
        Paired { tries: self.rounds * times.max(1), ..self }
    }

    /// Other programs are part of the experiment; only the host disturbs it.
    #[must_use]
    pub fn beside_others(self) -> Self {
        Paired { beside_others: true, ..self }
    }

    /// Watches all rounds as one, and repeats none: for rounds of less than a second, in which the kernel's accounts, of
    /// 10 ms a tick, cannot say what others had.
    #[must_use]
    pub fn as_a_whole(self) -> Self {
        Paired { tries: self.rounds, as_a_whole: true, ..self }
    }

    /// Makes rounds in which each contender has a turn under each setting.
    ///
    /// # Errors
    /// The first of a trial's.
    pub fn contest<S, C, E>(
        &self,
        settings: &[S],
        contenders: &mut [C],
        mut trial: impl FnMut(&S, &mut C, &mut Round) -> Result<(), E>,
    ) -> Result<Measured, E> {
        self.rounds(|number, round| {
            settings.iter().try_for_each(|setting| {
                in_turn(number, contenders.len())
                    .try_for_each(|at| trial(setting, &mut contenders[at], round))
            })
        })
    }

    /// Makes rounds, each told its number.
    ///
    /// # Errors
    /// The first of a round's.
    pub fn rounds<E>(&self, make: impl FnMut(usize, &mut Round) -> Result<(), E>) -> Result<Measured, E> {
        let watch = if self.beside_others { BackgroundLoad::of_host } else { BackgroundLoad::watch };
        self.watched(watch, |background| background.so_far().inconclusive(), make)
    }

    fn watched<W, E>(
        &self,
        watch: impl Fn() -> W,
        reason: impl Fn(&W) -> Option<String>,
        mut make: impl FnMut(usize, &mut Round) -> Result<(), E>,
    ) -> Result<Measured, E> {
        let whole = watch();
        let mut measured = Measured::default();
        for number in 0..self.tries {
            if measured.quiet.len() == self.rounds {
                break;
            }
            let own = (!self.as_a_whole).then(&watch);
            let mut round = Round::default();
            make(number, &mut round)?;
            let disturbed = round.disturbed.take().or_else(|| own.as_ref().and_then(&reason));
            measured.add(round, disturbed);
        }
        if self.as_a_whole
            && let Some(disturbed) = reason(&whole)
        {
            measured.set_aside.append(&mut measured.quiet);
            measured.reason = Some(disturbed);
        }
        Ok(measured)
    }
}

/// The order in which `count` contenders have their turns: another one first each round.
pub fn in_turn(round: usize, count: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |turn| (turn + round) % count)
}

/// The rounds that were made.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Measured {
    quiet: Vec<Round>,
    set_aside: Vec<Round>,
    reason: Option<String>,
}

impl Measured {
    /// Rounds that were made and watched as a whole: quiet, or all of them disturbed for this reason.
    pub fn as_a_whole(rounds: Vec<Round>, disturbed: Option<String>) -> Self {
        let mut measured = Measured::default();
        rounds.into_iter().for_each(|round| measured.add(round, disturbed.clone()));
        measured
    }

    /// Adds a round, which is set aside if it was disturbed.
    pub fn add(&mut self, round: Round, disturbed: Option<String>) {
        match disturbed {
            None => self.quiet.push(round),
            Some(reason) => {
                self.set_aside.push(round);
                self.reason = Some(reason);
            }
        }
    }

    /// Adds the rounds of another run.
    pub fn append(&mut self, other: Measured) {
        let Measured { quiet, set_aside, reason } = other;
        self.quiet.extend(quiet);
        self.set_aside.extend(set_aside);
        self.reason = reason.or(self.reason.take());
    }

    /// Why these rounds prove nothing, if so: fewer than a third of them were quiet, and those may be the ones that
    /// chance has spared.
    pub fn inconclusive(&self) -> Option<&str> {
        let spared = self.quiet.len() * 3 < self.quiet.len() + self.set_aside.len();
        self.reason.as_deref().filter(|_| spared)
    }

    /// The rounds that count: the quiet ones, or all of them where nothing is proved anyway.
    pub fn counted(&self) -> impl Iterator<Item = &Round> {
        let others = if self.inconclusive().is_some() { self.set_aside.as_slice() } else { &[] };
        self.quiet.iter().chain(others)
    }

    /// The number of rounds that were quiet, and of those set aside.
    pub fn made(&self) -> [usize; 2] {
        [self.quiet.len(), self.set_aside.len()]
    }

    /// The estimate of a figure over the rounds that count.
    pub fn estimate(&self, row: &str, name: &str) -> Option<Estimate> {
        self.over(|round| round.figure(row, name))
    }

    /// The median of a figure over the rounds that count.
    pub fn median(&self, row: &str, name: &str) -> Option<f64> {
        self.estimate(row, name).map(|estimate| estimate.median)
    }

    /// The estimate of the ratio of two rows' figures, each taken within a round.
    pub fn ratio(&self, name: &str, of: &str, to: &str) -> Option<Estimate> {
        self.over(|round| Some(round.figure(of, name)? / round.figure(to, name)?))
    }

    /// The estimate of what `figure` makes of each round that counts.
    pub fn over(&self, figure: impl Fn(&Round) -> Option<f64>) -> Option<Estimate> {
        Estimate::from_values(self.counted().filter_map(figure))
    }

    /// The rounds that were quiet, and those set aside, for whoever keeps all of them.
    pub fn all(&self) -> [&[Round]; 2] {
        [&self.quiet, &self.set_aside]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;
    use std::convert::Infallible;

    /// Rounds of which those with these numbers are disturbed, and how many were made.
    fn made(paired: Paired, is_quiet: impl Fn(usize) -> bool) -> (Measured, usize) {
        let number = Cell::new(0);
        let measured = paired.watched(
            || (),
            |()| (!is_quiet(number.get())).then(|| "others".to_owned()),
            |at, round| {
                number.set(at);
                round.put("a", "ns", at as f64);
                Ok::<(), Infallible>(())
            },
        );
        (measured.unwrap(), number.get() + 1)
    }

    #[test]
    fn each_contender_is_the_first_in_turn() {
        let orders: Vec<Vec<usize>> = (0..4).map(|round| in_turn(round, 3).collect()).collect();
        assert_eq!(orders, [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]);
        assert_eq!(in_turn(7, 0).count(), 0);
    }

    #[test]
    fn noisy_rounds_are_repeated_up_to_a_limit() {
        let every = |nth: usize| {
            let (measured, made) = made(Paired::new(5).repeating(3), |number| number % nth == nth - 1);
            (measured.made()[0], made, measured.inconclusive().is_some())
        };
        assert_eq!((every(1), every(3)), ((5, 5, false), (5, 15, false)));
        assert_eq!(every(4), (3, 15, true), "too few are those that chance has spared");
        let (measured, made) = made(Paired::new(5), |number| number > 0);
        assert_eq!((measured.made(), made, measured.inconclusive()), ([4, 1], 5, None), "none is repeated");
    }

    #[test]
    fn short_rounds_are_all_quiet_or_none_is() {
        let of = |last_is_quiet: bool| {
            made(Paired::new(4).as_a_whole(), |number| number < 3 || last_is_quiet).0.made()
        };
        assert_eq!((of(true), of(false)), ([4, 0], [0, 4]));
    }

    #[test]
    fn a_round_may_be_set_aside_by_the_experiment_itself() {
        let made = Paired::new(1).watched(
            || (),
            |()| None,
            |_, round| {
                round.set_aside("its loops did not get the CPU");
                round.set_aside("another reason");
                Ok::<(), Infallible>(())
            },
        );
        assert_eq!(made.unwrap().inconclusive(), Some("its loops did not get the CPU"));
        assert_eq!(Measured::as_a_whole(vec![Round::default()], None).inconclusive(), None);
        assert_eq!(Measured::default().inconclusive(), None);
    }

    #[test]
    fn what_is_no_number_is_left_out() {
        let mut round = Round::default();
        round.put("a", "ns", f64::NAN);
        round.put("a", "us", None);
        round.put("a", "ms", 1.0);
        assert_eq!(round.figures().collect::<Vec<_>>(), [("a", "ms", 1.0)]);
        let measured = Measured::as_a_whole(vec![round], None);
        assert_eq!((measured.median("a", "ms"), measured.median("a", "ns")), (Some(1.0), None));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

        /// The ratio of two contenders that share each round does not depend on drift from round to round.
        #[test]
        fn the_ratio_of_pairs_knows_no_drift(drift in prop::collection::vec(0.1..10.0_f64, 1..20), ratio in 0.1..10.0_f64) {
            let rounds = drift.iter().map(|speed| {
                let mut round = Round::default();
                round.put("a", "ns", speed * ratio);
                round.put("b", "ns", *speed);
                round
            });
            let measured = Measured::as_a_whole(rounds.collect(), None);
            let found = measured.ratio("ns", "a", "b").unwrap();
            prop_assert!((found.median / ratio - 1.0).abs() < 1e-9);
            prop_assert_eq!(found.values, drift.len());
        }

        #[test]
        fn what_is_set_aside_has_no_part_in_a_conclusive_figure(quiet in prop::collection::vec(any::<bool>(), 1..30)) {
            let (measured, made) = made(Paired::new(quiet.len()), |number| quiet[number]);
            let kept = quiet.iter().filter(|quiet| **quiet).count();
            prop_assert_eq!((measured.made(), made), ([kept, quiet.len() - kept], quiet.len()));
            prop_assert_eq!(measured.inconclusive().is_some(), kept * 3 < quiet.len());
            let counted = if kept * 3 < quiet.len() { quiet.len() } else { kept };
            prop_assert_eq!(measured.counted().count(), counted);
        }
    }
}
