//! The state of one flow: [`Flow`], an entry of the [`Ledger`](super::ledger::Ledger).

use std::net::SocketAddr;
use std::time::Duration;

use softtimers_core::Timestamp;

use super::report::FlowReport;
use super::sequence::{Arrival, Sequence};
use super::variation::Variation;
use crate::gaps::Train;
use softtimers_measure::distribution::Moments;

/// Datagrams with one number, of one sender.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) peer: SocketAddr,
    pub(super) number: u32,
    /// The number that its sender knows it by.
    shown: u32,
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
    pub(super) fn new(peer: SocketAddr, number: u32, place: Option<u32>, variation: Variation) -> Self {
        Flow {
            peer,
            number,
            shown: place.unwrap_or(number),
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

    /// One of its datagrams came: how it stands to those before it, and how many more are lost now. An unlikely one is not
    /// counted.
    pub(super) fn arrive(&mut self, sequence: u64) -> (Arrival, i64) {
        let lost = self.lost();
        let arrival = self.sequence.arrive(sequence);
        self.received += u64::from(arrival != Arrival::Unlikely);
        self.reordered += u64::from(arrival == Arrival::Reordered);
        self.duplicated += u64::from(arrival == Arrival::Duplicate);
        (arrival, more(lost, self.lost()))
    }

    /// It came then, so long after the one before it, if there was one.
    pub(super) fn follows(&mut self, gap: Option<Duration>, time: Timestamp) {
        match gap {
            Some(gap) => self.gaps.record(u64::try_from(gap.as_nanos()).unwrap_or(u64::MAX)),
            None => self.first = time,
        }
        self.last = self.last.max(time);
    }

    /// Its sender says how many it has sent, and that they are all: how many more are lost now. `None`, and nothing is
    /// counted, if it says more than `most` beyond what is known; then only who agreed is believed that it has ended.
    pub(super) fn end(&mut self, sent: u64, most: u64) -> Option<i64> {
        let lost = self.lost();
        let plausible = sent <= self.sequence.next().saturating_add(most);
        self.ended |= plausible || self.agreed;
        plausible.then(|| {
            self.sequence.ended(sent);
            more(lost, self.lost())
        })
    }

    /// Datagrams that are missing so far.
    pub(super) fn lost(&self) -> u64 {
        self.sequence.lost()
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
            reordered: self.reordered,
            duplicated: self.duplicated,
            gap_mean_ns: self.gaps.mean(),
            gap_stddev_ns: self.gaps.stddev(),
            one_way_variation_ns: self.variation.report(),
            ended: self.ended,
        }
    }

    /// Flows are worse the more they lost, and then the more their delay varied.
    pub(super) fn badness(&self) -> (u64, u64) {
        (self.lost(), self.variation.mean().map_or(0, |mean| mean as u64))
    }
}

/// The change in the number lost; negative if a datagram came after all.
fn more(before: u64, now: u64) -> i64 {
    let more = i128::from(now) - i128::from(before);
    more.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}
