//! What each datagram costs beyond being received: [`Filter`], a list of rules that is walked to its end.
//!
//! The livelock paper's second stage was `screend`, a program that looks at each packet and lets it pass (§6.2). What it
//! costs decides the capacity, so it is calibrated, and it is real work: no loop that waits for a clock, which would go
//! on counting while another thread has the processor.

use std::hint::black_box;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use softtimers::{Clock, Monotonic};

/// Rules none of which applies, before one that lets everything pass.
#[derive(Clone, Debug)]
pub struct Filter {
    rules: Vec<Rule>,
}

/// Rejects what comes from a network and carries a word.
#[derive(Clone, Copy, Debug)]
struct Rule {
    net: u32,
    mask: u32,
    word: u32,
    word_mask: u32,
}

impl Filter {
    /// So many rules.
    pub fn new(rules: usize) -> Self {
        let rule = |number: usize| {
            let number = number as u32;
            // 240.0.0.0/4 is nobody's.
            let net = 0xf000_0000 | (number.wrapping_mul(7_919) & 0x0fff_ff00);
            Rule { net, mask: 0xffff_ff00, word: number.wrapping_mul(104_729), word_mask: 0xffff_0000 }
        };
        Filter { rules: (0..rules).map(rule).collect() }
    }

    /// As many rules as take this long on the processor that the caller runs on, found by taking the time of more.
    pub fn costing(work: Duration) -> Self {
        if work.is_zero() {
            return Filter::new(0);
        }
        let sample = Filter::new(SAMPLE);
        let from = SocketAddr::from(([127, 0, 0, 1], 9));
        let walk = |_| {
            let began = Monotonic.now();
            black_box(sample.accepts(from, &[1; 64]));
            Monotonic.now().saturating_duration_since(began)
        };
        // The shortest was not disturbed.
        let shortest = (0..WALKS).map(walk).min().unwrap_or_default().max(Duration::from_nanos(1));
        let rules = SAMPLE as f64 * work.as_secs_f64() / shortest.as_secs_f64();
        Filter::new((rules as usize).clamp(1, MOST))
    }

    /// How many rules.
    pub fn rules(&self) -> usize {
        self.rules.len()
    }

    /// Whether the datagram may pass: no rule says otherwise.
    #[inline]
    pub fn accepts(&self, from: SocketAddr, payload: &[u8]) -> bool {
        let source = match from.ip() {
            IpAddr::V4(address) => address.to_bits(),
            IpAddr::V6(address) => address.to_bits() as u32,
        };
        let word = payload.first_chunk().map_or(0, |word| u32::from_be_bytes(*word));
        // Each is looked at by itself, as rules with side effects are.
        self.rules.iter().all(|rule| {
            let rule = black_box(rule);
            source & rule.mask != rule.net || word & rule.word_mask != rule.word
        })
    }
}

/// Some microseconds' worth.
const SAMPLE: usize = 10_000;
const WALKS: usize = 200;
/// Memory has bounds: 160 MB.
const MOST: usize = 10_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_passes_and_what_a_rule_names_does_not() {
        let filter = Filter::new(3);
        assert!(filter.accepts(SocketAddr::from(([127, 0, 0, 1], 5)), &[0; 64]));
        assert!(!filter.accepts(SocketAddr::from(([240, 0, 0, 9], 5)), &[0; 64]), "the first rule");
        assert!(filter.accepts(SocketAddr::from(([240, 0, 0, 9], 5)), &[9; 64]), "another word");
    }

    #[test]
    fn twice_the_cost_is_about_twice_the_rules() {
        let [one, four] = [5, 20].map(|micros| Filter::costing(Duration::from_micros(micros)).rules());
        assert!(four > one && one > 0, "{one}, {four}");
        assert_eq!(Filter::costing(Duration::ZERO).rules(), 0);
    }
}
