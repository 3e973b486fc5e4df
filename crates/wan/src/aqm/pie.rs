//! PIE: drops packets at random as they come, more of them the longer the wait is and the faster it grows (RFC 8033).
//!
//! ```text
//!   every 15 ms   p += scale(p) · (α · (wait − target) + β · (wait − wait before))
//!   a packet      dropped with probability p, but none in a burst after an idle time
//! ```
//!
//! Of the RFC's optional parts, it has marks (section 5.1) and the bound of a step (5.5), but not de-randomization
//! (5.4). A queue of at most two packets accepts everything; the RFC counts bytes there. One rule is Linux's: [beyond a
//! quarter of a second](LINUX_BEYOND) the probability rises by another fiftieth at each update.

use std::time::Duration;

use softtimers_core::{Random, Timestamp};

/// The parameters of [PIE](super::Aqm::Pie).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PieConfig {
    /// The target wait.
    pub target: Duration,
    /// The time between two updates of the probability.
    pub update: Duration,
    /// The longest burst after an idle time that is let through.
    pub burst: Duration,
    /// Packets that can carry a mark are marked instead of dropped, while the probability is at most a tenth.
    pub ecn: bool,
}

impl Default for PieConfig {
    /// 15 ms, every 15 ms, 150 ms (RFC 8033, section 4), dropping.
    fn default() -> Self {
        let fifteen = Duration::from_millis(15);
        PieConfig { target: fifteen, update: fifteen, burst: Duration::from_millis(150), ecn: false }
    }
}

/// The decision about an arriving packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Enqueue,
    Mark,
    Drop,
}

/// The state of one queue, as in the RFC's appendix A. Probabilities are fractions of [`ONE`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Pie {
    probability: u64,
    /// The wait at the last update, in nanoseconds.
    old_wait: i64,
    allowance: Duration,
    next: Option<Timestamp>,
    /// When the link will have sent everything waiting; this does not change until a packet comes.
    through: Timestamp,
}

impl Pie {
    /// Sets when everything waiting will have been sent, after a packet has come or the link has changed. The caller
    /// has made all earlier updates due by [`update`](Self::update).
    pub(crate) fn expect(&mut self, through: Timestamp) {
        self.through = through;
    }

    /// Makes all updates due by `now`. No packet has come since the last call, so a late update sees the same wait as a
    /// timely one.
    pub(crate) fn update(&mut self, config: &PieConfig, now: Timestamp) {
        let step = config.update.max(Duration::from_nanos(1));
        let mut next = *self.next.get_or_insert_with(|| {
            self.allowance = config.burst;
            now + step
        });
        if next <= now {
            let each = u64::try_from(step.as_nanos()).unwrap_or(u64::MAX);
            let missed = (now.as_nanos() - next.as_nanos()) / each;
            // If very many are due, only the newest matter: they forget the earlier ones.
            let skipped = missed.saturating_sub(MOST_LOOKS);
            next += Duration::from_nanos(skipped * each);
            for _ in skipped..=missed {
                self.look(config, self.through.saturating_duration_since(next));
                next += step;
            }
        }
        self.next = Some(next);
    }

    /// One update: `calculate_drop_prob`.
    fn look(&mut self, config: &PieConfig, wait: Duration) {
        let nanos = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX / 4).min(i64::MAX / 4);
        let (wait, target) = (nanos(wait), nanos(config.target));
        // α is an eighth and β five quarters of a part per second.
        let change = (i128::from(wait - target) + i128::from(wait - self.old_wait) * 10) * i128::from(ONE)
            / (8 * i128::from(SECOND));
        let mut change = change / scale(self.probability);
        if self.probability >= ONE / 10 {
            change = change.min(i128::from(ONE / 50));
        }
        if wait > nanos(LINUX_BEYOND) {
            change += i128::from(ONE / 50);
        }
        let mut probability = (i128::from(self.probability) + change).clamp(0, i128::from(ONE)) as u64;
        if wait == 0 && self.old_wait == 0 {
            probability = probability * 98 / 100;
        }
        let is_calm = wait < target / 2 && self.old_wait < target / 2;
        (self.probability, self.old_wait) = (probability, wait);
        self.allowance = self.allowance.saturating_sub(config.update);
        if probability == 0 && is_calm {
            self.allowance = config.burst;
        }
    }

    /// `enque`: decides about a packet that finds `waiting` packets in the queue.
    pub(crate) fn verdict(
        &mut self,
        config: &PieConfig,
        waiting: u64,
        capable: bool,
        random: &mut Random,
    ) -> Verdict {
        let target = i64::try_from(config.target.as_nanos()).unwrap_or(i64::MAX);
        let is_safe = (self.old_wait < target / 2 && self.probability < ONE / 5) || waiting <= 2;
        if !self.allowance.is_zero() || is_safe || random.below(ONE) >= self.probability {
            return Verdict::Enqueue;
        }
        if config.ecn && capable && self.probability <= ONE / 10 { Verdict::Mark } else { Verdict::Drop }
    }
}

