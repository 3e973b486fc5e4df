//! The state of one flow: [`Flow`], an entry of the [`Ledger`](super::ledger::Ledger).

use std::net::SocketAddr;
use std::time::Duration;

use softtimers_core::Timestamp;

use super::report::FlowReport;
use super::sequence::{Arrival, Sequence};
use super::variation::Variation;
use crate::gaps::Train;
use softtimers_measure::distribution::Moments;

/// Datagrams of one sender with one flow's number, or without any.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) peer: SocketAddr,
    /// The flow's number in its datagrams; `None` of another program's, which have no numbers at all.
    pub(super) number: Option<u32>,
    /// The number that its sender knows it by.
    shown: Option<u32>,
    /// Its datagrams carry the token of an agreement.
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
    /// The flow `number` of `peer`; `place` is the one among its sender's, if those have agreed.
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

    /// A datagram with this number came: how it stands to those before it, and how many more are lost now. Of an unlikely
    /// one that is all; any other [follows](Self::follows).
    pub(super) fn arrive(&mut self, sequence: u64) -> (Arrival, i64) {
        let lost = self.sequence.lost();
        let arrival = self.sequence.arrive(sequence);
        self.reordered += u64::from(arrival == Arrival::Reordered);
        self.duplicated += u64::from(arrival == Arrival::Duplicate);
        (arrival, more(lost, self.sequence.lost()))
    }

    /// One of its datagrams came then, so long after the one before it, if there was one.
    pub(super) fn follows(&mut self, gap: Option<Duration>, time: Timestamp) {
        self.received += 1;
        match gap {
            Some(gap) => self.gaps.record(u64::try_from(gap.as_nanos()).unwrap_or(u64::MAX)),
            None => self.first = time,
        }
        self.last = self.last.max(time);
    }

    /// Its sender says how many it has sent, and that they are all: how many more are lost now. `None`, and nothing is
    /// counted, if it says more than `most` beyond what is known; then only who agreed is believed that it has ended.
    pub(super) fn end(&mut self, sent: u64, most: u64) -> Option<i64> {
        let lost = self.sequence.lost();
        let plausible = sent <= self.sequence.next().saturating_add(most);
        self.ended |= plausible || self.agreed;
        plausible.then(|| {
            self.sequence.ended(sent);
            more(lost, self.sequence.lost())
        })
    }

    /// Datagrams that are missing so far; `None` if they have no numbers.
    pub(super) fn lost(&self) -> Option<u64> {
        self.told(self.sequence.lost())
    }

    /// A figure that only the numbers of its datagrams can tell.
    fn told(&self, figure: u64) -> Option<u64> {
        self.number.map(|_| figure)
    }

    /// Datagrams a second from its first to its last; `None` for fewer than two.
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

    /// Flows are worse the more they lost, then the more their delay varied, and then the more their gaps did.
    pub(super) fn badness(&self) -> (u64, u64, u64) {
        let rounded = |value: Option<f64>| value.map_or(0, |value| value as u64);
        (self.lost().unwrap_or(0), rounded(self.variation.mean()), rounded(self.gaps.stddev()))
    }
}

/// The change in the number lost; negative if a datagram came after all.
fn more(before: u64, now: u64) -> i64 {
    let more = i128::from(now) - i128::from(before);
    more.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}
