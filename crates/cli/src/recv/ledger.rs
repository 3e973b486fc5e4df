//! The account of everything a receiver was sent: no sockets, no clock, bounded memory.
//!
//! What a receiver says decides whether a sender is believed, and anybody may send it anything. So the account is a state
//! machine, which tests and a fuzzer feed with every order, loss and forgery they can think of; times come with the datagrams.
//!
//! ```text
//!   datagram, its peer and time ─▶ which flow? ─▶ Flow: sequence, gaps, delays ─▶ totals; the same of a second
//!                                       └▶ no room, or no datagram of ours: counted as that, and nothing else
//! ```

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use softtimers_core::{Histogram, Timestamp};

use crate::distribution::Recorder;
use crate::gaps::Gaps;
use crate::handshake::Consent;
use crate::recv::flow::Flow;
use crate::recv::report::{FlowsReport, RateReport, RecvReport};
use crate::recv::second::Second;
use crate::recv::sequence::Arrival;
use crate::recv::strip::Strip;
use crate::recv::variation::{self, Variation, delay};
use crate::stream::Counter;
use crate::wire::Datagram;

/// Takes datagrams, counts them, and says what to answer.
///
/// ```
/// use softtimers_cli::recv::ledger::Ledger;
/// use softtimers_cli::wire::Datagram;
/// use softtimers_core::Timestamp;
///
/// let mut ledger = Ledger::new(None);
/// let peer = "127.0.0.1:5000".parse().unwrap();
/// let hello = Datagram::Hello { nonce: 1 }.encode();
/// assert!(matches!(ledger.take(peer, &hello, Timestamp::ZERO), Some(Datagram::Welcome { nonce: 1, .. })));
/// ```
///
/// # Cost
/// Some 1,000 bytes for each flow, so 17 MB for the 16,384 that are told apart, 1 MB for the percentiles of
/// the first 64, and any number of datagrams; some 60 ns for each.
#[derive(Debug)]
pub struct Ledger {
    flows: Vec<Flow>,
    places: HashMap<(SocketAddr, u32), usize>,
    /// The flow of the last datagram: mostly that of the next one too.
    latest: usize,
    gaps: Gaps,
    variation: Histogram,
    together: Together,
    consent: Consent,
    /// All but the gaps and what the flows know themselves.
    totals: RecvReport,
    first: Option<Timestamp>,
    last: Timestamp,
    strip: Option<Strip>,
    /// The same of each second, for `--json-stream`.
    second: Option<Counter<Second>>,
    /// How many of the flows have ended.
    ended: usize,
}

impl Ledger {
    /// An empty account. Gaps are judged by `expect_interval`, or else by the interval that the
    /// first sender states.
    pub fn new(expect_interval: Option<Duration>) -> Self {
        Ledger {
            flows: Vec::new(),
            places: HashMap::new(),
            latest: 0,
            gaps: Gaps::new(expect_interval),
            variation: Histogram::new(),
            together: Together::default(),
            consent: Consent::new(),
            totals: RecvReport::default(),
            first: None,
            last: Timestamp::ZERO,
            strip: None,
            second: None,
            ended: 0,
        }
    }

    /// The same account with a stretch of gaps kept as they come.
    pub fn with_strip(self, strip: Option<Strip>) -> Self {
        Ledger { strip, ..self }
    }

    /// Counts each second apart, too.
    pub fn count_in(&mut self, second: Counter<Second>) {
        self.second = Some(second);
    }

    /// A datagram from `peer` that the kernel received at `time`; returns the answer, if one is due.
    pub fn take(&mut self, peer: SocketAddr, payload: &[u8], time: Timestamp) -> Option<Datagram> {
        match Datagram::parse(payload) {
            Ok(Datagram::Data { flow, sequence, scheduled, interval }) => {
                let arrival = Came { time, scheduled, sequence, interval, bytes: payload.len() as u64 };
                self.data(peer, flow, &arrival);
                None
            }
            Ok(Datagram::Hello { nonce }) => {
                self.totals.hellos += 1;
                Some(self.consent.welcome(peer.ip(), nonce))
            }
            Ok(Datagram::Bye { flow, sent, token }) => {
                // A token that is not ours belongs to somebody else's conversation.
                let ours = token.is_none_or(|token| self.consent.gave(peer.ip(), token));
                if ours && let Some(at) = self.place(peer, flow) {
                    let flow = &mut self.flows[at];
                    self.ended += usize::from(!flow.ended);
                    let lost = flow.end(sent);
                    self.count(|second| second.counts.lost += lost);
                }
                None
            }
            Ok(Datagram::Welcome { .. }) | Err(_) => {
                self.foreign();
                None
            }
        }
    }

