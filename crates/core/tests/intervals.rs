//! Trigger states inside long loops (soft timers §5.1, §5.4): what one more source does to the
//! intervals.

use core::time::Duration;

use softtimers_core::{Config, Histogram, SoftTimers, Timestamp, TriggerState};

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
    let seen = timers.stats().triggers;
    assert_eq!((seen[TriggerState::Send], seen[TriggerState::ProtocolTimer]), (1_500, 100));
}
