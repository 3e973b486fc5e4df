//! [`RateClock`]: when the next packet of a flow may leave.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use softtimers::Rate;
use softtimers::{CatchUp, PaceConfig, PaceError};

use crate::seconds;

/// The schedule of a paced flow. All times are seconds of ``time.monotonic()``.
#[pyclass(module = "softtimers._softtimers", frozen)]
pub(crate) struct RateClock(Mutex<softtimers::RateClock>);

#[pymethods]
impl RateClock {
    #[new]
    #[pyo3(signature = (*, packets_per_second=None, bits_per_second=None, interval=None, catch_up=0.01))]
    fn new(
        packets_per_second: Option<u64>,
        bits_per_second: Option<u64>,
        interval: Option<f64>,
        catch_up: f64,
    ) -> PyResult<Self> {
        let config = match (packets_per_second, bits_per_second, interval) {
            (Some(packets), None, None) => Rate::per_second(packets).map(PaceConfig::new),
            (None, Some(bits), None) => PaceConfig::bits_per_second(bits),
            (None, None, Some(interval)) => {
                let interval = seconds::setting("interval", interval, seconds::NANOSECOND)?;
                Rate::every(interval).map(PaceConfig::new)
            }
            _ => {
                let wanted = "give one of packets_per_second, bits_per_second and interval";
                return Err(PyValueError::new_err(wanted));
            }
        };
        let mut config = config.map_err(refused)?;
        config.catch_up = CatchUp::within(seconds::setting("catch_up", catch_up, 0.0)?);
        softtimers::RateClock::new(config).map(|clock| RateClock(Mutex::new(clock))).map_err(refused)
    }

    /// Begins a train at ``now``, so that an idle time is not made up. Returns when the first packet may
    /// leave.
    fn start(&self, now: f64) -> f64 {
        seconds::seconds(self.clock().start(seconds::timestamp(now)))
    }

    /// Counts a packet of ``size`` bytes that left at ``now``. Returns when the next may leave.
    fn departed(&self, now: f64, size: u32) -> f64 {
        seconds::seconds(self.clock().departed_together(seconds::timestamp(now), 1, size))
    }

    /// Packets that have left.
    #[getter]
    fn departures(&self) -> u64 {
        self.clock().departures()
    }

    /// Scheduled times that were skipped after stalls: packets, or bytes if the rate is in bits.
    #[getter]
    fn skipped(&self) -> u64 {
        self.clock().forfeited()
    }
}

impl RateClock {
    fn clock(&self) -> MutexGuard<'_, softtimers::RateClock> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refused(error: impl Into<PaceError>) -> PyErr {
    PyValueError::new_err(error.into().to_string())
}