    /// Datagrams of traffic counted so far.
    pub fn received(&self) -> u64 {
        self.totals.received
    }

    /// Whether there were flows, and all of them have ended.
    pub fn all_ended(&self) -> bool {
        !self.flows.is_empty() && self.ended == self.flows.len()
    }

    /// What has been seen so far.
    pub fn report(&self) -> RecvReport {
        let span = self.first.map_or(Duration::ZERO, |first| self.last.saturating_duration_since(first));
        let per_second = |total: u64| (!span.is_zero()).then(|| total as f64 / span.as_secs_f64());
        let gaps = self.gaps.report();
        // n datagrams span the time of n - 1 intervals.
        let intervals = self.totals.received.saturating_sub(1);
        RecvReport {
            lost: self.flows.iter().map(Flow::lost).fold(0, u64::saturating_add),
            gaps,
            flows: self.flows.len() as u64,
            span_s: span.as_secs_f64(),
            received_pps: per_second(intervals),
            received_bps: per_second(self.totals.received_bytes.saturating_mul(8)),
            gap_cdf: self.gaps.curve(),
            gap_strip_ns: self.strip.as_ref().map_or_else(Vec::new, |strip| strip.gaps().to_vec()),
            over_flows: self.over_flows(),
            one_way_variation_ns: variation::over(
                self.flows.iter().map(|flow| &flow.variation),
                &self.variation,
            ),
            per_flow: self.flows.iter().take(MOST_FLOWS_SHOWN).map(Flow::report).collect(),
            worst_flows: self.worst().map(Flow::report).collect(),
            ..self.totals.clone()
        }
    }

    /// The worst of several flows, the worst first.
    fn worst(&self) -> impl Iterator<Item = &Flow> {
        let mut flows: Vec<&Flow> = self.flows.iter().filter(|_| self.flows.len() > 1).collect();
        flows.sort_by_cached_key(|flow| Reverse(flow.badness()));
        flows.into_iter().take(WORST_SHOWN)
    }

    /// What all flows have in common and where they differ, however many there are.
    fn over_flows(&self) -> FlowsReport {
        let over = |value: &dyn Fn(&Flow) -> Option<u64>| {
            let mut values = Recorder::new();
            self.flows.iter().filter_map(value).for_each(|value| values.record(value));
            values.distribution()
        };
        let rounded = |value: f64| value.round() as u64;
        let mut rate = RateReport::default();
        self.flows.iter().for_each(|flow| rate.include(flow.rate()));
        FlowsReport {
            count: self.flows.len() as u64,
            ended: self.ended as u64,
            received: over(&|flow| Some(flow.received)),
            lost: over(&|flow| Some(flow.lost())),
            gap_stddev_ns: over(&|flow| flow.gaps.stddev().map(rounded)),
            one_way_variation_mean_ns: over(&|flow| flow.variation.mean().map(rounded)),
            rate_pps: rate,
            longest_train: self.gaps.target().map(|_| self.together.longest),
        }
    }

    /// The interval that gaps are judged by.
    pub fn target(&self) -> Option<Duration> {
        self.gaps.target()
    }

