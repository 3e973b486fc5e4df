//! Limits on answers to clients with possibly forged addresses: a [`Budget`] for each client, [`PrefixRates`]
//! for its neighbours together.
//!
//! Anyone can send datagrams with a forged source address. So a relay cannot know whether answers reach the
//! real sender, and forging addresses must not pay:
//!
//! | what | bound | the model |
//! |---|---|---|
//! | a client | at most three times the bytes and datagrams that it has sent in total | QUIC before an address is validated, RFC 9000, section 8.1; here it never is |
//! | an IPv4 /24, an IPv6 /56 | answers a second | response rate limiting of name servers (BIND: `rate-limit`, its prefixes) |
//!
//! A budget begins at zero. So a client that is forgotten and returns starts without credit, and for any
//! address the bound holds over all its entries together.
//!
//! Both are state machines: time and lengths go in, a verdict comes out.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use softtimers_core::{Rate, Timestamp};

/// The traffic of a client in both directions.
///
/// After each answer that was [spent](Self::spend), at most `ratio` times as much has gone out as came in,
/// for each of these:
///
/// - datagrams, or many empty answers would cost nothing;
/// - bytes of payload;
/// - bytes of payload where those of less than 18 count as 18: Ethernet fills frames up to that behind IPv4 and UDP.
///
/// So it holds for the bytes of packets and of frames too, whatever headers each has, of IPv4 or of IPv6.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Budget {
    received: Traffic,
    sent: Traffic,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Traffic {
    datagrams: u64,
    payload: u64,
    filled: u64,
}

impl Budget {
    /// Counts a datagram of the client with `bytes` of payload.
    pub(crate) fn receive(&mut self, bytes: usize) {
        self.received.add(bytes);
    }

    /// Returns whether an answer of `bytes` may be sent: with it, the client has received at most `ratio`
    /// times its own traffic.
    pub(crate) fn allows(&self, bytes: usize, ratio: u32) -> bool {
        let (mut sent, received, ratio) = (self.sent, self.received, u64::from(ratio));
        sent.add(bytes);
        sent.datagrams <= received.datagrams.saturating_mul(ratio)
            && sent.payload <= received.payload.saturating_mul(ratio)
            && sent.filled <= received.filled.saturating_mul(ratio)
    }

    /// Counts an answer with `bytes` of payload, whether it was allowed or not.
    pub(crate) fn spend(&mut self, bytes: usize) {
        self.sent.add(bytes);
    }

    /// Bytes of payload, both ways.
    pub(crate) fn exchanged(&self) -> u64 {
        self.received.payload.saturating_add(self.sent.payload)
    }
}

impl Traffic {
    fn add(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        self.datagrams = self.datagrams.saturating_add(1);
        self.payload = self.payload.saturating_add(bytes);
        self.filled = self.filled.saturating_add(bytes.max(FILLED));
    }
}

/// Answers a second to each prefix of addresses: /24 of IPv4, /56 of IPv6.
///
/// A prefix may be [`BURST`] ahead of the rate, and always gets one answer when its time has come. It is the virtual
/// scheduling algorithm (ITU-T I.371), a time for each prefix. A table of fixed size holds them, and entries
/// are never reassigned: prefixes with the same place share its rate. A keyed hash with a secret key decides
/// which do, so that an attacker cannot choose whose answers to use up, except by its address. Clones share
/// one account, for relays of several threads.
///
/// # Cost
/// A hash; half a mebibyte.
#[derive(Clone, Debug)]
pub(crate) struct PrefixRates {
    interval: u64,
    keys: RandomState,
    /// When the answers so far would have been sent at the rate.
    earned: Arc<[AtomicU64]>,
}

