//! Faults of a stream under Toxiproxy's names: a [`Toxic`], and the [`Chain`] of those in one direction of a
//! connection. A state machine: time is an argument, and there is no socket.
//!
//! ```text
//!   offer ─▶ [ latency ]─[ bandwidth ]─[ slicer ]─[ limit_data ] ─▶ pop_due
//!            each piece gets its time as it comes in; none overtakes another
//! ```
//!
//! The effects are those of Toxiproxy 2, as observed; the table of `tests/wan/toxics.rs` of softtimers-cli has both. Here
//! the end of one direction leaves the other open; when a toxic is changed or removed, everything held in the chain is
//! released at once, where Toxiproxy releases only that toxic's; and a [`Timeout`](Toxic::Timeout) counts from when it met
//! the connection, not from the last data.

use std::collections::VecDeque;
use std::time::Duration;

use softtimers_core::{Random, Timestamp};

use crate::Probability;

/// A fault of one direction of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Toxic {
    /// Delays bytes by `latency`, plus or minus up to `jitter`.
    Latency {
        /// The delay of each piece.
        latency: Duration,
        /// The most by which it varies.
        jitter: Duration,
    },
    /// Limits the rate of a connection. With zero nothing passes until the toxic changes or goes, and then all that was
    /// held.
    Bandwidth {
        /// Bytes a second.
        rate: u64,
    },
    /// Delays the end of the stream.
    SlowClose {
        /// The delay of the end.
        delay: Duration,
    },
    /// Passes nothing, and closes the connection after a time, or when the toxic is removed.
    Timeout {
        /// The time from when the toxic met the connection; zero for never.
        timeout: Duration,
    },
    /// Resets the connection a time after its first data.
    ResetPeer {
        /// The time until the reset.
        timeout: Duration,
    },
    /// Passes bytes in slices.
    Slicer {
        /// Their mean length.
        average_size: u32,
        /// The most bytes by which the length varies.
        size_variation: u32,
        /// The time between two of them.
        delay: Duration,
    },
    /// Closes the connection once `bytes` have passed.
    LimitData {
        /// The number of bytes.
        bytes: u64,
    },
}

/// A toxic, and the share of the connections that meet it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dose {
    /// Identifies it: setting the same number again means the same toxic, perhaps changed.
    pub id: u64,
    /// Counts its changes: another number is a change, which releases what is held, even if all else is the same.
    pub revision: u64,
    /// The fault.
    pub toxic: Toxic,
    /// The share of connections that meet it, drawn when a connection and a toxic first meet.
    pub toxicity: Probability,
}

/// An item that leaves a [`Chain`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Passed {
    /// Bytes of the stream.
    Bytes(Box<[u8]>),
    /// The end of this direction.
    End,
    /// The whole connection is to be closed, once what came before is written.
    Close,
    /// The whole connection is to be reset.
    Reset,
}

/// The toxics that one direction of a connection meets, in order.
#[derive(Debug)]
pub struct Chain {
    stages: Vec<Stage>,
    random: Random,
    held: VecDeque<(Timestamp, Passed)>,
    /// Input that came while very many pieces were held, with its time: bytes, or the end. It is cut up as those leave,
    /// so their number is bounded; its times are unaffected.
    waiting: VecDeque<(Timestamp, Option<Box<[u8]>>)>,
    /// When and how the connection ends.
    verdict: Option<(Timestamp, Passed)>,
    is_over: bool,
    swallowed: usize,
}

#[derive(Debug)]
struct Stage {
    dose: Dose,
    is_met: bool,
    since: Timestamp,
    /// When the latest input is through.
    busy_until: Timestamp,
    /// Bytes that have passed.
    passed: u64,
    /// Whether it has ended the connection after as many bytes as it allows.
    is_spent: bool,
}

impl Chain {
    /// Creates a chain without toxics.
    pub fn new(seed: u64) -> Self {
        Chain {
            stages: Vec::new(),
            random: Random::stream(seed, 0),
            held: VecDeque::new(),
            waiting: VecDeque::new(),
            verdict: None,
            is_over: false,
            swallowed: 0,
        }
    }

