//! What a receiver has of a sender's datagrams, as it tells that sender at its end: [`Receipt`].
//!
//! It is the body of a [`Welcome`](Datagram::Welcome), and of the length of the question, a [`Hello`](Datagram::Hello) with
//! that much padding. A receiver that knows of no receipts sees an ordinary renewal, and answers without a body.
//!
//! ```text
//!   send ── Hello { …, token }, padding … ──▶ recv   240 bytes, behind the last datagram and before the goodbyes
//!        ◀── Welcome { nonce, token }, body ──        240 bytes, to an agreed sender only, at most fifty times a second
//! ```

use serde::Serialize;
use softtimers_measure::distribution::Distribution;

use crate::gaps::GapReport;
use crate::wire::{Datagram, MIN_SIZE};

/// The receiver's result, at its sender.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Receipt {
    /// Datagrams of this sender that came, duplicates included.
    pub received: u64,
    /// Those sent and not received in time.
    pub lost: u64,
    /// Overtaken by a later one of the same flow.
    pub reordered: u64,
    /// Received a second time.
    pub duplicated: u64,
    /// Gaps within each flow, by the kernel's receive timestamps; without a figure if the receiver has counted other
    /// senders, too.
    #[serde(flatten)]
    pub gaps: GapReport,
    /// Packet delay variation (RFC 5481); as the gaps.
    pub one_way_variation_ns: Distribution,
    /// Different datagrams that came in time: the sender knows how many there were.
    #[serde(skip)]
    pub in_time: u64,
}

impl Receipt {
    /// The length of the question and of the answer.
    pub const SIZE: usize = MIN_SIZE + 8 * WORDS;

    /// Returns the bytes of the answer with this header.
    pub fn encode(&self, header: &Datagram) -> [u8; Receipt::SIZE] {
        let gaps = &self.gaps;
        let share = gaps.back_to_back.map(|share| (share * PARTS).round() as u64);
        let counts = [self.received, self.in_time, self.reordered, self.duplicated];
        let words = counts.into_iter().chain([share, gaps.longest_burst].map(or_none));
        let words = words.chain([gaps.gap_ns, self.one_way_variation_ns].into_iter().flat_map(values));
        let mut bytes = [0; Receipt::SIZE];
        header.write(&mut bytes);
        for (place, word) in bytes[MIN_SIZE..].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    /// Reads the body of an answer of which `sent` datagrams are the subject; `None` if it has none.
    pub fn parse(packet: &[u8], sent: u64) -> Option<Self> {
        let body: &[u8; 8 * WORDS] = packet.get(MIN_SIZE..)?.first_chunk()?;
        let mut words =
            body.chunks_exact(8).map(|word| u64::from_be_bytes(std::array::from_fn(|at| word[at])));
        let mut next = || words.next().unwrap_or(NONE);
        let [received, in_time, reordered, duplicated] = [next(), next(), next(), next()];
        let back_to_back = some(next()).map(|parts| (parts as f64 / PARTS).min(1.0));
        let longest_burst = some(next());
        let [gap_ns, one_way_variation_ns] = [distribution(&mut next), distribution(&mut next)];
        let gaps = GapReport { gap_ns, back_to_back, longest_burst };
        let lost = sent.saturating_sub(in_time);
        Some(Receipt { received, lost, reordered, duplicated, gaps, one_way_variation_ns, in_time })
    }
}

fn values(of: Distribution) -> [u64; 10] {
    let Distribution { count, min, p1, p50, p90, p99, p999, max, mean, stddev } = of;
    let [mean, stddev] = [mean, stddev].map(|value| value.map(|value| value.round() as u64));
    [Some(count), min, p1, p50, p90, p99, p999, max, mean, stddev].map(or_none)
}

fn distribution(next: &mut impl FnMut() -> u64) -> Distribution {
    let count = some(next()).unwrap_or(0);
    let [min, p1, p50, p90, p99, p999, max, mean, stddev] = std::array::from_fn(|_| some(next()));
    let [mean, stddev] = [mean, stddev].map(|value| value.map(|value| value as f64));
    Distribution { count, min, p1, p50, p90, p99, p999, max, mean, stddev }
}

fn or_none(value: Option<u64>) -> u64 {
    value.unwrap_or(NONE)
}

/// Beyond a hundred days of nanoseconds nothing was measured.
fn some(word: u64) -> Option<u64> {
    (word < 1 << 53).then_some(word)
}

const NONE: u64 = u64::MAX;
/// A share is sent as so many parts.
const PARTS: f64 = 1e9;
/// Four counts, bursts, and two distributions.
const WORDS: usize = 26;
