//! The counts of everything that a receiver was sent: no sockets, no clock, bounded memory.
//!
//! These counts are evidence about the sender, and any host may send the receiver anything. So they are a state
//! machine, which tests and a fuzzer feed with every order, loss and forgery; times come with the datagrams.
//!
//! ```text
//!   datagram, its peer and time ─▶ agreed? ─▶ which flow? ─▶ Flow: sequence, gaps, delays ─▶ RecvStats
//!                                     └▶ a stranger's, no room, or not ours: counted as such, and nothing else
//! ```
//!
//! With `any`, datagrams of other programs are traffic too: they have gaps, but no sequence or delay; those of RTP have
//! numbers, if asked for.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use softtimers_core::{Histogram, Timestamp};
use softtimers_measure::distribution::{Distribution, Recorder};
use softtimers_measure::stats::Counter;

use crate::receipt::Receipt;
use crate::wire::{Datagram, MAGIC, ParseError, Token};

use super::agreements::Agreements;
use super::flow::Flow;
use super::report::{FlowsReport, MOST_FLOWS_SHOWN, RecvReport, WORST_SHOWN};
use super::rtp::Rtp;
use super::sequence::Arrival;
use super::stats::{CountFigures, RecvStats, Told};
use super::strip::Strip;
use super::together::Together;
use super::variation::{self, Variation, delay};

/// Receives datagrams, counts them, and returns the answers.
///
/// # Cost
/// Some 1,000 bytes for each flow, so 17 MB for the limit of 16,384 flows, and 1 MB for the percentiles of the first
/// 64, whatever the number of datagrams; some 60 ns for each datagram.
#[derive(Debug)]
pub(crate) struct Ledger {
    flows: Vec<Flow>,
    places: HashMap<(SocketAddr, Option<u32>), usize>,
    /// The flow of the last datagram, likely that of the next one too.
    latest: usize,
    counter: Counter<RecvStats>,
    /// The interval that gaps are judged by.
    target: Option<Duration>,
    /// Traffic datagrams so far: a run may end by their number.
    received: u64,
    variation: Histogram,
    /// How far gaps are from the interval that their sender states.
    deviations: Recorder,
    together: Together,
    agreements: Agreements,
    /// Whether traffic without an agreement is counted.
    any: bool,
    /// Whether other programs' traffic is RTP, and nothing else.
    rtp: bool,
    /// When the first datagram of any kind came.
    begun: Option<Timestamp>,
    /// Another version of the format that some sender used.
    other_version: Option<u8>,
    strip: Option<Strip>,
    /// The number of flows that have ended.
    ended: usize,
}

impl Ledger {
    /// Creates empty counts. Gaps are judged by `expect_interval`, or else by the interval that the first sender
    /// states. With `any`, senders need no agreement, and there may be several at a time, other programs included.
    pub(crate) fn new(expect_interval: Option<Duration>, any: bool) -> Self {
        Ledger {
            flows: Vec::new(),
            places: HashMap::new(),
            latest: 0,
            counter: Counter::new(RecvStats::new(expect_interval)),
            target: expect_interval,
            received: 0,
            variation: Histogram::new(),
            deviations: Recorder::new(),
            together: Together::default(),
            agreements: Agreements::new(if any { MOST_SENDERS } else { 1 }),
            any,
            rtp: false,
            begun: None,
            other_version: None,
            strip: None,
            ended: 0,
        }
    }

    /// Also keeps a stretch of consecutive gaps.
    pub(crate) fn with_strip(self, strip: Option<Strip>) -> Self {
        Ledger { strip, ..self }
    }

    /// Reads the traffic of other programs as RTP: each stream is a flow with numbers, and what is no RTP is foreign.
    pub(crate) fn reading_rtp(self, rtp: bool) -> Self {
        Ledger { rtp, ..self }
    }

    /// Counts in this counter instead.
    pub(crate) fn counting_in(self, counter: Counter<RecvStats>) -> Self {
        Ledger { counter, ..self }
    }

