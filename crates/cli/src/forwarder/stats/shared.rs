//! The counts of a run while it goes on: [`SharedStats`], and the [`Account`] of each of its pollers.

use std::sync::Arc;

use softtimers_measure::stats::{Counter, Stats as _};

use super::Stats;

/// The counts of a run: the sum of what each poller has handed over.
#[derive(Clone, Debug)]
pub(crate) struct SharedStats {
    counter: Arc<Counter<Stats>>,
    each_round: bool,
}

/// The counts of one poller. No other waits for it.
#[derive(Debug)]
pub(crate) struct Account {
    counter: Counter<Stats>,
    /// The counts not yet handed over; `None` if each round hands them over.
    apart: Option<Box<Stats>>,
}

impl SharedStats {
    /// Counts in `counter` from now on. Each poller hands its counts over four times a second, and the first one also
    /// when asked; or `each_round`, where one line per second must be exact.
    pub(crate) fn new(counter: Counter<Stats>, each_round: bool) -> Self {
        SharedStats { counter: Arc::new(counter.shared()), each_round }
    }

    /// Returns what all pollers have handed over so far.
    ///
    /// # Cost
    /// A copy for each poller, of some 300 KB, for which that poller may have to wait.
    pub(crate) fn total(&self) -> Stats {
        self.counter.total()
    }

    /// Returns the account of one more poller.
    pub(crate) fn account(&self) -> Account {
        Account { counter: self.counter.another(), apart: (!self.each_round).then(Box::default) }
    }
}

impl Account {
    /// Counts, and hands the counts over if it is time.
    pub(crate) fn count(&mut self, hand_over: bool, count: impl FnOnce(&mut Stats)) {
        let Some(own) = &mut self.apart else { return self.counter.count(count) };
        count(own);
        if hand_over {
            self.counter.count(|stats| *stats += own);
            own.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use softtimers_core::Timestamp;

    use super::*;
    use crate::forwarder::rules::{Filter, Revision, Seen, parse};

    /// Counts a poller that has sent `packets` packets.
    fn carried(stats: &mut Stats, packets: u64, rules: &Arc<Revision>) {
        for _ in 0..packets {
            stats.ends[0].received.count(100);
            stats.ends[1].sent.count(100);
            stats.latency.record(packets);
        }
        stats.polling.cpu_limited += 1;
        stats.interfaces.get_or_insert_default().loops += 1;
        let mut filter = Filter::new(Arc::clone(rules));
        let local = SocketAddr::from(([127, 0, 0, 1], 9));
        (0..packets).for_each(|_| _ = filter.decide(&Seen::datagram(local, local, 9, Timestamp::ZERO)));
        stats.rules.get_or_insert_default().count(filter.tally().take());
    }

    #[test]
    fn what_all_have_done_is_the_sum_of_what_each_hands_over() {
        let rules = Revision::new(parse(b"accept").unwrap());
        let later = rules.change(parse(b"# the same\naccept").unwrap());
        let names = ["a", "b"].map(str::to_owned);
        for each_round in [false, true] {
            let shared = SharedStats::new(Counter::new(Stats::of_interfaces(&names)), each_round);
            let (mut first, mut other) = (shared.account(), shared.account());
            first.count(false, |stats| carried(stats, 3, &rules));
            other.count(false, |stats| carried(stats, 4, &later));
            assert_eq!(shared.total().counts().out, if each_round { 7 } else { 0 });
            first.count(true, |stats| stats.span += Duration::from_secs(1));
            other.count(true, |_| ());
            other.count(true, |_| ());
            let total = shared.total();
            let [up, down] = total.ways();
            assert_eq!((total.counts().came, up.received, up.sent, down.sent), (7, 7, 7, 0));
            assert_eq!((total.ends[1].name.as_str(), total.ends[1].sent.bytes), ("b", 700));
            assert_eq!((total.latency.len(), total.polling.cpu_limited, total.span.as_secs()), (7, 2, 1));
            assert_eq!(total.interfaces.as_ref().map(|stats| stats.loops), Some(2));
            let rules = total.rules.as_ref().unwrap();
            let entries: Vec<_> = rules.entries().map(|entry| (entry.line, entry.matched)).collect();
            assert_eq!((entries, rules.reloaded()), (vec![(2, 7)], 1));
        }
    }

    #[test]
    fn an_interval_that_is_cleared_counts_the_same_things_anew() {
        let rules = Revision::new(parse(b"accept").unwrap());
        let mut stats = Stats::of_interfaces(&["a", "b"].map(str::to_owned));
        let blank = serde_json::to_value(&stats).unwrap();
        carried(&mut stats, 3, &rules);
        assert!(!stats.is_empty());
        stats.clear();
        stats.rules = None;
        assert!(stats.is_empty());
        assert_eq!(serde_json::to_value(&stats).unwrap(), blank);
    }
}