    /// Says whether input passes at once and unchanged.
    pub fn is_clear(&self) -> bool {
        self.stages.is_empty() && self.held.is_empty() && self.verdict.is_none() && !self.is_over
    }

    /// Sets the toxics. One that is already there stays as it is.
    pub fn set(&mut self, now: Timestamp, doses: &[Dose]) {
        let mut before = std::mem::take(&mut self.stages);
        let mut lets_go = false;
        for &dose in doses {
            let known = before.iter().position(|stage| stage.dose.id == dose.id).map(|at| before.remove(at));
            let stage = match known {
                Some(stage) if stage.dose == dose => stage,
                known => {
                    lets_go |= known.is_some();
                    let is_met = dose.toxicity.happens(&mut self.random);
                    let (passed, is_spent) = known.map_or((0, false), |stage| (stage.passed, stage.is_spent));
                    Stage { dose, is_met, since: now, busy_until: now, passed, is_spent }
                }
            };
            self.stages.push(stage);
        }
        if lets_go || !before.is_empty() {
            self.held.iter_mut().for_each(|(due, _)| *due = now.min(*due));
            for (_, whole) in std::mem::take(&mut self.waiting) {
                self.hold(now, whole.map_or(Passed::End, Passed::Bytes));
            }
            self.stages.iter_mut().for_each(|stage| stage.busy_until = stage.busy_until.min(now));
        }
        let closes =
            before.iter().any(|stage| stage.is_met && matches!(stage.dose.toxic, Toxic::Timeout { .. }));
        let last = self.held.back().map_or(now, |(due, _)| now.max(*due));
        let timeouts = self.stages.iter().filter_map(|stage| stage.ends_at(last));
        let verdict = closes.then_some(now).into_iter().chain(timeouts).min().map(|at| (at, Passed::Close));
        // A reset that has begun stays.
        self.verdict = self.verdict.take().filter(|(_, how)| *how == Passed::Reset).or(verdict);
    }

    /// Adds bytes of input.
    pub fn offer(&mut self, now: Timestamp, bytes: Box<[u8]>) {
        if self.is_over {
            self.swallowed += bytes.len();
        } else if self.held.len() >= MOST_PIECES {
            self.waiting.push_back((now, Some(bytes)));
        } else {
            self.feed(now, 0, bytes);
        }
    }

    /// Ends the input.
    pub fn end(&mut self, now: Timestamp) {
        if self.held.len() >= MOST_PIECES {
            return self.waiting.push_back((now, None));
        }
        let mut at = now;
        for stage in self.stages.iter_mut().filter(|stage| stage.is_met) {
            at = at.max(stage.busy_until);
            match stage.dose.toxic {
                Toxic::SlowClose { delay } => at += delay,
                Toxic::ResetPeer { timeout } => {
                    self.verdict.get_or_insert((at + timeout, Passed::Reset));
                    return;
                }
                _ => {}
            }
        }
        self.hold(at, Passed::End);
    }

    /// Returns when to call next, if anything is held or due.
    pub fn poll_at(&self) -> Option<Timestamp> {
        let next = self.held.front().map(|(due, _)| *due);
        let next = next.into_iter().chain(self.verdict.as_ref().map(|(at, _)| *at)).min();
        next.filter(|&at| at < NEVER)
    }

    /// Returns the next output that is due by now, in order.
    pub fn pop_due(&mut self, now: Timestamp) -> Option<Passed> {
        let held = self.held.front().map(|(due, _)| *due).filter(|&due| due <= now);
        let verdict = self.verdict.as_ref().map(|(at, _)| *at).filter(|&at| at <= now);
        match (held, verdict) {
            (Some(due), at) if at.is_none_or(|at| due <= at) => {
                let passed = self.held.pop_front().map(|(_, passed)| passed);
                self.take_waiting();
                passed
            }
            (_, Some(_)) => {
                self.is_over = true;
                let dropped = self.held.drain(..).map(|(_, passed)| length(&passed));
                let uncut = self.waiting.drain(..).filter_map(|(_, whole)| Some(whole?.len()));
                self.swallowed += dropped.chain(uncut).sum::<usize>();
                self.verdict.take().map(|(_, how)| how)
            }
            _ => None,
        }
    }

