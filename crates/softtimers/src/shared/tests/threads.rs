//! On real threads.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use softtimers_core::{Clock, Config, Slack, Step, TimerId, Timestamp, TriggerState};

use crate::clock::Monotonic;
use crate::shared::{Found, Helper, Remote, Shared, Timer};

const EACH: u64 = 2_000;
/// Far more than any of this takes.
const TEST_TIME_LIMIT: Duration = Duration::from_secs(60);

/// Does `work` as long as it says that there is more, but not for ever.
fn in_time(mut work: impl FnMut() -> bool) {
    let deadline = Monotonic.now() + TEST_TIME_LIMIT;
    while work() {
        assert!(Monotonic.now() < deadline, "still not done after {TEST_TIME_LIMIT:?}");
        thread::yield_now();
    }
}

fn timers<E>() -> Shared<E> {
    Shared::new(Config::default()).unwrap()
}

/// Schedules events of its own numbers and cancels a third of them; returns what it got back.
fn disturb(remote: &Remote<u64>, first: u64) -> Vec<u64> {
    let mut mine: Vec<TimerId> = Vec::new();
    let mut cancelled = Vec::new();
    for number in first..first + EACH {
        // Many in the same microsecond, so that cancels meet what is being expired.
        let delay = Duration::from_micros(number % 7 * 10);
        mine.push(remote.schedule(Monotonic.now(), delay, Slack::EXACT, number));
        if number % 3 == 0 {
            let at = (number as usize * 7) % mine.len();
            cancelled.extend(remote.cancel(mine.swap_remove(at)));
        }
    }
    cancelled
}

/// Three threads set and cancel while the owner expires: every event comes to one place, once, and
/// none early.
#[test]
fn everything_happens_once() {
    let mut timers = timers();
    let threads: Vec<_> = (0..3)
        .map(|thread| {
            let remote = timers.remote();
            thread::spawn(move || disturb(&remote, thread * EACH))
        })
        .collect();
    let mut seen = BTreeMap::<u64, u32>::new();
    let mut serve = |timers: &mut Shared<u64>| {
        let now = Monotonic.now();
        let Some(turn) = timers.trigger(TriggerState::Idle, now) else { return };
        while let Some(fired) = timers.next(&turn) {
            // A remote may have seen a later time than the owner, before the owner had the lock.
            assert!(fired.due <= Monotonic.now());
            *seen.entry(fired.event).or_default() += 1;
        }
    };
    in_time(|| {
        serve(&mut timers);
        threads.iter().any(|thread| !thread.is_finished()) || timers.poll_at().is_some()
    });
    for number in threads.into_iter().flat_map(|thread| thread.join().unwrap()) {
        *seen.entry(number).or_default() += 1;
    }
    assert_eq!(seen.len() as u64, 3 * EACH);
    assert!(seen.values().all(|&times| times == 1));
}

/// An event for the end of time, or beyond it, comes then, and in its order.
#[test]
fn the_end_of_time_is_a_time_like_any_other() {
    for already in [0, 100] {
        let timers = timers();
        let (remote, end) = (timers.remote(), Timestamp::MAX);
        let before = |nanos| Timestamp::from_nanos(u64::MAX - nanos);
        let start = before(10_000_000);
        let mut put_off = Timer::new();
        let set = |timer: &mut Timer, due, event| {
            timer.set(&remote, start, due, Slack::EXACT, event);
        };
        set(&mut put_off, before(5_000_000), 900);
        let mut all: Vec<_> = (0..already + 20).map(|_| Timer::new()).collect();
        for (event, timer) in (0..).zip(&mut all) {
            set(timer, if event % 2 == 0 { end } else { before(1_000_000) }, event);
        }
        put_off.reset(&remote, Slack::EXACT, || start, end).unwrap();
        // It is set anew, and so comes behind the others: the end of time is within its new slack.
        all[0].set(&remote, start, before(3), Slack::millis(1), 0);
        let come = |now| {
            let mut come = Vec::new();
            while let Some(turn) = remote.trigger(TriggerState::Idle, now) {
                match remote.claim(&turn, now) {
                    Some(Found::Due(fired)) => come.push(fired.event),
                    Some(Found::PutOff) => {}
                    None => break,
                }
            }
            come
        };
        let of = |odd: u64| (0..already + 20).filter(move |event| event % 2 == odd);
        assert_eq!(come(before(2_000_000)), []);
        assert_eq!(come(before(1)), of(1).collect::<Vec<_>>());
        assert_eq!(timers.poll_at(), None, "nobody has to look at the end of time");
        assert_eq!(come(end), of(0).skip(1).chain([900, 0]).collect::<Vec<_>>());
    }
}

