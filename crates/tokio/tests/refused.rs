//! What a program sees when the kernel refuses a descriptor, and when a timer cannot be waited for: each in a process of
//! its own, whose standard error is read.
#![cfg(target_os = "linux")]

use std::future::Future;
use std::pin::Pin;
use std::process::Command;
use std::task::{Context, Waker};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use softtimers_tokio::{Driver, Instant, SharedPacer, Sleep, interval, sleep, timeout};
use tokio::runtime::{Builder, Runtime};

/// Runs a test of this file again in a process of its own; there it returns `None`, here what that process wrote.
fn elsewhere(name: &str) -> Option<String> {
    if std::env::var_os(IN_CHILD).is_some() {
        return None;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", name, "--nocapture", "--test-threads=1"]);
    let output = child.env(IN_CHILD, "").env("RUST_BACKTRACE", "0").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stdout));
    Some(said)
}

const IN_CHILD: &str = "SOFTTIMERS_TEST_CHILD";
const HOUR: Duration = Duration::from_secs(3_600);

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Sets the limit so that no further descriptor is given out, or back to what it was.
fn descriptors(limit: Option<u64>) -> Option<u64> {
    let now = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit, maximum: now.maximum }).unwrap();
    now.current
}

/// Everything that waits does so, with tokio's timers.
async fn all_wait() {
    let (start, mut ticks) = (Instant::now(), interval(Duration::from_millis(2)));
    sleep(Duration::from_millis(2)).await;
    assert!(timeout(Duration::from_millis(2), std::future::pending::<()>()).await.is_err());
    for _ in 0..3 {
        ticks.tick().await;
    }
    let pacer = SharedPacer::from(softtimers_tokio::Rate::pps(1_000));
    for _ in 0..3 {
        pacer.ready().await;
    }
    assert!(start.elapsed() >= Duration::from_millis(4 + 2));
}

/// At the limit of descriptors tokio's timers serve; when there are some again, new waits have microseconds: also of an
/// interval that began before.
#[test]
fn timers_go_on_without_a_descriptor() {
    if let Some(said) = elsewhere("timers_go_on_without_a_descriptor") {
        assert_eq!(said.matches("no timerfd").count(), 1, "{said}");
        assert!(said.contains("Too many open files"), "{said}");
        return;
    }
    runtime().block_on(async {
        let before = descriptors(Some(1));
        all_wait().await;
        let driver = Driver::current();
        assert!(!driver.is_soft());
        assert!(driver.stats().fallen_back >= 5, "{:?}", driver.stats());
        let (mut ticks, pacer) =
            (interval(Duration::from_millis(1)), SharedPacer::from(softtimers_tokio::Rate::pps(1_000)));
        ticks.tick().await;
        ticks.tick().await;
        pacer.ready().await;
        pacer.ready().await;

        descriptors(before);
        assert!(Driver::current().is_soft());
        let fired = || Driver::current().stats().fired;
        // Some may be late, and need not wait.
        let before = fired();
        for _ in 0..100 {
            ticks.tick().await;
        }
        let by_ticks = fired();
        for _ in 0..100 {
            pacer.ready().await;
        }
        assert!(by_ticks > before && fired() > by_ticks, "still tokio's");
    });
}

/// A sandbox that refuses `timerfd_create`.
#[test]
fn timers_go_on_where_timerfd_is_refused() {
    if let Some(said) = elsewhere("timers_go_on_where_timerfd_is_refused") {
        assert_eq!(said.matches("no timerfd").count(), 1, "{said}");
        assert!(said.contains("Operation not permitted"), "{said}");
        return;
    }
    use seccompiler::{SeccompAction, SeccompFilter};
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let refused = SeccompAction::Errno(rustix::io::Errno::PERM.raw_os_error() as u32);
    let rules = [(TIMERFD_CREATE, vec![])].into_iter().collect();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, arch).unwrap();
    let program: seccompiler::BpfProgram = filter.try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
    runtime().block_on(all_wait());
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(all_wait());
}

