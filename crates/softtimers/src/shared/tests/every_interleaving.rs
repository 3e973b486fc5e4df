//! Interleavings by loom: `RUSTFLAGS="--cfg loom"`.

use std::time::Duration;

use loom::thread;
use softtimers_core::{Config, Slack, Timestamp, TriggerState};

use crate::shared::{Entry, Found, Remote, Shared, Timer};

const START: Timestamp = Timestamp::from_micros(1_000);
const DELAY: Duration = Duration::from_micros(40);

fn later() -> Timestamp {
    START + DELAY + Duration::from_micros(5)
}

fn timers() -> Shared<u32> {
    Shared::new(Config::default()).unwrap()
}

/// The events that the owner is handed at one trigger state.
fn served(timers: &mut Shared<u32>) -> Vec<u32> {
    let Some(turn) = timers.trigger(TriggerState::HandlerExit, later()) else { return Vec::new() };
    std::iter::from_fn(|| timers.next(&turn)).map(|fired| fired.event).collect()
}

/// An owner that goes to sleep while a remote schedules: either it has seen the event, or the backup
/// is armed for it.
#[test]
fn no_wake_up_is_lost() {
    loom::model(|| {
        let mut timers = timers();
        let remote = timers.remote();
        let other = thread::spawn(move || {
            remote.schedule(START, DELAY, Slack::EXACT, 1);
        });
        let seen = served(&mut timers);
        timers.arm(START).unwrap();
        other.join().unwrap();
        assert!(seen == [1] || timers.common.armed() == Some(START + DELAY));
    });
}

/// An owner that was asleep and was woken by something else: a remote leaves the backup alone until the owner
/// goes to sleep again, and then it is armed.
#[test]
fn no_wake_up_is_lost_after_another() {
    loom::model(|| {
        let mut timers = timers();
        let remote = timers.remote();
        timers.arm(START).unwrap();
        assert!(timers.trigger(TriggerState::Readiness, START).is_none());
        let other = thread::spawn(move || {
            remote.schedule(START, DELAY, Slack::EXACT, 1);
        });
        // The owner runs: whether the remote was there or not.
        assert_eq!(timers.common.armed(), None);
        timers.arm(START).unwrap();
        other.join().unwrap();
        assert_eq!(timers.common.armed(), Some(START + DELAY));
    });
}

/// The same event is wanted by a cancel and by an expiry.
#[test]
fn an_event_goes_to_one_of_two() {
    loom::model(|| {
        let mut timers = timers();
        let ids = [1, 2].map(|event| timers.schedule(START, DELAY, Slack::EXACT, event));
        let remote = timers.remote();
        let other = thread::spawn(move || remote.cancel(ids[1]));
        let seen = served(&mut timers);
        let cancelled = other.join().unwrap();
        let mut all: Vec<u32> = seen.into_iter().chain(cancelled).collect();
        all.sort_unstable();
        assert_eq!(all, [1, 2]);
        assert!(served(&mut timers).is_empty());
    });
}

/// Two parties expire at once: the owner, and what a helper does when it finds something overdue.
#[test]
fn owner_and_helper_share_what_is_due() {
    loom::model(|| {
        let mut timers = timers();
        for event in [1, 2] {
            timers.schedule(START, DELAY, Slack::EXACT, event);
        }
        let common = timers.common.clone();
        let helper = thread::spawn(move || {
            let turn = common.begin_turn(TriggerState::Backup, later());
            std::iter::from_fn(|| common.next(&turn)).map(|fired| fired.event).collect::<Vec<_>>()
        });
        let mut all = served(&mut timers);
        all.extend(helper.join().unwrap());
        all.sort_unstable();
        assert_eq!(all, [1, 2]);
    });
}

/// A remote runs what is due while the owner goes to sleep for what is left: each event comes once, and the
/// backup is armed for the one that nobody has had.
#[test]
fn a_remote_expires_while_the_owner_goes_to_sleep() {
    loom::model(|| {
        let mut timers = timers();
        timers.schedule(START, DELAY, Slack::EXACT, 1);
        timers.schedule(START, 2 * DELAY, Slack::EXACT, 2);
        let remote = timers.remote();
        let other = thread::spawn(move || {
            let turn = remote.trigger(TriggerState::HandlerExit, later())?;
            remote.next(&turn).map(|fired| fired.event)
        });
        let mut all = served(&mut timers);
        timers.arm(later()).unwrap();
        all.extend(other.join().unwrap());
        assert_eq!(all, [1]);
        assert!(timers.common.armed().is_some_and(|armed| armed <= START + 2 * DELAY));
    });
}

/// Two remotes expire at once, and one sets a timer meanwhile: no event is handed out twice or lost, and the
/// sleeping owner is armed for what is left.
#[test]
fn remotes_expire_and_schedule_while_the_owner_sleeps() {
    loom::model(|| {
        let mut timers = timers();
        for event in [1, 2] {
            timers.schedule(START, DELAY, Slack::EXACT, event);
        }
        timers.arm(START).unwrap();
        let worker = |remote: Remote<u32>, sets: Option<u32>| {
            thread::spawn(move || {
                let turn = remote.trigger(TriggerState::HandlerExit, later());
                let event = turn.and_then(|turn| remote.next(&turn)).map(|fired| fired.event);
                if let Some(another) = sets {
                    remote.schedule_at(later(), later() + DELAY, Slack::EXACT, another);
                }
                event
            })
        };
        let one = worker(timers.remote(), Some(3));
        let two = worker(timers.remote(), None);
        let mut all: Vec<u32> = [one, two].into_iter().filter_map(|worker| worker.join().unwrap()).collect();
        all.sort_unstable();
        assert_eq!(all, [1, 2]);
        assert!(timers.common.armed().is_some_and(|armed| armed <= later() + DELAY));
    });
}