    /// Processes a datagram from `peer` that the kernel received at `time`; returns the answer, if one is due.
    pub(crate) fn take(&mut self, peer: SocketAddr, payload: &[u8], time: Timestamp) -> Option<Datagram> {
        let begun = *self.begun.get_or_insert(time);
        let came = Came { peer, time, bytes: payload.len() as u64 };
        match Datagram::parse(payload) {
            Ok(Datagram::Data { flow, sequence, scheduled, interval, token }) => {
                let header = Header { flow, sequence, scheduled, interval };
                let Some(token) = token else {
                    self.unless_stranger(self.any, |ledger| ledger.data(&came, None, &header));
                    return None;
                };
                let believed = self.agreements.believe(peer, token, flow, time);
                let (place, interval) = believed.map(|found| (found.place, found.interval)).unzip();
                let header = Header { interval: interval.unwrap_or_default(), ..header };
                self.unless_stranger(believed.is_some(), |ledger| ledger.data(&came, place, &header));
                believed?.answer
            }
            Ok(Datagram::Hello(hello)) => {
                let answer = self.agreements.hear(peer, &hello, time);
                let busy = matches!(answer, Datagram::Busy { .. });
                self.unless_stranger(!busy, |ledger| {
                    ledger.counter.count(|stats| stats.hellos += 1);
                    true
                });
                Some(answer)
            }
            Ok(Datagram::Bye { flow, sent, token }) => {
                let said = Said { sent, time, begun };
                self.bye(peer, flow, token, &said);
                None
            }
            Err(ParseError::Version { version, asks }) => {
                self.other_version.get_or_insert(version);
                self.stranger();
                asks.map(|nonce| Datagram::Busy { nonce })
            }
            Err(ParseError::Short | ParseError::Foreign) if self.any && !payload.starts_with(&MAGIC) => {
                // With our first bytes it would be one of ours, truncated or forged.
                self.of_another_program(&came, payload);
                None
            }
            Err(ParseError::Short | ParseError::Foreign) => {
                self.counter.count(|stats| stats.counts.foreign += 1);
                None
            }
            Ok(Datagram::Welcome { .. } | Datagram::Busy { .. }) | Err(_) => {
                self.stranger();
                None
            }
        }
    }

    /// Returns what has come of an agreed sender, to be told with the answer to this datagram; `None` if that does not ask for
    /// it, within 20 ms of the one before, and where flows were too many to be told apart.
    pub(crate) fn receipt(
        &mut self,
        peer: SocketAddr,
        answer: &Datagram,
        payload: &[u8],
        time: Timestamp,
    ) -> Option<Receipt> {
        let Datagram::Welcome { token, .. } = *answer else { return None };
        // Data are answered, too, and are no question.
        let asks =
            matches!(Datagram::parse(payload), Ok(Datagram::Hello(hello)) if hello.token == Some(token));
        if !asks || payload.len() < Receipt::SIZE {
            return None;
        }
        let hello = self.agreements.asks_result(peer, token, time)?;
        let stats = self.counter.total();
        if stats.unsorted > 0 {
            return None;
        }
        let (mut receipt, mut others) = (Receipt::default(), false);
        for flow in &self.flows {
            if !flow.add_to(&mut receipt, peer, &hello) {
                others = true;
            }
        }
        if !others {
            receipt.gaps = stats.gaps.report();
            receipt.one_way_variation_ns = self.variations();
        }
        Some(receipt)
    }

    /// Packet delay variation of all flows together.
    fn variations(&self) -> Distribution {
        variation::over(self.flows.iter().map(|flow| &flow.variation), &self.variation)
    }

    /// Applies `take` if the datagram is `believed`; counts it as a stranger's if it is not, or `take` refuses it.
    fn unless_stranger(&mut self, believed: bool, take: impl FnOnce(&mut Self) -> bool) {
        if !believed || !take(self) {
            self.stranger();
        }
    }

    fn stranger(&mut self) {
        self.counter.count(|stats| stats.counts.strangers += 1);
    }

    fn bye(&mut self, peer: SocketAddr, flow: u32, token: Option<Token>, said: &Said) {
        let believed = token.map(|token| self.agreements.believe(peer, token, flow, said.time));
        let (place, interval, since) = match believed {
            // Without a token it belongs to no agreement.
            None => (None, Duration::ZERO, said.begun),
            Some(Some(found)) => (Some(found.place), found.interval, found.since),
            Some(None) => return self.unless_stranger(false, |_| true),
        };
        let most = most_sent(said.time.saturating_duration_since(since), interval);
        self.unless_stranger(self.any || place.is_some(), |ledger| {
            let Some(at) = ledger.place(peer, Some(flow), place) else { return true };
            let flow = &mut ledger.flows[at];
            if flow.agreed != place.is_some() {
                return false;
            }
            let before = flow.ended;
            let lost = flow.end(said.sent, most);
            if flow.ended && !before {
                ledger.ended += 1;
                if place.is_some() {
                    ledger.agreements.one_ended();
                }
            }
            let more = lost.unwrap_or(0);
            ledger.counter.count(|stats| stats.counts.lost = stats.counts.lost.saturating_add(more));
            lost.is_some()
        });
    }

    /// Returns the number of traffic datagrams counted so far.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Says whether there were flows and all of them have ended.
    pub(crate) fn all_ended(&self) -> bool {
        !self.flows.is_empty() && self.ended == self.flows.len()
    }

