//! Two threads with the same timers, each on a CPU of its own.
//!
//! | figure | what happens |
//! |---|---|
//! | one thread, two threads | each cancels the oldest of its 64 time-outs and sets another: ns for both, in the slower thread |
//! | check alone, beside one | a thread asks "anything due?" while no timer is; the other is absent, or sets and cancels |
//!
//! *One each* has the same timers twice, one set for each thread, and nothing shared: an upper bound for the savings of
//! shards or inboxes per thread. Such a design would have to check two gates each time, and to order timers of two
//! sets, which is not included.

use std::collections::VecDeque;
use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context, Waker};
use std::thread::scope;
use std::time::Duration;

use parking_lot::Mutex;
use softtimers::shared::{Remote, Shared};
use softtimers::{Clock, Config, Monotonic, Slack, SoftTimers, TimerId, Timestamp, TriggerState};
use softtimers_lab::bench::Done;
use softtimers_measure::processor::Processor;
use softtimers_trials::bar::Bar;
use softtimers_trials::paired::Paired;
use softtimers_trials::result::Table;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::contender::Contender;
use crate::heap4::Heap4;

const ONE: &str = "one thread, ns";
const TWO: &str = "two threads, ns";
const ALONE: &str = "check alone, ns";
const BESIDE: &str = "check beside one, ns";

pub(crate) fn threads(rounds: &usize) -> Done<Vec<Table>> {
    let measured =
        Paired::new(*rounds).contest(&[()], &mut CONTENDERS.clone(), |(), (name, contender), round| {
            let found = contender();
            round.put(name, ONE, found.one);
            round.put(name, TWO, found.two);
            round.put(name, ALONE, found.alone);
            round.put(name, BESIDE, found.beside);
            Done::Ok(())
        })?;
    let columns = [(ONE, 0), (TWO, 0), (ALONE, 2), (BESIDE, 2)];
    let mut table = Table::of("threads", &measured, CONTENDERS.map(|(name, _)| name), &columns);
    for peer in [HEAP, SLEEP] {
        let ratio = measured.ratio(TWO, SHARED, peer);
        table.bar(Bar::at_most(format!("two threads set and cancel: {SHARED}, against {peer}"), 1.0, ratio));
    }
    Ok(vec![table])
}

#[derive(Default)]
struct Found {
    one: Option<f64>,
    two: Option<f64>,
    alone: Option<f64>,
    beside: Option<f64>,
}

const SHARED: &str = "Shared";
const HEAP: &str = "4-ary heap, parking_lot";
const SLEEP: &str = "tokio Sleep";

