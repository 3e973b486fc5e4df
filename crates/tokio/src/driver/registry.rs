//! Finds the timers of a thread's current runtime. A thread's cached entry is valid only until the runtime
//! ends.

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Weak};

use softtimers::shared::Shared;
use softtimers_core::Config;
use tokio::runtime::{Handle, Id};

use super::DriverBuilder;
use super::runtimes::{alive, runtimes};
use super::task::Task;
use super::timers::Timers;
use crate::clock;

thread_local! {
    /// The timers that this thread found last.
    static LATEST: RefCell<Option<(Id, Weak<Timers>)>> = const { RefCell::new(None) };
}

/// Returns the timers of the current runtime, started if necessary; `None` if its clock was paused.
#[track_caller]
pub(super) fn current() -> Option<Arc<Timers>> {
    let handle = Handle::current();
    if let Some(timers) = remembered(handle.id()) {
        return Some(timers);
    }
    // Not a closure, so that a panic names the caller's line.
    match find_or_start(&handle, &DriverBuilder::new()) {
        Ok(found) => found.map(|(timers, _)| timers),
        Err(error) => panic!("no timerfd for this runtime's timers: {error}"),
    }
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
    let look = |latest: &RefCell<Option<(Id, Weak<Timers>)>>| {
        let latest = latest.borrow();
        let (of, timers) = latest.as_ref()?;
        alive((*of == runtime).then_some(timers))
    };
    // A thread that is ending may have no memory left.
    LATEST.try_with(look).ok().flatten()
}

fn remember(runtime: Id, timers: &Arc<Timers>) {
    let latest = Some((runtime, Arc::downgrade(timers)));
    let _ = LATEST.try_with(|remembers| remembers.replace(latest));
}