/// Returns the events of moved timers that a thread is handed that checks at `now`.
fn claimed(remote: &Remote<Entry<u32>>, now: Timestamp) -> Vec<u32> {
    let Some(turn) = remote.trigger(TriggerState::HandlerExit, now) else { return Vec::new() };
    let found = std::iter::from_fn(|| remote.claim(&turn, now));
    found.filter_map(|found| if let Found::Due(fired) = found { Some(fired.event) } else { None }).collect()
}

/// Returns the events of a thread that waits for no lock, and claims two at a time.
fn claimed_in_passing(remote: &Remote<Entry<u32>>, now: Timestamp) -> Vec<u32> {
    let mut room = [const { None }; 2];
    let (mut found, turn) = remote.claim_if_free(TriggerState::HandlerExit, now, &mut room);
    let mut events = Vec::new();
    loop {
        let due = |found: Option<Found<u32>>| {
            if let Some(Found::Due(fired)) = found { Some(fired.event) } else { None }
        };
        events.extend(room[..found].iter_mut().filter_map(|place| due(place.take())));
        match &turn {
            Some(turn) if found > 0 || events.is_empty() => found = remote.claim_some(turn, now, &mut room),
            _ => return events,
        }
        if found == 0 {
            return events;
        }
    }
}

/// One that has been moved before: what is moved again is only written down.
fn moved(remote: &Remote<Entry<u32>>, event: u32) -> Timer {
    let mut timer = Timer::new();
    timer.set(remote, START, START + DELAY, Slack::EXACT, event + 100);
    assert_eq!(timer.set(remote, START, START + DELAY, Slack::EXACT, event), Some(event + 100));
    timer
}

/// A timer is postponed while somebody finds it due: either it was handed out first, and the reset says so, or it
/// comes at the new time, for which the backup of the sleeping owner is armed. The first move of a timer, and a later one.
#[test]
fn a_timer_is_put_off_while_it_is_found() {
    let finders: [fn(&Remote<Entry<u32>>, Timestamp) -> Vec<u32>; 2] = [claimed, claimed_in_passing];
    for (first_move, find) in [true, false].into_iter().flat_map(|first| finders.map(|find| (first, find))) {
        loom::model(move || {
            let mut timers = Shared::<Entry<u32>>::new(Config::default()).unwrap();
            let remote = timers.remote();
            let mut timer = if first_move { Timer::new() } else { moved(&remote, 1) };
            if first_move {
                timer.set(&remote, START, START + DELAY, Slack::EXACT, 1);
            }
            timers.arm(START).unwrap();
            let finder = timers.remote();
            let other = thread::spawn(move || find(&finder, later()));
            let put_off = timer.reset(&remote, Slack::EXACT, later, later() + DELAY);
            let mut all = other.join().unwrap();
            assert_eq!(put_off.is_err(), all == [1]);
            if put_off.is_ok() {
                assert!(timers.common.armed().is_some_and(|armed| armed <= later() + DELAY));
                // Found too early once more, perhaps; then in time.
                all.extend(claimed(&remote, later()));
                assert!(all.is_empty());
                all.extend(claimed(&remote, later() + 2 * DELAY));
            }
            assert_eq!(all, [1]);
            assert_eq!(timers.stats().pending, 0);
        });
    }
}

/// A timer that is found too early is moved to later and then to earlier meanwhile: it comes once, at the time that was said last.
#[test]
fn a_timer_is_moved_twice_while_it_is_found() {
    loom::model(|| {
        let timers = Shared::<Entry<u32>>::new(Config::default()).unwrap();
        let remote = timers.remote();
        let mut timer = moved(&remote, 1);
        timer.reset(&remote, Slack::EXACT, later, later() + 4 * DELAY).unwrap();
        let finder = timers.remote();
        let other = thread::spawn(move || claimed(&finder, later()));
        timer.reset(&remote, Slack::EXACT, later, later() + 6 * DELAY).unwrap();
        timer.reset(&remote, Slack::EXACT, later, later() + 2 * DELAY).unwrap();
        assert_eq!(other.join().unwrap(), []);
        assert_eq!(claimed(&remote, later() + DELAY), []);
        assert_eq!(claimed(&remote, later() + 2 * DELAY + Duration::from_micros(5)), [1]);
        assert_eq!(timers.stats().pending, 0);
    });
}

/// A timer is taken back and set anew while somebody finds the first setting due: that one comes to nothing or
/// was handed out before, the second comes once, and nothing is left.
#[test]
fn a_timer_is_set_anew_while_it_is_found() {
    for first_move in [true, false] {
        loom::model(move || {
            let timers = Shared::<Entry<u32>>::new(Config::default()).unwrap();
            let remote = timers.remote();
            let mut timer = if first_move { Timer::new() } else { moved(&remote, 1) };
            if first_move {
                timer.set(&remote, START, START + DELAY, Slack::EXACT, 1);
            }
            let finder = timers.remote();
            let other = thread::spawn(move || claimed(&finder, later()));
            let mut first: Vec<u32> = timer.cancel(&remote).into_iter().collect();
            timer.set(&remote, later(), later() + DELAY, Slack::EXACT, 2);
            first.extend(other.join().unwrap());
            assert_eq!(first, [1]);
            assert_eq!(timers.stats().pending, 1);
            assert_eq!(claimed(&remote, later() + 2 * DELAY), [2]);
            assert_eq!((timers.stats().pending, timer.cancel(&remote)), (0, None));
        });
    }
}