    fn data(&mut self, peer: SocketAddr, flow: u32, came: &Came) {
        let Some(at) = self.place(peer, flow) else {
            self.totals.unsorted += 1;
            return;
        };
        let flows = self.flows.len();
        let flow = &mut self.flows[at];
        let (arrival, lost) = flow.arrive(came.sequence);
        if arrival == Arrival::Unlikely {
            self.foreign();
            return;
        }
        if !came.interval.is_zero() {
            self.gaps.adopt_target(came.interval);
        }
        let gap = self.gaps.record(&mut flow.train, came.time);
        flow.follows(gap, came.time);
        self.together.record(self.gaps.target(), flows, came.time);
        // What came before has had its delay.
        let first = matches!(arrival, Arrival::InOrder | Arrival::Reordered);
        let variation =
            first.then(|| flow.variation.record(delay(came.scheduled, came.time), &mut self.variation));
        self.totals.received += 1;
        self.totals.received_bytes += came.bytes;
        self.totals.reordered += u64::from(arrival == Arrival::Reordered);
        self.totals.duplicated += u64::from(arrival == Arrival::Duplicate);
        self.totals.too_late += u64::from(arrival == Arrival::TooLate);
        self.first.get_or_insert(came.time);
        self.last = self.last.max(came.time);
        if let Some(strip) = &mut self.strip {
            strip.record(came.time);
        }
        if let Some(second) = &self.second {
            second.count(|second| second.arrived(came, arrival, lost, (&flow.train, gap), variation));
        }
    }

    fn foreign(&mut self) {
        self.totals.foreign += 1;
        self.count(|second| second.counts.foreign += 1);
    }

    fn count(&self, count: impl FnOnce(&mut Second)) {
        if let Some(second) = &self.second {
            second.count(count);
        }
    }

    /// The place of a flow, new ones included as long as there is room.
    fn place(&mut self, peer: SocketAddr, number: u32) -> Option<usize> {
        let latest = self.flows.get(self.latest);
        if latest.is_some_and(|flow| flow.number == number && flow.peer == peer) {
            return Some(self.latest);
        }
        let at = match self.places.get(&(peer, number)) {
            Some(&at) => at,
            None if self.flows.len() < MOST_FLOWS => {
                self.places.insert((peer, number), self.flows.len());
                let variation = match self.flows.len() {
                    0..MOST_FLOWS_SHOWN => Variation::default(),
                    _ => Variation::without_percentiles(),
                };
                self.flows.push(Flow::new(peer, number, variation));
                self.count(|second| second.counts.flows += 1);
                self.flows.len() - 1
            }
            None => return None,
        };
        self.latest = at;
        Some(at)
    }
}

/// The datagrams of all flows as they follow each other on the path that they share.
///
/// Two of them stick together if they are closer than half the interval that the flows have together, which
/// nobody knows before all of them have been heard. So what was counted before a new flow came is forgotten.
#[derive(Debug, Default)]
struct Together {
    flows: usize,
    last: Timestamp,
    train: u64,
    longest: u64,
}

impl Together {
    #[inline]
    fn record(&mut self, interval: Option<Duration>, flows: usize, time: Timestamp) {
        let gap = time.saturating_duration_since(self.last);
        let close =
            interval.is_some_and(|interval| gap.as_nanos() * 2 * (flows as u128) < interval.as_nanos());
        if flows != self.flows {
            *self = Together { flows, ..Together::default() };
        }
        self.train = if close && self.train > 0 { self.train + 1 } else { 1 };
        self.longest = self.longest.max(self.train);
        self.last = self.last.max(time);
    }
}

/// One datagram of traffic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Came {
    pub(super) time: Timestamp,
    scheduled: Timestamp,
    sequence: u64,
    pub(super) interval: Duration,
    pub(super) bytes: u64,
}

/// Forged addresses could make any number of flows; this many, and so all of one `send`, fit in 17 megabytes.
pub(super) const MOST_FLOWS: usize = 16_384;

/// A report stays readable; the totals cover all.
pub(super) const MOST_FLOWS_SHOWN: usize = 64;

