//! [`Timers`]: the timers of an event loop, by the loop's own clock as long as that is the kernel's.
//!
//! Programs replace a loop's clock: virtual clocks of test tools, frozen ones, a fake below Python. A wheel cannot follow a
//! clock that goes back, and none of this can be seen where it is done. So each time that the loop passes is compared with
//! the kernel's:
//!
//! ```text
//!   what the kernel's clock said         the loop's time             what it says now
//!   when the last one was passed    ≤    must lie between      ≤     else OtherClock, and asyncio's heap serves
//! ```
//!
//! A clock that is behind without being noticed is so by less than a turn, and the next turn notices; until then timers
//! run by it all the same.

use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyException;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyList};
use pyo3::{create_exception, intern};
use softtimers::{Clock, Monotonic, Timestamp};

use crate::pending::Pending;
use crate::seconds;

create_exception!(
    softtimers._softtimers,
    OtherClock,
    PyException,
    "The loop's time is not the kernel's monotonic clock."
);

/// The pending timers of an event loop. All times are seconds of ``time.monotonic()``.
#[pyclass(module = "softtimers._softtimers", frozen)]
pub(crate) struct Timers(Mutex<State>);

struct State {
    pending: Pending,
    /// What the kernel's clock said when the loop last passed its time.
    seen: Timestamp,
}

#[pymethods]
impl Timers {
    #[new]
    fn new() -> Self {
        Timers(Mutex::new(State { pending: Pending::new(), seen: Monotonic.now() }))
    }

    /// Keeps ``handle`` until the time ``when``; returns its number for ``cancel``, or None for a time that only a heap can
    /// compare: NaN, too large for a float, or of another type.
    fn schedule(&self, when: &Bound<'_, PyAny>, handle: Py<PyAny>) -> Option<u64> {
        if !(when.is_instance_of::<PyFloat>() || when.is_instance_of::<PyInt>()) {
            return None;
        }
        let when: f64 = when.extract().ok().filter(|when: &f64| !when.is_nan())?;
        Some(self.state().pending.schedule(Monotonic.now(), when, handle))
    }

    /// Forgets a handle; returns whether it was pending.
    fn cancel(&self, id: u64) -> bool {
        // Dropped without the lock: that may run code that calls back here.
        let object = self.state().pending.cancel(id);
        object.is_some()
    }

    /// Returns the seconds from ``now``, the loop's time, to the first timer; None without timers.
    fn left(&self, now: f64) -> PyResult<Option<f64>> {
        let mut state = self.state();
        let now = state.checked(now)?;
        let left = |first: Timestamp| first.saturating_duration_since(now).as_secs_f64();
        Ok(state.pending.poll_at().map(left))
    }

    /// Moves the handles that are due at ``now``, the loop's time, to the end of ``ready``, earliest first.
    fn run_due(&self, py: Python<'_>, now: f64, ready: &Bound<'_, PyAny>) -> PyResult<()> {
        let due = {
            let mut state = self.state();
            let now = state.checked(now)?;
            state.pending.due(now)
        };
        if due.is_empty() {
            return Ok(());
        }
        ready.call_method1(intern!(py, "extend"), (PyList::new(py, &due)?,))?;
        due.into_iter().try_for_each(|handle| handle.setattr(py, intern!(py, "_scheduled"), false))
    }

    /// Returns all pending handles, earliest first, and keeps none.
    fn take(&self) -> Vec<Py<PyAny>> {
        self.state().pending.due(Timestamp::MAX)
    }

    /// The number of pending handles.
    fn __len__(&self) -> usize {
        self.state().pending.len()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // The holder of the lock creates no object, so no collection begins meanwhile.
        let Ok(state) = self.0.try_lock() else { return Ok(()) };
        state.pending.objects().try_for_each(|object| visit.call(object))
    }

    fn __clear__(&self) {
        let old = mem::replace(&mut self.state().pending, Pending::new());
        drop(old);
    }
}

impl Timers {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns the loop's time, if it is the kernel's.
    fn checked(&mut self, now: f64) -> PyResult<Timestamp> {
        let (passed, real) = (seconds::nearest(now).as_nanos(), Monotonic.now());
        let since = self.seen.as_nanos().saturating_sub(ROUNDING_NS);
        if !(since..=real.as_nanos() + ROUNDING_NS).contains(&passed) {
            return Err(OtherClock::new_err(now));
        }
        self.seen = real;
        Ok(Timestamp::from_nanos(passed))
    }
}

/// A time as a float is exact to this until the machine has been up for a hundred years.
const ROUNDING_NS: u64 = 1_000;
