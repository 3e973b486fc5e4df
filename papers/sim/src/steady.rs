//! Detects when a run becomes steady: [`mser_5`].

/// Returns how many of these observations, made at equal distances, belong to the warm-up, by the rule MSER-5
/// (White, Cobb and Spratt 2000): the mean of the remaining observations has the smallest standard error.
///
/// Observations are averaged in groups of five. Of all points at which the averages can be cut, the rule
/// takes the one that minimises the squared standard error of the rest. A cut in the second half means that
/// the run was too short, and gives `None`, as do fewer than ten observations.
///
/// ```
/// let settles = |observation: i32| if observation < 40 { f64::from(observation) } else { 40.0 };
/// let run: Vec<f64> = (0..200).map(settles).collect();
/// assert_eq!(softtimers_sim::mser_5(&run), Some(40));
/// let never: Vec<f64> = (0..200).map(f64::from).collect();
/// assert_eq!(softtimers_sim::mser_5(&never), None);
/// ```
pub fn mser_5(observations: &[f64]) -> Option<usize> {
    let means: Vec<f64> =
        observations.chunks_exact(BATCH).map(|batch| batch.iter().sum::<f64>() / BATCH as f64).collect();
    if means.len() < 2 {
        return None;
    }
    // From the end backwards, so that each cut adds one mean to the rest (Welford).
    let (mut mean, mut squares) = (0.0, 0.0);
    let mut best = (f64::INFINITY, 0);
    for (place, value) in means.iter().enumerate().rev() {
        let count = (means.len() - place) as f64;
        let off = value - mean;
        mean += off / count;
        squares += off * (value - mean);
        let error = squares / (count * count);
        // The earliest of several equal ones. The last few are too few to be significant.
        if place + FEWEST <= means.len() && error <= best.0 {
            best = (error, place);
        }
    }
    (2 * best.1 <= means.len()).then_some(best.1 * BATCH)
}

const BATCH: usize = 5;
/// Least number of means that remain.
const FEWEST: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use softtimers_core::Random;

    /// Noise between zero and one about a level.
    fn run(level: impl Fn(usize) -> f64, seed: u64) -> Vec<f64> {
        let mut random = Random::stream(seed, 1);
        (0..500).map(|at| level(at) + random.below(1 << 20) as f64 / f64::from(1 << 20)).collect()
    }

    #[test]
    fn a_run_that_is_steady_from_the_beginning_has_hardly_a_warm_up() {
        let cuts: Vec<_> = (0..100).map(|seed| mser_5(&run(|_| 7.0, seed))).collect();
        let early = cuts.iter().filter(|cut| cut.is_some_and(|cut| cut <= 50)).count();
        assert!(early >= 60, "{cuts:?}");
    }

    #[test]
    fn what_differs_at_the_beginning_is_cut_off() {
        for seed in 0..100 {
            let cut = mser_5(&run(|at| if at < 100 { 0.0 } else { 10.0 }, seed));
            assert!(cut.is_none_or(|cut| cut >= 100), "{seed}: {cut:?}");
            let cut = mser_5(&run(|at| 20.0 / (1.0 + at as f64), seed));
            assert!(cut.is_none_or(|cut| cut >= 10), "{seed}: {cut:?}");
        }
    }

    #[test]
    fn short_and_constant_runs_have_none() {
        assert_eq!(mser_5(&[1.0; 9]), None);
        assert_eq!(mser_5(&[0.0; 100]), Some(0));
    }
}