#[cfg(target_arch = "x86_64")]
const TIMERFD_CREATE: i64 = 283;
#[cfg(not(target_arch = "x86_64"))]
const TIMERFD_CREATE: i64 = 85;

fn poll(sleep: &mut Sleep) -> bool {
    Pin::new(sleep).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

fn panics(run: impl FnOnce()) {
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err());
}

/// One report, of this file's line that waits.
fn reports(said: &str, lines: std::ops::Range<u32>, cause: &str) {
    let place = said.split("panicked at ").nth(1).unwrap_or_else(|| panic!("{said}"));
    let line = place.split("refused.rs:").nth(1).and_then(|rest| rest.split(':').next()?.parse().ok());
    assert!(line.is_some_and(|line| lines.contains(&line)), "{lines:?}: {said}");
    assert_eq!(said.matches("panicked at ").count(), 1, "{said}");
    assert!(said.contains(cause), "{said}");
    assert!(!said.contains("timerfd"), "{said}");
}

#[test]
fn outside_of_a_runtime_the_line_that_waits_is_named() {
    let line = line!();
    if let Some(said) = elsewhere("outside_of_a_runtime_the_line_that_waits_is_named") {
        reports(&said, line..line + 20, "no reactor running");
        assert!(said.contains(&format!("The timer was made at {}:", file!())), "{said}");
        return;
    }
    let mut waits = sleep(HOUR);
    panics(|| assert!(Pin::new(&mut waits).poll(&mut Context::from_waker(Waker::noop())).is_ready()));
}

/// A runtime without I/O cannot wait for a descriptor: the report names the line that waits, why, and where the timer was
/// made.
#[test]
fn without_io_the_line_that_waits_is_named() {
    let made = line!() + 7;
    if let Some(said) = elsewhere("without_io_the_line_that_waits_is_named") {
        reports(&said, made..made + 20, "Call `enable_io`");
        assert!(said.contains(&format!("The timer was made at {}:{made}:", file!())), "{said}");
        return;
    }
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    let waits = sleep(HOUR);
    panics(|| {
        runtime.block_on(async {
            waits.await;
        });
    });
}

/// So do an interval's and a time-out's.
#[test]
fn without_io_an_interval_names_the_line_that_waits() {
    let line = line!();
    if let Some(said) = elsewhere("without_io_an_interval_names_the_line_that_waits") {
        reports(&said, line..line + 20, "Call `enable_io`");
        return;
    }
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    panics(|| {
        runtime.block_on(async {
            let mut ticks = interval(HOUR);
            ticks.tick().await;
            ticks.tick().await;
        });
    });
}

#[test]
fn after_shutdown_the_cause_is_the_shutdown() {
    let line = line!();
    if let Some(said) = elsewhere("after_shutdown_the_cause_is_the_shutdown") {
        reports(&said, line..line + 20, "shut down");
        return;
    }
    let (runtime, mut waits) = (runtime(), sleep(HOUR));
    runtime.block_on(async { assert!(!poll(&mut waits)) });
    drop(runtime);
    panics(|| assert!(Pin::new(&mut waits).poll(&mut Context::from_waker(Waker::noop())).is_ready()));
}

/// A timer that first waits when its runtime has ended: not the descriptors are to blame.
#[test]
fn in_an_ended_runtime_the_cause_is_the_shutdown() {
    let line = line!();
    if let Some(said) = elsewhere("in_an_ended_runtime_the_cause_is_the_shutdown") {
        reports(&said, line..line + 20, "is being shut down");
        return;
    }
    let runtime = runtime();
    let handle = runtime.handle().clone();
    drop(runtime);
    let _inside = handle.enter();
    let mut waits = sleep(HOUR);
    panics(|| assert!(Pin::new(&mut waits).poll(&mut Context::from_waker(Waker::noop())).is_ready()));
}
