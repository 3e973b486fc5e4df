//! PIE: drops at random as packets come, more of them the longer the wait is and grows (RFC 8033).
//!
//! ```text
//!   every 15 ms   p += scale(p) · (α · (wait − target) + β · (wait − wait before))
//!   a packet      dropped with probability p, but none in a burst after an idle time
//! ```
//!
//! It has no de-randomization (the RFC's section 5.4), and lets everything into a queue of at most two packets, where Linux
//! counts bytes.

use std::time::Duration;

use softtimers_core::{Random, Timestamp};

/// The parameters of [PIE](super::Aqm::Pie).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PieConfig {
    /// The wait that it aims at.
    pub target: Duration,
    /// The time between two looks at the wait.
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

/// A verdict on a packet that comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Enqueue,
    Mark,
    Drop,
}

/// The state of one queue, as in the RFC's appendix A. Probabilities are parts of [`ONE`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Pie {
    probability: u64,
    /// The wait at the last look, in nanoseconds.
    old_wait: i64,
    allowance: Duration,
    next: Option<Timestamp>,
    /// When what waits will be through the link; while nothing comes, that does not change.
    through: Timestamp,
}

impl Pie {
    /// Says when all that waits will be through, after something has come in or the link has become another. The looks that
    /// were due before have been made by [`update`](Self::update).
    pub(crate) fn expect(&mut self, through: Timestamp) {
        self.through = through;
    }

    /// Looks at the wait, as often as it was due by `now`. Since the last call nothing has come in, so each look that was
    /// missed sees what it would have seen in its time.
    pub(crate) fn update(&mut self, config: &PieConfig, now: Timestamp) {
        let step = config.update.max(Duration::from_nanos(1));
        let mut next = *self.next.get_or_insert_with(|| {
            self.allowance = config.burst;
            now + step
        });
        if next <= now {
            let each = u64::try_from(step.as_nanos()).unwrap_or(u64::MAX);
            let missed = (now.as_nanos() - next.as_nanos()) / each;
            // Of very many only the newest: they forget what was before.
            let skipped = missed.saturating_sub(MOST_LOOKS);
            next += Duration::from_nanos(skipped * each);
            for _ in skipped..=missed {
                self.look(config, self.through.saturating_duration_since(next));
                next += step;
            }
        }
        self.next = Some(next);
    }

    /// `calculate_drop_prob`.
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
        // Beyond a quarter of a second it rises anyway, as in Linux.
        if wait > nanos(Duration::from_millis(250)) {
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

    /// `enque`: what becomes of a packet that finds `waiting` packets, and can carry a mark or not.
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

/// The steps of a small probability are small (section 4.2): by how much.
fn scale(probability: u64) -> i128 {
    const STEPS: [(u64, i128); 6] =
        [(1_000_000, 2_048), (100_000, 512), (10_000, 128), (1_000, 32), (100, 8), (10, 2)];
    let part = STEPS.iter().find(|(parts, _)| probability < ONE / parts);
    part.map_or(1, |(_, scale)| *scale)
}

/// A probability of one.
const ONE: u64 = 1 << 40;
const SECOND: i64 = 1_000_000_000;
/// After as many looks at an empty queue nothing is left of any probability.
const MOST_LOOKS: u64 = 2_000;

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1_000_000;

    /// The same rules a second time, in floating point and in the form of the RFC's pseudocode, with Linux's step beyond a
    /// quarter of a second.
    struct Pseudocode {
        drop_prob: f64,
        qdelay_old: f64,
        burst_allowance: f64,
    }

    impl Pseudocode {
        fn calculate(&mut self, current_qdelay: f64) {
            let (target, t_update) = (0.015, 0.015);
            let mut p = 0.125 * (current_qdelay - target) + 1.25 * (current_qdelay - self.qdelay_old);
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
            if current_qdelay > 0.25 {
                p += 0.02;
            }
            self.drop_prob = (self.drop_prob + p).clamp(0.0, 1.0);
            if current_qdelay == 0.0 && self.qdelay_old == 0.0 {
                self.drop_prob *= 0.98;
            }
            self.burst_allowance = (self.burst_allowance - t_update).max(0.0);
            if self.drop_prob == 0.0 && current_qdelay < target / 2.0 && self.qdelay_old < target / 2.0 {
                self.burst_allowance = 0.150;
            }
            self.qdelay_old = current_qdelay;
        }
    }

    /// Ten seeds of waits that wander between nothing and half a second.
    #[test]
    fn the_probability_is_that_of_the_pseudocode() {
        for seed in 0..10 {
            let mut random = Random::stream(seed, 0);
            let config = PieConfig::default();
            let mut ours = Pie::default();
            let mut theirs = Pseudocode { drop_prob: 0.0, qdelay_old: 0.0, burst_allowance: 0.15 };
            let (mut now, mut wait) = (Timestamp::ZERO, 0u64);
            ours.update(&config, now);
            for step in 0..2_000 {
                let up = random.below(12 * MILLI);
                wait = if step / 300 % 2 == 0 { wait + up } else { wait.saturating_sub(up) }.min(500 * MILLI);
                now += config.update;
                ours.expect(now + Duration::from_nanos(wait));
                ours.update(&config, now);
                theirs.calculate(wait as f64 / 1e9);
                let probability = ours.probability as f64 / ONE as f64;
                let off = (probability - theirs.drop_prob).abs();
                assert!(
                    off < 1e-6 + theirs.drop_prob * 1e-3,
                    "seed {seed}, step {step}: {probability} {}",
                    theirs.drop_prob
                );
                let allowance = ours.allowance.as_secs_f64();
                assert!(
                    (allowance - theirs.burst_allowance).abs() < 1e-6,
                    "seed {seed}, step {step}: {allowance}"
                );
            }
        }
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
            // Too much comes for a while, and then less.
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
        // What can be marked is, as long as that helps.
        let marks = PieConfig { ecn: true, ..config };
        let pie = Pie { probability: ONE / 20, old_wait: 60 * MILLI as i64, ..Pie::default() };
        let verdicts: Vec<Verdict> =
            (0..1_000).map(|_| pie.clone().verdict(&marks, 50, true, &mut random)).collect();
        assert!(verdicts.contains(&Verdict::Mark) && !verdicts.contains(&Verdict::Drop));
    }
}
