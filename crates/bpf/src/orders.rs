//! The orders for a run's events, and the start of the run on each CPU: [`Events`].
//!
//! The verifier takes longer than a run, so programs stay and orders change: a program looks them up in a map.
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
    /// An event is due so long after it fired last; zero: at every trigger state.
    pub period: Duration,
    /// The backup fires an event so long after it was due; `None`: it waits for a trigger state.
    pub slack: Option<Duration>,
    /// Events of each CPU, at most 63; zero: only the gate.
    pub count: u32,
    /// The CPUs that have them; `None`: all.
    pub processors: Option<Vec<u32>>,
    /// Has a handler touch fifty cache lines, of four pages in turn.
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
    /// Those of the run with this number, which is not zero.
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

    /// Has the CPUs begin. [`end`](Orders::end) is due afterwards, also after an error.
    ///
    /// # Errors
    /// If the kernel does not let it.
    pub(crate) fn begin(&self, object: &mut Object) -> Result<(), Error> {
        write(object, &self.chosen, self.words)?;
        // In the way of each system call, so no longer than it takes.
        let _starter = object.attach(INIT)?;
        let has_begun = |cpu| {
            let words: [u64; ORDERS] = object.value(MAP, cpu)?;
            Ok(words[BEGUN] == self.words[RUN])
        };
        load::call_on_each(self.chosen.iter().copied(), has_begun)
    }

    /// A handler that finds no run schedules nothing more.
    pub(crate) fn end(&self, object: &mut Object) {
        // The map was there when they began.
        let _ = write(object, &self.chosen, [0; ORDERS]);
    }
}

fn write(object: &mut Object, chosen: &[u32], words: [u64; ORDERS]) -> Result<(), Error> {
    object.write(MAP, chosen.iter().map(|&cpu| (cpu, words)))
}

const MAP: &str = "orders";
/// `struct orders` in words, where the run's number is, and where the program says which one it has begun.
const ORDERS: usize = 8;
const RUN: usize = 2;
const BEGUN: usize = 5;
