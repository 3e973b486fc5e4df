//! The orders for a run's events, and the start of the run on each CPU: [`Events`].
//!
//! Verification takes longer than a run, so programs stay loaded and read their orders from a map.
//!
//! ```text
//!   orders written ──▶ a system call on each CPU: it begins the run ──▶ … ──▶ orders of zeros: the events end
//! ```

use std::time::Duration;

use crate::Error;
use crate::load::{self, INIT};
use crate::object::Object;

/// The settings of a run's events.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Events {
    /// Time from an event's firing to its next due time; zero: at every trigger state.
    pub period: Duration,
    /// The backup fires an event this long after it was due; `None`: the event waits for a trigger state.
    pub slack: Option<Duration>,
    /// Number of events on each CPU, at most 63; zero: only the gate.
    pub count: u32,
    /// The CPUs with events; `None`: all.
    pub processors: Option<Vec<u32>>,
    /// Whether a handler touches fifty cache lines, of four pages in turn.
    pub touches: bool,
}

impl Default for Events {
    /// One event of 100 µs on each CPU that does nothing, within 1 ms.
    fn default() -> Self {
        Events {
            period: Duration::from_micros(100),
            slack: Some(Duration::from_millis(1)),
            count: 1,
            processors: None,
            touches: false,
        }
    }
}

/// The orders of a run: `struct orders`, on these CPUs.
#[derive(Debug)]
pub(crate) struct Orders {
    words: [u64; ORDERS],
    chosen: Vec<u32>,
}

impl Orders {
    /// Creates the orders of the run with this number, which is not zero.
    pub(crate) fn new(events: &Events, run: u64, object: &Object) -> Self {
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let slack = events.slack.map_or(u64::MAX, nanos);
        let (count, touches) = (u64::from(events.count), u64::from(events.touches));
        let is_chosen = |cpu: &u32| events.processors.as_ref().is_none_or(|chosen| chosen.contains(cpu));
        Orders {
            words: [nanos(events.period), slack, run, count, touches, 0, 0, 0],
            chosen: (0..object.processors()).filter(is_chosen).collect(),
        }
    }

    /// Starts the run on the CPUs. Call [`end`](Orders::end) afterwards, also after an error.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(crate) fn begin(&self, object: &mut Object) -> Result<(), Error> {
        write(object, &self.chosen, self.words)?;
        // It slows down each system call, so it is attached only as long as needed.
        let _starter = object.attach(INIT)?;
        let has_begun = |cpu| {
            let words: [u64; ORDERS] = object.value(MAP, cpu)?;
            Ok(words[BEGUN] == self.words[RUN])
        };
        load::call_on_each(self.chosen.iter().copied(), has_begun)
    }

    /// Ends the run: a handler that finds no run schedules no event.
    pub(crate) fn end(&self, object: &mut Object) {
        // The map existed at the start of the run.
        let _ = write(object, &self.chosen, [0; ORDERS]);
    }
}

fn write(object: &mut Object, chosen: &[u32], words: [u64; ORDERS]) -> Result<(), Error> {
    object.write(MAP, chosen.iter().map(|&cpu| (cpu, words)))
}

const MAP: &str = "orders";
/// `struct orders` in words, the index of the run's number, and the index at which the program reports the
/// run it has begun.
const ORDERS: usize = 8;
const RUN: usize = 2;
const BEGUN: usize = 5;
