//! Firm and smart timers (Tsafrir et al. §3; soft timers §5.9, §5.10) on one store and one hardware
//! timer: how often it goes off, for whom, and that it is silent when nothing is pending.

mod machine;

use core::time::Duration;

use machine::{Machine, Random, asleep};
use softtimers_core::{Config, Slack, SoftTimers, Timestamp, TriggerState};

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn machine<E>() -> Machine<E> {
    Machine::one_shot(SoftTimers::new(Config::default()))
}

/// One flow of events every 40 µs with 50 µs of slack, under a program that meets a trigger state
/// every few microseconds, and under one that sleeps.
fn flow(gap: impl FnMut() -> Option<Duration>) -> Machine<()> {
    let mut machine = machine();
    machine.timers.schedule_at(Timestamp::ZERO, at(40), Slack::micros(50), ());
    machine.run(at(SPAN), gap, |timers, now, _| {
        timers.schedule(now, Duration::from_micros(40), Slack::micros(50), ());
    });
    machine
}

const SPAN: u64 = if cfg!(miri) { 4_000 } else { 400_000 };

/// A trigger state in the window runs the event, and the hardware stays silent.
#[test]
fn dense_trigger_states_avoid_every_expiry() {
    let mut random = Random::new(3);
    let busy = flow(|| Some(Duration::from_nanos(1_000 + random.below(4_000))));
    let stats = busy.timers.stats();
    assert!(stats.fired[TriggerState::SyscallExit] > SPAN / 45);
    assert_eq!((busy.expirations, stats.fired[TriggerState::Backup]), (0, 0));
    // Only an expiry costs an interrupt, and there is none. Moving the alarm costs at most one setting per event.
    assert!(busy.settings <= stats.fired.total() + 1, "{} settings", busy.settings);
}

#[test]
fn asleep_each_event_comes_at_its_deadline() {
    let idle = flow(asleep);
    let stats = idle.timers.stats();
    assert_eq!(stats.fired.total(), stats.fired[TriggerState::Backup]);
    assert_eq!(idle.expirations, stats.fired.total());
    assert_eq!(idle.timers.lateness().max(), Some(50_000));
}

/// Ten expired deadlines are served by one expiry.
#[test]
fn one_expiry_runs_every_expired_deadline() {
    let mut machine = machine();
    for event in 0..10 {
        machine.timers.schedule_at(Timestamp::ZERO, at(100), Slack::micros(20), event);
    }
    let mut fired = Vec::new();
    machine.run(at(1_000), asleep, |_, now, event| fired.push((now, event.event)));
    assert_eq!(fired, (0..10).map(|event| (at(120), event)).collect::<Vec<_>>());
    assert_eq!(machine.expirations, 1);
}

/// An expiry at T + S also runs what was *asked for* up to then, though its own deadline is later.
#[test]
fn an_expiry_serves_what_was_asked_for_up_to_then() {
    let (t, s) = (1_000, 100);
    let mut machine = machine();
    for due in [t, t + s / 2, t + s] {
        machine.timers.schedule_at(Timestamp::ZERO, at(due), Slack::micros(s), due);
    }
    let mut fired = Vec::new();
    machine.run(at(5_000), asleep, |_, now, event| fired.push((now, event.event)));
    assert_eq!(fired, [(at(t + s), t), (at(t + s), t + s / 2), (at(t + s), t + s)]);
    assert_eq!(machine.expirations, 1);
}

/// Dense timers share wake-ups: at most one per slack.
#[test]
fn nearby_events_share_a_wake_up_within_their_slack() {
    let (span, slack) = (if cfg!(miri) { 10_000 } else { 1_000_000u64 }, 250u64);
    let mut machine = machine();
    for due in (0..span).step_by(10) {
        machine.timers.schedule_at(Timestamp::ZERO, at(due), Slack::micros(slack), ());
    }
    machine
        .run(at(span + slack), asleep, |_, _, fired| assert!(fired.lateness <= Duration::from_micros(slack)));
    assert!(machine.timers.is_empty());
    assert!(machine.expirations <= span.div_ceil(slack), "{} wake-ups", machine.expirations);
}

/// No slack: every timer wakes the machine for itself, at its own time.
#[test]
fn without_slack_each_fires_alone() {
    let mut machine = machine();
    for due in (10..1_000).step_by(10) {
        machine.timers.schedule_at(Timestamp::ZERO, at(due), Slack::EXACT, due);
    }
    machine.run(at(2_000), asleep, |_, now, fired| assert_eq!(now, at(fired.event)));
    assert_eq!(machine.expirations, 99);
}

/// The overload guard: a million exact timers a nanosecond apart wake the machine once per tick.
#[test]
fn a_million_exact_timers_wake_at_most_once_per_tick() {
    let events = if cfg!(miri) { 3_000 } else { 1_000_000 };
    let mut machine = machine();
    for nanos in 0..events {
        machine.timers.schedule_at(Timestamp::ZERO, Timestamp::from_nanos(5_000 + nanos), Slack::EXACT, ());
    }
    let mut fired = 0u64;
    machine.run(at(1_000_000), asleep, |_, _, _| fired += 1);
    assert_eq!(fired, events);
    assert!(machine.expirations <= events / 1_000 + 1, "{} wake-ups", machine.expirations);
}