/// Its name, and its measurement.
type Named = (&'static str, fn() -> Found);

const CONTENDERS: [Named; 7] = [
    (SHARED, shared),
    ("Shared, one each", || sets(|| remote_of(&new_shared()))),
    ("SoftTimers, parking_lot", || {
        let timers = Arc::new(Mutex::new(SoftTimers::new(Config::default())));
        found(
            || Locked(timers.clone()),
            |locked| {
                let _ = black_box(locked.0.lock().trigger(TriggerState::Idle, NOW));
            },
        )
    }),
    (HEAP, || {
        let heap = Arc::new(Mutex::new(Heap4::new(0)));
        found(
            || heap.clone(),
            |heap| {
                black_box(heap.lock().next());
            },
        )
    }),
    ("4-ary heap, one each", || sets(|| Arc::new(Mutex::new(Heap4::new(0))))),
    ("softtimers-tokio Sleep", || {
        let runtime = runtime();
        sets(|| {
            Sleeps(runtime.handle().clone(), |deadline| Box::pin(softtimers_tokio::sleep_until(deadline)))
        })
    }),
    (SLEEP, || {
        let runtime = runtime();
        sets(|| Sleeps(runtime.handle().clone(), |deadline| Box::pin(tokio::time::sleep_until(deadline))))
    }),
];

fn new_shared() -> Shared<u32> {
    Shared::new(Config::default()).expect("two descriptors")
}

fn remote_of(timers: &Shared<u32>) -> Remote<u32> {
    timers.remote()
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

/// The owner has a check of its own.
fn shared() -> Found {
    let mut timers = new_shared();
    let remote = remote_of(&timers);
    let mut check = |beside: Option<Remote<u32>>| {
        checked(beside, || {
            black_box(timers.trigger(TriggerState::Idle, black_box(NOW)));
        })
    };
    let [alone, beside] = [None, Some(remote.clone())].map(&mut check);
    Found { alone, beside, ..sets(|| remote.clone()) }
}

/// Timers that a thread sets and cancels.
trait Sets: Send {
    type Handle;
    fn set(&mut self, due: Timestamp) -> Self::Handle;
    fn cancel(&mut self, handle: Self::Handle);
}

impl Sets for Remote<u32> {
    type Handle = TimerId;

    fn set(&mut self, due: Timestamp) -> TimerId {
        self.schedule_at(NOW, due, Slack::DEFAULT, 0)
    }

    fn cancel(&mut self, id: TimerId) {
        Remote::cancel(self, id);
    }
}

#[derive(Clone)]
struct Locked(Arc<Mutex<SoftTimers<u32>>>);

impl Sets for Locked {
    type Handle = TimerId;

    fn set(&mut self, due: Timestamp) -> TimerId {
        self.0.lock().schedule_at(NOW, due, Slack::DEFAULT, 0)
    }

    fn cancel(&mut self, id: TimerId) {
        self.0.lock().cancel(id);
    }
}

impl Sets for Arc<Mutex<Heap4>> {
    type Handle = <Heap4 as Contender>::Handle;

    fn set(&mut self, due: Timestamp) -> Self::Handle {
        self.lock().set(due.as_nanos(), 0)
    }

    fn cancel(&mut self, handle: Self::Handle) {
        self.lock().cancel(handle);
    }
}

type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Futures that are polled once, which sets their timers.
#[derive(Clone)]
struct Sleeps(Handle, fn(tokio::time::Instant) -> Sleep);

impl Sets for Sleeps {
    type Handle = Sleep;

    fn set(&mut self, due: Timestamp) -> Sleep {
        let _inside = self.0.enter();
        let mut sleep = (self.1)(tokio::time::Instant::now() + due.saturating_duration_since(NOW));
        assert!(sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        sleep
    }

    fn cancel(&mut self, sleep: Sleep) {
        drop(sleep);
    }
}

/// Measures one thread and two that set and cancel.
fn sets<S: Sets>(mut new: impl FnMut() -> S) -> Found {
    Found { one: Some(slower([new()])), two: Some(slower([new(), new()])), ..Found::default() }
}

/// Measures that, and the cost of a check.
fn found<S: Sets + Clone>(mut new: impl FnMut() -> S, mut check: impl FnMut(&S)) -> Found {
    let one = new();
    let [alone, beside] = [None, Some(new())].map(|beside| checked(beside, || check(&one)));
    Found { alone, beside, ..sets(new) }
}

/// Returns the nanoseconds of a cancel and a set in the slower thread.
fn slower<S: Sets, const N: usize>(timers: [S; N]) -> f64 {
    let barrier = Barrier::new(N);
    scope(|scope| {
        let threads: Vec<_> = (0..)
            .zip(timers)
            .map(|(number, mut timers)| {
                let barrier = &barrier;
                scope.spawn(move || {
                    let _kept = keep(number);
                    let mut pending = begun(&mut timers);
                    barrier.wait();
                    let start = Monotonic.now();
                    (0..PAIRS).for_each(|pair| another(&mut timers, &mut pending, pair));
                    nanos_since(start, PAIRS)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("it only sets and cancels")).fold(0.0, f64::max)
    })
}

/// Returns the nanoseconds of a check, while another thread, if there is one, sets and cancels.
fn checked<S: Sets>(beside: Option<S>, mut check: impl FnMut()) -> Option<f64> {
    let (stop, begun_there) = (AtomicBool::new(false), Barrier::new(1 + usize::from(beside.is_some())));
    scope(|scope| {
        let _kept = keep(0);
        if let Some(mut timers) = beside {
            let (stop, begun_there) = (&stop, &begun_there);
            scope.spawn(move || {
                let _kept = keep(1);
                let mut pending = begun(&mut timers);
                begun_there.wait();
                let mut pair = 0;
                while !stop.load(Ordering::Relaxed) {
                    another(&mut timers, &mut pending, pair);
                    pair += 1;
                }
            });
        }
        begun_there.wait();
        let start = Monotonic.now();
        (0..CHECKS).for_each(|_| check());
        let nanos = nanos_since(start, CHECKS);
        stop.store(true, Ordering::Relaxed);
        Some(nanos)
    })
}

/// Pins a thread, since two threads must run at the same time.
fn keep(number: usize) -> Option<softtimers_measure::processor::Kept> {
    let processor = Processor::two()?[number % 2];
    Processor::new(processor).ok()?.keep().ok()
}

fn begun<S: Sets>(timers: &mut S) -> VecDeque<S::Handle> {
    (0..PENDING).map(|number| timers.set(due(number))).collect()
}

fn another<S: Sets>(timers: &mut S, pending: &mut VecDeque<S::Handle>, pair: u32) {
    if let Some(oldest) = pending.pop_front() {
        timers.cancel(oldest);
    }
    pending.push_back(timers.set(due(PENDING + pair)));
}

/// The due time of a 30 s time-out set a microsecond after the one before.
fn due(number: u32) -> Timestamp {
    NOW + Duration::from_secs(30) + Duration::from_micros(number.into())
}

fn nanos_since(start: Timestamp, count: u32) -> f64 {
    Monotonic.now().saturating_duration_since(start).as_nanos() as f64 / f64::from(count)
}

const PENDING: u32 = 64;
const PAIRS: u32 = 200_000;
const CHECKS: u32 = 1_000_000;
/// The time of all calls: no timer is due.
const NOW: Timestamp = Timestamp::from_micros(700);