/// However many timers fall due together, the lock is held for one step at a time, which hands out one event or
/// moves a few; and in the windows between, others may cancel what is about to come.
#[test]
fn a_hold_is_one_step_however_full_a_slot_is() {
    for count in [100u32, 100_000] {
        let (mut timers, due) = (timers(), Duration::from_micros(700));
        let schedule = |number| timers.schedule(Timestamp::ZERO, due, Slack::EXACT, number);
        let ids: Vec<TimerId> = (0..count).map(schedule).collect();
        let remote = timers.remote();
        let turn = timers.trigger(TriggerState::Idle, Timestamp::from_micros(700)).expect("all are due");
        let (mut came, mut cancelled, mut holds) = (Vec::new(), 0, 0u32);
        loop {
            holds += 1;
            match timers.step(&turn) {
                Step::Fired(fired) => came.push(fired.event),
                Step::MoreWork => {}
                Step::Done => break,
            }
            // In every other window those about the cursor go, one by one.
            let about = came.last().map_or(holds, |&last| last + 1 + holds % 40);
            if holds % 2 == 0 && about < count {
                cancelled += u32::from(remote.cancel(ids[about as usize]).is_some());
            }
        }
        assert!(came.is_sorted(), "not in the order they were set");
        assert_eq!(came.len() as u32 + cancelled, count);
        assert!(cancelled > count / 8, "{cancelled} of {count} were cancelled in the windows");
        // An event a hold, and 13 timers a hold where they are only moved: at most twice.
        assert!(holds <= count + count / 4 + 8, "{holds} holds for {count} timers");
        assert_eq!(timers.stats().pending, 0);
    }
}

/// A thread that finds the lock taken backs off for some microseconds. Then it sleeps until the lock is free, and does its work.
#[test]
fn a_thread_that_waits_long_for_the_lock_sleeps() {
    let timers = timers();
    let remote = timers.remote();
    let held = timers.common.lock();
    let (tell, told) = mpsc::channel();
    let waiter = thread::spawn(move || {
        tell.send(std::fs::read_link("/proc/thread-self").unwrap()).unwrap();
        remote.schedule(Monotonic.now(), Duration::ZERO, Slack::EXACT, ());
    });
    let stat = Path::new("/proc").join(told.recv().unwrap()).join("stat");
    // The state comes after the name, which is in parentheses.
    let sleeps = || std::fs::read_to_string(&stat).unwrap().rsplit_once(')').unwrap().1.starts_with(" S");
    in_time(|| !sleeps());
    drop(held);
    waiter.join().unwrap();
    assert_eq!(timers.stats().pending, 1);
}

/// The owner sleeps with nothing armed; a remote's event wakes it.
#[test]
fn a_remote_wakes_a_sleeping_owner() {
    let mut timers = timers();
    timers.arm(Monotonic.now()).unwrap();
    let remote = timers.remote();
    let other = thread::spawn(move || {
        remote.schedule(Monotonic.now(), Duration::from_millis(2), Slack::EXACT, ());
    });
    timers.wait(Duration::from_secs(100)).unwrap();
    let turn = timers.trigger(TriggerState::Backup, Monotonic.now()).expect("it is due");
    assert!(timers.next(&turn).is_some());
    other.join().unwrap();
}

