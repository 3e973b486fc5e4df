//! The series that `--report` draws: [`Recorder`] samples the relay ten times a second, or less often in a long run.

use std::time::Duration;

use softtimers::{Histogram, Timestamp};
use softtimers_wan::{Counters, Relay, Way};

/// Consecutive spans of time, and the traffic of each. Their number is bounded: at the limit, pairs are merged.
#[derive(Debug)]
pub(crate) struct Recorder {
    start: Timestamp,
    every: Duration,
    next: Timestamp,
    before: [Before; 2],
    spans: Vec<Span>,
    /// At the limit the older half goes, and spans stay short.
    recent_only: bool,
}

/// All that a direction had carried at the last sample.
#[derive(Debug, Default)]
struct Before {
    counters: Counters,
    delay: Histogram,
}

/// The traffic of a span of time.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Span {
    /// From the start of the run to the beginning of the span.
    pub(crate) from: Duration,
    /// From the start of the run to its end.
    pub(crate) until: Duration,
    /// Both directions, up first.
    pub(crate) ways: [WaySpan; 2],
}

/// One direction of a span.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct WaySpan {
    /// The bits that came in, on the link: with the overhead of each packet.
    pub(crate) bits_in: u64,
    /// The bits that went out, counted in the same way.
    pub(crate) bits_out: u64,
    /// Packets that came in.
    pub(crate) offered: u64,
    /// Packets that left the link, and those of them that were lost.
    pub(crate) passed: u64,
    pub(crate) lost: u64,
    /// Packets that the queue dropped.
    pub(crate) dropped: u64,
    /// The delays of those that went out.
    pub(crate) delay: Histogram,
    /// The time to drain the queue, as known at the end of the span: at the last packet received, or the shortest delay
    /// ago, whichever is later.
    pub(crate) wait: Duration,
    /// The configured delay at the end of the span.
    pub(crate) set_delay: Duration,
    /// The configured rate; `None` for none.
    pub(crate) set_rate: Option<u64>,
    /// The configured loss.
    pub(crate) set_loss: f64,
    /// Whether nothing gets through.
    pub(crate) outage: bool,
}

impl Recorder {
    /// Begins a recording now.
    pub(crate) fn new(now: Timestamp) -> Self {
        let (before, spans) = Default::default();
        Recorder { start: now, every: FIRST, next: now + FIRST, before, spans, recent_only: false }
    }

    /// Begins one that keeps what came last.
    pub(super) fn recent(now: Timestamp) -> Self {
        Recorder { recent_only: true, ..Recorder::new(now) }
    }

    /// Returns the time of the next sample.
    pub(crate) fn next(&self) -> Timestamp {
        self.next
    }

    /// Samples if it is time.
    pub(crate) fn look(&mut self, relay: &Relay, now: Timestamp) {
        if now < self.next {
            return;
        }
        self.note(relay, now);
        if self.spans.len() >= MOST_SPANS && self.recent_only {
            self.spans.drain(..MOST_SPANS / 2);
        } else if self.spans.len() >= MOST_SPANS {
            self.spans = self.spans.chunks(2).map(Span::joined).collect();
            self.every *= 2;
        }
        self.next = now + self.every;
    }

    /// Returns the spans so far.
    pub(super) fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Takes the last sample.
    pub(crate) fn finish(mut self, relay: &Relay, now: Timestamp) -> Vec<Span> {
        self.note(relay, now);
        self.spans
    }

    fn note(&mut self, relay: &Relay, now: Timestamp) {
        let from = self.spans.last().map_or(Duration::ZERO, |span| span.until);
        let until = now.saturating_duration_since(self.start);
        if until <= from {
            return;
        }
        let mut ways = [WaySpan::default(), WaySpan::default()];
        for ((way, before), span) in [Way::Up, Way::Down].into_iter().zip(&mut self.before).zip(&mut ways) {
            let (counters, delay) = (relay.counters(way), relay.measured(way).delay_ns().clone());
            let path = relay.path(way);
            let count = |of: fn(&Counters) -> u64| of(&counters) - of(&before.counters);
            let bits = |bytes: u64, packets: u64| (bytes + packets * u64::from(path.overhead)) * 8;
            let offered = count(|all| all.offered);
            *span = WaySpan {
                bits_in: bits(count(|all| all.offered_bytes), offered),
                bits_out: bits(count(|all| all.delivered_bytes), count(|all| all.delivered)),
                offered,
                passed: count(|all| all.passed),
                lost: count(|all| all.lost),
                dropped: count(|all| all.queue_drops),
                delay: delay.since(&before.delay),
                wait: relay.backlog(way).wait,
                set_delay: path.delay,
                set_rate: path.bottleneck.mean_bps(),
                outage: path.outage,
                set_loss: if path.outage { 1.0 } else { path.loss.mean() },
            };
            *before = Before { counters, delay };
        }
        self.spans.push(Span { from, until, ways });
    }
}

impl Span {
    /// Merges one or two spans.
    fn joined(spans: &[Span]) -> Span {
        let mut joined = spans[0].clone();
        for span in &spans[1..] {
            joined.until = span.until;
            for (one, next) in joined.ways.iter_mut().zip(&span.ways) {
                one.join(next);
            }
        }
        joined
    }

    /// Returns its length in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.until.saturating_sub(self.from).as_secs_f64()
    }
}

impl WaySpan {
    fn join(&mut self, next: &WaySpan) {
        self.bits_in += next.bits_in;
        self.bits_out += next.bits_out;
        self.offered += next.offered;
        self.passed += next.passed;
        self.lost += next.lost;
        self.dropped += next.dropped;
        self.delay.merge(&next.delay);
        // For a queue the worst counts.
        self.wait = self.wait.max(next.wait);
        (self.set_delay, self.set_rate, self.set_loss) = (next.set_delay, next.set_rate, next.set_loss);
        self.outage |= next.outage;
    }
}

const FIRST: Duration = Duration::from_millis(100);
/// More than a plot can show.
const MOST_SPANS: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_spans_are_one_without_a_loss() {
        let span = |from: u64, lost| {
            let mut way = WaySpan { bits_in: 80, offered: 10, lost, ..WaySpan::default() };
            way.delay.record(from);
            let at = Duration::from_secs;
            Span { from: at(from), until: at(from + 1), ways: [way.clone(), way] }
        };
        let joined = Span::joined(&[span(4, 1), span(5, 2)]);
        assert_eq!((joined.seconds(), joined.ways[1].offered, joined.ways[1].lost), (2.0, 20, 3));
        assert_eq!((joined.ways[0].delay.min(), joined.ways[0].delay.max()), (Some(4), Some(5)));
        assert_eq!(Span::joined(&[span(4, 1)]), span(4, 1));
    }
}
