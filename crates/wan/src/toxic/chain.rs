//! The toxics of one direction of a connection, applied in order: [`Chain`].

use std::collections::VecDeque;
use std::time::Duration;

use softtimers_core::{Random, Timestamp};

use super::{Dose, Passed, Toxic};

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
mod tests;
