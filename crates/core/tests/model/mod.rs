//! The contract of `SoftTimers` written the slow and obvious way: one unsorted list, searched anew for
//! every question. The property tests hold the real thing against it after every operation.

pub(crate) mod lockstep;

use core::time::Duration;
use softtimers_core::Timestamp;

/// The slack that a test asks for; the real `Slack` is made from it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ModelSlack {
    Exact,
    Within(u64),
    Rounded(u64),
    Default,
    Deferrable,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    event: u32,
    due: u64,
    effective: u64,
    deadline: Option<u64>,
    sequence: u64,
}

#[derive(Debug)]
pub(crate) struct Model {
    tick: u64,
    clock_step: u64,
    latest: u64,
    sequence: u64,
    entries: Vec<Entry>,
}

/// The events that a turn may still hand out: sequence numbers below the line, due by its time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelTurn {
    now: u64,
    sequence: u64,
}

impl Model {
    pub(crate) fn new(tick: u64, clock_step: u64) -> Self {
        Model { tick, clock_step, latest: 0, sequence: 0, entries: Vec::new() }
    }

    pub(crate) fn schedule(&mut self, now: Timestamp, delay: u64, slack: ModelSlack, event: u32) {
        self.latest = self.latest.max(now.as_nanos());
        let due = now.as_nanos().saturating_add(delay).saturating_add(self.clock_step);
        self.insert(due, delay, slack, event);
    }

    pub(crate) fn schedule_at(&mut self, now: Timestamp, due: u64, slack: ModelSlack, event: u32) {
        self.latest = self.latest.max(now.as_nanos());
        self.insert(due, due.saturating_sub(now.as_nanos()), slack, event);
    }

    pub(crate) fn reschedule(&mut self, now: Timestamp, event: u32, delay: u64, slack: ModelSlack) -> bool {
        self.latest = self.latest.max(now.as_nanos());
        let due = now.as_nanos().saturating_add(delay).saturating_add(self.clock_step);
        self.rearm(event, due, delay, slack)
    }

    pub(crate) fn reschedule_at(&mut self, now: Timestamp, event: u32, due: u64, slack: ModelSlack) -> bool {
        self.latest = self.latest.max(now.as_nanos());
        self.rearm(event, due, due.saturating_sub(now.as_nanos()), slack)
    }

    fn rearm(&mut self, event: u32, due: u64, delay: u64, slack: ModelSlack) -> bool {
        let Some(at) = self.position(event) else { return false };
        let mut entry = self.entries[at];
        entry.due = due;
        let window = match slack {
            ModelSlack::Deferrable => 0,
            other => self.width(other, delay).unwrap_or(0),
        };
        if due <= entry.effective && entry.effective <= due.saturating_add(window) {
            entry.deadline = self.deadline(due, delay, slack, entry.effective);
        } else {
            entry.effective = self.effective(due, slack);
            entry.deadline = self.deadline(due, delay, slack, entry.effective);
            entry.sequence = self.next_sequence();
        }
        self.entries[at] = entry;
        true
    }

    pub(crate) fn cancel(&mut self, event: u32) -> Option<u32> {
        let at = self.position(event)?;
        Some(self.entries.remove(at).event)
    }

    pub(crate) fn trigger(&mut self, now: Timestamp) -> ModelTurn {
        if self.entries.iter().any(|entry| entry.effective <= now.as_nanos()) {
            self.latest = self.latest.max(now.as_nanos());
        }
        ModelTurn { now: self.latest.max(now.as_nanos()), sequence: self.sequence }
    }

    /// The event, its due time and its lateness.
    pub(crate) fn next(&mut self, turn: &ModelTurn) -> Option<(u32, Timestamp, Duration)> {
        let in_turn = |entry: &&Entry| {
            entry.effective < turn.now || (entry.effective == turn.now && entry.sequence < turn.sequence)
        };
        let first = *self.in_order().iter().find(in_turn)?;
        self.entries.retain(|entry| entry.event != first.event);
        let lateness = Duration::from_nanos(turn.now.saturating_sub(first.due));
        Some((first.event, Timestamp::from_nanos(first.due), lateness))
    }

    pub(crate) fn poll_at(&self) -> Option<Timestamp> {
        self.entries.iter().filter_map(|entry| entry.deadline).min().map(Timestamp::from_nanos)
    }

    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.entries.iter().map(|entry| entry.effective).min().map(Timestamp::from_nanos)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_pending(&self, event: u32) -> bool {
        self.position(event).is_some()
    }

    fn in_order(&self) -> Vec<Entry> {
        let mut sorted = self.entries.clone();
        sorted.sort_by_key(|entry| (entry.effective, entry.sequence));
        sorted
    }

    fn insert(&mut self, due: u64, delay: u64, slack: ModelSlack, event: u32) {
        let effective = self.effective(due, slack);
        let deadline = self.deadline(due, delay, slack, effective);
        let sequence = self.next_sequence();
        self.entries.push(Entry { event, due, effective, deadline, sequence });
    }

    /// On the tick and never early; what is already due takes its place at the latest time seen.
    fn effective(&self, due: u64, slack: ModelSlack) -> u64 {
        if due <= self.latest {
            return self.latest;
        }
        let exact = due.checked_next_multiple_of(self.tick).unwrap_or(u64::MAX);
        let ModelSlack::Rounded(window) = slack else { return exact };
        let mut best = exact;
        let mut candidate = exact;
        while candidate <= due.saturating_add(window / 2) {
            if (candidate / self.tick).trailing_zeros() > (best / self.tick).trailing_zeros() {
                best = candidate;
            }
            match candidate.checked_add(self.tick) {
                Some(next) => candidate = next,
                None => break,
            }
        }
        best
    }

    fn width(&self, slack: ModelSlack, delay: u64) -> Option<u64> {
        match slack {
            ModelSlack::Exact => Some(0),
            ModelSlack::Within(window) | ModelSlack::Rounded(window) => Some(window),
            ModelSlack::Default => Some((delay / 10).min(50_000).max(self.tick)),
            ModelSlack::Deferrable => None,
        }
    }

    fn deadline(&self, due: u64, delay: u64, slack: ModelSlack, effective: u64) -> Option<u64> {
        let deadline = due.saturating_add(self.width(slack, delay)?).max(effective);
        // Nobody has to look at the end of time.
        (deadline != u64::MAX).then_some(deadline)
    }

    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence - 1
    }

    fn position(&self, event: u32) -> Option<usize> {
        self.entries.iter().position(|entry| entry.event == event)
    }
}