/// The owner is woken by its socket, and nothing is due: it runs nevertheless, and a remote spends no system call on it
/// until it goes to sleep again.
#[test]
fn a_remote_leaves_a_running_owner_alone() {
    let mut timers = timers();
    let remote = timers.remote();
    let start = Monotonic.now();
    let set = |seconds, event| {
        remote.schedule(start, Duration::from_secs(seconds), Slack::EXACT, event);
    };
    set(3_000, "far");
    timers.arm(start).unwrap();
    let far = timers.poll_at();
    assert_eq!(timers.common.armed(), far);
    assert!(timers.trigger(TriggerState::Readiness, start).is_none());
    set(2_000, "near");
    assert!(timers.poll_at() < far && timers.common.armed() == far, "the owner runs");
    timers.arm(start).unwrap();
    assert_eq!(timers.common.armed(), timers.poll_at());
    set(1_000, "nearest");
    assert_eq!(timers.common.armed(), timers.poll_at(), "the owner sleeps");
}

/// A remote has run the event that the backup was armed for: the next one to be set moves it, where it would soon go
/// off for nothing, if by 100 µs or more.
#[test]
fn a_remote_that_expires_spares_the_owner_a_wake_up() {
    let mut timers = timers();
    let remote = timers.remote();
    let start = Monotonic.now();
    let micros = Duration::from_micros;
    remote.schedule_at(start, start + micros(40), Slack::micros(20), "served");
    timers.arm(start).unwrap();
    assert_eq!(timers.common.armed(), Some(timers.poll_at().unwrap()));
    let now = start + micros(42);
    let turn = remote.trigger(TriggerState::HandlerExit, now).expect("it is due");
    assert_eq!(remote.next(&turn).map(|fired| fired.event), Some("served"));
    let served = timers.common.armed();
    let near = remote.schedule_at(now, now + micros(40), Slack::micros(20), "near");
    assert_eq!(timers.common.armed(), served);
    remote.cancel(near);
    remote.schedule_at(now, now + micros(140), Slack::micros(20), "next");
    assert_eq!(timers.common.armed(), timers.poll_at());
    assert!(timers.common.armed() >= Some(now + micros(160)));
    // A lead counts for what a remote sets, too.
    timers.arm_ahead(now, micros(15)).unwrap();
    remote.schedule_at(now, now + micros(30), Slack::EXACT, "first");
    assert_eq!(timers.common.armed().map(|armed| armed + micros(15)), timers.poll_at());
}

/// A timer that has been moved costs the clock and the lock again only when it is moved to before the time that is
/// written, and the event comes at the last time that was set.
#[test]
fn a_timer_that_is_put_off_is_found_once_too_early() {
    let timers = Shared::new(Config::default()).unwrap();
    let remote = timers.remote();
    let at = |micros: u64| softtimers_core::Timestamp::from_micros(1_000_000 + micros);
    let look = |now| {
        let turn = remote.trigger(TriggerState::HandlerExit, now)?;
        match remote.claim(&turn, now).expect("a turn is begun only if something is due") {
            Found::Due(fired) => Some((fired.event, fired.due, fired.lateness)),
            Found::PutOff => None,
        }
    };
    let no_clock = || panic!("the timers need not be told");
    let slack = Slack::micros(20);
    let mut timer = Timer::new();
    assert_eq!(timer.reset(&remote, slack, no_clock, at(1)), Err(softtimers_core::NotPending));
    assert_eq!(timer.set(&remote, at(0), at(1_000), Slack::EXACT, "a"), None);
    assert_eq!(timer.set(&remote, at(0), at(1_000), slack, "b"), Some("a"));
    for micros in [5_000, 9_000] {
        timer.reset(&remote, slack, no_clock, at(micros)).unwrap();
    }
    // Earlier, but not than the time at which the timers look.
    for micros in [3_000, 1_020, 2_900] {
        timer.reset(&remote, slack, || at(0), at(micros)).unwrap();
        assert_eq!((timers.stats().rearmed, timers.poll_at()), (0, Some(at(1_020))));
    }
    timer.reset(&remote, slack, no_clock, at(3_000)).unwrap();
    assert_eq!(look(at(1_000)), None);
    assert_eq!(timers.poll_at(), Some(at(3_020)));
    timer.reset(&remote, slack, || at(1_100), at(2_000)).unwrap();
    assert_eq!((timers.stats().rearmed, timers.poll_at()), (1, Some(at(2_020))));
    assert_eq!(look(at(2_003)), Some(("b", at(2_000), Duration::from_micros(3))));
    assert_eq!(timer.reset(&remote, slack, no_clock, at(5_000)), Err(softtimers_core::NotPending));
    assert_eq!(timer.set(&remote, at(2_003), at(3_000), Slack::EXACT, "c"), None);
    assert_eq!(timer.cancel(&remote), Some("c"));
    assert_eq!((timers.stats().pending, timer.cancel(&remote)), (0, None));
}

