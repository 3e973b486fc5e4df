//! [`Poller`]: waits for descriptors, with time-outs in nanoseconds.
//!
//! While it waits, other threads run Python, and may ask the waiting loop to wait as well: they are refused.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use softtimers::epoll::{Epoll, Event, EventFlags, Events, Waiting};
use softtimers::{Clock, Monotonic};

use crate::seconds;

/// Waits for descriptors: an epoll set, whose descriptors are added through ``select.epoll.fromfd``.
#[pyclass(module = "softtimers._softtimers", frozen)]
pub(crate) struct Poller {
    descriptor: RawFd,
    /// None once closed.
    waiting: Mutex<Option<Wait>>,
}

struct Wait {
    epoll: Epoll,
    events: Events,
}

#[pymethods]
impl Poller {
    #[new]
    fn new() -> PyResult<Self> {
        let epoll = Epoll::new(Waiting::Pwait2)?;
        let descriptor = epoll.as_fd().as_raw_fd();
        let wait = Wait { epoll, events: Events::with_capacity(MOST_EVENTS) };
        Ok(Poller { descriptor, waiting: Mutex::new(Some(wait)) })
    }

    /// The descriptor of the epoll set, which this object closes.
    fn fileno(&self) -> RawFd {
        self.descriptor
    }

    /// Waits until a descriptor is ready, or ``timeout`` seconds have passed (``None``: no limit).
    ///
    /// Returns a list of ``(key, events)`` for those of ``keys``, a dictionary of ``SelectorKey`` by descriptor, that are
    /// ready. A signal's handler runs during the wait, which continues unless that raises.
    fn wait<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
        keys: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyList>> {
        if timeout.is_some_and(f64::is_nan) {
            return Err(PyValueError::new_err("cannot wait for NaN seconds"));
        }
        let mut guard = self.waiting()?;
        let Wait { epoll, events } = guard.as_mut().ok_or_else(closed)?;
        let until = timeout.map(|seconds| Monotonic.now() + seconds::duration(seconds));
        let left = || until.map(|until| until.saturating_duration_since(Monotonic.now()));
        loop {
            let time = left();
            if time == Some(Duration::ZERO) {
                epoll.wait(events, time)?;
                break;
            }
            py.detach(|| epoll.wait(events, time))?;
            if !events.is_empty() {
                break;
            }
            py.check_signals()?;
            if left() == Some(Duration::ZERO) {
                break;
            }
        }
        let ready = PyList::empty(py);
        for event in events.iter() {
            if let Some(found) = found(event, keys)? {
                ready.append(found)?;
            }
        }
        Ok(ready)
    }

    /// Closes the epoll set. May be called again.
    fn close(&self) -> PyResult<()> {
        *self.waiting()? = None;
        Ok(())
    }
}

impl Poller {
    fn waiting(&self) -> PyResult<MutexGuard<'_, Option<Wait>>> {
        match self.waiting.try_lock() {
            Ok(guard) => Ok(guard),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(PyRuntimeError::new_err("another call waits here already")),
        }
    }
}

/// The key of a ready descriptor, and the events for which it is watched; none if it is not watched any more.
fn found<'py>(event: Event, keys: &Bound<'py, PyDict>) -> PyResult<Option<(Bound<'py, PyAny>, u8)>> {
    let [a, b, c, d, ..] = event.token.to_ne_bytes();
    // `select.epoll` writes the descriptor into the first half of the token and nothing into the other.
    let descriptor = i32::from_ne_bytes([a, b, c, d]);
    let Some(key) = keys.get_item(descriptor)? else { return Ok(None) };
    let watched: u8 = key.cast::<PyTuple>()?.get_item(EVENTS_OF_KEY)?.extract()?;
    let mut ready = 0;
    if event.readiness.intersects(!EventFlags::IN) {
        ready |= EVENT_WRITE;
    }
    if event.readiness.intersects(!EventFlags::OUT) {
        ready |= EVENT_READ;
    }
    Ok(Some((key, ready & watched)))
}

fn closed() -> PyErr {
    PyValueError::new_err("the selector is closed")
}

/// As in Python's `selectors`.
const EVENT_READ: u8 = 1;
const EVENT_WRITE: u8 = 2;
/// Where `SelectorKey`, a named tuple, has its events.
const EVENTS_OF_KEY: usize = 2;

/// Descriptors taken by one wait; 12 KiB.
const MOST_EVENTS: usize = 1024;
