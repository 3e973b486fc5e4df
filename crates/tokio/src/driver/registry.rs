//! Which timers belong to the runtime that a thread is in.
//!
//! tokio numbers its runtimes, and may give the number of one that has ended to another. So a number is forgotten
//! when its runtime shuts down, and what a thread remembers counts only while it has not ended.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use softtimers::shared::Shared;
use softtimers_core::Config;
use tokio::runtime::{Handle, Id};

use super::task::Task;
use super::timers::Timers;
use crate::clock;

static RUNTIMES: LazyLock<Mutex<HashMap<Id, Weak<Timers>>>> = LazyLock::new(Mutex::default);

thread_local! {
    /// What this thread found last.
    static LATEST: RefCell<Option<(Id, Weak<Timers>)>> = const { RefCell::new(None) };
}

fn runtimes() -> MutexGuard<'static, HashMap<Id, Weak<Timers>>> {
    RUNTIMES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The timers of the current runtime, which are started if need be; `None` if its clock was paused.
#[track_caller]
pub(super) fn current() -> Option<Arc<Timers>> {
    let handle = Handle::current();
    let runtime = handle.id();
    if let Some(timers) = remembered(runtime) {
        return Some(timers);
    }
    let (timers, task) = {
        let mut runtimes = runtimes();
        match alive(runtimes.get(&runtime)) {
            Some(timers) => (timers, None),
            None if clock::was_paused() => return None,
            None => {
                let shared = Shared::new(Config::default());
                let shared =
                    shared.unwrap_or_else(|error| panic!("no timerfd for this runtime's timers: {error}"));
                let timers = Arc::new(Timers::new(shared.remote(), runtime));
                let task = Task::new(timers.clone(), shared);
                runtimes.insert(runtime, Arc::downgrade(&timers));
                (timers, Some(task))
            }
        }
    };
    // Without the lock: a runtime that is shutting down drops what is spawned on it at once.
    if let Some(task) = task {
        handle.spawn(task.run());
    }
    remember(runtime, &timers);
    Some(timers)
}

/// The timers of the current runtime, if it has some.
pub(super) fn if_started() -> Option<Arc<Timers>> {
    let runtime = Handle::try_current().ok()?.id();
    remembered(runtime).or_else(|| {
        let timers = alive(runtimes().get(&runtime))?;
        remember(runtime, &timers);
        Some(timers)
    })
}

/// The runtime has ended, or is about to.
pub(super) fn forget(ended: &Timers) {
    let mut runtimes = runtimes();
    if runtimes.get(&ended.runtime).is_some_and(|timers| std::ptr::eq(timers.as_ptr(), ended)) {
        runtimes.remove(&ended.runtime);
    }
}

fn alive(timers: Option<&Weak<Timers>>) -> Option<Arc<Timers>> {
    timers?.upgrade().filter(|timers| !timers.has_ended())
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