/// Nothing pending: nothing armed, however the last event went.
#[test]
fn nothing_is_armed_when_nothing_is_pending() {
    let mut machine = machine();
    let id = machine.timers.schedule_at(Timestamp::ZERO, at(500), Slack::EXACT, ());
    machine.timers.schedule_at(Timestamp::ZERO, at(100), Slack::EXACT, ());
    machine.run(at(200), asleep, |_, _, _| {});
    machine.timers.cancel(id);
    machine.run(at(10_000_000), asleep, |_, _, _| {});
    assert_eq!(machine.expirations, 1);
    assert_eq!(machine.timers.poll_at(), None);
}

/// A deferrable event never arms the hardware; what else wakes the program runs it.
#[test]
fn a_conventional_timers_interrupt_runs_overdue_soft_events() {
    let mut machine = machine();
    // The conventional interval timer: every millisecond, exactly.
    machine.timers.schedule_at(Timestamp::ZERO, at(1_000), Slack::EXACT, "interval");
    machine.timers.schedule_at(Timestamp::ZERO, at(1_250), Slack::DEFERRABLE, "soft");
    machine.timers.schedule_at(Timestamp::ZERO, at(2_990), Slack::micros(100), "firm");
    let mut log = Vec::new();
    machine.run(at(4_500), asleep, |timers, now, fired| {
        log.push((now, fired.event));
        if fired.event == "interval" {
            timers.schedule_at(now, fired.due + Duration::from_millis(1), Slack::EXACT, "interval");
        }
    });
    let expected = [
        (at(1_000), "interval"),
        (at(2_000), "soft"),
        (at(2_000), "interval"),
        (at(3_000), "firm"),
        (at(3_000), "interval"),
        (at(4_000), "interval"),
    ];
    assert_eq!(log, expected);
    assert_eq!(machine.expirations, 4, "the soft and the firm event cost no wake-up");
}

/// A sleeping player with one 30 Hz timer: under a pure soft timer it waits for the tick, which also
/// wakes the machine a thousand times a second; under a smart one it is late by its slack at most.
#[test]
fn a_sleeping_player_needs_smart_timers() {
    let frame = Duration::from_nanos(33_333_333);
    let play = |machine: &mut Machine<()>, slack: Slack| {
        machine.timers.schedule_at(Timestamp::ZERO, Timestamp::ZERO + frame, slack, ());
        machine.run(at(1_000_000), asleep, |timers, now, fired| {
            timers.schedule_at(now, fired.due + frame, slack, ());
        });
        (machine.timers.lateness().max().unwrap(), machine.expirations)
    };
    let config = Config::default();
    let mut soft = Machine::tick(SoftTimers::new(config), at(137), Duration::from_millis(1));
    let (late, wakeups) = play(&mut soft, Slack::DEFERRABLE);
    assert!(late > 500_000 && late <= 1_001_000, "{late}");
    assert_eq!(wakeups, 1_000);

    let (late, wakeups) = play(&mut Machine::one_shot(SoftTimers::new(config)), Slack::micros(100));
    assert!(late <= 101_000, "{late}");
    assert_eq!(wakeups, 29);
}

/// A slack of 100 µs does what a tick of 10 kHz does: the same worst lateness. But the tick wakes the machine 10,000
/// times a second whatever happens, and the slack only when there are events.
#[test]
fn slack_does_what_a_fast_tick_did_and_is_silent_between() {
    let (period, events) = (Duration::from_micros(100), if cfg!(miri) { 100 } else { 2_000u64 });
    let play = |mut machine: Machine<()>, slack: Slack| {
        let mut random = Random::new(21);
        // A minute's events in bursts, with a long silence after each.
        for event in 0..events {
            let due = Timestamp::from_nanos(event / 100 * 500_000_000 + random.below(20_000_000));
            machine.timers.schedule_at(Timestamp::ZERO, due, slack, ());
        }
        machine.run(at(events / 100 * 500_000), asleep, |_, _, _| {});
        assert!(machine.timers.is_empty());
        (machine.timers.lateness().max().unwrap(), machine.expirations)
    };
    let fast_tick = Machine::tick(SoftTimers::new(Config::default()), at(100), period);
    let (tick_late, ticks) = play(fast_tick, Slack::DEFERRABLE);
    let (slack_late, wakeups) = play(machine(), Slack::within(period));
    // Both are rounded to the microsecond of the timers' own tick.
    assert!(tick_late > 95_000 && tick_late <= 101_000, "{tick_late}");
    assert!(slack_late > 95_000 && slack_late <= 101_000, "{slack_late}");
    assert_eq!(ticks, events / 100 * 5_000);
    assert!(wakeups <= events, "{wakeups} wake-ups for {events} events");
}

/// A deadline is met to the tick whether trigger states come or not, in every mixture of slack.
#[test]
fn no_event_is_later_than_its_deadline() {
    for seed in 0..if cfg!(miri) { 1 } else { 20 } {
        let mut random = Random::new(seed);
        let mut gaps = Random::new(seed + 100);
        let mut machine = machine();
        for _ in 0..if cfg!(miri) { 50 } else { 500 } {
            let slack = random.below(300);
            let due = at(random.below(20_000));
            machine.timers.schedule_at(
                Timestamp::ZERO,
                due,
                Slack::micros(slack),
                due + Duration::from_micros(slack),
            );
        }
        let sparse = || Some(gaps.web_server_gap() * 5);
        machine.run(at(30_000), sparse, |_, now, fired| assert!(fired.due <= now && now <= fired.event));
        assert!(machine.timers.is_empty());
    }
}
