use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use signal_hook::consts::SIGUSR1;
use softtimers_linux::wait::wait_readable;

use super::*;

const MS: Duration = Duration::from_millis(1);

/// Longer than any sleep here; a test that waits this long has failed.
const SLEEP_LIMIT: Duration = Duration::from_secs(60);

fn with_signal<L: Copy>(most: usize) -> MultiTimers<L> {
    signalled().store(false, Ordering::Relaxed);
    MultiTimers::with_signal(SIGUSR1, most).unwrap()
}

/// Set by the handler of the signal.
fn signalled() -> &'static AtomicBool {
    static SIGNALLED: LazyLock<Arc<AtomicBool>> = LazyLock::new(|| {
        let signalled = Arc::<AtomicBool>::default();
        signal_hook::flag::register(SIGUSR1, Arc::clone(&signalled)).unwrap();
        signalled
    });
    &SIGNALLED
}

/// Runs the body of a test in a process of its own, which is this one's program with that test alone. A
/// signal to the process is delivered to any running thread, and would interrupt another test's wait.
fn alone(test: &str, body: impl FnOnce()) {
    const INSIDE: &str = "SOFTTIMERS_TEST_ALONE";
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    let itself = std::env::current_exe().unwrap();
    let ran = Command::new(itself).args(["--exact", test, "--nocapture"]).env(INSIDE, "").output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && said.contains("1 passed"), "{}: {said}", ran.status);
}

fn readable<L: Copy>(timers: &MultiTimers<L>, within: Duration) -> bool {
    wait_readable(timers.descriptor().unwrap(), Some(within)).unwrap()
}

fn fill(timers: &mut MultiTimers<u32>, labels: std::ops::RangeInclusive<u32>, setting: Setting) {
    for label in labels {
        timers.create(setting, label).unwrap();
    }
}

/// The laws of either interface of the kernel, checked at every step.
fn suite(mut timers: MultiTimers<u32>) {
    let start = Monotonic.now();
    let again = |error: io::Error| assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    again(timers.reap().unwrap_err());
    let every = timers.create(Setting::every(MS), 1).unwrap();
    let once = timers.create(Setting::once(MS * 2), 2).unwrap();
    let never = timers.create(Setting::once(Duration::MAX), 3).unwrap();
    again(timers.create(Setting::once(MS), 4).unwrap_err());

    let (mut periods, mut single) = (0, 0);
    while periods < 50 || single < 1 {
        assert!(Monotonic.now() < start + SLEEP_LIMIT);
        let Ok(expired) = timers.reap() else { continue };
        if expired.handle == every {
            periods += 1;
            assert_eq!((expired.label, expired.runs), (1, true));
            assert!(
                expired.at <= Monotonic.now() && expired.at >= start + MS * periods,
                "early, or drifting"
            );
        } else {
            single += 1;
            assert_eq!((expired.handle, expired.label, expired.runs), (once, 2, false));
        }
    }
    assert_eq!((timers.len(), single), (2, 1));
    assert!(timers.query(never).unwrap().value > SLEEP_LIMIT);
    for dead in [once, Handle::from_bits(0), Handle::from_bits(u64::MAX), Handle::from_bits(1 << 32)] {
        assert_eq!(timers.cancel(dead).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
    timers.reset(never, Setting::once(MS), 7).unwrap();
    timers.cancel(every).unwrap();
    let last = loop {
        assert!(Monotonic.now() < start + SLEEP_LIMIT);
        if let Ok(expired) = timers.reap() {
            break expired;
        }
    };
    assert_eq!((last.label, timers.is_empty()), (7, true));
}

//= CV-054 (BSD timers, "Multiple user-level timers")
#[test]
fn the_suite_passes_over_a_descriptor() {
    suite(MultiTimers::with_descriptor(3).unwrap());
}

//= CV-054 (BSD timers, "Multiple user-level timers")
#[test]
fn the_suite_passes_over_a_signal() {
    alone("bsd::tests::the_suite_passes_over_a_signal", || suite(with_signal(3)));
}

//= CV-050 (BSD timers, "Multiple user-level timers")
#[test]
fn the_descriptor_is_readable_while_anything_waits_to_be_reaped() {
    let mut timers = MultiTimers::with_descriptor(100).unwrap();
    assert!(!readable(&timers, Duration::ZERO));
    fill(&mut timers, 1..=10, Setting::once(MS));
    timers.create(Setting::once(SLEEP_LIMIT * 100), 99).unwrap();
    assert!(readable(&timers, SLEEP_LIMIT));
    // All have expired by the time the first reap is late enough to see the last; until then each round waits anew.
    let mut labels = vec![];
    while labels.len() < 10 {
        assert!(readable(&timers, SLEEP_LIMIT), "{labels:?} have been reaped");
        labels.extend(timers.reap().map(|expired| expired.label));
        // Other operations in between do not reset it.
        timers.create(Setting::once(SLEEP_LIMIT * 100), 0).unwrap();
    }
    assert_eq!(labels, (1..=10).collect::<Vec<_>>());
    assert!(timers.reap().is_err() && !readable(&timers, Duration::ZERO), "no longer readable");
}

//= CV-050 (BSD timers, "Multiple user-level timers")
#[test]
fn a_signal_comes_for_each_expiry_or_for_several_and_all_are_reaped() {
    alone("bsd::tests::a_signal_comes_for_each_expiry_or_for_several_and_all_are_reaped", all_are_reaped);
}

fn all_are_reaped() {
    let mut timers = with_signal(100);
    fill(&mut timers, 0..=99, Setting::once(MS));
    let start = Monotonic.now();
    while !signalled().load(Ordering::Relaxed) {
        assert!(Monotonic.now() < start + SLEEP_LIMIT, "no signal came");
    }
    let mut labels = vec![];
    while labels.len() < 100 {
        assert!(Monotonic.now() < start + SLEEP_LIMIT);
        labels.extend(timers.reap().map(|expired| expired.label));
    }
    assert_eq!(labels, (0..100).collect::<Vec<_>>(), "in the order they were set, none twice, none lost");
    assert!(timers.is_empty());
}

//= CV-051 (BSD timers, figure 7)
#[test]
fn dropping_them_gives_the_kernel_back_what_it_had() {
    alone("bsd::tests::dropping_them_gives_the_kernel_back_what_it_had", all_is_given_back);
}

fn all_is_given_back() {
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = descriptors();
    for round in 0..300 {
        let mut timers = MultiTimers::with_descriptor(10).unwrap();
        fill(&mut timers, 1..=10, Setting::every(MS));
        drop(timers);
        let mut timers = with_signal(10);
        timers.create(Setting::once(MS), round).unwrap();
    }
    assert_eq!(descriptors(), before);
}

//= CV-014 (BSD timers, figure 5)
#[test]
fn a_call_that_panics_takes_no_other_with_it() {
    let mut callouts = Callouts::new(owner());
    (0..3).for_each(|number| callouts.timeout([number, 0], 1));
    assert!(callouts.tick());
    let mut called = 0;
    let mut panicked = || {
        let call = std::panic::AssertUnwindSafe(|| {
            callouts.run(|_, [number, _]| {
                called += 1;
                assert_ne!(number, 1, "as asked for");
            });
        });
        (std::panic::catch_unwind(call).is_err(), callouts.is_held(), callouts.len())
    };
    assert_eq!(panicked(), (true, false, 1));
    assert_eq!(panicked(), (false, false, 0));
    assert_eq!(called, 3);
}