    /// Returns how many bytes were swallowed since the last call.
    pub fn swallowed(&mut self) -> usize {
        std::mem::take(&mut self.swallowed)
    }

    /// Moves waiting input into the chain, as far as there is room.
    fn take_waiting(&mut self) {
        while self.held.len() < MOST_PIECES {
            match self.waiting.pop_front() {
                Some((at, Some(bytes))) => self.feed(at, 0, bytes),
                Some((at, None)) => self.end(at),
                None => return,
            }
        }
    }

    fn hold(&mut self, at: Timestamp, passed: Passed) {
        let at = self.held.back().map_or(at, |(last, _)| at.max(*last));
        self.held.push_back((at, passed));
    }

    /// Feeds bytes to a stage, or to the output behind the last.
    fn feed(&mut self, now: Timestamp, at: usize, bytes: Box<[u8]>) {
        let Some(stage) = self.stages.get_mut(at) else { return self.hold(now, Passed::Bytes(bytes)) };
        if !stage.is_met {
            return self.feed(now, at + 1, bytes);
        }
        let begin = now.max(stage.busy_until);
        match stage.dose.toxic {
            Toxic::SlowClose { .. } => self.feed(now, at + 1, bytes),
            Toxic::Timeout { .. } => self.swallowed += bytes.len(),
            Toxic::ResetPeer { timeout } => {
                self.swallowed += bytes.len();
                if self.verdict.as_ref().is_none_or(|(at, _)| *at > now + timeout) {
                    self.verdict = Some((now + timeout, Passed::Reset));
                }
            }
            Toxic::Latency { latency, jitter } => {
                let vary = u64::try_from(jitter.as_nanos()).unwrap_or(u64::MAX / 4).min(u64::MAX / 4);
                let above = Duration::from_nanos(self.random.below(2 * vary + 1));
                stage.busy_until = (now + latency + above).saturating_sub(jitter).max(begin);
                let due = stage.busy_until;
                self.feed(due, at + 1, bytes);
            }
            Toxic::Bandwidth { rate: 0 } => {
                stage.busy_until = NEVER;
                self.feed(NEVER, at + 1, bytes);
            }
            Toxic::Bandwidth { rate } => {
                // A tenth of a second at a time, as in Toxiproxy.
                let pieces = usize::try_from(rate / 10).unwrap_or(usize::MAX).max(1);
                let mut through = begin;
                for piece in bytes.chunks(pieces) {
                    through += time_of(piece.len(), rate);
                    self.feed(through, at + 1, piece.into());
                }
                self.stages[at].busy_until = through;
            }
            Toxic::Slicer { average_size, size_variation, delay } => {
                let mut through = begin;
                for slice in slices(&bytes, average_size, size_variation, &mut self.random) {
                    self.feed(through, at + 1, slice.into());
                    through += delay;
                }
                self.stages[at].busy_until = through;
            }
            Toxic::LimitData { bytes: limit } => {
                let left = usize::try_from(limit.saturating_sub(stage.passed)).unwrap_or(usize::MAX);
                let passes = bytes.len().min(left);
                stage.passed += passes as u64;
                stage.is_spent |= stage.passed >= limit;
                let is_spent = stage.is_spent;
                self.swallowed += bytes.len() - passes;
                if passes > 0 {
                    self.feed(now, at + 1, bytes[..passes].into());
                }
                if is_spent && self.verdict.is_none() {
                    let last = self.held.back().map_or(now, |(due, _)| now.max(*due));
                    self.verdict = Some((last, Passed::Close));
                }
            }
        }
    }
}

impl Stage {
    /// Returns when it closes the connection by itself, if it does; `last` is when everything held is through.
    fn ends_at(&self, last: Timestamp) -> Option<Timestamp> {
        match self.dose.toxic {
            Toxic::Timeout { timeout } if self.is_met && !timeout.is_zero() => Some(self.since + timeout),
            Toxic::LimitData { .. } if self.is_met && self.is_spent => Some(last),
            _ => None,
        }
    }
}

fn length(passed: &Passed) -> usize {
    if let Passed::Bytes(bytes) = passed { bytes.len() } else { 0 }
}

