//! The cost of each datagram beyond being received: [`Filter`], a list of rules that is walked to its end.
//!
//! The livelock paper's second stage was `screend`, a program that checks each packet and lets it pass (§6.2). Its cost
//! decides the capacity. The filter does real work rather than wait for a clock, which would go on counting while
//! another thread has the CPU. And the work is the same each time: a number of rules, whose [`cost`](Filter::cost) is
//! measured. A list sized for a given time would have another length at each call, and two runs would not compare.

use std::hint::black_box;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use softtimers::{Clock, Monotonic};
use softtimers_measure::estimate::quantile;

/// Rules that never apply, before one that lets everything pass.
#[derive(Clone, Debug)]
pub struct Filter {
    rules: Vec<Rule>,
}

/// Rejects datagrams that come from a network and carry a word.
#[derive(Clone, Copy, Debug)]
struct Rule {
    net: u32,
    mask: u32,
    word: u32,
    word_mask: u32,
}

impl Filter {
    /// Returns a filter of `rules` rules.
    pub fn new(rules: usize) -> Self {
        let rule = |number: usize| {
            let number = number as u32;
            // 240.0.0.0/4 is reserved, so no datagram comes from it.
            let net = 0xf000_0000 | (number.wrapping_mul(7_919) & 0x0fff_ff00);
            Rule { net, mask: 0xffff_ff00, word: number.wrapping_mul(104_729), word_mask: 0xffff_0000 }
        };
        Filter { rules: (0..rules).map(rule).collect() }
    }

    /// Measures the cost of a datagram on the caller's CPU: the median of up to 201 walks over all rules.
    ///
    /// Takes 50 ms, or five walks if those take longer.
    pub fn cost(&self) -> Duration {
        let from = SocketAddr::from(([127, 0, 0, 1], 9));
        let (began, mut walks) = (Monotonic.now(), Vec::with_capacity(WALKS));
        let mut last = began;
        while walks.len() < WALKS
            && (walks.len() < LEAST_WALKS || last.saturating_duration_since(began) < MEASURED)
        {
            black_box(self.accepts(from, &[1; 64]));
            let now = Monotonic.now();
            walks.push(now.saturating_duration_since(last));
            last = now;
        }
        walks.sort_unstable();
        quantile(&walks, 0.5).unwrap_or_default()
    }

    /// Returns the number of rules.
    pub fn rules(&self) -> usize {
        self.rules.len()
    }

    /// Returns whether the datagram may pass: no rule rejects it.
    #[inline]
    pub fn accepts(&self, from: SocketAddr, payload: &[u8]) -> bool {
        let source = match from.ip() {
            IpAddr::V4(address) => address.to_bits(),
            IpAddr::V6(address) => address.to_bits() as u32,
        };
        let word = payload.first_chunk().map_or(0, |word| u32::from_be_bytes(*word));
        // Each rule is evaluated by itself, as rules with side effects are.
        self.rules.iter().all(|rule| {
            let rule = black_box(rule);
            source & rule.mask != rule.net || word & rule.word_mask != rule.word
        })
    }
}

const WALKS: usize = 201;
const LEAST_WALKS: usize = 5;
const MEASURED: Duration = Duration::from_millis(50);

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
    fn more_rules_cost_more_and_their_number_is_what_was_asked_for() {
        let [none, few, many] = [0, 1_000, 100_000].map(Filter::new);
        assert_eq!((none.rules(), few.rules(), many.rules()), (0, 1_000, 100_000));
        assert!(many.cost() > few.cost());
    }
}