/// One that was set once and is moved then: to earlier and to later, and when it has fired not at all.
#[test]
fn a_timer_that_was_set_once_can_be_moved() {
    for (moved, first, second) in [(500, 500, 1_000), (2_000, 1_000, 2_000)] {
        let timers = Shared::new(Config::default()).unwrap();
        let remote = timers.remote();
        let at = |micros: u64| softtimers_core::Timestamp::from_micros(1_000_000 + micros);
        let mut timer = Timer::new();
        assert_eq!(timer.set(&remote, at(0), at(1_000), Slack::EXACT, "once"), None);
        timer.reset(&remote, Slack::EXACT, || at(10), at(moved)).unwrap();
        assert_eq!((timers.stats().pending, timers.poll_at()), (1, Some(at(moved))));
        let mut come = Vec::new();
        for now in [at(first), at(second)] {
            let Some(turn) = remote.trigger(TriggerState::HandlerExit, now) else { continue };
            while let Some(found) = remote.claim(&turn, now) {
                let Found::Due(fired) = found else { panic!("it was not put off") };
                come.push((fired.event, fired.due));
            }
        }
        assert_eq!(come, [("once", at(moved))]);
        assert!(timer.reset(&remote, Slack::EXACT, || at(3_000), at(4_000)).is_err());
        assert_eq!(timer.cancel(&remote), None);
    }
}

/// A trigger state that is not to wait leaves what is due to whoever has the timers.
#[test]
fn a_trigger_state_may_give_way() {
    let timers = timers();
    let remote = timers.remote();
    let now = Monotonic.now();
    Timer::new().set(&remote, now, now, Slack::EXACT, 1);
    let later = now + Duration::from_millis(1);
    let mut room = [const { None }; 2];
    let taken = timers.common.lock();
    assert!(matches!(remote.claim_if_free(TriggerState::HandlerExit, later, &mut room), (0, None)));
    drop(taken);
    assert!(matches!(remote.claim_if_free(TriggerState::HandlerExit, later, &mut room), (1, None)));
    assert!(matches!(&room, [Some(Found::Due(fired)), None] if fired.event == 1));
    assert!(matches!(remote.claim_if_free(TriggerState::HandlerExit, later, &mut room), (0, None)));
    assert!(matches!(room, [None, None]));
}

/// Several are claimed at a time, in the order in which they are due; what has been postponed takes a place and does
/// not come.
#[test]
fn several_are_claimed_at_a_time() {
    let timers = timers();
    let remote = timers.remote();
    let at = |micros: u64| Timestamp::from_micros(1_000 + micros);
    let set = |number: u64| {
        let mut timer = Timer::new();
        timer.set(&remote, at(0), at(10 + number), Slack::EXACT, number);
        timer
    };
    let mut some: Vec<Timer> = (0..7).rev().map(set).collect();
    // The first move inserts it anew, the second is only written down.
    some[3].reset(&remote, Slack::EXACT, || at(0), at(13)).unwrap();
    some[3].reset(&remote, Slack::EXACT, || at(0), at(99)).unwrap();
    let mut room = [const { None }; 3];
    let (found, turn) = remote.claim_if_free(TriggerState::HandlerExit, at(50), &mut room);
    let turn = turn.expect("there are more");
    let mut come = Vec::new();
    let mut take = |found: usize, room: &mut [Option<Found<u64>>]| {
        come.extend(room[..found].iter_mut().map(|place| match place.take() {
            Some(Found::Due(fired)) => Some(fired.event),
            Some(Found::PutOff) => None,
            None => panic!("a place that was said to be taken"),
        }));
    };
    take(found, &mut room);
    loop {
        let found = remote.claim_some(&turn, at(50), &mut room);
        take(found, &mut room);
        if found < room.len() {
            break;
        }
    }
    assert_eq!(come, [Some(0), Some(1), Some(2), None, Some(4), Some(5), Some(6)]);
    assert_eq!(timers.stats().pending, 1);
}