    /// Returns the findings so far.
    pub(crate) fn report(&self) -> RecvReport {
        let stats = self.counter.total();
        let span = stats.span.map_or(Duration::ZERO, |(first, last)| last.saturating_duration_since(first));
        let per_second = |total: u64| (!span.is_zero()).then(|| total as f64 / span.as_secs_f64());
        let counts = CountFigures::from(stats.counts);
        RecvReport {
            received: counts.received,
            unnumbered: counts.unnumbered,
            lost: counts.lost.map(|lost| u64::try_from(lost).unwrap_or(0)),
            reordered: counts.reordered,
            duplicated: counts.duplicated,
            too_late: counts.too_late,
            gaps: stats.gaps.report(),
            gap_deviation_ns: self.deviations.distribution(),
            one_way_variation_ns: self.variations(),
            flows: counts.flows,
            received_bytes: counts.received_bytes,
            span_s: span.as_secs_f64(),
            // n datagrams span the time of n - 1 intervals.
            received_pps: per_second(counts.received.saturating_sub(1)),
            received_bps: per_second(counts.received_bytes.saturating_mul(8)),
            socket_drops: None,
            foreign: counts.foreign,
            strangers: counts.strangers,
            unsorted: stats.unsorted,
            hellos: stats.hellos,
            gap_cdf: stats.gaps.curve(),
            gap_strip_ns: self.strip.as_ref().map_or_else(Vec::new, |strip| strip.gaps().to_vec()),
            over_flows: self.over_flows(),
            per_flow: self.flows.iter().take(MOST_FLOWS_SHOWN).map(Flow::report).collect(),
            worst_flows: self.worst().map(Flow::report).collect(),
        }
    }

    /// Returns the worst of several flows, the worst first.
    fn worst(&self) -> impl Iterator<Item = &Flow> {
        let mut flows: Vec<&Flow> = self.flows.iter().filter(|_| self.flows.len() > 1).collect();
        flows.sort_by_cached_key(|flow| Reverse(flow.badness()));
        flows.into_iter().take(WORST_SHOWN)
    }

    /// Reports on all flows together and the differences between them, however many there are.
    fn over_flows(&self) -> FlowsReport {
        let over = |value: &dyn Fn(&Flow) -> Option<u64>| {
            let mut values = Recorder::new();
            self.flows.iter().filter_map(value).for_each(|value| values.record(value));
            values.distribution()
        };
        let rounded = |value: f64| value.round() as u64;
        let all_numbered = self.flows.iter().all(|flow| flow.number.is_some());
        FlowsReport {
            count: self.flows.len() as u64,
            ended: self.ended as u64,
            received: over(&|flow| Some(flow.received)),
            lost: over(&|flow| flow.lost().filter(|_| all_numbered)),
            gap_stddev_ns: over(&|flow| flow.gaps.stddev().map(rounded)),
            one_way_variation_mean_ns: over(&|flow| flow.variation.mean().map(rounded)),
            rate_pps: self.flows.iter().filter_map(Flow::rate).collect(),
            longest_train: self.target.map(|_| self.together.longest()),
        }
    }

    /// Returns another version of the format that was heard, if there is no agreement: next to an agreed sender it says
    /// nothing about the run, since any host can send it.
    pub(crate) fn other_version(&self) -> Option<u8> {
        self.other_version.filter(|_| !self.agreements.any())
    }

    /// Returns the interval that gaps are judged by.
    pub(crate) fn target(&self) -> Option<Duration> {
        self.target
    }

    /// Counts a traffic datagram with this header; `place` is its flow's index among those of an agreed sender. Returns
    /// whether it belongs to its flow.
    fn data(&mut self, came: &Came, place: Option<u32>, header: &Header) -> bool {
        let Some(at) = self.place(came.peer, Some(header.flow), place) else {
            self.counter.count(|stats| stats.unsorted += 1);
            return true;
        };
        let flow = &mut self.flows[at];
        if flow.agreed != place.is_some() {
            return false;
        }
        let (arrival, lost) = flow.arrive(header.sequence);
        if arrival == Arrival::Unlikely {
            return false;
        }
        if !header.interval.is_zero() {
            self.target.get_or_insert(header.interval);
        }
        // The delay of a duplicate was already counted.
        let first = matches!(arrival, Arrival::InOrder | Arrival::Reordered);
        let variation =
            first.then(|| flow.variation.record(delay(header.scheduled, came.time), &mut self.variation));
        let gap = self.arrived(at, came, Some(Told { arrival, lost, variation }));
        // The gap over a missing datagram is not one of its own.
        if let Some(gap) =
            gap.filter(|_| arrival == Arrival::InOrder && lost == 0 && !header.interval.is_zero())
        {
            self.deviations.record_duration(gap.abs_diff(header.interval));
        }
        true
    }

