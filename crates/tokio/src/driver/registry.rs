//! Finds the timers of a thread's current runtime. A thread's cached entry is valid only until the runtime
//! ends.
//!
//! A runtime whose descriptor the kernel refuses has tokio's timers until there is one: each timer that begins to wait
//! tries again, so a server that was at its limit for a second is back at microseconds after it.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::io;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
#[cfg(feature = "test-util")]
use std::time::Duration;

use softtimers::shared::Shared;
use softtimers_core::Config;
use tokio::runtime::{Handle, Id, is_rt_shutdown_err};

use super::DriverBuilder;
use super::runtimes::{alive, runtimes};
use super::task::Task;
use super::timers::Timers;
#[cfg(feature = "test-util")]
use super::virtual_time::VirtualTask;
use crate::clock;

thread_local! {
    /// The timers that this thread found last.
    static LATEST: RefCell<Option<(Id, Weak<Timers>)>> = const { RefCell::new(None) };
}

/// The waits that tokio's timers served because the kernel refused a descriptor, in this process.
static FALLEN_BACK: AtomicU64 = AtomicU64::new(0);

/// Returns the timers of the current runtime, started if necessary; `None` if tokio's serve it: its clock was paused, or
/// the kernel refuses a descriptor. `made` is where the timer that needs them was made, for a panic.
#[track_caller]
pub(super) fn current(made: Option<&Location<'_>>) -> Option<Arc<Timers>> {
    let handle = match Handle::try_current() {
        Ok(handle) => handle,
        Err(error) => panic!("{error}{}", place(made)),
    };
    if let Some(timers) = remembered(handle.id()) {
        return Some(timers);
    }
    // Not a closure, so that a panic of tokio's, where the runtime does no I/O, names the caller's line.
    let note = made.map(Note);
    let found = find_or_start(&handle, &DriverBuilder::new());
    std::mem::forget(note);
    match found {
        Ok(found) => found.map(|(timers, _)| timers),
        Err(error) if is_rt_shutdown_err(&error) => {
            panic!("this timer's tokio runtime is being shut down{}", place(made))
        }
        Err(error) => {
            fall_back(&error);
            None
        }
    }
}

/// Says where the timer was made, if it is dropped by a panic: the line that polls it may be a runtime's.
struct Note<'a>(&'a Location<'a>);

impl Drop for Note<'_> {
    fn drop(&mut self) {
        eprintln!("The timer was made at {}.", self.0);
    }
}

fn place(made: Option<&Location<'_>>) -> String {
    let mut text = String::new();
    if let Some(made) = made {
        let _ = write!(text, "\nThe timer was made at {made}.");
    }
    text
}

/// Counts a timer that tokio's serve instead, and says so, once.
fn fall_back(error: &io::Error) {
    static SAID: AtomicBool = AtomicBool::new(false);
    FALLEN_BACK.fetch_add(1, Ordering::Relaxed);
    if !SAID.swap(true, Ordering::Relaxed) {
        eprintln!(
            "softtimers-tokio: no timerfd ({error}): tokio's timers, of milliseconds, serve until there is one"
        );
    }
}

pub(super) fn fallen_back() -> u64 {
    FALLEN_BACK.load(Ordering::Relaxed)
}

/// Starts the timers of the current runtime.
#[track_caller]
pub(super) fn start(how: &DriverBuilder) -> io::Result<Option<Arc<Timers>>> {
    match find_or_start(&Handle::current(), how)? {
        Some((_, Began::Before)) => {
            Err(io::Error::new(io::ErrorKind::AlreadyExists, "this runtime has had timers already"))
        }
        Some((timers, Began::Now)) => Ok(Some(timers)),
        None => Ok(None),
    }
}

enum Began {
    Before,
    Now,
}

#[cold]
#[track_caller]
fn find_or_start(handle: &Handle, how: &DriverBuilder) -> io::Result<Option<(Arc<Timers>, Began)>> {
    let runtime = handle.id();
    let (timers, task) = {
        let mut runtimes = runtimes();
        if let Some(timers) = alive(runtimes.get(&runtime)) {
            (timers, None)
        } else if clock::was_paused() {
            return Ok(None);
        } else {
            let mut shared = Shared::new(Config::default())?;
            shared.coalesce(how.coalesce);
            let timers = Arc::new(Timers::new(shared.remote(), handle, how.idle));
            let task = Task::new(timers.clone(), shared)?;
            runtimes.insert(runtime, Arc::downgrade(&timers));
            (timers, Some(task))
        }
    };
    remember(runtime, &timers);
    let Some(task) = task else { return Ok(Some((timers, Began::Before))) };
    // Without the lock: a runtime that is shutting down drops a spawned task at once.
    handle.spawn(task.run());
    Ok(Some((timers, Began::Now)))
}

/// Starts the timers of the current runtime on the virtual clock of its tests.
///
/// # Panics
/// If the runtime has had timers already, or cannot have these.
#[cfg(feature = "test-util")]
#[track_caller]
pub(super) fn start_virtual() {
    let handle = Handle::current();
    let runtime = handle.id();
    if alive(runtimes().get(&runtime)).is_some() {
        panic!("this runtime has had a timer already: pause its clock before the first one");
    }
    // Exact: nothing is saved by timers that share a wake-up.
    let shared = match Shared::new(Config::default().tick(Duration::from_nanos(1))) {
        Ok(shared) => shared,
        Err(error) => panic!("no timers for the virtual clock: {error}"),
    };
    let timers = Arc::new(Timers::on_virtual_clock(shared.remote(), &handle));
    let task = match VirtualTask::new(timers.clone(), shared, &handle) {
        Ok(task) => task,
        Err(error) => panic!("no timers for the virtual clock: {error}"),
    };
    if !clock::stands_still() {
        tokio::time::pause();
    }
    runtimes().insert(runtime, Arc::downgrade(&timers));
    remember(runtime, &timers);
    handle.spawn(task.run());
}

/// Returns the timers of the current runtime, if it has any.
pub(super) fn if_started() -> Option<Arc<Timers>> {
    let runtime = Handle::try_current().ok()?.id();
    remembered(runtime).or_else(|| {
        let timers = alive(runtimes().get(&runtime))?;
        remember(runtime, &timers);
        Some(timers)
    })
}

fn remembered(runtime: Id) -> Option<Arc<Timers>> {
    let find = |latest: &RefCell<Option<(Id, Weak<Timers>)>>| {
        let latest = latest.borrow();
        let (of, timers) = latest.as_ref()?;
        alive((*of == runtime).then_some(timers))
    };
    // A thread that is ending may have no memory left.
    LATEST.try_with(find).ok().flatten()
}

fn remember(runtime: Id, timers: &Arc<Timers>) {
    let latest = Some((runtime, Arc::downgrade(timers)));
    let _ = LATEST.try_with(|remembers| remembers.replace(latest));
}