/// After a peak the memory that it took is given back when the owner goes to sleep.
#[test]
fn what_a_peak_took_is_given_back() {
    let mut timers = Shared::new(Config::default()).unwrap();
    let start = Monotonic.now() + Duration::from_secs(3_600);
    let ids: Vec<_> = (0..20_000)
        .map(|number| timers.schedule(start, Duration::from_micros(number), Slack::EXACT, number))
        .collect();
    timers.arm(start).unwrap();
    assert_eq!(timers.common.peak(), 20_000);
    for id in &ids[100..] {
        timers.cancel(*id);
    }
    timers.arm(start).unwrap();
    assert_eq!((timers.common.peak(), timers.stats().pending), (100, 100));
    // What is left comes as if nothing had been.
    let turn = timers.trigger(TriggerState::Idle, start + Duration::from_secs(1)).unwrap();
    let come: Vec<u64> = std::iter::from_fn(|| timers.next(&turn)).map(|fired| fired.event).collect();
    assert_eq!(come, (0..100).collect::<Vec<_>>());
    assert!(ids.iter().all(|&id| timers.cancel(id).is_none()));
}

/// The owner meets no trigger state at all: each event comes nevertheless, in order, none before
/// it is due.
#[test]
fn the_helper_runs_what_a_stuck_owner_leaves() {
    let timers = timers();
    let (sender, receiver) = mpsc::channel();
    let grace = Duration::from_micros(200);
    let helper = Helper::start(&timers, grace, move |fired| {
        assert!(fired.due <= Monotonic.now());
        sender.send(fired.event).unwrap();
    })
    .unwrap();
    assert!(Helper::start(&timers, grace, |_| {}).is_err());
    for number in 0..20u32 {
        let delay = Duration::from_micros(100 * u64::from(20 - number));
        timers.schedule(Monotonic.now(), delay, Slack::EXACT, number);
    }
    let mut came: Vec<u32> =
        (0..20).map(|_| receiver.recv_timeout(Duration::from_secs(100)).unwrap()).collect();
    came.sort_unstable();
    assert_eq!(came, Vec::from_iter(0..20));
    helper.stop().unwrap();
    assert_eq!(timers.stats().pending, 0);
}

/// While the owner is in time, the helper runs nothing.
#[test]
fn the_helper_leaves_an_owner_alone_that_is_in_time() {
    let mut timers = timers();
    let rescued = std::sync::Arc::new(AtomicU64::new(0));
    let counter = rescued.clone();
    let helper = Helper::start(&timers, Duration::from_secs(100), move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
    })
    .unwrap();
    let mut served = 0;
    in_time(|| {
        timers.schedule(Monotonic.now(), Duration::from_micros(20), Slack::EXACT, ());
        timers.arm(Monotonic.now()).unwrap();
        timers.wait(Duration::from_secs(100)).unwrap();
        while let Some(turn) = timers.trigger(TriggerState::Backup, Monotonic.now()) {
            served += std::iter::from_fn(|| timers.next(&turn)).count();
        }
        served < 100
    });
    helper.stop().unwrap();
    assert_eq!((served, rescued.load(Ordering::Relaxed)), (100, 0));
}

/// A helper that is stopped with much overdue ends after the handler it is in: the rest is the owner's.
#[test]
fn a_helper_stops_between_two_events() {
    let mut timers = timers();
    let start = Monotonic.now();
    for number in 0..10 {
        timers.schedule(start, Duration::ZERO, Slack::EXACT, number);
    }
    let (began, begun) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel();
    let helper = Helper::start(&timers, Duration::ZERO, move |fired| {
        began.send(fired.event).unwrap();
        may_go_on.recv_timeout(TEST_TIME_LIMIT).unwrap();
    })
    .unwrap();
    assert_eq!(begun.recv_timeout(TEST_TIME_LIMIT), Ok(0));
    let common = timers.common.clone();
    let stopping = thread::spawn(move || helper.stop());
    in_time(|| common.lock().watch.as_ref().is_some_and(|watch| !watch.stop));
    go_on.send(()).unwrap();
    drop(go_on); // for a second event there is no permission
    stopping.join().unwrap().unwrap();
    let turn = timers.trigger(TriggerState::Idle, Monotonic.now() + TEST_TIME_LIMIT).expect("nine are due");
    let left: Vec<u32> = std::iter::from_fn(|| timers.next(&turn)).map(|fired| fired.event).collect();
    assert_eq!(left, Vec::from_iter(1..10));
}