/// Returns the divisor of a step: steps of a small probability are small (section 4.2).
fn scale(probability: u64) -> i128 {
    const STEPS: [(u64, i128); 6] =
        [(1_000_000, 2_048), (100_000, 512), (10_000, 128), (1_000, 32), (100, 8), (10, 2)];
    let part = STEPS.iter().find(|(parts, _)| probability < ONE / parts);
    part.map_or(1, |(_, scale)| *scale)
}

/// A wait beyond which the probability rises in any case: a rule of Linux (`net/sched/sch_pie.c`), not of the RFC.
const LINUX_BEYOND: Duration = Duration::from_millis(250);
/// A probability of one.
const ONE: u64 = 1 << 40;
const SECOND: i64 = 1_000_000_000;
/// The updates with an empty queue after which any probability has decayed to nothing.
const MOST_LOOKS: u64 = 2_000;

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1_000_000;

    /// A second implementation of the RFC's rules, in floating point and in the form of its pseudocode: sections 4.1,
    /// 4.2 and 4.4, with 5.1 and 5.5.
    struct Pseudocode {
        drop_prob: f64,
        qdelay_old: f64,
        burst_allowance: f64,
    }

    const QDELAY_REF: f64 = 0.015;
    const T_UPDATE: f64 = 0.015;

    impl Pseudocode {
        fn new() -> Self {
            Pseudocode { drop_prob: 0.0, qdelay_old: 0.0, burst_allowance: 0.15 }
        }

        /// `beyond` is an addition of another implementation; the RFC adds nothing.
        fn calculate(&mut self, current_qdelay: f64, beyond: f64) {
            let mut p = 0.125 * (current_qdelay - QDELAY_REF) + 1.25 * (current_qdelay - self.qdelay_old);
            p /= match self.drop_prob {
                d if d < 0.000_001 => 2_048.0,
                d if d < 0.000_01 => 512.0,
                d if d < 0.000_1 => 128.0,
                d if d < 0.001 => 32.0,
                d if d < 0.01 => 8.0,
                d if d < 0.1 => 2.0,
                _ => 1.0,
            };
            if self.drop_prob >= 0.1 && p > 0.02 {
                p = 0.02;
            }
            self.drop_prob = (self.drop_prob + p + beyond).clamp(0.0, 1.0);
            if current_qdelay == 0.0 && self.qdelay_old == 0.0 {
                self.drop_prob *= 0.98;
            }
            self.burst_allowance = (self.burst_allowance - T_UPDATE).max(0.0);
            let is_calm = current_qdelay < QDELAY_REF / 2.0 && self.qdelay_old < QDELAY_REF / 2.0;
            if self.drop_prob == 0.0 && is_calm {
                self.burst_allowance = 0.150;
            }
            self.qdelay_old = current_qdelay;
        }

        /// Decides about a packet that finds `waiting` packets in the queue. `u` is random, from 0 to 1. A couple of
        /// packets are two.
        fn enqueue(&self, waiting: u64, capable: bool, u: f64) -> Verdict {
            let is_safe = self.qdelay_old < QDELAY_REF / 2.0 && self.drop_prob < 0.2;
            // Summing tenths leaves a rounding error.
            if self.burst_allowance > 1e-9 || is_safe || waiting <= 2 || u >= self.drop_prob {
                Verdict::Enqueue
            } else if capable && self.drop_prob <= 0.1 {
                Verdict::Mark
            } else {
                Verdict::Drop
            }
        }

        fn check(&self, ours: &Pie) {
            let probability = ours.probability as f64 / ONE as f64;
            let off = (probability - self.drop_prob).abs();
            assert!(off < self.tolerance(), "{probability} {}", self.drop_prob);
            let allowance = ours.allowance.as_secs_f64();
            assert!((allowance - self.burst_allowance).abs() < 1e-6, "{allowance}");
        }

        /// Our probabilities are integers.
        fn tolerance(&self) -> f64 {
            1e-6 + self.drop_prob * 1e-3
        }
    }

    /// Ten seeds of waits that vary between nothing and `most`; both implementations see each of them.
    fn wander(most: u64, beyond: impl Fn(u64) -> f64, mut each: impl FnMut(&Pie, &Pseudocode, &mut Random)) {
        for seed in 0..10 {
            let mut random = Random::stream(seed, 0);
            let config = PieConfig::default();
            let (mut ours, mut theirs) = (Pie::default(), Pseudocode::new());
            let (mut now, mut wait) = (Timestamp::ZERO, 0u64);
            ours.update(&config, now);
            for step in 0..2_000 {
                let up = random.below(12 * MILLI);
                wait = if step / 300 % 2 == 0 { wait + up } else { wait.saturating_sub(up) }.min(most);
                now += config.update;
                ours.expect(now + Duration::from_nanos(wait));
                ours.update(&config, now);
                theirs.calculate(wait as f64 / 1e9, beyond(wait));
                theirs.check(&ours);
                each(&ours, &theirs, &mut random);
            }
        }
    }

    #[test]
    fn the_probability_is_that_of_the_pseudocode() {
        let mut highest: f64 = 0.0;
        wander(250 * MILLI, |_| 0.0, |_, theirs, _| highest = highest.max(theirs.drop_prob));
        assert!(highest == 1.0, "{highest}");
    }

    #[test]
    fn beyond_a_quarter_of_a_second_it_rises_by_a_fiftieth_more_as_in_linux() {
        let beyond = |wait| if wait > 250 * MILLI { 0.02 } else { 0.0 };
        let mut times = 0;
        wander(500 * MILLI, beyond, |_, theirs, _| times += u32::from(theirs.qdelay_old > 0.25));
        assert!(times > 1_000, "{times}");
    }

    /// Packets between the updates, each with its random number; half of them can be marked. Near the target the
    /// probability is small enough for marks; far from it, packets are dropped.
    #[test]
    fn verdicts_are_those_of_the_pseudocode() {
        let config = PieConfig { ecn: true, ..PieConfig::default() };
        let (mut counts, mut undecided) = ([0; 3], 0);
        let mut packets = |ours: &Pie, theirs: &Pseudocode, random: &mut Random| {
            for _ in 0..10 {
                let (waiting, capable) = (random.below(8), random.below(2) == 0);
                let u = random.clone().below(ONE) as f64 / ONE as f64;
                let expected = theirs.enqueue(waiting, capable, u);
                let verdict = ours.clone().verdict(&config, waiting, capable, random);
                // At the edge of a threshold, integers and fractions may differ.
                let is_near = |value: f64, edge: f64| (value - edge).abs() < 2.0 * theirs.tolerance();
                let p = theirs.drop_prob;
                if is_near(u, p) || is_near(p, 0.1) || is_near(p, 0.2) {
                    undecided += 1;
                    continue;
                }
                assert_eq!(verdict, expected, "{waiting} {capable} {u} {p}");
                counts[verdict as usize] += 1;
            }
        };
        for most in [20, 250] {
            wander(most * MILLI, |_| 0.0, &mut packets);
        }
        assert!(counts.iter().all(|&count| count > 200) && undecided < 4_000, "{counts:?} {undecided}");
    }

    /// Packets that come now and then, and a queue that empties meanwhile or does not.
    #[test]
    fn looks_that_were_missed_see_what_they_would_have_seen() {
        let config = PieConfig::default();
        let (mut late, mut punctual) = (Pie::default(), Pie::default());
        let mut random = Random::stream(3, 0);
        let (mut now, mut busy) = (Timestamp::ZERO, 0);
        for round in 0..3_000 {
            late.update(&config, now);
            assert_eq!(late, punctual.clone().updated(&config, now));
            let through = late.through.max(now) + Duration::from_millis(random.below(120));
            late.expect(through);
            punctual.update(&config, now);
            punctual.expect(through);
            // The load is too high for a while, then low.
            for _ in 0..random.below(if round / 100 % 2 == 0 { 60 } else { 900 }) {
                now += Duration::from_micros(700);
                punctual.update(&config, now);
            }
            busy += u32::from(punctual.probability > ONE / 100);
        }
        assert!((100..2_900).contains(&busy), "{busy}");
    }

    impl Pie {
        fn updated(mut self, config: &PieConfig, now: Timestamp) -> Self {
            self.update(config, now);
            self
        }
    }

    #[test]
    fn nothing_is_left_of_a_probability_after_a_silence() {
        let config = PieConfig::default();
        for silence in [10_000, 10_000_000, u64::MAX / 2_000_000] {
            let mut pie = Pie { probability: ONE, old_wait: 400 * MILLI as i64, ..Pie::default() };
            pie.update(&config, Timestamp::ZERO);
            pie.update(&config, Timestamp::ZERO + Duration::from_millis(silence));
            assert_eq!(pie.probability, 0, "{silence} ms");
        }
    }

    #[test]
    fn a_burst_after_silence_is_let_through_and_a_standing_queue_is_not() {
        let (config, mut pie, mut random) = (PieConfig::default(), Pie::default(), Random::stream(1, 0));
        let mut dropped = [0; 2];
        for look in 0..200u32 {
            let now = Timestamp::ZERO + config.update * look;
            pie.expect(now + Duration::from_millis(60));
            pie.update(&config, now);
            for _ in 0..10 {
                let late = usize::from(look >= 10);
                dropped[late] += u32::from(pie.verdict(&config, 50, false, &mut random) == Verdict::Drop);
            }
        }
        assert_eq!(dropped[0], 0);
        assert!(dropped[1] > 100, "{dropped:?}");
        // Packets that can be marked are, as long as that helps.
        let marks = PieConfig { ecn: true, ..config };
        let pie = Pie { probability: ONE / 20, old_wait: 60 * MILLI as i64, ..Pie::default() };
        let verdicts: Vec<Verdict> =
            (0..1_000).map(|_| pie.clone().verdict(&marks, 50, true, &mut random)).collect();
        assert!(verdicts.contains(&Verdict::Mark) && !verdicts.contains(&Verdict::Drop));
    }
}