impl PrefixRates {
    /// Makes an empty account at this rate.
    pub(crate) fn new(rate: Rate) -> Self {
        PrefixRates {
            interval: rate.interval().as_nanos() as u64,
            keys: RandomState::new(),
            earned: (0..PLACES).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Returns whether an answer may go to this address now; if so, counts it.
    pub(crate) fn take(&self, now: Timestamp, to: IpAddr) -> bool {
        let prefix = match to.to_canonical() {
            IpAddr::V4(ip) => u128::from(u32::from(ip) >> 8),
            // No address of IPv4 is that long.
            IpAddr::V6(ip) => (u128::from(ip) >> 72) | (1 << 64),
        };
        let place = self.keys.hash_one(prefix) as usize % PLACES;
        let now = now.as_nanos();
        let next = |earned: u64| {
            let allowed = earned <= now.saturating_add(BURST.as_nanos() as u64);
            allowed.then(|| earned.max(now).saturating_add(self.interval))
        };
        // No other memory depends on it, so relaxed ordering suffices.
        self.earned[place].fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }
}

/// The payload of the shortest frame of Ethernet, whose 46 bytes IPv4 and UDP take 28 of. IPv6's headers alone are longer.
const FILLED: u64 = 18;
/// The time by which a prefix may be ahead of its rate.
pub(crate) const BURST: Duration = Duration::from_millis(100);
/// A power of two, so that hashes spread evenly. Using up all of them at the default rate takes 65 million
/// answers a second.
const PLACES: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WAYS: usize = 6;

    /// The cost of a datagram: as one, as payload, in IPv4 and IPv6, in the frames of both, and on the wire
    /// with inter-frame overhead.
    fn costs(payload: u64) -> [u64; WAYS] {
        let (ipv4, ipv6) = (payload + 28, payload + 48);
        let frame = |packet: u64| (packet + 18).max(64);
        [1, payload, ipv4, ipv6, frame(ipv4), frame(ipv6) + 20]
    }

    fn sum(one: [u64; WAYS], other: [u64; WAYS]) -> [u64; WAYS] {
        std::array::from_fn(|way| one[way] + other[way])
    }

    proptest! {
        /// For any traffic, and however often the client is forgotten in between.
        #[test]
        fn no_life_and_no_number_of_lives_gets_more_than_the_ratio(
            steps in prop::collection::vec((0..4u8, prop_oneof![0..60usize, 0..2_000usize]), 0..200),
            ratio in 1..5u32,
        ) {
            let (mut budget, mut sent, mut received) = (Budget::default(), [0; WAYS], [0; WAYS]);
            for (what, bytes) in steps {
                let costs = costs(bytes as u64);
                match what {
                    0 => budget = Budget::default(),
                    1 => {
                        budget.receive(bytes);
                        received = sum(received, costs);
                    }
                    _ if budget.allows(bytes, ratio) => {
                        budget.spend(bytes);
                        sent = sum(sent, costs);
                    }
                    _ => {}
                }
                let within = sent.iter().zip(received).all(|(sent, received)| *sent <= u64::from(ratio) * received);
                prop_assert!(within, "{sent:?} for {received:?}");
            }
        }

        /// Over any span, a prefix gets what the rate gives in it, the burst, and one.
        #[test]
        fn a_prefix_gets_no_more_than_its_rate(gaps in prop::collection::vec(0..50_000_000u64, 1..300), pps in 1..500u64) {
            let rate = Rate::per_second(pps).unwrap();
            let (rates, interval) = (PrefixRates::new(rate), rate.interval().as_nanos() as u64);
            let (mut now, mut times) = (0u64, vec![]);
            for (number, gap) in gaps.into_iter().enumerate() {
                now += gap;
                let ip = IpAddr::from([192, 0, 2, number as u8]);
                times.extend(rates.take(Timestamp::from_nanos(now), ip).then_some(now));
            }
            for (first, from) in times.iter().enumerate() {
                for (last, to) in times.iter().enumerate().skip(first) {
                    let span = to - from + BURST.as_nanos() as u64;
                    prop_assert!((last - first) as u64 <= span / interval + 1);
                }
            }
        }
    }

    /// An empty answer is a datagram, too.
    #[test]
    fn empty_answers_are_not_free() {
        let mut budget = Budget::default();
        (0..30).for_each(|_| budget.receive(32));
        let empty = (0..1_000).take_while(|_| budget.allows(0, 3).then(|| budget.spend(0)).is_some()).count();
        assert_eq!(empty, 90);
        assert!(!Budget::default().allows(0, 3));
    }

    /// Their frames are as long as those of 18 bytes, so a long answer after empty requests would exceed the
    /// ratio.
    #[test]
    fn short_answers_count_as_their_frames() {
        let mut budget = Budget::default();
        budget.receive(18);
        assert!(budget.allows(54, 3));
        budget.spend(0);
        assert!(!budget.allows(54, 3) && budget.allows(36, 3));
    }

    #[test]
    fn neighbours_share_and_strangers_do_not() {
        let rates = PrefixRates::new(Rate::per_second(1).unwrap());
        let other = rates.clone();
        // Either of two relays counts.
        let take = |text: &str| {
            let asked = if text.len() % 2 == 0 { &rates } else { &other };
            asked.take(Timestamp::from_micros(7), text.parse().unwrap())
        };
        assert!(take("198.51.100.1"));
        for neighbour in ["198.51.100.1", "198.51.100.255", "::ffff:198.51.100.9"] {
            assert!(!take(neighbour), "{neighbour}");
        }
        assert!(take("2001:db8:1:100::1"));
        assert!(!take("2001:db8:1:1ff::ffff"));
        // With probability 1 in 65,536 two that are not neighbours share a place, so several are tried.
        assert!(
            ["198.51.101.1", "203.0.113.1", "192.0.2.1"].into_iter().filter(|text| take(text)).count() >= 2
        );
        assert!(
            ["2001:db8:1:200::1", "2001:db8:2:100::1", "::1"].into_iter().filter(|text| take(text)).count()
                >= 2
        );
    }
}