/// Of the others, those that one would ask for.
pub(super) const WORST_SHOWN: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::properties;
    use crate::wire::{MIN_SIZE, Token};
    use proptest::prelude::*;

    fn peer(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn data(flow: u32, sequence: u64) -> [u8; MIN_SIZE] {
        let interval = Duration::from_micros(40);
        Datagram::Data { flow, sequence, scheduled: Timestamp::ZERO, interval }.encode()
    }

    fn bye(sent: u64, token: Option<Token>) -> [u8; MIN_SIZE] {
        Datagram::Bye { flow: 0, sent, token }.encode()
    }

    #[test]
    fn an_even_flow_is_accounted_for() {
        let mut ledger = Ledger::new(None);
        for turn in 0..=1_000 {
            ledger.take(peer(1), &data(0, turn), Timestamp::from_micros(turn * 40));
        }
        let report = ledger.report();
        assert_eq!((report.received, report.lost, report.flows), (1_001, 0, 1));
        assert_eq!(report.gaps.back_to_back, Some(0.0));
        assert_eq!(report.received_pps, Some(25_000.0));
        assert_eq!(ledger.target(), Some(Duration::from_micros(40)));
    }

    #[test]
    fn flows_of_one_peer_and_of_several_are_kept_apart() {
        let mut ledger = Ledger::new(None);
        for (port, flow) in [(1, 0), (1, 1), (2, 0)] {
            for sequence in [0, 2] {
                ledger.take(peer(port), &data(flow, sequence), Timestamp::ZERO);
            }
        }
        let report = ledger.report();
        assert_eq!((report.flows, report.lost, report.duplicated), (3, 3, 0));
        assert_eq!(report.per_flow[2].peer, "127.0.0.1:2");
        let FlowsReport { count, ended, received, lost, gap_stddev_ns, .. } = report.over_flows;
        assert_eq!((count, ended, received.min, received.max), (3, 0, Some(2), Some(2)));
        assert_eq!((lost.max, gap_stddev_ns.max), (Some(1), Some(0)));
    }

    #[test]
    fn what_went_wrong_is_told_of_the_flow_it_happened_to() {
        let mut ledger = Ledger::new(None);
        for (turn, (flow, sequence)) in
            [(0, 0), (1, 0), (0, 2), (1, 1), (0, 1), (1, 1), (1, 3)].into_iter().enumerate()
        {
            ledger.take(peer(1), &data(flow, sequence), Timestamp::from_micros(turn as u64 * 10));
        }
        let per_flow = ledger.report().per_flow;
        let counts = |at: usize| (per_flow[at].lost, per_flow[at].reordered, per_flow[at].duplicated);
        assert_eq!((counts(0), counts(1)), ((0, 1, 0), (1, 0, 1)));
        // Gaps of 20, 20; and of 20, 20, 10.
        assert_eq!((per_flow[0].gap_mean_ns, per_flow[0].gap_stddev_ns), (Some(20_000.0), Some(0.0)));
        assert!((per_flow[1].gap_stddev_ns.unwrap() - 4_714.0).abs() < 1.0, "{per_flow:?}");
    }

    /// A thousand flows: one lost some, one was held up now and then, and both are found.
    #[test]
    fn the_worst_of_many_flows_are_told() {
        let mut ledger = Ledger::new(None);
        for turn in 0..20 {
            for flow in (0..1_000).filter(|&flow| flow != 800 || turn % 7 != 3) {
                let scheduled = Timestamp::from_micros(1_000_000 + turn * 40);
                let interval = Duration::from_micros(40);
                let held_up = if flow == 900 && turn % 5 == 4 { 10_000 } else { 0 };
                let time = scheduled + Duration::from_micros(7 + u64::from(flow) + held_up);
                ledger.take(
                    peer(1),
                    &Datagram::Data { flow, sequence: turn, scheduled, interval }.encode(),
                    time,
                );
            }
        }
        let report = ledger.report();
        let worst: Vec<u32> = report.worst_flows.iter().map(|flow| flow.flow).collect();
        assert_eq!((worst.len(), &worst[..2]), (WORST_SHOWN, &[800, 900][..]));
        assert_eq!(
            (report.worst_flows[0].lost, report.worst_flows[0].one_way_variation_ns.max),
            (3, Some(0))
        );
        let held_up = report.worst_flows[1].one_way_variation_ns;
        assert_eq!((held_up.mean, held_up.max, held_up.p50), (Some(2_000_000.0), Some(10_000_000), None));
        assert_eq!(report.per_flow[5].one_way_variation_ns.p99, Some(0), "each flow has its own least");
        let all = report.one_way_variation_ns;
        assert_eq!((all.count, all.p50, all.p999, all.max), (20_000 - 3, Some(0), Some(0), Some(10_000_000)));
        assert_eq!(report.over_flows.one_way_variation_mean_ns.max, Some(2_000_000));
    }

    /// Four flows 10 µs apart, once all have been heard; then one pause that makes five of them late.
    #[test]
    fn trains_and_rates_are_those_of_all_flows() {
        let mut ledger = Ledger::new(None);
        let mut take = |flow: u32, turn: u64, micros| {
            ledger.take(peer(1), &data(flow, turn), Timestamp::from_micros(micros));
        };
        for turn in 0..100 {
            for flow in 0..4 {
                // The first of the flows come close behind each other, as if they were one.
                let at = if turn == 0 { u64::from(flow) } else { turn * 40 + u64::from(flow) * 10 };
                take(flow, turn, if (2_000..2_050).contains(&at) { 2_040 + (at - 2_000) / 10 } else { at });
            }
        }
        let FlowsReport { longest_train, rate_pps: RateReport { min, max }, .. } = ledger.report().over_flows;
        assert_eq!(longest_train, Some(5));
        // 99 intervals, from 0 to 3,960 µs; and from 3 to 3,990.
        assert_eq!((min.map(f64::round), max.map(f64::round)), (Some(24_831.0), Some(25_000.0)));
    }

    #[test]
    fn an_expected_interval_overrules_the_sender() {
        let mut ledger = Ledger::new(Some(Duration::from_millis(1)));
        for turn in 0..3 {
            ledger.take(peer(1), &data(0, turn), Timestamp::from_micros(turn * 40));
        }
        assert_eq!(ledger.report().gaps.back_to_back, Some(1.0));
    }

    #[test]
    fn goodbyes_end_flows_unless_the_token_is_wrong() {
        let mut ledger = Ledger::new(None);
        assert!(!ledger.all_ended());
        ledger.take(peer(1), &data(0, 0), Timestamp::ZERO);
        ledger.take(peer(1), &bye(9, Token::new(1)), Timestamp::ZERO);
        assert!(!ledger.all_ended());
        let welcome = ledger.take(peer(1), &Datagram::Hello { nonce: 3 }.encode(), Timestamp::ZERO);
        let Some(Datagram::Welcome { token, .. }) = welcome else { panic!("{welcome:?}") };
        ledger.take(peer(1), &bye(9, Some(token)), Timestamp::ZERO);
        assert!(ledger.all_ended());
        assert_eq!(ledger.report().lost, 8);
    }

    #[test]
    fn what_is_not_ours_is_counted_and_not_answered() {
        let mut ledger = Ledger::new(None);
        let welcome = Datagram::Welcome { nonce: 1, token: Token::new(1).unwrap() }.encode();
        for payload in [&b""[..], b"GET / HTTP/1.1\r\n\r\n", &welcome] {
            assert_eq!(ledger.take(peer(1), payload, Timestamp::ZERO), None);
        }
        let report = ledger.report();
        assert_eq!((report.foreign, report.received, report.flows), (3, 0, 0));
        assert_eq!((report.received_pps, report.gaps.back_to_back), (None, None));
    }

    #[test]
    fn memory_is_bounded_whoever_sends() {
        let mut ledger = Ledger::new(None);
        for flow in 0..2 * MOST_FLOWS as u32 {
            ledger.take(peer(1), &data(flow, 0), Timestamp::ZERO);
        }
        let report = ledger.report();
        assert_eq!((report.flows, report.unsorted), (MOST_FLOWS as u64, MOST_FLOWS as u64));
        assert_eq!((report.received, report.per_flow.len()), (MOST_FLOWS as u64, MOST_FLOWS_SHOWN));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_datagrams_add_up(script in prop::collection::vec(any::<u8>(), 0..1_600)) {
            properties::ledger(&script);
        }
    }
}
