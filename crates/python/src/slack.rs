//! [`TimerSlack`]: sleeps of a thread that end on time, for the length of a `with` block.

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Sets the calling thread's timer slack to 1 ns for the length of a `with` block.
///
/// Linux lets a thread's sleeps end up to 50 us late, so that wake-ups can share an interrupt. Threads and processes that
/// are started inside the block inherit the 1 ns. Where a sandbox forbids the change, the block runs without it.
#[pyclass(module = "softtimers._softtimers", unsendable)]
pub(crate) struct TimerSlack {
    held: Option<softtimers::TimerSlack>,
}

#[pymethods]
impl TimerSlack {
    #[new]
    fn new() -> Self {
        TimerSlack { held: None }
    }

    fn __enter__(&mut self) -> bool {
        if self.held.is_none() {
            self.held = softtimers::TimerSlack::hold(Duration::from_nanos(1)).ok();
        }
        self.held.is_some()
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&mut self, _exception: &Bound<'_, PyTuple>) {
        self.held = None;
    }
}
