//! Trigger states inside long loops (soft timers §5.1, §5.4): what one more source does to the
//! intervals.

use core::time::Duration;

use softtimers_core::{Config, Histogram, PerSource, Slack, SoftTimers, Timestamp, TriggerState};

/// A program that waits, then sends sixteen packets of 3 µs each and runs its protocol's timers, over
/// and over; the trigger states inside the send loop are there or not.
fn intervals(in_the_send_loop: bool) -> (Histogram, SoftTimers<()>) {
    let mut timers = SoftTimers::<()>::new(Config::default().intervals(true));
    let mut now = Timestamp::ZERO;
    let mut visit = |source, micros| {
        now += Duration::from_micros(micros);
        let turn = timers.trigger(source, now);
        assert!(timers.next(&turn).is_none());
    };
    for _ in 0..100 {
        visit(TriggerState::Readiness, 20);
        for _ in 0..15 {
            if in_the_send_loop {
                visit(TriggerState::Send, 3);
            }
        }
        visit(TriggerState::ProtocolTimer, if in_the_send_loop { 3 } else { 48 });
        visit(TriggerState::Idle, 2);
    }
    (timers.intervals().unwrap().all(), timers)
}

#[test]
fn trigger_states_in_the_send_loop_shorten_the_intervals() {
    let ((with, timers), (without, _)) = (intervals(true), intervals(false));
    assert!(with.mean().unwrap() * 3.0 < without.mean().unwrap());
    assert!(with.max() < without.max());
    // Longer as a distribution, and not on average alone: an event that comes at any time meets a longer interval, at
    // each length more often.
    let within = |all: &Histogram, longest: u64| {
        let time = |(length, count): (u64, u64)| (if length > longest { length * count } else { 0 }) as f64;
        all.iter().map(time).sum::<f64>()
            / all.iter().map(|(length, count)| length * count).sum::<u64>() as f64
    };
    for longest in [1_000, 2_500, 5_000, 10_000, 20_500, 40_000] {
        let [with, without] = [&with, &without].map(|all| within(all, longest));
        // A bucket of the histogram is a hundredth wide.
        assert!(with <= without + 0.01, "longer than {longest} ns: {with}, and {without}");
    }
    assert!(within(&with, 40_000) == 0.0 && within(&without, 40_000) > 0.6);
    let seen = timers.stats().triggers;
    assert_eq!((seen[TriggerState::Send], seen[TriggerState::ProtocolTimer]), (1_500, 100));
}

/// A server that meets the paper's sources: an interrupt brings sixteen requests, each costs a system call,
/// and every second one a packet. Beside it a flow is paced at the trigger states that are left.
struct Served {
    timers: SoftTimers<()>,
    triggers: PerSource<u64>,
    /// The mean gap of the paced packets, in nanoseconds.
    mean_gap: f64,
}

impl Served {
    fn without(disabled: Option<TriggerState>) -> Self {
        let config = Config::default().intervals_without_each(true);
        let mut timers = SoftTimers::new(disabled.into_iter().fold(config, Config::disable_source));
        let mut now = Timestamp::from_micros(1);
        timers.schedule_at(now, now, Slack::DEFERRABLE, ());
        let mut sent = Vec::new();
        let mut visit = |source, micros| {
            now += Duration::from_micros(micros);
            let turn = timers.trigger(source, now);
            while timers.next(&turn).is_some() {
                sent.push(now);
                // Shorter than most intervals: the gaps are those that the trigger states leave it.
                timers.schedule(now, Duration::from_micros(2), Slack::DEFERRABLE, ());
            }
        };
        for _ in 0..500 {
            visit(TriggerState::Readiness, 9);
            for request in 0..16 {
                visit(TriggerState::SyscallExit, 4);
                if request % 2 == 0 {
                    visit(TriggerState::Send, 3);
                }
            }
        }
        let whole = sent[sent.len() - 1].saturating_duration_since(sent[0]);
        let mean_gap = whole.as_nanos() as f64 / (sent.len() - 1) as f64;
        let triggers = timers.stats().triggers;
        Served { timers, triggers, mean_gap }
    }

    fn mean_interval(&self) -> f64 {
        self.timers.intervals().unwrap().all().mean().unwrap()
    }
}

/// Table V and figure 4: the source with the largest share is the one whose removal lengthens the
/// intervals, and the gaps of what is paced, the most.
#[test]
fn removing_the_largest_source_lengthens_the_mean_interval_most() {
    const SOURCES: [TriggerState; 3] =
        [TriggerState::SyscallExit, TriggerState::Send, TriggerState::Readiness];
    let all = Served::without(None);
    assert!(
        SOURCES.is_sorted_by_key(|&source| std::cmp::Reverse(all.triggers[source])),
        "{:?}",
        all.triggers
    );
    let mut means = Vec::new();
    for source in SOURCES {
        let removed = Served::without(Some(source));
        assert_eq!(removed.triggers[source], 0);
        // Nothing in this program depends on when its packets leave, so what is calculated is what is left.
        let calculated = all.timers.intervals().unwrap().without(source).unwrap();
        assert_eq!(calculated, &removed.timers.intervals().unwrap().all(), "{source:?}");
        means.push((removed.mean_interval(), removed.mean_gap));
    }
    assert!(means.is_sorted_by(|more, less| more.0 > less.0 && more.1 > less.1), "{means:?}");
    assert!(means.iter().all(|&(interval, gap)| interval > all.mean_interval() && gap >= all.mean_gap));
}