    /// Counts a datagram of another program.
    fn of_another_program(&mut self, came: &Came, payload: &[u8]) {
        match Rtp::parse(payload) {
            _ if !self.rtp => self.unnumbered(came),
            Some(rtp) => self.unless_stranger(true, |ledger| ledger.stream(came, rtp)),
            None => self.counter.count(|stats| stats.counts.foreign += 1),
        }
    }

    /// Counts a packet of an RTP stream. Its time stamp counts in units that only the sender knows, so it has no delay.
    fn stream(&mut self, came: &Came, rtp: Rtp) -> bool {
        let Some(at) = self.place(came.peer, Some(rtp.ssrc), None) else {
            self.counter.count(|stats| stats.unsorted += 1);
            return true;
        };
        let flow = &mut self.flows[at];
        let (arrival, lost) = flow.arrive(rtp.extended(flow.next()));
        if flow.agreed || arrival == Arrival::Unlikely {
            return false;
        }
        self.arrived(at, came, Some(Told { arrival, lost, variation: None }));
        true
    }

    /// Counts a datagram of another program, whose flow is known only by its peer.
    fn unnumbered(&mut self, came: &Came) {
        match self.place(came.peer, None, None) {
            Some(at) => drop(self.arrived(at, came, None)),
            None => self.counter.count(|stats| stats.unsorted += 1),
        }
    }

    /// Counts a datagram of the flow with this index, with the findings from its number, if it has one. Returns the gap before
    /// it.
    #[inline]
    fn arrived(&mut self, at: usize, came: &Came, told: Option<Told>) -> Option<Duration> {
        let flows = self.flows.len();
        let flow = &mut self.flows[at];
        let (target, mut gap) = (self.target, None);
        self.counter.count(|stats| {
            target.into_iter().for_each(|target| stats.gaps.adopt_target(target));
            gap = stats.gaps.record(&mut flow.train, came.time);
            stats.arrived(came.time, came.bytes, told);
        });
        flow.follows(gap, came.time);
        self.together.record(self.target, flows, came.time);
        self.received += 1;
        if let Some(strip) = &mut self.strip {
            strip.record(came.time);
        }
        gap
    }

    /// Returns the index of a flow, new ones included as long as there is room.
    fn place(&mut self, peer: SocketAddr, number: Option<u32>, place: Option<u32>) -> Option<usize> {
        let latest = self.flows.get(self.latest);
        if latest.is_some_and(|flow| flow.number == number && flow.peer == peer) {
            return Some(self.latest);
        }
        let at = match self.places.get(&(peer, number)) {
            Some(&at) => at,
            None if self.flows.len() < MOST_FLOWS => {
                self.places.insert((peer, number), self.flows.len());
                let variation = match self.flows.len() {
                    0..MOST_FLOWS_SHOWN if number.is_some() => Variation::default(),
                    _ => Variation::without_percentiles(),
                };
                self.flows.push(Flow::new(peer, number, place, variation));
                self.counter.count(|stats| stats.counts.flows += 1);
                self.flows.len() - 1
            }
            None => return None,
        };
        self.latest = at;
        Some(at)
    }
}

/// One datagram of any content.
#[derive(Clone, Copy, Debug)]
struct Came {
    peer: SocketAddr,
    time: Timestamp,
    bytes: u64,
}

/// The header of one of our traffic datagrams.
#[derive(Clone, Copy, Debug)]
struct Header {
    flow: u32,
    sequence: u64,
    scheduled: Timestamp,
    interval: Duration,
}

/// The content of a goodbye, its time, and that of the first datagram of any kind.
struct Said {
    sent: u64,
    time: Timestamp,
    begun: Timestamp,
}

/// Returns the most datagrams that a flow with this interval can have sent within `time`: four times what fits, since
/// it may have caught up or followed a recording, plus as many as a loop may send at once. Without an interval, as many
/// as any machine sends.
fn most_sent(time: Duration, interval: Duration) -> u64 {
    let interval = if interval.is_zero() { ANY_INTERVAL } else { interval };
    let fit = time.as_nanos().saturating_mul(4) / interval.as_nanos();
    u64::try_from(fit).unwrap_or(u64::MAX).saturating_add(AT_ONCE)
}

/// 5 million a second, and 20 million with the factor of four.
const ANY_INTERVAL: Duration = Duration::from_nanos(200);
const AT_ONCE: u64 = 1 << 16;

/// With `--any`, 256 senders may have an agreement at a time.
const MOST_SENDERS: usize = 256;

/// Forged addresses could make any number of flows; these, enough for any `send`, fit in 17 megabytes.
pub const MOST_FLOWS: usize = 16_384;

#[cfg(test)]
mod tests;