/// A handler that panics ends its helper, and nothing else; another helper takes over, which the end of the
/// first one does not concern.
#[test]
fn a_handler_may_panic() {
    let timers = timers();
    let helper = Helper::start(&timers, Duration::ZERO, |_| panic!("the handler's own")).unwrap();
    timers.schedule(Monotonic.now(), Duration::ZERO, Slack::EXACT, 1);
    let kept = timers.schedule(Monotonic.now(), Duration::from_secs(1_000), Slack::EXACT, 2);
    in_time(|| timers.common.lock().watch.is_some());
    assert_eq!(timers.stats().pending, 1);
    let (sender, receiver) = mpsc::channel();
    let second = Helper::start(&timers, Duration::ZERO, move |fired| sender.send(fired.event).unwrap());
    assert!(helper.stop().is_err());
    timers.schedule(Monotonic.now(), Duration::ZERO, Slack::EXACT, 3);
    assert_eq!(receiver.recv_timeout(TEST_TIME_LIMIT), Ok(3));
    second.unwrap().stop().unwrap();
    assert_eq!(timers.cancel(kept), Some(2));
}

/// The owner sleeps while a worker meets a trigger state for each of many timers, `apart` µs from each other and each with a
/// slack by its number: how often the backup was set for each event.
fn settings_per_event(apart: u64, slack: fn(u64) -> Slack) -> f64 {
    let mut timers = timers();
    let worker = timers.remote();
    // An hour ahead: the kernel's timer does not go off meanwhile.
    let start = Monotonic.now() + Duration::from_secs(3_600);
    let at = |micros: u64| start + Duration::from_micros(micros);
    const TIMERS: u64 = 1_000;
    for number in 0..TIMERS {
        worker.schedule_at(start, at(10_000 + apart * number), slack(number), number);
    }
    timers.arm(start).unwrap();
    let (before, mut fired) = (worker.backup_stats().set, 0);
    for number in 0..10 * TIMERS {
        let now = at(10_003 + apart * number);
        let turn = worker.trigger(TriggerState::HandlerExit, now).unwrap();
        while let Some(event) = worker.next(&turn) {
            fired += 1;
            worker.schedule_at(
                now,
                event.due + Duration::from_micros(apart * TIMERS),
                slack(event.event),
                event.event,
            );
        }
    }
    assert!(fired >= 10 * TIMERS);
    (worker.backup_stats().set - before) as f64 / fired as f64
}

/// Moving the backup for each event would be a system call for each, under the lock.
#[test]
fn a_dense_load_does_not_move_the_backup_for_each_event() {
    let settings_are = |apart, slack, least: f64, most: f64| {
        let settings = settings_per_event(apart, slack);
        assert!((least..=most).contains(&settings), "{settings} for each event, {apart} µs apart");
    };
    let alike = |_| Slack::micros(50);
    // One in 100 µs: the kernel's timer would have gone off, and the owner armed it anew, instead of most of these. Fewer
    // would leave it armed for what is long past.
    settings_are(10, alike, 0.05, 0.11);
    settings_are(1, alike, 0.005, 0.011);
    // Sparse ones are worth it: a wake-up for nothing is spared each. More than one setting is never.
    settings_are(1_000, alike, 0.9, 1.0);
    // The next deadline may be any one's.
    let mixed = |number: u64| {
        let last = usize::try_from(number % 4).unwrap_or_default();
        [Slack::EXACT, Slack::micros(50), Slack::millis(1), Slack::DEFERRABLE][last]
    };
    settings_are(10, mixed, 0.05, 0.11);
    settings_are(1, mixed, 0.005, 0.011);
    // A quarter of them never needs the kernel's timer.
    settings_are(1_000, mixed, 0.5, 1.0);
}