fn time_of(bytes: usize, rate: u64) -> Duration {
    let nanos = bytes as u128 * 1_000_000_000 / u128::from(rate);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Splits into varying halves until all are short: no slice is longer than the average and the variation.
fn slices<'b>(bytes: &'b [u8], average: u32, variation: u32, random: &mut Random) -> Vec<&'b [u8]> {
    let most = (average as usize).saturating_add(variation as usize).max(1);
    if bytes.len() <= most {
        return vec![bytes];
    }
    let around = (variation as usize).min(bytes.len() / 2 - 1);
    let middle = bytes.len() / 2 + random.below(2 * around as u64 + 1) as usize - around;
    let (left, right) = bytes.split_at(middle.clamp(1, bytes.len() - 1));
    let mut all = slices(left, average, variation, random);
    all.extend(slices(right, average, variation, random));
    all
}

/// When bytes pass that wait for a toxic to change or go.
const NEVER: Timestamp = Timestamp::MAX;
/// More than the segments of a connection's window.
const MOST_PIECES: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    const ZERO: Timestamp = Timestamp::ZERO;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn chain(toxics: &[Toxic]) -> Chain {
        let mut chain = Chain::new(1);
        chain.set(ZERO, &doses(toxics));
        chain
    }

    fn doses(toxics: &[Toxic]) -> Vec<Dose> {
        let dose = |(toxic, id): (&Toxic, u64)| Dose {
            id,
            revision: 0,
            toxic: *toxic,
            toxicity: Probability::ALWAYS,
        };
        toxics.iter().zip(1..).map(dose).collect()
    }

    /// Returns all output until nothing is left, with its time in milliseconds.
    fn drain(chain: &mut Chain) -> Vec<(u64, Passed)> {
        let mut all = Vec::new();
        while let Some(at) = chain.poll_at() {
            while let Some(passed) = chain.pop_due(at) {
                all.push((at.as_nanos() / 1_000_000, passed));
            }
        }
        all
    }

    fn bytes(length: usize) -> Box<[u8]> {
        (0..length).map(|byte| byte as u8).collect()
    }

    #[test]
    fn latency_delays_and_keeps_the_order() {
        let mut chain = chain(&[Toxic::Latency { latency: ms(100), jitter: ms(90) }]);
        for number in 0..50 {
            chain.offer(ZERO + ms(number), vec![number as u8].into());
        }
        chain.end(ZERO + ms(50));
        let all = drain(&mut chain);
        assert!(all.is_sorted_by_key(|(at, _)| *at));
        let order = all.iter().flat_map(|(_, passed)| match passed {
            Passed::Bytes(bytes) => bytes.to_vec(),
            _ => vec![],
        });
        assert_eq!(order.collect::<Vec<u8>>(), (0..50).collect::<Vec<u8>>());
        assert_eq!(all.last().map(|(_, passed)| passed), Some(&Passed::End));
        assert!(all[0].0 >= 10 && all[50].0 <= 49 + 190);
    }

    #[test]
    fn bandwidth_is_exact_and_the_end_waits() {
        // 1,000 bytes at 1 kB/s, in tenths of a second.
        let mut chain = chain(&[Toxic::Bandwidth { rate: 1_000 }]);
        chain.offer(ZERO, bytes(1_000));
        chain.end(ZERO);
        let all = drain(&mut chain);
        let times: Vec<_> = all.iter().map(|(at, _)| *at).collect();
        assert_eq!(times, [100, 200, 300, 400, 500, 600, 700, 800, 900, 1_000, 1_000]);
        assert_eq!(all[10].1, Passed::End);
    }

    /// The usual way to cut a line: what comes is held, also its end, until the toxic changes or goes.
    #[test]
    fn a_rate_of_zero_holds_everything_until_it_changes_or_goes() {
        let none = Toxic::Bandwidth { rate: 0 };
        let cut = || {
            let mut chain = chain(&[none, Toxic::Latency { latency: ms(3), jitter: ms(0) }]);
            chain.offer(ZERO, bytes(7));
            chain.offer(ZERO + ms(1), bytes(5));
            chain.end(ZERO + ms(2));
            assert_eq!((chain.poll_at(), chain.pop_due(ZERO + ms(9_000_000))), (None, None));
            chain
        };
        let passed = [(9, Passed::Bytes(bytes(7))), (9, Passed::Bytes(bytes(5))), (9, Passed::End)];
        for after in [vec![], doses(&[Toxic::Bandwidth { rate: 1_000 }])] {
            let mut chain = cut();
            chain.set(ZERO + ms(9), &after);
            assert_eq!(drain(&mut chain), passed);
        }
        // An end behind which nothing is held passes; what comes after a change is held again.
        let mut chain = chain(&[none]);
        chain.end(ZERO);
        assert_eq!(drain(&mut chain), [(0, Passed::End)]);
        let mut again = super::tests::chain(&[Toxic::Bandwidth { rate: 5 }]);
        again.set(ZERO, &doses(&[none]));
        again.offer(ZERO + ms(1), bytes(1));
        assert_eq!(again.poll_at(), None);
    }

    /// A limit that is lowered below what has passed closes at the next data; one that was reached closes all the same.
    #[test]
    fn a_limit_that_changes_counts_what_has_passed() {
        let limit = |bytes| Toxic::LimitData { bytes };
        let mut chain = chain(&[limit(5_000)]);
        chain.offer(ZERO, bytes(100));
        assert_eq!(drain(&mut chain), [(0, Passed::Bytes(bytes(100)))]);
        chain.set(ZERO + ms(1), &doses(&[limit(10)]));
        assert_eq!(chain.poll_at(), None);
        chain.offer(ZERO + ms(2), bytes(1));
        assert_eq!((drain(&mut chain), chain.swallowed()), (vec![(2, Passed::Close)], 1));
        let latency = Toxic::Latency { latency: ms(50), jitter: ms(0) };
        let mut chain = super::tests::chain(&[limit(10), latency]);
        chain.offer(ZERO, bytes(10));
        chain.set(ZERO + ms(1), &doses(&[limit(99), latency]));
        assert_eq!(drain(&mut chain), [(1, Passed::Bytes(bytes(10))), (1, Passed::Close)]);
    }

    #[test]
    fn a_slow_close_holds_the_end_only() {
        let mut chain = chain(&[Toxic::SlowClose { delay: ms(30) }]);
        chain.offer(ZERO, bytes(3));
        chain.end(ZERO + ms(1));
        assert_eq!(drain(&mut chain), [(0, Passed::Bytes(bytes(3))), (31, Passed::End)]);
    }

    #[test]
    fn a_timeout_swallows_and_closes_in_time_or_when_it_is_removed() {
        let mut chain = chain(&[Toxic::Timeout { timeout: ms(20) }]);
        chain.offer(ZERO, bytes(7));
        assert_eq!(drain(&mut chain), [(20, Passed::Close)]);
        assert_eq!(chain.swallowed(), 7);
        let mut chain = super::tests::chain(&[Toxic::Timeout { timeout: Duration::ZERO }]);
        chain.offer(ZERO, bytes(7));
        assert_eq!(chain.poll_at(), None);
        chain.set(ZERO + ms(9), &[]);
        assert_eq!(drain(&mut chain), [(9, Passed::Close)]);
    }

    #[test]
    fn a_reset_comes_its_time_after_the_first_piece() {
        let mut chain = chain(&[Toxic::ResetPeer { timeout: ms(5) }]);
        assert_eq!(chain.poll_at(), None);
        chain.offer(ZERO + ms(10), bytes(1));
        chain.offer(ZERO + ms(12), bytes(1));
        assert_eq!(drain(&mut chain), [(15, Passed::Reset)]);
        assert_eq!(chain.swallowed(), 2);
        // Also where nothing but the end comes.
        let mut chain = super::tests::chain(&[Toxic::ResetPeer { timeout: ms(5) }]);
        chain.end(ZERO);
        assert_eq!(drain(&mut chain), [(5, Passed::Reset)]);
    }

    #[test]
    fn limited_data_pass_to_the_byte_and_then_it_closes() {
        let mut chain =
            chain(&[Toxic::LimitData { bytes: 10 }, Toxic::Latency { latency: ms(4), jitter: ms(0) }]);
        chain.offer(ZERO, bytes(6));
        chain.offer(ZERO + ms(1), bytes(6));
        chain.offer(ZERO + ms(2), bytes(6));
        let expected = [(4, Passed::Bytes(bytes(6))), (5, Passed::Bytes(bytes(4))), (5, Passed::Close)];
        assert_eq!(drain(&mut chain), expected);
        assert_eq!(chain.swallowed(), 8);
    }

    #[test]
    fn slices_are_whole_and_apart() {
        for (average, variation) in [(100, 20), (1, 0), (7, 7), (0, 0), (1_000_000, 5)] {
            let delay = Duration::from_micros(1_000);
            let mut chain =
                chain(&[Toxic::Slicer { average_size: average, size_variation: variation, delay }]);
            chain.offer(ZERO, bytes(2_000));
            let all = drain(&mut chain);
            let lengths = all.iter().map(|(_, passed)| length(passed));
            assert!(lengths.clone().all(|slice| slice > 0));
            assert_eq!(lengths.sum::<usize>(), 2_000);
            assert!(all.iter().zip(0..).all(|((at, _), number)| *at == number));
        }
    }

    #[test]
    fn the_number_of_slices_that_are_held_is_bounded() {
        let slicer = [Toxic::Slicer { average_size: 1, size_variation: 0, delay: ms(1) }];
        let fed = || {
            let mut chain = chain(&slicer);
            for number in 0..8 {
                chain.offer(ZERO + ms(number), bytes(40_000));
            }
            chain.end(ZERO + ms(9));
            assert!(chain.held.len() < MOST_PIECES + 40_000);
            chain
        };
        let all = drain(&mut fed());
        assert_eq!(all.len(), 320_001);
        assert!(all.iter().zip(0..320_000).all(|((at, passed), due)| *at == due && length(passed) == 1));
        assert_eq!(all.last(), Some(&(320_000, Passed::End)));
        // Released data includes what was not cut yet, and so does dropped data.
        let mut chain = fed();
        chain.set(ZERO + ms(10), &[]);
        let all = drain(&mut chain);
        assert_eq!(all.iter().map(|(_, passed)| length(passed)).sum::<usize>(), 320_000);
        assert_eq!(all.last(), Some(&(10, Passed::End)));
        let mut chain = fed();
        chain.set(ZERO + ms(10), &doses(&[slicer[0], Toxic::Timeout { timeout: ms(5) }]));
        assert_eq!((drain(&mut chain).pop(), chain.swallowed()), (Some((15, Passed::Close)), 320_000 - 16));
    }

    #[test]
    fn what_is_held_goes_at_once_when_a_toxic_is_removed() {
        let slow = [Toxic::Latency { latency: ms(10_000), jitter: ms(0) }];
        let mut chain = chain(&slow);
        chain.offer(ZERO, bytes(1));
        chain.set(ZERO + ms(1), &doses(&slow));
        assert_eq!(chain.poll_at(), Some(ZERO + ms(10_000)), "the same is no change");
        let mut again = super::tests::chain(&slow);
        again.offer(ZERO, bytes(1));
        again.set(ZERO + ms(1), &[Dose { revision: 1, ..doses(&slow)[0] }]);
        assert_eq!(drain(&mut again), [(1, Passed::Bytes(bytes(1)))]);
        chain.set(ZERO + ms(2), &[]);
        chain.offer(ZERO + ms(3), bytes(2));
        assert_eq!(drain(&mut chain), [(2, Passed::Bytes(bytes(1))), (3, Passed::Bytes(bytes(2)))]);
        assert!(chain.is_clear());
    }

    #[test]
    fn toxicity_is_a_share_of_the_connections() {
        let toxic = Toxic::Latency { latency: ms(1), jitter: ms(0) };
        let dose = Dose { id: 1, revision: 0, toxic, toxicity: Probability::per_million(250_000).unwrap() };
        let met = (0..4_000).filter(|&seed| {
            let mut chain = Chain::new(seed);
            chain.set(ZERO, &[dose]);
            chain.offer(ZERO, bytes(1));
            chain.poll_at() != Some(ZERO)
        });
        let met = met.count();
        // Four standard deviations around 1,000; the seeds are fixed.
        assert!((890..1_110).contains(&met), "{met}");
    }
}
