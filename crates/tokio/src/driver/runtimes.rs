//! The timers of each runtime, by its number.
//!
//! tokio numbers its runtimes, and may reuse the number of one that has ended. So a number is removed when
//! its runtime shuts down.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use tokio::runtime::Id;

use super::timers::Timers;

static RUNTIMES: LazyLock<Mutex<HashMap<Id, Weak<Timers>>>> = LazyLock::new(Mutex::default);

pub(super) fn runtimes() -> MutexGuard<'static, HashMap<Id, Weak<Timers>>> {
    RUNTIMES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes a runtime that has ended, or is about to.
pub(super) fn forget(ended: &Timers) {
    let mut runtimes = runtimes();
    if runtimes.get(&ended.runtime).is_some_and(|timers| std::ptr::eq(timers.as_ptr(), ended)) {
        runtimes.remove(&ended.runtime);
    }
}

pub(super) fn alive(timers: Option<&Weak<Timers>>) -> Option<Arc<Timers>> {
    timers?.upgrade().filter(|timers| !timers.has_ended())
}
