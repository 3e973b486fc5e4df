//! The state of one flow: [`Flow`], an entry of the [`Ledger`](super::ledger::Ledger).

use std::net::SocketAddr;
use std::time::Duration;

use softtimers_core::Timestamp;

use super::report::FlowReport;
use super::sequence::{Arrival, Sequence};
use super::variation::Variation;
use crate::gaps::Train;
use crate::receipt::Receipt;
use crate::wire::Hello;
use softtimers_measure::distribution::Moments;

/// Datagrams of one sender with the same flow number, or without numbers.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) peer: SocketAddr,
    /// The flow's number in its datagrams; `None` for another program's, which have no numbers.
    pub(super) number: Option<u32>,
    /// The flow's number at its sender.
    shown: Option<u32>,
    /// Whether its datagrams carry the token of an agreement.
    pub(super) agreed: bool,
    sequence: Sequence,
    pub(super) train: Train,
    pub(super) gaps: Moments,
    pub(super) variation: Variation,
    first: Timestamp,
    last: Timestamp,
    pub(super) received: u64,
    reordered: u64,
    duplicated: u64,
    pub(super) ended: bool,
}

impl Flow {
    /// Creates the flow `number` of `peer`; `place` is its index among its sender's flows, if there is an agreement.
    pub(super) fn new(
        peer: SocketAddr,
        number: Option<u32>,
        place: Option<u32>,
        variation: Variation,
    ) -> Self {
        Flow {
            peer,
            number,
            shown: place.or(number),
            agreed: place.is_some(),
            sequence: Sequence::default(),
            train: Train::default(),
            gaps: Moments::default(),
            variation,
            first: Timestamp::ZERO,
            last: Timestamp::ZERO,
            received: 0,
            reordered: 0,
            duplicated: 0,
            ended: false,
        }
    }

    /// Records a datagram with this number: returns its position relative to those before it, and the change in lost
    /// ones. An unlikely one has no other effect; any other [follows](Self::follows).
    pub(super) fn arrive(&mut self, sequence: u64) -> (Arrival, i64) {
        let lost = self.sequence.lost();
        let arrival = self.sequence.arrive(sequence);
        self.reordered += u64::from(arrival == Arrival::Reordered);
        self.duplicated += u64::from(arrival == Arrival::Duplicate);
        (arrival, more(lost, self.sequence.lost()))
    }

    /// Returns one more than its greatest number so far; 0 before the first.
    pub(super) fn next(&self) -> u64 {
        self.sequence.next()
    }

    /// Records the time of one of its datagrams, and its gap to the one before, if there was one.
    pub(super) fn follows(&mut self, gap: Option<Duration>, time: Timestamp) {
        self.received += 1;
        match gap {
            Some(gap) => self.gaps.record(u64::try_from(gap.as_nanos()).unwrap_or(u64::MAX)),
            None => self.first = time,
        }
        self.last = self.last.max(time);
    }

    /// Ends the flow with its sender's count of datagrams; returns the change in lost ones. `None`, and no change, if
    /// the count is more than `most` beyond the known ones; then only an agreed sender's end is accepted.
    pub(super) fn end(&mut self, sent: u64, most: u64) -> Option<i64> {
        let lost = self.sequence.lost();
        let plausible = sent <= self.sequence.next().saturating_add(most);
        self.ended |= plausible || self.agreed;
        plausible.then(|| {
            self.sequence.ended(sent);
            more(lost, self.sequence.lost())
        })
    }

    /// Adds what has come of it to what is told to this sender, if it is one of its flows; returns whether it is.
    pub(super) fn add_to(&self, receipt: &mut Receipt, peer: SocketAddr, hello: &Hello) -> bool {
        let place = self.number.map(|number| number.wrapping_sub(hello.flow));
        let is_its = self.agreed && self.peer == peer && place.is_some_and(|place| place < hello.flows);
        if is_its {
            receipt.received += self.received;
            receipt.in_time += self.sequence.unique();
            receipt.reordered += self.reordered;
            receipt.duplicated += self.duplicated;
        }
        is_its
    }

    /// Returns the number of missing datagrams so far; `None` if they have no numbers.
    pub(super) fn lost(&self) -> Option<u64> {
        self.told(self.sequence.lost())
    }

    /// Returns a figure that requires numbered datagrams, or `None`.
    fn told(&self, figure: u64) -> Option<u64> {
        self.number.map(|_| figure)
    }

    /// Returns datagrams a second from its first to its last; `None` for fewer than two.
    pub(super) fn rate(&self) -> Option<f64> {
        let span = self.last.saturating_duration_since(self.first);
        // n datagrams span the time of n - 1 intervals.
        (!span.is_zero()).then(|| (self.received - 1) as f64 / span.as_secs_f64())
    }

    pub(super) fn report(&self) -> FlowReport {
        FlowReport {
            peer: self.peer.to_string(),
            flow: self.shown,
            received: self.received,
            lost: self.lost(),
            reordered: self.told(self.reordered),
            duplicated: self.told(self.duplicated),
            gap_mean_ns: self.gaps.mean(),
            gap_stddev_ns: self.gaps.stddev(),
            one_way_variation_ns: self.variation.report(),
            ended: self.ended,
        }
    }

    /// Orders flows from good to bad: by loss, then by the variation of the delay, then by that of the gaps.
    pub(super) fn badness(&self) -> (u64, u64, u64) {
        let rounded = |value: Option<f64>| value.map_or(0, |value| value as u64);
        (self.lost().unwrap_or(0), rounded(self.variation.mean()), rounded(self.gaps.stddev()))
    }
}

/// Returns the change in the number lost; negative if a datagram came after all.
fn more(before: u64, now: u64) -> i64 {
    let more = i128::from(now) - i128::from(before);
    more.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}
